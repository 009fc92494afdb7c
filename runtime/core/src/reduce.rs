//! Burn's reductions along an axis of any length.
//!
//! Burn's kernels walk over the whole axis in one invocation on adapters without subgroups. A software adapter may end such a loop early
//! and in silence ([`Capability::loop_rounds`](crate::Capability::loop_rounds)), so there these functions cut a long axis into pieces and
//! reduce the pieces, too. On all other devices, and along short axes, they are Burn's own functions.

use crate::Error;
use burn::tensor::activation;
use burn::tensor::{Device, Tensor};
use moebius_shaders::Unsupported;

/// The part of the allowed rounds that an axis may take: the kernels of Burn's fusion may have further loops.
const SHARE: usize = 4;

/// The longest axis that one invocation of Burn's kernels walks over on the device; `None` where any does.
pub(crate) fn longest(device: &Device) -> Option<usize> {
    let capability = crate::device::capability(device).ok().flatten()?;
    let rounds = capability.loop_rounds?;
    Some((rounds as usize / SHARE).max(2))
}

/// Computes the sum along axis `dim`, which becomes 1, as Burn's `sum_dim` does.
pub fn sum_dim<const D: usize>(x: Tensor<D>, dim: usize) -> Tensor<D> {
    match cut(&x, dim) {
        Some(most) => in_pieces(x, dim, most, |x| x.sum_dim(1), |a, b| a + b),
        None => x.sum_dim(dim),
    }
}

/// Computes the mean along axis `dim`, which becomes 1, as Burn's `mean_dim` does.
pub fn mean_dim<const D: usize>(x: Tensor<D>, dim: usize) -> Tensor<D> {
    match cut(&x, dim) {
        Some(_) => {
            let len = x.dims()[dim];
            sum_dim(x, dim) / len as f64
        }
        None => x.mean_dim(dim),
    }
}

/// Computes the largest value along axis `dim`, which becomes 1, as Burn's `max_dim` does.
pub fn max_dim<const D: usize>(x: Tensor<D>, dim: usize) -> Tensor<D> {
    match cut(&x, dim) {
        Some(most) => in_pieces(x, dim, most, |x| x.max_dim(1), Tensor::max_pair),
        None => x.max_dim(dim),
    }
}

/// Computes the sum of all elements \[1\], as Burn's `sum` does.
pub fn sum<const D: usize>(x: Tensor<D>) -> Tensor<1> {
    let elements = x.shape().num_elements();
    if longest(&x.device()).is_none_or(|most| elements <= most) {
        return x.sum();
    }
    sum_dim(x.reshape([1, elements]), 1).reshape([1])
}

/// Computes the logarithm of the softmax along axis `dim`, as Burn's `log_softmax` does.
pub fn log_softmax<const D: usize>(x: Tensor<D>, dim: usize) -> Tensor<D> {
    if cut(&x, dim).is_none() {
        return activation::log_softmax(x, dim);
    }
    // The largest value gets no gradient: it cancels.
    let largest = max_dim(x.clone().detach(), dim);
    let x = x - largest;
    let total = sum_dim(x.clone().exp(), dim);
    x - total.log()
}

/// Checks that gradients of `rows` rows can be summed on a device that records gradients, for a model whose gradients Burn sums over its
/// rows: those of embeddings, norms and biases.
///
/// # Errors
/// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) for more rows than one invocation of Burn's kernels walks over.
pub fn check_rows(what: &'static str, rows: usize, device: &Device) -> Result<(), Error> {
    match longest(device).filter(|most| device.is_autodiff() && rows > *most) {
        Some(most) => {
            let needs = format!("{rows} rounds of loops to sum the gradients of {rows} rows");
            let have = format!("at most {most}, beyond which it ends loops early");
            Err(Unsupported::new(what, needs, have).into())
        }
        None => Ok(()),
    }
}

/// The length of pieces, if the axis is too long for one invocation.
fn cut<const D: usize>(x: &Tensor<D>, dim: usize) -> Option<usize> {
    longest(&x.device()).filter(|most| x.dims()[dim] > *most)
}

/// Reduces axis `dim` by `reduce`, which reduces the middle axis of pieces of at most `most` elements, and `join`, which reduces two
/// results.
fn in_pieces<const D: usize>(
    x: Tensor<D>,
    dim: usize,
    most: usize,
    reduce: fn(Tensor<3>) -> Tensor<3>,
    join: fn(Tensor<3>, Tensor<3>) -> Tensor<3>,
) -> Tensor<D> {
    let mut shape = x.dims();
    let outer: usize = shape[..dim].iter().product();
    let inner: usize = shape[dim + 1..].iter().product();
    let len = shape[dim];
    shape[dim] = 1;
    let whole: Tensor<3> = x.reshape([outer, len, inner]);
    middle(whole, most, reduce, join).reshape(shape)
}

/// Reduces the middle axis in pieces of `most` elements, which is at least 2, then the axis of the pieces in the same way.
fn middle(
    x: Tensor<3>,
    most: usize,
    reduce: fn(Tensor<3>) -> Tensor<3>,
    join: fn(Tensor<3>, Tensor<3>) -> Tensor<3>,
) -> Tensor<3> {
    let [outer, len, inner] = x.dims();
    if len <= most {
        return reduce(x);
    }
    let (pieces, rest) = (len / most, len % most);
    let whole = x.clone().narrow(1, 0, pieces * most);
    let whole: Tensor<3> = whole.reshape([outer * pieces, most, inner]);
    let whole = reduce(whole).reshape([outer, pieces, inner]);
    let whole = middle(whole, most, reduce, join);
    if rest == 0 {
        return whole;
    }
    join(whole, reduce(x.narrow(1, pieces * most, rest)))
}

#[cfg(test)]
#[cfg(feature = "flex")]
mod tests {
    use super::*;

    /// Numbers whose sums are exact in f32, in [2, len, 3].
    fn numbers(len: usize) -> Tensor<3> {
        let values: Vec<f32> = (0..2 * len * 3).map(|i| (i * 7 % 31) as f32).collect();
        Tensor::<1>::from_floats(&values[..], &Device::flex()).reshape([2, len, 3])
    }

    fn values(x: Tensor<3>) -> Vec<f32> {
        x.into_data().iter::<f32>().collect()
    }

    #[test]
    fn pieces_reduce_to_the_whole() {
        // Lengths below, at and above the longest piece, of whole pieces and not, and of pieces of pieces.
        for len in [1, 3, 4, 5, 8, 17, 64, 101] {
            let x = numbers(len);
            let all: Vec<f32> = values(x.clone());
            let column = |a: usize, c: usize| (0..len).map(move |b| (a * len + b) * 3 + c);
            let (mut sums, mut largest) = (Vec::new(), Vec::new());
            for (a, c) in (0..2).flat_map(|a| (0..3).map(move |c| (a, c))) {
                sums.push(column(a, c).map(|i| all[i]).sum::<f32>());
                largest.push(column(a, c).map(|i| all[i]).fold(f32::MIN, f32::max));
            }
            let sum = in_pieces(x.clone(), 1, 4, |x| x.sum_dim(1), |a, b| a + b);
            assert_eq!(sum.dims(), [2, 1, 3]);
            assert_eq!(values(sum), sums, "{len}");
            let max = in_pieces(x, 1, 4, |x| x.max_dim(1), Tensor::max_pair);
            assert_eq!(values(max), largest, "{len}");
        }
    }

    #[test]
    fn a_device_without_a_limit_cuts_nothing() {
        let x = numbers(5);
        assert_eq!(longest(&x.device()), None);
        assert!(check_rows("a model", usize::MAX, &x.device()).is_ok());
        let total: f32 = sum(x.clone()).into_scalar();
        assert_eq!(total, values(x).iter().sum::<f32>());
    }
}

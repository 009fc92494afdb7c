//! Burn's reductions along an axis of any length.
//!
//! Burn's kernels walk over the whole axis in one invocation on adapters without subgroups. A software adapter may end such a loop early
//! and in silence ([`Capability::loop_rounds`](crate::Capability::loop_rounds)), so there these functions cut a long axis into pieces and
//! reduce the pieces, too. On all other devices, and along short axes, they are Burn's own functions.

mod pieces;

use crate::Error;
use burn::tensor::activation;
use burn::tensor::{Device, Tensor};
use moebius_shaders::Unsupported;
use pieces::in_pieces;

/// The part of the allowed rounds that an axis may take: the kernels of Burn's fusion may have further loops.
const SHARE: usize = 4;

/// The longest axis that one invocation of Burn's kernels walks over on the device; `None` where any does.
pub(crate) fn longest(device: &Device) -> Option<usize> {
    let capability = crate::device::capability(device).ok().flatten()?;
    let rounds = capability.loop_rounds?;
    Some((rounds as usize / SHARE).max(2))
}

/// Computes a product of the rows of x and `operands`, in parts if x has more rows than the device takes that records gradients: the gradient
/// of a bias sums all rows of a call in one loop.
pub(crate) fn by_parts<T: Clone>(
    x: Tensor<2>,
    operands: T,
    product: impl Fn(Tensor<2>, T) -> Result<Tensor<2>, Error>,
) -> Result<Tensor<2>, Error> {
    let (rows, device) = (x.dims()[0], x.device());
    let most = longest(&device).filter(|most| device.is_autodiff() && rows > *most);
    let Some(most) = most else {
        return product(x, operands);
    };
    let part = |first: usize| {
        let x = x.clone().narrow(0, first, most.min(rows - first));
        product(x, operands.clone())
    };
    let parts: Result<Vec<_>, Error> = (0..rows).step_by(most).map(part).collect();
    Ok(Tensor::cat(parts?, 0))
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

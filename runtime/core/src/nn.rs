//! Ordinary layers by the experts' kernels, for what stands around them.
//!
//! Burn's own products run on every device as well. These are for models that must run on CubeCL's
//! CPU runtime, too, where kernels with barriers between more units than there are cores are slow
//! without bound (64 × 16 by 16 × 256 on two cores: 0.6 s); and a row's result doesn't depend on the
//! other rows. Everything is differentiable but products with FP8 codes, and sums are f32.

mod linear;

pub use linear::{Linear, LinearConfig};

use crate::check::{check_device, check_same, element};
use crate::ops::Grouping;
use crate::{Error, ops};
use burn::tensor::Tensor;
use moebius_ops::grouped_gemm::Problem;
use moebius_ops::segment_attention::Segments;

/// \[T,n\]: x · Wᵀ + b of x \[T,k\], W \[n,k\] and b \[n\] of one dtype: f32, f16 or bf16.
///
/// # Errors
/// [`ErrorKind::Shape`](crate::ErrorKind::Shape) for other shapes, dtypes or devices,
/// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) on a device without the kernels.
pub fn linear(x: Tensor<2>, w: Tensor<2>, bias: Option<Tensor<1>>) -> Result<Tensor<2>, Error> {
    check_same(
        "columns of x [T,k], those of W [n,k]",
        x.dims()[1],
        w.dims()[1],
    )?;
    check_same("dtype of x", x.dtype(), w.dtype())?;
    check_device("device of x", x.device(), &w.device())?;
    let ([rows, _], [n, k]) = (x.dims(), w.dims());
    if let Some(bias) = &bias {
        check_same("bias [n]", bias.dims(), [n])?;
        check_same("dtype of the bias", bias.dtype(), w.dtype())?;
        check_device("device of the bias", bias.device(), &w.device())?;
    }
    let problem = Problem {
        element: element(x.dtype())?,
        ..Problem::dense(rows, n, k)?
    };
    if rows == 0 {
        return Ok(Tensor::empty([0, n], (&x.device(), x.dtype())));
    }
    let (w, bias) = (w.unsqueeze(), bias.map(Tensor::unsqueeze));
    ops::linear::run(x, w, bias, Grouping::Dense, (problem, None))
}

/// \[T, heads·D\]: in every sequence of `sequence` tokens, each token attends to all of them, or
/// when `causal` to itself and those before it; scale 1/√D, D ≤ 128.
///
/// # Errors
/// As [`linear`].
pub fn attention(
    [q, k, v]: [Tensor<2>; 3],
    heads: usize,
    sequence: usize,
    causal: bool,
) -> Result<Tensor<2>, Error> {
    for other in [&k, &v] {
        check_same("k and v [T, heads·D]", other.dims(), q.dims())?;
        check_same("dtype of k and v", other.dtype(), q.dtype())?;
        check_device("device of k and v", other.device(), &q.device())?;
    }
    let tokens = q.dims()[0];
    let segments = Segments::new(tokens, 1, 1, sequence)?;
    if tokens == 0 {
        return Ok(q);
    }
    ops::attention::run([q, k, v], Grouping::Dense, segments, (heads, causal))
}

#[cfg(test)]
#[cfg(feature = "flex")]
mod tests {
    use super::{attention, linear};
    use crate::ErrorKind;
    use burn::tensor::{Device, Tensor};

    fn floats(tensor: Tensor<2>) -> Vec<f32> {
        tensor.into_data().iter().collect()
    }

    #[test]
    fn a_linear_layer_is_a_product_with_the_transposed_weights() {
        let device = Device::flex();
        let x = Tensor::<2>::from_floats([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], &device);
        let w = Tensor::from_floats([[1.0, 0.0], [0.0, 10.0], [1.0, 1.0], [0.0, 0.0]], &device);
        let y = linear(x.clone(), w.clone(), None).unwrap();
        assert_eq!(floats(y), floats(x.clone().matmul(w.clone().transpose())));
        let bias = Tensor::<1>::from_floats([1.0, 2.0, 3.0, 4.0], &device);
        let y = linear(x.clone(), w.clone(), Some(bias.clone())).unwrap();
        let want = x.matmul(w.transpose()) + bias.unsqueeze();
        assert_eq!(floats(y), floats(want));
    }

    #[test]
    fn attention_stays_in_its_sequence_and_sees_nothing_later() {
        let device = Device::flex();
        // Equal keys: every token's result is the mean of the values it sees.
        let keys = Tensor::<2>::zeros([4, 2], &device);
        let values = [[1.0, 10.0], [3.0, 30.0], [5.0, 50.0], [9.0, 90.0]];
        let values = Tensor::<2>::from_floats(values, &device);
        let attend = |causal| {
            let inputs = [keys.clone(), keys.clone(), values.clone()];
            floats(attention(inputs, 2, 2, causal).unwrap())
        };
        assert_eq!(attend(true), [1.0, 10.0, 2.0, 20.0, 5.0, 50.0, 7.0, 70.0]);
        assert_eq!(attend(false), [2.0, 20.0, 2.0, 20.0, 7.0, 70.0, 7.0, 70.0]);
    }

    #[test]
    fn wrong_shapes_are_refused() {
        let device = Device::flex();
        let x = Tensor::<2>::zeros([4, 6], &device);
        let product = linear(x.clone(), Tensor::zeros([2, 5], &device), None);
        let bias = Tensor::zeros([3], &device);
        let bias = linear(x.clone(), Tensor::zeros([2, 6], &device), Some(bias));
        let heads = attention([x.clone(), x.clone(), x.clone()], 4, 2, true);
        let keys = attention(
            [x.clone(), x.clone().narrow(1, 0, 3), x.clone()],
            2,
            2,
            true,
        );
        let sequence = attention([x.clone(), x.clone(), x], 2, 0, true);
        for error in [product, bias, heads, keys, sequence].map(Result::err) {
            assert_eq!(error.map(|error| error.kind()), Some(ErrorKind::Shape));
        }
    }

    #[test]
    fn no_rows_are_no_rows() {
        let device = Device::flex();
        let x = Tensor::<2>::zeros([0, 6], &device);
        let y = linear(x.clone(), Tensor::zeros([2, 6], &device), None).unwrap();
        assert_eq!(y.dims(), [0, 2]);
        let y = attention([x.clone(), x.clone(), x], 2, 3, true).unwrap();
        assert_eq!(y.dims(), [0, 6]);
    }
}

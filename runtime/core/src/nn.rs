//! Ordinary layers by the experts' kernels, for what stands around them.
//!
//! Burn's own products run on every device as well. These are for models that must run on CubeCL's
//! CPU runtime, too, where kernels with barriers between more units than there are cores are slow
//! without bound (64 × 16 by 16 × 256 on two cores: 0.6 s); and a row's result doesn't depend on the
//! other rows. Everything is differentiable but products with FP8 codes, and sums are f32.

mod linear;

pub use linear::{Linear, LinearConfig};

use crate::check::{check_device, check_same, element};
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
    ops::linear::run(x, w, bias, None, (problem, None))
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
    ops::segment_attention::run([q, k, v], None, segments, (heads, causal))
}

#[cfg(test)]
#[cfg(feature = "flex")]
#[path = "nn_tests.rs"]
mod tests;

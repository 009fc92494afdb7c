//! Linear layers and attention of rows that all share their weights: the experts' kernels with one expert.

use super::assignment::Assignment;
use super::check::{check_device, check_same};
use crate::Error;
use burn::tensor::Tensor;
use moebius_shaders::ShapeError;

/// The T tokens of a batch, on their way through layers without experts.
///
/// Burn's own products run on every device as well. These are for models that must run on CubeCL's
/// CPU runtime, too, where kernels with barriers between more units than there are cores are slow
/// without bound (64 × 16 by 16 × 256 on two cores: 0.6 s); and a row's result doesn't depend on the
/// other rows. Everything is differentiable, and sums are f32.
#[derive(Clone, Debug)]
pub struct DenseRows {
    every: Assignment,
    tokens: usize,
}

impl DenseRows {
    /// For matrices of as many rows as `x`, on its device.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) for no rows,
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) on a device without the kernels.
    pub fn new(x: &Tensor<2>) -> Result<Self, Error> {
        let tokens = x.dims()[0];
        if tokens == 0 {
            return Err(ShapeError::new("rows", "at least 1", tokens).into());
        }
        let every = Assignment::single(x)?;
        Ok(Self { every, tokens })
    }

    /// \[T,n\]: x · Wᵀ of x \[T,k\] and W \[n,k\] of one dtype.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) for other shapes, dtypes or devices,
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) on a device without the kernels.
    pub fn linear(&self, x: Tensor<2>, w: Tensor<2>) -> Result<Tensor<2>, Error> {
        check_same("x [T,k]", x.dims(), [self.tokens, w.dims()[1]])?;
        check_same("dtype of x", x.dtype(), w.dtype())?;
        check_device("device of x", x.device(), &w.device())?;
        self.every.linear(x, w.unsqueeze(), None)
    }

    /// \[T, heads·D\]: in every sequence of `sequence` tokens, each token attends to all of them, or
    /// when `causal` to itself and those before it; scale 1/√D, D ≤ 128.
    ///
    /// # Errors
    /// As [`DenseRows::linear`].
    pub fn attention(
        &self,
        [q, k, v]: [Tensor<2>; 3],
        heads: usize,
        sequence: usize,
        causal: bool,
    ) -> Result<Tensor<2>, Error> {
        check_same("q [T, heads·D]", q.dims()[0], self.tokens)?;
        for other in [&k, &v] {
            check_same("k and v [T, heads·D]", other.dims(), q.dims())?;
            check_same("dtype of k and v", other.dtype(), q.dtype())?;
            check_device("device of k and v", other.device(), &q.device())?;
        }
        self.every.attention([q, k, v], heads, sequence, causal)
    }
}

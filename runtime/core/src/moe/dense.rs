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
        self.check(&x, &w)?;
        self.every.linear(x, w.unsqueeze(), None)
    }

    /// Checks what [`DenseRows::linear`] takes.
    pub(crate) fn check(&self, x: &Tensor<2>, w: &Tensor<2>) -> Result<(), ShapeError> {
        check_same("x [T,k]", x.dims(), [self.tokens, w.dims()[1]])?;
        check_same("dtype of x", x.dtype(), w.dtype())?;
        check_device("device of x", x.device(), &w.device())
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

#[cfg(test)]
#[cfg(feature = "flex")]
mod tests {
    use super::DenseRows;
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
        let rows = DenseRows::new(&x).unwrap();
        let y = rows.linear(x.clone(), w.clone()).unwrap();
        assert_eq!(floats(y), floats(x.matmul(w.transpose())));
    }

    #[test]
    fn attention_stays_in_its_sequence_and_sees_nothing_later() {
        let device = Device::flex();
        // Equal keys: every token's result is the mean of the values it sees.
        let keys = Tensor::<2>::zeros([4, 2], &device);
        let values = [[1.0, 10.0], [3.0, 30.0], [5.0, 50.0], [9.0, 90.0]];
        let values = Tensor::<2>::from_floats(values, &device);
        let rows = DenseRows::new(&keys).unwrap();
        let attend = |causal| {
            let inputs = [keys.clone(), keys.clone(), values.clone()];
            floats(rows.attention(inputs, 2, 2, causal).unwrap())
        };
        assert_eq!(attend(true), [1.0, 10.0, 2.0, 20.0, 5.0, 50.0, 7.0, 70.0]);
        assert_eq!(attend(false), [2.0, 20.0, 2.0, 20.0, 7.0, 70.0, 7.0, 70.0]);
    }

    #[test]
    fn wrong_shapes_are_refused() {
        let device = Device::flex();
        let x = Tensor::<2>::zeros([4, 6], &device);
        let rows = DenseRows::new(&x).unwrap();
        let none = DenseRows::new(&Tensor::zeros([0, 6], &device)).unwrap_err();
        let product = rows.linear(x.clone(), Tensor::zeros([2, 5], &device));
        let fewer = rows.linear(
            Tensor::zeros([3, 6], &device),
            Tensor::zeros([2, 6], &device),
        );
        let heads = rows.attention([x.clone(), x.clone(), x.clone()], 4, 2, true);
        let keys = rows.attention([x.clone(), x.clone().narrow(1, 0, 3), x], 2, 2, true);
        for error in [
            Some(none),
            product.err(),
            fewer.err(),
            heads.err(),
            keys.err(),
        ] {
            assert_eq!(error.map(|error| error.kind()), Some(ErrorKind::Shape));
        }
    }
}

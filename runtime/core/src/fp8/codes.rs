//! Weights that are FP8 codes and scales, and their ordinary product.

use super::activations::{ActivationScaling, Activations};
use super::matrices::Fp8Matrices;
use crate::Error;
use crate::check::element;
use crate::ops::fp8_linear;
use burn::module::Module;
use burn::tensor::{DType, Device, Tensor};
use moebius_ops::grouped_gemm::{Fp8Weights, Problem};
use moebius_ops::{Element, ShapeError, fp8_mma};

/// Codes and scales in the place of values, and how what they are multiplied with is rounded.
///
/// Activations stay in their dtype (W8A16: f32, f16 or bf16 where the device stores it) and codes are
/// decoded while they are loaded, on every device; or they are rounded to FP8, too (W8A8). Sums are f32
/// over the inner columns in order, so a row's result doesn't depend on the others; XLA takes an order
/// by the shapes, so there the last bits depend on how many they are. There is no derivative.
#[derive(Module, Debug)]
pub(crate) struct Codes {
    pub(crate) matrices: Fp8Matrices,
    pub(crate) activations: ActivationScaling,
    /// Of the values these were made of.
    #[module(skip)]
    pub(super) dtype: DType,
}

impl Codes {
    /// Refuses a device that records gradients, which there are none of, and what a record put here.
    pub(crate) fn check(&self, device: &Device) -> Result<(), Error> {
        let (what, expected) = ("device of FP8 codes", "one that records no gradients");
        ShapeError::unless(!device.is_autodiff(), what, expected, "autodiff")?;
        self.matrices.check(device)
    }

    /// y \[rows, out\] of x \[rows, in\] and a bias \[out\] in the dtype of x, which were checked;
    /// `instructions` multiplies codes as such.
    pub(crate) fn linear(
        &self,
        x: Tensor<2>,
        bias: Option<Tensor<1>>,
        instructions: bool,
    ) -> Result<Tensor<2>, Error> {
        let (dtype, [_, n, k]) = (x.dtype(), self.matrices.layout().shape);
        let problem = Problem {
            element: match self.activations.source() {
                Activations::Float => element(dtype)?,
                // A rounded value is code · scale, which 16 bits may not hold.
                _ => Element::F32,
            },
            bias: bias.is_some(),
            fp8: Some(self.matrices.weights()),
            ..Problem::dense(x.dims()[0], n, k)?
        };
        if instructions {
            let y = self.multiply(x)?;
            let y = match bias {
                Some(bias) => y + bias.cast(DType::F32).unsqueeze(),
                None => y,
            };
            return Ok(y.cast(dtype));
        }
        let x = self.activations.apply(x)?;
        let bias = bias.map(|bias| bias.cast(x.dtype()).unsqueeze());
        let weights = self.matrices.coded(bias);
        let y = fp8_linear::run(x, weights, None, (problem, None))?;
        Ok(y.cast(dtype))
    }

    /// y \[rows, out\] f32 of x \[rows, in\], rounded to codes, by FP8 matrix instructions.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) for activations that aren't dynamic and for scales
    /// the instructions can't follow, [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) where
    /// there are no such instructions.
    fn multiply(&self, x: Tensor<2>) -> Result<Tensor<2>, Error> {
        let quantizer = self.activations.dynamic()?;
        let ([rows, columns], [_, n, k]) = (x.dims(), self.matrices.layout().shape);
        let product = Problem {
            fp8: Some(self.matrices.weights()),
            ..Problem::dense(rows, n, k)?
        };
        let codes = Fp8Weights {
            format: quantizer.format,
            granularity: quantizer.granularity,
        };
        let problem = fp8_mma::Problem::new(product, codes)?;
        let codes = quantizer.problem([1, rows, columns], x.dtype())?;
        fp8_linear::multiply_codes(x.unsqueeze(), codes, self.matrices.coded(None), problem)
    }
}

//! Weights that are FP8 codes and scales, and their ordinary product.

use super::activations::ActivationScaling;
use super::matrices::Fp8Matrices;
use crate::Error;
use crate::check::element;
use crate::ops::Assignment;
use crate::ops::grouped_gemm::fp8;
use burn::module::Module;
use burn::tensor::{DType, Device, Tensor};
use moebius_ops::grouped_gemm::Problem;
use moebius_ops::grouped_gemm::fp8::PANEL;
use moebius_ops::scaling::Fp8Scheme;
use moebius_ops::{Element, Fault, Mismatch, fp8_mma};
use moebius_shaders::fp8::Conversion;
use serde::{Deserialize, Serialize};

/// Which FP8 instructions of a device the products of codes take.
///
/// Both are unproven: their kernels run in CI on a card in software, and two GPUs (an NVIDIA H100 and an H200) had them right, which
/// are too few for anything to choose them. They need CUDA from sm_89 on through CubeCL's CUDA C++ compiler, which this crate's feature `cuda` turns on; elsewhere
/// a product that asks for them is [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Instructions {
    /// None: integer arithmetic decodes codes, on every device.
    #[default]
    None,
    /// Those that convert codes to numbers, with the same results bit for bit.
    Conversion,
    /// Those that multiply matrices of codes without decoding them. Activations must have dynamic scales, one for each row or for
    /// 1 × 128 blocks; a stack's weights may be several projections only where these have a multiple of 64 rows.
    Matrix,
}

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
    #[module(skip)]
    pub(crate) instructions: Instructions,
    /// Of the values these were made of.
    #[module(skip)]
    pub(super) dtype: DType,
}

impl Codes {
    /// Refuses a device that records gradients, which there are none of, and what a record put here.
    pub(crate) fn check(&self, device: &Device) -> Result<(), Error> {
        let (what, expected) = ("device of FP8 codes", "one that records no gradients");
        Fault::Device.unless(!device.is_autodiff(), what, expected, "autodiff")?;
        self.matrices.check(device)
    }

    /// y \[rows, out\] of x \[rows, in\] and a bias \[out\] in the dtype of x, which were checked.
    pub(crate) fn linear(&self, x: Tensor<2>, bias: Option<Tensor<1>>) -> Result<Tensor<2>, Error> {
        let (dtype, [_, n, k]) = (x.dtype(), self.matrices.layout().shape);
        let problem = Problem::dense(x.dims()[0], n, k)?;
        let y = self.product(x, bias.map(|bias| bias.unsqueeze()), problem, None)?;
        Ok(y.cast(dtype))
    }

    /// `problem` of x \[T or R, k\], rounded as activations are, these codes and a bias \[E, n\]; of rows sorted as
    /// `assignment` says. The result may be f32 where x is not.
    pub(crate) fn product(
        &self,
        x: Tensor<2>,
        bias: Option<Tensor<2>>,
        problem: Problem,
        assignment: Option<&Assignment>,
    ) -> Result<Tensor<2>, Error> {
        let problem = Problem {
            bias: bias.is_some(),
            fp8: Some(self.matrices.weights()),
            ..problem
        };
        let conversion = match self.instructions {
            Instructions::Matrix => return self.multiply(x, bias, problem, assignment),
            Instructions::Conversion => Conversion::Instructions,
            Instructions::None => Conversion::Bits,
        };
        // Rounded activations are f32: code · scale may be more than 16 bits hold.
        let x = self.activations.apply(x)?;
        let bias = bias.map(|bias| bias.cast(x.dtype()));
        let weights = self.matrices.coded(bias, conversion);
        let problem = Problem {
            element: element(x.dtype())?,
            ..problem
        };
        match assignment {
            Some(assignment) => assignment.fp8_linear(x, weights, problem),
            None => fp8::run(x, weights, None, (problem, None)),
        }
    }

    /// The product in f32 of x, rounded to codes, by FP8 matrix instructions.
    ///
    /// # Errors
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) for activations that aren't dynamic and for scales
    /// the instructions can't follow, [`ErrorKind::Shape`](crate::ErrorKind::Shape) for projections that aren't whole panels,
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) where there are no such instructions.
    fn multiply(
        &self,
        x: Tensor<2>,
        bias: Option<Tensor<2>>,
        problem: Problem,
        assignment: Option<&Assignment>,
    ) -> Result<Tensor<2>, Error> {
        let quantizer = self.activations.dynamic()?;
        // The panels of several projections lie like those of one where none is filled up.
        let (parts, rows) = (self.matrices.parts(), problem.n / self.matrices.parts());
        let what = "rows of a projection among several, for FP8 matrix instructions";
        let whole = parts == 1 || rows.is_multiple_of(PANEL);
        Mismatch::unless(whole, what, format_args!("a multiple of {PANEL}"), rows)?;
        let problem = Problem {
            element: Element::F32,
            ..problem
        };
        let codes = Fp8Scheme {
            format: quantizer.format,
            granularity: quantizer.granularity,
        };
        let problem = fp8_mma::Problem::new(problem, codes)?;
        let [rows, columns] = x.dims();
        let codes = quantizer.problem([1, rows, columns], element(x.dtype())?)?;
        let bias = bias.map(|bias| bias.cast(DType::F32));
        let weights = self.matrices.coded(bias, Conversion::Bits);
        fp8::multiply_codes(x.unsqueeze(), codes, weights, assignment, problem)
    }
}

//! FP8 weights in the layout that products read, and products with them.

use super::activations::{ActivationScaling, Activations};
use super::scales::{Fp8Layout, Fp8Scales};
use super::tensor::Fp8Tensor;
use crate::Error;
use crate::check::{check_device, element};
use crate::ops::{DeviceValue, Rows, grouped_gemm};
use crate::reduce::by_parts;
use burn::module::{Module, Param, ParamId};
use burn::tensor::{DType, Device, Int, Tensor};
use moebius_ops::fp8::{Fp8Format, LANES_PER_WORD};
use moebius_ops::grouped_gemm::fp8::PANEL;
use moebius_ops::grouped_gemm::{Problem, Stored};
use moebius_ops::scaling::Fp8Scheme;
use moebius_ops::{Element, Fault, Mismatch, fp8_mma};
use moebius_shaders::fp8::Conversion;
use serde::{Deserialize, Serialize};

/// A stack of E matrices W ≈ code · scale \[E, n, k\] in panels of 64 output columns.
///
/// A word holds the codes of four neighbouring inner columns, and the words of 64 neighbouring output columns lie side by side, so that a
/// product reads memory front to back: \[E·P·⌈n/64⌉, ⌈k/4⌉, 64\] for P parts (a gate and an up projection are two parts). There is no other
/// copy of the weights.
#[derive(Module, Debug)]
pub struct Fp8Matrices {
    /// The packed codes, four to a word.
    panels: Param<Tensor<3, Int>>,
    scales: ScaleParams,
    /// A marker whose length encodes the format, so that a record of another format isn't loaded here.
    format: Param<Tensor<1, Int>>,
    #[module(skip)]
    layout: Fp8Layout,
    #[module(skip)]
    parts: usize,
}

/// [`Fp8Scales`] as parameters of a module.
#[derive(Module, Debug)]
enum ScaleParams {
    F32(Param<Tensor<3>>),
    E8M0(Param<Tensor<3, Int>>),
}

impl ScaleParams {
    fn new(scales: Fp8Scales) -> Self {
        match scales {
            Fp8Scales::F32(scales) => {
                let scales = Param::from_tensor(scales.without_autodiff());
                Self::F32(scales.set_require_grad(false))
            }
            Fp8Scales::E8M0(words) => {
                let words = words.without_autodiff();
                Self::E8M0(Param::initialized(ParamId::new(), words))
            }
        }
    }

    fn val(&self) -> Fp8Scales {
        match self {
            Self::F32(scales) => Fp8Scales::F32(scales.val()),
            Self::E8M0(words) => Fp8Scales::E8M0(words.val()),
        }
    }
}

impl Fp8Matrices {
    /// Packs `weights` \[E, n, k\]; the rows of each matrix are those of `parts` projections, one after the other.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) when `parts` doesn't divide n, or n or k is 0,
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) when the width of a scale block isn't a multiple of 4 columns.
    pub fn new(weights: Fp8Tensor, parts: usize) -> Result<Self, Error> {
        let layout = weights.layout();
        let [experts, n, k] = layout.shape;
        let right = parts > 0 && n.is_multiple_of(parts) && experts * n * k > 0;
        let expected = format_args!("at least 1 matrix of {parts} parts with equal rows");
        let got = format_args!("{:?}", layout.shape);
        Mismatch::unless(right, "fp8 weights", expected, got)?;
        layout.scheme.check(k)?;
        let (rows, words) = (n / parts, k.div_ceil(LANES_PER_WORD));
        let mut packed = weights.words().clone().without_autodiff();
        packed = packed.reshape([experts * parts, rows, words]);
        let missing = rows.next_multiple_of(PANEL) - rows;
        if missing > 0 {
            let zeros = Tensor::zeros(
                [experts * parts, missing, words],
                (&packed.device(), packed.dtype()),
            );
            packed = Tensor::cat(vec![packed, zeros], 1);
        }
        let panels = experts * parts * rows.div_ceil(PANEL);
        let format = Tensor::zeros(
            [marker(layout.scheme.format)],
            (&packed.device(), DType::I32),
        );
        let turned = packed.reshape([panels, PANEL, words]).swap_dims(1, 2);
        Ok(Self {
            panels: Param::initialized(ParamId::new(), laid_out(turned)),
            scales: ScaleParams::new(weights.scales().clone()),
            format: Param::initialized(ParamId::new(), format),
            layout,
            parts,
        })
    }

    /// Returns the codes and scales \[E, n, k\] row by row, as files store them.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) when a record has put tensors of other shapes here,
    /// [`ErrorKind::Device`](crate::ErrorKind::Device) when codes and scales are on different devices.
    pub fn to_tensor(&self) -> Result<Fp8Tensor, Error> {
        self.check(&self.device())?;
        let [experts, n, k] = self.layout.shape;
        let (rows, words) = (n / self.parts, k.div_ceil(LANES_PER_WORD));
        let padded = rows.next_multiple_of(PANEL);
        let packed = laid_out(self.panels.val().swap_dims(1, 2))
            .reshape([experts * self.parts, padded, words])
            .narrow(1, 0, rows);
        let packed = packed.reshape([experts, n, words]);
        Fp8Tensor::from_parts(packed, self.scales.val(), self.layout)
    }

    /// Shape \[E, n, k\], format and granularity.
    pub fn layout(&self) -> Fp8Layout {
        self.layout
    }

    /// Bytes of codes and scales, including padding.
    pub fn bytes(&self) -> usize {
        let words: usize = self.panels.dims().iter().product();
        let scales: usize = self.scales.val().dims().iter().product();
        4 * (words + scales)
    }

    /// The device of the codes.
    pub fn device(&self) -> Device {
        self.panels.device()
    }

    /// Checks that the panels of several projections lie like those of one, because each projection fills whole panels.
    fn check_like_one(&self) -> Result<(), Mismatch> {
        let rows = self.layout.shape[1] / self.parts;
        let right = self.parts == 1 || rows.is_multiple_of(PANEL);
        let what = "rows of a projection among several, for one product of all";
        Mismatch::unless(right, what, format_args!("a multiple of {PANEL}"), rows)
    }

    /// Checks the tensors, which a record may have replaced, and that they are on `device`.
    pub(crate) fn check(&self, device: &Device) -> Result<(), Error> {
        let [experts, n, k] = self.layout.shape;
        let panels = experts * self.parts * (n / self.parts).div_ceil(PANEL);
        let expected = [panels, k.div_ceil(LANES_PER_WORD), PANEL];
        let got = (self.panels.dims(), self.panels.dtype());
        let right = got.0 == expected && matches!(got.1, DType::I32 | DType::U32);
        let expected = format_args!("{expected:?} of 32 bits");
        Mismatch::unless(right, "fp8 panels", expected, format_args!("{got:?}"))?;
        let marked = self.format.dims()[0];
        Mismatch::check(
            "marker of the fp8 format",
            marker(self.layout.scheme.format),
            marked,
        )?;
        check_device("device of fp8 weights", self.device(), device)?;
        let (shape, scheme) = (self.layout.scales_shape(), self.layout.scheme);
        self.scales.val().check(shape, scheme.granularity, device)
    }

    /// The number of projections in a matrix.
    pub(crate) fn parts(&self) -> usize {
        self.parts
    }

    /// Returns the panels and the scales as they lie in memory; both have the same number of entries for each matrix.
    pub(crate) fn stored(&self) -> (Tensor<3, Int>, Fp8Scales) {
        (self.panels.val(), self.scales.val())
    }

    /// Matrices from panels and scales as [`Fp8Matrices::stored`] returns them.
    pub(crate) fn from_stored(
        (panels, scales): (Tensor<3, Int>, Fp8Scales),
        layout: Fp8Layout,
        parts: usize,
    ) -> Self {
        let options = (&panels.device(), DType::I32);
        let format = Tensor::zeros([marker(layout.scheme.format)], options);
        Self {
            panels: Param::initialized(ParamId::new(), panels),
            scales: ScaleParams::new(scales),
            format: Param::initialized(ParamId::new(), format),
            layout,
            parts,
        }
    }

    /// Returns the codes and scales as operands of an operation.
    fn values(&self) -> [DeviceValue; 2] {
        [self.panels.val().into(), self.scales.val().into_value()]
    }
}

/// The length of the marker of a format in a record.
fn marker(format: Fp8Format) -> usize {
    match format {
        Fp8Format::E4M3 => 1,
        Fp8Format::E5M2 => 2,
    }
}

/// Copies a permuted tensor row by row into memory; Burn's reshape copies it if it isn't contiguous.
fn laid_out(turned: Tensor<3, Int>) -> Tensor<3, Int> {
    let [a, b, c] = turned.dims();
    turned.reshape([a * b * c]).reshape([a, b, c])
}

/// The FP8 instructions of a device that products with codes use.
///
/// Both kinds are unproven: their kernels run in CI on a software device, and were right on two GPUs (an NVIDIA H100 and an H200), too few
/// to choose them automatically. They need CUDA from sm_89 on through CubeCL's CUDA C++ compiler, which this crate's feature `cuda` turns
/// on; elsewhere a product that asks for them returns [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Instructions {
    /// No FP8 instructions: integer arithmetic decodes the codes, on every device.
    #[default]
    None,
    /// Instructions that convert codes to numbers, with the same results bit for bit.
    Conversion,
    /// Instructions that multiply matrices of codes without decoding them. Activations need dynamic scales, one for each row or for each
    /// block of 1 × 128; a stack's weights may be several projections only if each has a multiple of 64 rows.
    Matrix,
}

/// FP8 codes and scales in place of a weight's values, and how the activations before them are rounded.
///
/// Activations either stay in their dtype (W8A16: f32, f16, or bf16 where the device stores it), or are rounded to FP8, too (W8A8); codes
/// are decoded while they are loaded, on every device. Sums are f32 over the inner columns in order, so that the result of a row doesn't
/// depend on other rows; XLA chooses an order by the shapes, so there the last bits depend on the number of rows. Codes have no derivative;
/// activations that stay in their dtype have one.
#[derive(Module, Debug)]
pub(crate) struct Codes {
    pub(crate) matrices: Fp8Matrices,
    pub(crate) activations: ActivationScaling,
    #[module(skip)]
    pub(crate) instructions: Instructions,
    /// The dtype of the values that the codes were made from.
    #[module(skip)]
    pub(crate) dtype: DType,
}

impl Codes {
    /// Checks tensors that a record may have replaced, that they are on `device`, and, if that records gradients, that products have one of x.
    pub(crate) fn check(&self, device: &Device) -> Result<(), Error> {
        self.matrices.check(device)?;
        let source = self.activations.source();
        let right = !device.is_autodiff() || source == Activations::Float;
        let what = "activations before FP8 codes on a device that records gradients";
        let got = format_args!("{source:?}");
        Ok(Fault::Config.unless(right, what, "floating point", got)?)
    }

    /// Computes y \[rows, out\] from x \[rows, in\] and a bias \[out\], all checked by the caller, in the dtype of x.
    pub(crate) fn linear(&self, x: Tensor<2>, bias: Option<Tensor<1>>) -> Result<Tensor<2>, Error> {
        let (dtype, [_, n, k]) = (x.dtype(), self.matrices.layout().shape);
        by_parts(x, bias, |x, bias| {
            let problem = Problem::dense(x.dims()[0], n, k)?;
            let bias = bias.map(Tensor::unsqueeze);
            let y = self.product(x, bias, problem, Rows::All(None))?;
            Ok(y.cast(dtype))
        })
    }

    /// Computes rows \[R, in\] · W_eᵀ + b_e, \[R, out\], for all projections of W \[E, out, in\] at once; the result may be f32 where the rows
    /// aren't.
    ///
    /// # Errors
    /// [`Mismatch`] for several projections that don't fill whole panels.
    pub(crate) fn plain(
        &self,
        rows: Tensor<2>,
        bias: Option<Tensor<2>>,
        of: Rows<'_>,
    ) -> Result<Tensor<2>, Error> {
        self.matrices.check_like_one()?;
        let problem = of.product(&rows, self.matrices.layout().shape[1])?;
        self.product(rows, bias, problem, of)
    }

    /// Computes `problem` from the rows `of` x \[T or R, k\] (rounded first if activations are), these codes and a bias \[E, n\]. The
    /// result may be f32 where x is not.
    pub(crate) fn product(
        &self,
        x: Tensor<2>,
        bias: Option<Tensor<2>>,
        problem: Problem,
        of: Rows<'_>,
    ) -> Result<Tensor<2>, Error> {
        let problem = Problem {
            bias: bias.is_some(),
            stored: Stored::Fp8(self.matrices.layout().scheme),
            ..problem
        };
        let conversion = match self.instructions {
            Instructions::Matrix => return self.multiply(x, bias, problem, of),
            Instructions::Conversion => Conversion::Instructions,
            Instructions::None => Conversion::Bits,
        };
        // Rounded activations are f32: code · scale may have more bits than 16-bit formats hold.
        let x = self.activations.apply(x)?;
        let bias = bias.map(|bias| bias.cast(x.dtype()));
        let problem = Problem {
            element: element(x.dtype())?,
            ..problem
        };
        grouped_gemm::fp8_linear(x, self.matrices.values(), bias, of, problem, conversion)
    }

    /// Rounds x to codes and computes the product in f32 with FP8 matrix instructions.
    ///
    /// # Errors
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) for activations that aren't dynamic, and for scales that the instructions can't
    /// apply, [`ErrorKind::Shape`](crate::ErrorKind::Shape) for projections that don't fill whole panels,
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) where there are no such instructions.
    fn multiply(
        &self,
        x: Tensor<2>,
        bias: Option<Tensor<2>>,
        problem: Problem,
        of: Rows<'_>,
    ) -> Result<Tensor<2>, Error> {
        let quantizer = self.activations.dynamic()?;
        self.matrices.check_like_one()?;
        let problem = Problem {
            element: Element::F32,
            ..problem
        };
        let scheme = Fp8Scheme {
            format: quantizer.format,
            granularity: quantizer.granularity,
        };
        let problem = fp8_mma::Problem::new(problem, scheme)?;
        let [rows, columns] = x.dims();
        let rounding = quantizer.problem([1, rows, columns], element(x.dtype())?)?;
        let bias = bias.map(|bias| bias.cast(DType::F32));
        let weights = self.matrices.values();
        grouped_gemm::multiply_codes(x.unsqueeze(), rounding, weights, bias, of, problem)
    }
}

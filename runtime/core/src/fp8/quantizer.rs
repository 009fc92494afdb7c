//! How a tensor is quantised, and what needs no codes: largest magnitudes and fake quantisation.

use super::least_squares;
use super::tensor::Fp8Scales;
use crate::Error;
use crate::check::{element, reshaped};
use crate::ops::quantize;
use burn::tensor::{DType, Tensor};
use moebius_ops::ShapeError;
use moebius_ops::fp8::{Fp8Format, Overflow};
use moebius_ops::quantize::{Problem, check_granularity, check_margin};
use moebius_ops::scaling::{Granularity, ScaleType};
use serde::{Deserialize, Serialize};

/// How the scale of values that share one follows from them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScaleRule {
    /// From their largest magnitude, so that none saturates.
    #[default]
    Largest,
    /// Of that scale and fifteen larger ones, each a sixteenth of an octave above the one before, that with the least squared error. None
    /// saturates, and the fewer values share a scale, the more there is to gain. Not for MX scales. On a device it takes seventeen quantisations
    /// and sixteen dequantisations, and memory for the values in f32 a few times over. Where squares under- or overflow in f32, a block
    /// keeps its first scale.
    LeastSquares,
}

/// code = encode(x / scale) with scale = amax · 2^margin / MAX, where amax is the largest finite
/// magnitude among the values that share a scale.
///
/// A block of zeros has scale 1; no scale is below 2⁻¹²⁶. NaN and infinities take no part in amax.
/// An MX scale is the power of two at or above that quotient. [`ScaleRule::LeastSquares`] looks for better scales above.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quantizer {
    /// Format of the codes.
    pub format: Fp8Format,
    /// Which values share a scale.
    pub granularity: Granularity,
    /// What becomes of magnitudes beyond the largest value: of infinities, and, where scales are
    /// given or the margin is negative, of others.
    #[serde(default = "saturate")]
    pub overflow: Overflow,
    /// Powers of two that scales have to spare, −64 to 64.
    #[serde(default)]
    pub margin: i32,
    /// How scales follow from the values.
    #[serde(default)]
    pub scales: ScaleRule,
}

fn saturate() -> Overflow {
    Overflow::Saturate
}

setters! { Quantizer:
    /// With another overflow mode.
    #[must_use]
    with_overflow: overflow: Overflow,
    /// With scales 2^`margin` times as large.
    #[must_use]
    with_margin: margin: i32,
    /// With scales by another rule.
    #[must_use]
    with_scales: scales: ScaleRule,
}

impl Quantizer {
    /// Saturating, without a margin.
    pub fn new(format: Fp8Format, granularity: Granularity) -> Self {
        Self {
            format,
            granularity,
            overflow: saturate(),
            margin: 0,
            scales: ScaleRule::Largest,
        }
    }

    /// Checks the settings; whatever quantises does so, too.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) for a margin beyond ±64, a block without
    /// rows or columns, or least squares of MX scales or with a negative margin.
    pub fn validate(&self) -> Result<(), Error> {
        check_granularity(self.granularity)?;
        let searched = self.scales == ScaleRule::LeastSquares;
        let fits = !searched || self.granularity.scale_type() == ScaleType::F32;
        ShapeError::unless(fits, "scales by least squares", "f32", "E8M0")?;
        // Values would saturate, which the search doesn't weigh.
        let fits = !searched || self.margin >= 0;
        ShapeError::unless(
            fits,
            "margin of scales by least squares",
            "0 to 64",
            self.margin,
        )?;
        Ok(check_margin(self.margin)?)
    }

    /// The quantisation of a stack of matrices.
    pub(crate) fn problem(&self, shape: [usize; 3], dtype: DType) -> Result<Problem, Error> {
        self.validate()?;
        let problem = Problem::new(shape, element(dtype)?, self.granularity, self.format)?;
        let problem = problem.with_overflow(self.overflow);
        Ok(problem.with_margin(self.margin)?)
    }
}

/// A matrix, or a stack of them, as a stack.
pub(super) fn stacked<const D: usize>(x: Tensor<D>) -> Result<Tensor<3>, Error> {
    let shape = match x.dims().as_slice() {
        [rows, columns] => [1, *rows, *columns],
        [matrices, rows, columns] => [*matrices, *rows, *columns],
        _ => {
            let expected = "a matrix or a stack of them";
            let got = format!("{:?}", x.dims());
            return Err(ShapeError::new("shape to quantise", expected, got).into());
        }
    };
    Ok(reshaped(x, shape))
}

/// amax \[1\] = max |x| over the finite values of x, in f32; 0 without any. Nothing is read back.
///
/// # Errors
/// [`ErrorKind::Shape`](crate::ErrorKind::Shape) when x isn't f32, f16 or bf16,
/// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) when it exceeds a binding.
pub fn amax<const D: usize>(x: Tensor<D>) -> Result<Tensor<1>, Error> {
    element(x.dtype())?;
    let (len, device) = (x.shape().num_elements(), x.device());
    if len == 0 {
        return Ok(Tensor::zeros([1], (&device, DType::F32)));
    }
    quantize::amax(x)
}

/// y = decode(encode(x / scale)) · scale in x's shape and dtype: what FP8 makes of x, with scales
/// from x, or with `scales` where they are given.
///
/// On a recording device the gradient passes straight through.
///
/// # Errors
/// [`ErrorKind::Shape`](crate::ErrorKind::Shape) when x is neither a matrix nor a stack, isn't f32,
/// f16 or bf16, or doesn't fit the scales; [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported)
/// when the device lacks the dtype or x exceeds a binding.
pub fn fake_quantize<const D: usize>(
    x: Tensor<D>,
    quantizer: &Quantizer,
    scales: Option<&Fp8Scales>,
) -> Result<Tensor<D>, Error> {
    let shape = x.dims();
    let x = stacked(x)?;
    let problem = quantizer.problem(x.dims(), x.dtype())?;
    if let Some(scales) = scales {
        let shape = problem.scales_shape();
        scales.check(shape, quantizer.granularity, &x.device())?;
    }
    if problem.is_empty() {
        return Ok(reshaped(x, shape));
    }
    let scales = match scales {
        None if quantizer.scales == ScaleRule::LeastSquares => {
            // The gradient passes straight through, and none goes to the scales.
            let best = least_squares::quantize(x.clone(), quantizer)?;
            Some(best.scales().clone())
        }
        scales => scales.cloned(),
    };
    let scales = scales.map(Fp8Scales::into_value);
    Ok(quantize::fake_quantize(x, scales, problem)?.reshape(shape))
}

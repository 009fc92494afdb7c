//! Casts on a device: values as FP8 codes in packed u32 words of ordinary integer tensors (four codes a word, lane 0 lowest) and back, values as
//! their codes have them, and largest magnitudes.

use super::scales::{Fp8Scales, least_squares};
use crate::Error;
use crate::check::{element, reshaped, stacked};
use crate::ops::{DeviceValue, quantize};
use burn::tensor::{DType, Int, Tensor};
use moebius_ops::Mismatch;
use moebius_ops::fp8::{Fp8Format, Overflow};
use moebius_ops::quantize::{Quantizer, ScaleRule};

/// words\[⌈n/4⌉\] = the codes of x\[n\], rounded to nearest even; the last word padded with zeros.
///
/// # Errors
/// [`ErrorKind::Shape`](crate::ErrorKind::Shape) when x isn't f32,
/// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) when it exceeds a binding.
pub fn encode(
    x: Tensor<1>,
    format: Fp8Format,
    overflow: Overflow,
) -> Result<Tensor<1, Int>, Error> {
    let dtype = x.dtype();
    let (right, got) = (dtype == DType::F32, format_args!("{dtype:?}"));
    Mismatch::unless(right, "fp8 input", "f32", got)?;
    if x.dims() == [0] {
        return Ok(Tensor::empty([0], &x.device()));
    }
    quantize::encode(x, format, overflow)
}

/// y\[`len`\] = the values of the first `len` codes of `words`; exact.
///
/// # Errors
/// [`ErrorKind::Shape`](crate::ErrorKind::Shape) when there aren't ⌈`len`/4⌉ words of 32 bits.
pub fn decode(words: Tensor<1, Int>, len: usize, format: Fp8Format) -> Result<Tensor<1>, Error> {
    let dtype = words.dtype();
    let right = matches!(dtype, DType::I32 | DType::U32);
    Mismatch::unless(right, "fp8 words", "i32 or u32", format_args!("{dtype:?}"))?;
    quantize::decode(words, len, format)
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
    let problem = quantizer.problem(x.dims(), element(x.dtype())?)?;
    if let Some(scales) = scales {
        let shape = problem.scales_shape();
        scales.check(shape, quantizer.granularity, &x.device())?;
    }
    if problem.is_empty() {
        return Ok(reshaped(x, shape));
    }
    let scales = match scales {
        // The gradient passes straight through, and none goes to the scales.
        None if quantizer.scales == ScaleRule::LeastSquares => Some(DeviceValue::from(
            least_squares(x.clone().without_autodiff(), problem)?,
        )),
        scales => scales.cloned().map(Fp8Scales::into_value),
    };
    Ok(quantize::fake_quantize(x, scales, problem)?.reshape(shape))
}

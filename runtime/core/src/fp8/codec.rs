//! FP8 codes as packed u32 words in ordinary integer tensors: four codes a word, lane 0 lowest; and largest magnitudes.

use crate::Error;
use crate::check::element;
use crate::ops::quantize;
use burn::tensor::{DType, Int, Tensor};
use moebius_ops::Mismatch;
use moebius_ops::fp8::{Fp8Format, Overflow};

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

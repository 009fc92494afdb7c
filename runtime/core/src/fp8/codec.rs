//! FP8 codes as packed u32 words in ordinary integer tensors: four codes a word, lane 0 lowest.

use crate::{Error, ops};
use burn::tensor::{DType, Int, Tensor};
use moebius_ops::ShapeError;
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
    if x.dtype() != DType::F32 {
        return Err(ShapeError::new("fp8 input", "f32", format!("{:?}", x.dtype())).into());
    }
    if x.dims() == [0] {
        return Ok(Tensor::empty([0], &x.device()));
    }
    ops::fp8::encode(x, format, overflow)
}

/// y\[`len`\] = the values of the first `len` codes of `words`; exact.
///
/// # Errors
/// [`ErrorKind::Shape`](crate::ErrorKind::Shape) when there aren't ⌈`len`/4⌉ words of 32 bits.
pub fn decode(words: Tensor<1, Int>, len: usize, format: Fp8Format) -> Result<Tensor<1>, Error> {
    if !matches!(words.dtype(), DType::I32 | DType::U32) {
        let got = format!("{:?}", words.dtype());
        return Err(ShapeError::new("fp8 words", "i32 or u32", got).into());
    }
    ops::fp8::decode(words, len, format)
}

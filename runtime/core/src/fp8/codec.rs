//! FP8 codes as packed u32 words in ordinary integer tensors: four codes a word, lane 0 lowest.

use crate::{Error, device, ops};
use burn::backend::Dispatch;
use burn::tensor::{DType, Int, Tensor};
use moebius_shaders::ShapeError;
use moebius_shaders::fp8::{Fp8Format, LANES_PER_WORD, Overflow, Problem, plan};
use ops::{Fp8Cast, Fp8Ops};

fn cast(
    len: usize,
    words: usize,
    format: Fp8Format,
    device: &burn::tensor::Device,
) -> Result<Fp8Cast, Error> {
    let problem = Problem::new(len, words, format)?;
    let plan = device::capability(device)?
        .map(|device| plan(problem, &device))
        .transpose()?;
    Ok(Fp8Cast { len, format, plan })
}

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
    let [len] = x.dims();
    if len == 0 {
        return Ok(Tensor::empty([0], &x.device()));
    }
    let call = cast(len, len.div_ceil(LANES_PER_WORD), format, &x.device())?;
    let words = Dispatch::fp8_encode(x.into_dispatch(), call, overflow);
    Ok(Tensor::from_dispatch(words))
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
    let [given] = words.dims();
    let call = cast(len, given, format, &words.device())?;
    if len == 0 {
        return Ok(Tensor::empty([0], &words.device()));
    }
    let y = Dispatch::fp8_decode(words.into_dispatch(), call);
    Ok(Tensor::from_dispatch(y))
}

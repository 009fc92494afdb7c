//! FP8 codes of flat tensors, and codes with scales of stacks of matrices; the shapes are those of [`crate::fp8`] and
//! [`moebius_ops::quantize`]. Codes and scales are constants to autodiff, so results have no derivative even on a device that records
//! gradients, except for fake quantisation, whose gradient passes straight through.

use super::DeviceValue;
use super::call::Request;
use crate::check::element;
use crate::{Error, device};
use burn::tensor::{DType, Device, Int, Tensor};
use moebius_ops::fp8::{self, Fp8Format, LANES_PER_WORD, Overflow};
use moebius_ops::quantize::Problem;
use moebius_ops::{Mismatch, Quantize};
use moebius_shaders::quantize as kernels;

/// Encodes x\[n\], rounded to nearest even, into words\[⌈n/4⌉\]; the last word is padded with zeros.
///
/// # Errors
/// [`ErrorKind::Shape`](crate::ErrorKind::Shape) when x isn't f32, [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) when x is
/// larger than a buffer that the device binds.
pub fn encode(
    x: Tensor<1>,
    format: Fp8Format,
    overflow: Overflow,
) -> Result<Tensor<1, Int>, Error> {
    let (dtype, [len]) = (x.dtype(), x.dims());
    let (right, got) = (dtype == DType::F32, format_args!("{dtype:?}"));
    Mismatch::unless(right, "fp8 input", "f32", got)?;
    if len == 0 {
        return Ok(Tensor::empty([0], (&x.device(), DType::I32)));
    }
    let problem = fp8::Problem::new(len, len.div_ceil(LANES_PER_WORD), format)?;
    let call = request(Quantize::Encode { problem, overflow }, &x.device())?;
    Ok(call.reads([x]).run().words())
}

/// Decodes the first `len` codes of `words` into y\[`len`\], exactly.
///
/// # Errors
/// [`ErrorKind::Shape`](crate::ErrorKind::Shape) when there aren't ⌈`len`/4⌉ words of 32 bits.
pub fn decode(words: Tensor<1, Int>, len: usize, format: Fp8Format) -> Result<Tensor<1>, Error> {
    let dtype = words.dtype();
    let right = matches!(dtype, DType::I32 | DType::U32);
    Mismatch::unless(right, "fp8 words", "i32 or u32", format_args!("{dtype:?}"))?;
    let problem = fp8::Problem::new(len, words.dims()[0], format)?;
    let call = request(Quantize::Decode(problem), &words.device())?;
    if len == 0 {
        return Ok(Tensor::empty([0], &words.device()));
    }
    Ok(call.reads([words]).run().floats())
}

/// Quantises x, which has the shape and dtype of `problem` and at least one value; returns words and scales.
pub(crate) fn quantize(
    x: Tensor<3>,
    problem: Problem,
) -> Result<(Tensor<3, Int>, DeviceValue), Error> {
    let call = request(Quantize::Quantize(problem), &x.device())?;
    let mut results = call.reads([x]).run();
    Ok((results.words(), results.value()))
}

/// Quantises x with given scales that fit it; returns words.
pub(crate) fn quantize_by(
    x: Tensor<3>,
    scales: DeviceValue,
    problem: Problem,
) -> Result<Tensor<3, Int>, Error> {
    let call = request(Quantize::QuantizeBy(problem), &x.device())?;
    Ok(call.reads([x]).reads([scales]).run().words())
}

/// Decodes words and scales that fit the problem.
pub(crate) fn dequantize(
    words: Tensor<3, Int>,
    scales: DeviceValue,
    problem: Problem,
) -> Result<Tensor<3>, Error> {
    let call = request(Quantize::Dequantize(problem), &words.device())?;
    Ok(call.reads([words]).reads([scales]).run().floats())
}

/// Rounds x to FP8 and back, with its own or given scales; the gradient passes straight through.
pub(crate) fn fake_quantize(
    x: Tensor<3>,
    scales: Option<DeviceValue>,
    problem: Problem,
) -> Result<Tensor<3>, Error> {
    let operation = match scales {
        Some(_) => Quantize::FakeQuantizeBy(problem),
        None => Quantize::FakeQuantize(problem),
    };
    let call = request(operation, &x.device())?;
    Ok(call.reads([x]).reads(scales).run().floats())
}

/// Computes amax \[1\] = max |x| in f32 over the finite values of x; 0 if there are none. Nothing is read back.
///
/// # Errors
/// [`ErrorKind::Shape`](crate::ErrorKind::Shape) when x isn't f32, f16 or bf16, [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported)
/// when x is larger than a buffer that the device binds.
pub fn amax<const D: usize>(x: Tensor<D>) -> Result<Tensor<1>, Error> {
    let (element, device) = (element(x.dtype())?, x.device());
    if x.shape().num_elements() == 0 {
        return Ok(Tensor::zeros([1], (&device, DType::F32)));
    }
    let shape = x.shape().to_vec();
    let call = request(Quantize::Amax { shape, element }, &device)?;
    Ok(call.reads([x]).run().floats())
}

pub(super) fn request(operation: Quantize, device: &Device) -> Result<Request, Error> {
    Request::new(operation, device, &())
}

/// Checks that a device can hold `matrices` matrices of the size of `one`.
pub(crate) fn check_kept(one: &Problem, matrices: usize, device: &Device) -> Result<(), Error> {
    device::plan(device, |device| kernels::check_kept(one, matrices, device))?;
    Ok(())
}

#[cfg(feature = "flex")]
pub(super) mod flex {
    //! Casts and quantisation on Flex.

    use crate::ops::host::{Computed, Operands, floats, words};
    use crate::ops::tensors::Value;
    use burn::backend::Flex;
    use moebius_host::quantize::{self as host, Scales};
    use moebius_ops::Quantize;
    use moebius_ops::quantize::amax_host;

    pub(in crate::ops) fn run(operation: &Quantize, mut b: Operands) -> Vec<Computed> {
        let result: Computed = match operation {
            Quantize::Quantize(p) => {
                let (codes, scales) = host::quantize(p, &floats(b.float("x")));
                let scales: Computed = match scales {
                    Scales::F32(values) => values.into_owned().into(),
                    Scales::E8M0(words) => words.into_owned().into(),
                };
                return vec![codes.into(), scales];
            }
            Quantize::QuantizeBy(p) => {
                let scales = stored(b.take("scales"));
                host::quantize_by(p, &floats(b.float("x")), scales).into()
            }
            Quantize::Dequantize(p) => {
                let scales = stored(b.take("scales"));
                host::dequantize(p, &words(b.word("codes")), scales).into()
            }
            Quantize::FakeQuantize(p) | Quantize::FakeQuantizeBy(p) => {
                let x = floats(b.float("x"));
                host::fake_quantize(p, x, b.maybe_take("scales").map(stored)).into()
            }
            Quantize::Amax { .. } => vec![amax_host(&floats(b.float("x")))].into(),
            Quantize::Encode { problem, overflow } => {
                host::encode(problem, *overflow, &floats(b.float("x"))).into()
            }
            Quantize::Decode(problem) => host::decode(problem, &words(b.word("codes"))).into(),
        };
        vec![result]
    }

    fn stored(scales: Value<Flex>) -> Scales<'static> {
        match scales {
            Value::Float(values) => Scales::F32(floats(values).into()),
            Value::Word(packed) => Scales::E8M0(words(packed).into()),
        }
    }
}

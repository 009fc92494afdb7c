//! FP8 casts of flat tensors; shapes as in [`crate::fp8`]. They have no derivative.

#[cfg(feature = "flex")]
pub(super) mod flex;

use super::call::{Kernels, Request};
use crate::Error;
use burn::tensor::{Device, Int, Tensor};
use moebius_device::Capability;
use moebius_ops::Quantization;
use moebius_ops::fp8::{Fp8Format, LANES_PER_WORD, Overflow, Problem};
use moebius_shaders::{Unsupported, fp8};

/// The codes of x f32 \[n\], n at least 1, in ⌈n/4⌉ words.
///
/// # Errors
/// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) when x exceeds a binding.
pub(crate) fn encode(
    x: Tensor<1>,
    format: Fp8Format,
    overflow: Overflow,
) -> Result<Tensor<1, Int>, Error> {
    let [len] = x.dims();
    let problem = Problem::new(len, len.div_ceil(LANES_PER_WORD), format)?;
    let call = request(
        Quantization::Encode { problem, overflow },
        problem,
        &x.device(),
    )?;
    Ok(call.reads([x]).run().words())
}

/// The values of the first `len` codes of `words`.
///
/// # Errors
/// As [`encode`], and [`ErrorKind::Shape`](crate::ErrorKind::Shape) when there aren't ⌈`len`/4⌉ words.
pub(crate) fn decode(
    words: Tensor<1, Int>,
    len: usize,
    format: Fp8Format,
) -> Result<Tensor<1>, Error> {
    let problem = Problem::new(len, words.dims()[0], format)?;
    let call = request(Quantization::Decode(problem), problem, &words.device())?;
    if len == 0 {
        return Ok(Tensor::empty([0], &words.device()));
    }
    Ok(call.reads([words]).run().floats())
}

fn request(operation: Quantization, problem: Problem, device: &Device) -> Result<Request, Error> {
    let overflow = match &operation {
        Quantization::Encode { overflow, .. } => Some(*overflow),
        _ => None,
    };
    let plan = |device: &Capability| -> Result<Kernels, Unsupported> {
        let plan = fp8::plan(problem, device)?;
        Ok(Kernels::new(move |client, b| match overflow {
            Some(overflow) => {
                fp8::launch_encode(client, &plan, overflow, b.get("x"), b.get("codes"));
            }
            None => fp8::launch_decode(client, &plan, b.get("codes"), b.get("y")),
        }))
    };
    Request::plan(operation, device, plan)
}

//! FP8 casts of flat tensors; shapes as in [`crate::fp8`]. They have no derivative.

#[cfg(feature = "cube")]
mod cube;
#[cfg(feature = "flex")]
mod flex;
#[cfg(feature = "fusion")]
mod lazy;
#[cfg(feature = "xla")]
mod xla;

use crate::{Error, device};
use burn::backend::Dispatch;
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, backend_extension};
use burn::tensor::{Device, Int, Tensor};
use moebius_ops::fp8::{Fp8Format, LANES_PER_WORD, Overflow, Problem};
use moebius_shaders::fp8;

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
    let call = Fp8Cast::new([len, len.div_ceil(LANES_PER_WORD)], format, &x.device())?;
    let words = Dispatch::fp8_encode(x.into_dispatch(), call, overflow);
    Ok(Tensor::from_dispatch(words))
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
    let call = Fp8Cast::new([len, words.dims()[0]], format, &words.device())?;
    if len == 0 {
        return Ok(Tensor::empty([0], &words.device()));
    }
    let y = Dispatch::fp8_decode(words.into_dispatch(), call);
    Ok(Tensor::from_dispatch(y))
}

impl Fp8Cast {
    fn new([len, words]: [usize; 2], format: Fp8Format, device: &Device) -> Result<Self, Error> {
        let problem = Problem::new(len, words, format)?;
        let plan = device::plan(device, |device| fp8::plan(problem, device))?;
        Ok(Self { problem, plan })
    }
}

/// A cast between f32 and FP8.
#[derive(Clone, Debug)]
pub(crate) struct Fp8Cast {
    pub(crate) problem: moebius_ops::fp8::Problem,
    pub(crate) plan: Option<fp8::Plan>,
}

#[backend_extension(
    Cube: cfg(feature = "cube"),
    Flex: cfg(feature = "flex"),
    Remote: cfg(feature = "xla"),
    Capture: cfg(feature = "xla"),
    Fusion: cfg(feature = "fusion"),
)]
pub(crate) trait Fp8Ops: Backend {
    #[fusion(meta = lazy::encoded)]
    fn fp8_encode(
        x: FloatTensor<Self>,
        call: Fp8Cast,
        overflow: moebius_ops::fp8::Overflow,
    ) -> IntTensor<Self>;
    #[fusion(meta = lazy::decoded)]
    fn fp8_decode(words: IntTensor<Self>, call: Fp8Cast) -> FloatTensor<Self>;
}

//! FP8 casts of flat tensors; shapes as in [`crate::fp8`]. They have no derivative.

#[cfg(feature = "cube")]
mod cube;
#[cfg(feature = "flex")]
mod flex;
#[cfg(feature = "fusion")]
mod lazy;
#[cfg(feature = "xla")]
pub(super) mod xla;

use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, backend_extension};
use moebius_shaders::fp8;

/// A cast between f32 and FP8.
#[derive(Clone, Debug)]
pub(crate) struct Fp8Cast {
    pub(crate) len: usize,
    pub(crate) format: fp8::Fp8Format,
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
    fn fp8_encode(x: FloatTensor<Self>, call: Fp8Cast, overflow: fp8::Overflow) -> IntTensor<Self>;
    #[fusion(meta = lazy::decoded)]
    fn fp8_decode(words: IntTensor<Self>, call: Fp8Cast) -> FloatTensor<Self>;
}

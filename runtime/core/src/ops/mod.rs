//! The one seam to Burn: our operations as backend extensions.
//!
//! A call carries a checked problem and, for CubeCL devices, its plan; the implementations can't
//! fail. [`cube`] launches kernels, [`portable`] composes Burn's primitive operations, and [`lazy`]
//! tells Burn's fusion what an operation will return.

#[cfg(feature = "cube")]
mod cube;
#[cfg(feature = "fusion")]
mod lazy;
#[cfg(feature = "flex")]
mod portable;

use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, ExtensionType, backend_extension};
use moebius_shaders::{fp8, moe, routing};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// A cast between f32 and FP8.
#[derive(Clone, Debug)]
pub(crate) struct Fp8Cast {
    pub(crate) len: usize,
    pub(crate) format: fp8::Fp8Format,
    pub(crate) plan: Option<fp8::Plan>,
}

/// Router logits.
#[derive(Clone, Debug)]
pub(crate) struct LogitsCall {
    pub(crate) problem: routing::Problem,
    pub(crate) plan: Option<routing::LogitsPlan>,
}

/// A choice of experts.
#[derive(Clone, Debug)]
pub(crate) struct RouteCall {
    pub(crate) problem: routing::Problem,
    pub(crate) plan: Option<routing::Plan>,
}

/// The experts of a layer.
#[derive(Clone, Debug)]
pub(crate) struct ExpertsCall {
    pub(crate) problem: moe::Problem,
    pub(crate) plan: Option<moe::Plan>,
    /// Where to note the time after every stage; the device is waited for.
    pub(crate) clock: Option<StageClock>,
}

/// When the stages of one call ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct StageClock(Arc<Mutex<Vec<(moe::Stage, Instant)>>>);

impl StageClock {
    /// Notes that `stage` has ended.
    pub(crate) fn mark(&self, stage: moe::Stage) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push((stage, Instant::now()));
    }

    /// The stages and when they ended.
    pub(crate) fn marks(&self) -> Vec<(moe::Stage, Instant)> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// Which experts may be chosen.
#[derive(ExtensionType)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub(crate) enum Mask<B: Backend> {
    /// All of them.
    All,
    /// Those whose entry of \[E\] isn't 0.
    Only(IntTensor<B>),
}

/// Biases of the experts, shapes as in [`moe::Buffers`].
#[derive(ExtensionType)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub(crate) enum Biases<B: Backend> {
    /// None.
    Absent,
    /// Of both products.
    Present {
        b_in: FloatTensor<B>,
        b_out: FloatTensor<B>,
    },
}

/// Weights of the experts, shapes as in [`moe::Buffers`].
#[derive(ExtensionType)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub(crate) struct Experts<B: Backend> {
    pub(crate) w_in: FloatTensor<B>,
    pub(crate) w_out: FloatTensor<B>,
    #[extension_type]
    pub(crate) biases: Biases<B>,
}

/// Result of a choice of experts.
#[derive(ExtensionType)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub(crate) struct Routed<B: Backend> {
    pub(crate) indices: IntTensor<B>,
    pub(crate) weights: FloatTensor<B>,
    pub(crate) probs: FloatTensor<B>,
}

/// Result of the experts.
#[derive(ExtensionType)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub(crate) struct Combined<B: Backend> {
    pub(crate) y: FloatTensor<B>,
    pub(crate) dropped: IntTensor<B>,
}

/// FP8 casts of flat tensors; shapes as in [`crate::fp8`].
#[backend_extension(
    Cube: cfg(feature = "cube"),
    Flex: cfg(feature = "flex"),
    Fusion: cfg(feature = "fusion"),
)]
pub(crate) trait Fp8Ops: Backend {
    #[fusion(meta = lazy::encoded)]
    fn fp8_encode(x: FloatTensor<Self>, call: Fp8Cast, overflow: fp8::Overflow) -> IntTensor<Self>;
    #[fusion(meta = lazy::decoded)]
    fn fp8_decode(words: IntTensor<Self>, call: Fp8Cast) -> FloatTensor<Self>;
}

/// The three steps of a mixture-of-experts layer; shapes as in [`moebius_shaders`].
#[backend_extension(
    Cube: cfg(feature = "cube"),
    Flex: cfg(feature = "flex"),
    Fusion: cfg(feature = "fusion"),
)]
pub(crate) trait MoeOps: Backend {
    #[fusion(meta = lazy::logits)]
    fn moe_router_logits(
        x: FloatTensor<Self>,
        w: FloatTensor<Self>,
        call: LogitsCall,
    ) -> FloatTensor<Self>;

    #[fusion(meta = lazy::routed)]
    fn moe_route(
        logits: FloatTensor<Self>,
        #[extension_type] mask: Mask<Self>,
        call: RouteCall,
    ) -> Routed<Self>;

    #[fusion(meta = lazy::combined)]
    fn moe_experts(
        x: FloatTensor<Self>,
        indices: IntTensor<Self>,
        weights: FloatTensor<Self>,
        #[extension_type] experts: Experts<Self>,
        call: ExpertsCall,
    ) -> Combined<Self>;
}

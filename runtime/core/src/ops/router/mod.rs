//! Router logits, the choice of experts, and counts of choices; shapes as in
//! [`moebius_shaders::routing`].

#[cfg(feature = "autodiff")]
mod autodiff;
#[cfg(feature = "cube")]
mod cube;
#[cfg(feature = "flex")]
mod flex;
#[cfg(feature = "fusion")]
mod lazy;
#[cfg(feature = "xla")]
mod xla;

use super::Mask;
use super::Maybe;
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, ExtensionType, backend_extension};
use moebius_shaders::routing;

/// Router logits.
#[derive(Clone, Debug)]
pub(crate) struct LogitsCall {
    pub(crate) problem: routing::Problem,
    pub(crate) plan: Option<routing::LogitsPlan>,
    /// Present on a recording CubeCL device.
    pub(crate) backward: Option<routing::LogitsBackwardPlan>,
}

/// A choice of experts.
#[derive(Clone, Debug)]
pub(crate) struct RouteCall {
    pub(crate) problem: routing::Problem,
    pub(crate) plan: Option<routing::Plan>,
    /// Of weights, probabilities and log-sum-exp; present on a recording CubeCL device.
    pub(crate) backward: Option<[routing::TopkBackwardPlan; 3]>,
}

/// A choice of experts by hash.
#[derive(Clone, Debug)]
pub(crate) struct HashCall {
    pub(crate) routing: routing::Problem,
    pub(crate) problem: routing::HashProblem,
    pub(crate) key: routing::HashKey,
    pub(crate) seed: u32,
    pub(crate) plan: Option<routing::HashPlan>,
}

/// A count of choices.
#[derive(Clone, Debug)]
pub(crate) struct LoadCall {
    pub(crate) routing: routing::Problem,
    /// Groups of tokens that are counted by themselves.
    pub(crate) groups: usize,
    pub(crate) plan: Option<routing::LoadPlan>,
}

/// What restricts and biases a choice.
#[derive(ExtensionType, Clone, Debug)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub(crate) struct Choices<B: Backend> {
    #[extension_type]
    pub(crate) mask: Mask<B>,
    /// \[E\], added to the scores for the selection alone.
    #[extension_type]
    pub(crate) bias: Maybe<B>,
}

/// Result of a choice of experts.
#[derive(ExtensionType, Clone, Debug)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub(crate) struct Routed<B: Backend> {
    pub(crate) indices: IntTensor<B>,
    pub(crate) weights: FloatTensor<B>,
    pub(crate) probs: FloatTensor<B>,
    /// \[T\]: ln Σ exp of the available logits.
    pub(crate) lse: FloatTensor<B>,
}

/// Result of a choice by hash.
#[derive(ExtensionType, Clone, Debug)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub(crate) struct Hashed<B: Backend> {
    pub(crate) indices: IntTensor<B>,
    pub(crate) weights: FloatTensor<B>,
}

/// Gradients of router logits.
#[derive(ExtensionType, Clone, Debug)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub(crate) struct LogitsGradients<B: Backend> {
    pub(crate) dx: FloatTensor<B>,
    pub(crate) dw: FloatTensor<B>,
}

#[backend_extension(
    Cube: cfg(feature = "cube"),
    Flex: cfg(feature = "flex"),
    Remote: cfg(feature = "xla"),
    Capture: cfg(feature = "xla"),
    Fusion: cfg(feature = "fusion"),
    Autodiff: cfg(feature = "autodiff"),
)]
pub(crate) trait RouterOps: Backend {
    #[fusion(meta = lazy::logits)]
    fn moe_router_logits(
        x: FloatTensor<Self>,
        w: FloatTensor<Self>,
        call: LogitsCall,
    ) -> FloatTensor<Self>;

    #[fusion(meta = lazy::routed)]
    fn moe_route(
        logits: FloatTensor<Self>,
        #[extension_type] choices: Choices<Self>,
        call: RouteCall,
    ) -> Routed<Self>;

    #[fusion(meta = lazy::hashed)]
    fn moe_hash(
        x: FloatTensor<Self>,
        #[extension_type] mask: Mask<Self>,
        call: HashCall,
    ) -> Hashed<Self>;

    #[fusion(meta = lazy::load)]
    fn moe_load(indices: IntTensor<Self>, call: LoadCall) -> IntTensor<Self>;
}

/// What only a backward pass runs.
#[backend_extension(
    Cube: cfg(feature = "cube"),
    Flex: cfg(feature = "flex"),
    Remote: cfg(feature = "xla"),
    Capture: cfg(feature = "xla"),
    Fusion: cfg(feature = "fusion"),
)]
pub(crate) trait RouterGradients: Backend {
    #[fusion(meta = lazy::logits_gradients)]
    fn moe_router_logits_backward(
        x: FloatTensor<Self>,
        w: FloatTensor<Self>,
        dlogits: FloatTensor<Self>,
        call: LogitsCall,
    ) -> LogitsGradients<Self>;

    /// The logits' gradient from that of one output of the choice.
    #[fusion(meta = lazy::route_gradient)]
    fn moe_route_backward(
        gradient: FloatTensor<Self>,
        logits: FloatTensor<Self>,
        #[extension_type] mask: Mask<Self>,
        #[extension_type] routed: Routed<Self>,
        output: routing::TopkGradient,
        call: RouteCall,
    ) -> FloatTensor<Self>;
}

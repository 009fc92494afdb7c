//! One product per expert: rows · W_eᵀ + b_e for the sorted rows of expert e; shapes as in
//! [`moebius_shaders::grouped_gemm`].

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

use super::{Maybe, Sorted};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, ExtensionType, backend_extension};
use moebius_shaders::grouped_gemm;
use moebius_shaders::moe::linear;

/// A product per expert.
#[derive(Clone, Debug)]
pub(crate) struct LinearCall {
    pub(crate) problem: grouped_gemm::Problem,
    pub(crate) plan: Option<linear::Plan>,
}

/// Gradients of a product; absent where they aren't wanted.
#[derive(ExtensionType, Clone, Debug)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub(crate) struct LinearGradients<B: Backend> {
    #[extension_type]
    pub(crate) rows: Maybe<B>,
    #[extension_type]
    pub(crate) w: Maybe<B>,
    #[extension_type]
    pub(crate) bias: Maybe<B>,
}

/// Which gradients a backward pass must compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Needs {
    pub(crate) rows: bool,
    pub(crate) w: bool,
    pub(crate) bias: bool,
}

#[backend_extension(
    Cube: cfg(feature = "cube"),
    Flex: cfg(feature = "flex"),
    Remote: cfg(feature = "xla"),
    Capture: cfg(feature = "xla"),
    Fusion: cfg(feature = "fusion"),
    Autodiff: cfg(feature = "autodiff"),
)]
pub(crate) trait LinearOps: Backend {
    #[fusion(meta = lazy::output)]
    fn moe_grouped_linear(
        rows: FloatTensor<Self>,
        w: FloatTensor<Self>,
        #[extension_type] bias: Maybe<Self>,
        #[extension_type] sorted: Sorted<Self>,
        call: LinearCall,
    ) -> FloatTensor<Self>;
}

/// What only a backward pass runs.
#[backend_extension(
    Cube: cfg(feature = "cube"),
    Flex: cfg(feature = "flex"),
    Remote: cfg(feature = "xla"),
    Capture: cfg(feature = "xla"),
    Fusion: cfg(feature = "fusion"),
)]
pub(crate) trait LinearGradientOps: Backend {
    #[fusion(meta = lazy::gradients)]
    fn moe_grouped_linear_backward(
        dy: FloatTensor<Self>,
        rows: FloatTensor<Self>,
        w: FloatTensor<Self>,
        #[extension_type] sorted: Sorted<Self>,
        needs: Needs,
        call: LinearCall,
    ) -> LinearGradients<Self>;
}

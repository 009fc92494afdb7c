//! Products with FP8 weights, in panels of codes; shapes as in [`moebius_shaders::grouped_gemm`].
//! They have no derivative.

#[cfg(feature = "cube")]
mod cube;
#[cfg(feature = "flex")]
mod flex;
#[cfg(feature = "flex")]
mod host;
#[cfg(feature = "fusion")]
mod lazy;
#[cfg(feature = "xla")]
mod xla;

use super::{Maybe, Scales, Sorted};
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, ExtensionType, backend_extension};
use moebius_shaders::grouped_gemm;

/// A product.
#[derive(Clone, Debug)]
pub(crate) struct Fp8LinearCall {
    pub(crate) problem: grouped_gemm::Problem,
    pub(crate) plan: Option<grouped_gemm::Plan>,
}

/// Weights as codes.
#[derive(ExtensionType, Clone, Debug)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub(crate) struct CodedWeights<B: Backend> {
    /// Panels of words.
    pub(crate) codes: IntTensor<B>,
    #[extension_type]
    pub(crate) scales: Scales<B>,
    /// \[E,n\] in the dtype of x.
    #[extension_type]
    pub(crate) bias: Maybe<B>,
}

#[backend_extension(
    Cube: cfg(feature = "cube"),
    Flex: cfg(feature = "flex"),
    Remote: cfg(feature = "xla"),
    Capture: cfg(feature = "xla"),
    Fusion: cfg(feature = "fusion"),
)]
pub(crate) trait Fp8LinearOps: Backend {
    /// y \[m,n\] of x \[m,k\].
    #[fusion(meta = lazy::output)]
    fn fp8_linear(
        x: FloatTensor<Self>,
        #[extension_type] weights: CodedWeights<Self>,
        call: Fp8LinearCall,
    ) -> FloatTensor<Self>;

    /// \[R,n\] of x \[T,k\] or \[R,k\]: a product, bias, activation and gate per expert.
    #[fusion(meta = lazy::grouped_output)]
    fn moe_fp8_linear(
        x: FloatTensor<Self>,
        #[extension_type] weights: CodedWeights<Self>,
        #[extension_type] sorted: Sorted<Self>,
        call: Fp8LinearCall,
    ) -> FloatTensor<Self>;
}

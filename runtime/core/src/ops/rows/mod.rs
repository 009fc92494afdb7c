//! Rows of tokens in and out of the order of their experts; shapes as in
//! [`moebius_shaders::permute`].

#[cfg(feature = "autodiff")]
mod autodiff;
#[cfg(feature = "cube")]
mod cube;
#[cfg(feature = "flex")]
mod flex;
#[cfg(feature = "flex")]
pub(super) mod host;
#[cfg(feature = "fusion")]
mod lazy;
#[cfg(feature = "xla")]
mod xla;

use super::{Maybe, Sorted};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, ExtensionType, backend_extension};
use moebius_shaders::permute::{self, neighbours};

/// A move of rows of `width` elements.
#[derive(Clone, Debug)]
pub(crate) struct RowsCall {
    pub(crate) problem: permute::RowsProblem,
    pub(crate) plan: Option<permute::RowsPlan>,
}

/// Rows beside their neighbours in the sequence of their expert.
#[derive(Clone, Debug)]
pub(crate) struct NeighboursCall {
    pub(crate) problem: neighbours::Problem,
    pub(crate) plan: Option<neighbours::Plan>,
}

/// Gradients of a combination.
#[derive(ExtensionType, Clone, Debug)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub(crate) struct CombineGradients<B: Backend> {
    pub(crate) rows: FloatTensor<B>,
    pub(crate) weights: FloatTensor<B>,
}

#[backend_extension(
    Cube: cfg(feature = "cube"),
    Flex: cfg(feature = "flex"),
    Remote: cfg(feature = "xla"),
    Capture: cfg(feature = "xla"),
    Fusion: cfg(feature = "fusion"),
    Autodiff: cfg(feature = "autodiff"),
)]
pub(crate) trait RowsOps: Backend {
    /// \[R, width\]: the token of every sorted row.
    #[fusion(meta = lazy::gathered)]
    fn moe_gather(
        x: FloatTensor<Self>,
        #[extension_type] sorted: Sorted<Self>,
        call: RowsCall,
    ) -> FloatTensor<Self>;

    /// \[T, width\]: the weighted sum of a token's rows; weights of 1 when absent.
    #[fusion(meta = lazy::combined)]
    fn moe_combine(
        rows: FloatTensor<Self>,
        #[extension_type] weights: Maybe<Self>,
        #[extension_type] sorted: Sorted<Self>,
        call: RowsCall,
    ) -> FloatTensor<Self>;

    /// \[R, 3·width\].
    #[fusion(meta = lazy::neighbours)]
    fn moe_neighbours(
        rows: FloatTensor<Self>,
        #[extension_type] sorted: Sorted<Self>,
        call: NeighboursCall,
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
pub(crate) trait RowsGradients: Backend {
    #[fusion(meta = lazy::combine_gradients)]
    fn moe_combine_backward(
        dy: FloatTensor<Self>,
        rows: FloatTensor<Self>,
        weights: FloatTensor<Self>,
        #[extension_type] sorted: Sorted<Self>,
        call: RowsCall,
    ) -> CombineGradients<Self>;

    #[fusion(meta = lazy::neighbours_gradient)]
    fn moe_neighbours_backward(
        dy: FloatTensor<Self>,
        #[extension_type] sorted: Sorted<Self>,
        call: NeighboursCall,
    ) -> FloatTensor<Self>;
}

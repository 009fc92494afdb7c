//! The sort of slots by expert, after the capacity has dropped some; shapes as in
//! [`moebius_shaders::permute`]. Integers have no gradient.

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

use super::{Mask, Maybe};
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, ExtensionType, backend_extension};
use moebius_shaders::moe::sorting;

/// A sort.
#[derive(Clone, Debug)]
pub(crate) struct SortCall {
    pub(crate) problem: sorting::Problem,
    pub(crate) plan: Option<sorting::Plan>,
}

/// What decides how many slots an expert takes.
#[derive(ExtensionType, Clone, Debug)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub(crate) struct Limits<B: Backend> {
    /// Experts that take any.
    #[extension_type]
    pub(crate) mask: Mask<B>,
    /// \[E\] f32: capacity factors, instead of one for all.
    #[extension_type]
    pub(crate) factors: Maybe<B>,
}

/// Slots sorted by expert.
#[derive(ExtensionType, Clone, Debug)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub(crate) struct Sorted<B: Backend> {
    /// \[S\]: the slot of a sorted row.
    pub(crate) order: IntTensor<B>,
    /// \[E+1\].
    pub(crate) offsets: IntTensor<B>,
    /// \[3·max_tiles\].
    pub(crate) tiles: IntTensor<B>,
    /// \[S\]: the sorted row of a slot, −1 for none.
    pub(crate) positions: IntTensor<B>,
    /// \[1\]: slots that reach no expert.
    pub(crate) dropped: IntTensor<B>,
}

/// Which rows belong to which expert.
#[derive(ExtensionType, Clone, Debug)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub(crate) enum Grouping<B: Backend> {
    /// All rows are one expert's, in their order: an ordinary product.
    Dense,
    /// Rows are sorted by expert.
    Sorted(#[extension_type] Sorted<B>),
}

#[backend_extension(
    Cube: cfg(feature = "cube"),
    Flex: cfg(feature = "flex"),
    Remote: cfg(feature = "xla"),
    Capture: cfg(feature = "xla"),
    Fusion: cfg(feature = "fusion"),
    Autodiff: cfg(feature = "autodiff"),
)]
pub(crate) trait SortOps: Backend {
    #[fusion(meta = lazy::sorted)]
    fn moe_sort(
        weights: FloatTensor<Self>,
        indices: IntTensor<Self>,
        #[extension_type] limits: Limits<Self>,
        call: SortCall,
    ) -> Sorted<Self>;
}

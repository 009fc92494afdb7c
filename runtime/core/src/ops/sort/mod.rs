//! The sort of slots by expert, after the capacity has dropped some; shapes as in
//! [`moebius_shaders::permute`]. Integers have no gradient.

#![allow(
    clippy::large_enum_variant,
    reason = "handles of tensors that are far larger, moved once a call, by what is derived, too"
)]

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

use super::{Assignment, CapacityRule, Mask, Maybe};
use crate::{Error, device};
use burn::backend::Dispatch;
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, ExtensionType, backend_extension};
use burn::tensor::{DType, Int, Tensor};
use moebius_ops::routing;
use moebius_shaders::PlanError;
use moebius_shaders::grouped_gemm::Variant;
use moebius_shaders::moe::sorting;

impl Assignment {
    /// Sorts the slots of `indices` \[T,K\] with router weights \[T,K\].
    pub(crate) fn new(
        indices: Tensor<2, Int>,
        weights: Tensor<2>,
        experts: usize,
        rule: CapacityRule,
        variant: Option<Variant>,
    ) -> Result<Self, Error> {
        let [tokens, top_k] = indices.dims();
        let routing = routing::Problem::new(tokens, experts, top_k)?;
        let problem = moebius_ops::moe::sorting::Problem::new(
            &routing,
            rule.capacity,
            rule.factors.is_some(),
        )?;
        let plan = device::plan(&weights.device(), |device| -> Result<_, PlanError> {
            let portable = || Variant::portable(problem.row_bound(), experts, device);
            let variant = variant.unwrap_or_else(portable);
            let plan = sorting::plan(problem, variant.tile_rows(), device)?;
            Ok((variant, plan))
        });
        let (variant, plan) = plan?.unzip();
        let limits = Limits {
            mask: Mask::of(rule.mask),
            factors: rule.factors.map(Tensor::into_dispatch).into(),
        };
        let sorted = Dispatch::moe_sort(
            weights.into_dispatch(),
            indices.cast(DType::I32).into_dispatch(),
            limits,
            SortCall { problem, plan },
        );
        Ok(Self {
            sorted,
            routing,
            row_bound: problem.row_bound(),
            variant,
        })
    }
}

/// A sort.
#[derive(Clone, Debug)]
pub(crate) struct SortCall {
    pub(crate) problem: moebius_ops::moe::sorting::Problem,
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

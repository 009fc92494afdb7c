//! The sort under autodiff: integers carry no gradient.

use super::{Grouping, Limits, SortCall, SortOps, Sorted};
use crate::ops::Mask;
use burn::backend::Autodiff;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::tensor::{FloatTensor, IntTensor};

impl<B: SortOps, C: CheckpointStrategy> SortOps for Autodiff<B, C> {
    fn moe_sort(
        weights: FloatTensor<Self>,
        indices: IntTensor<Self>,
        limits: Limits<Self>,
        call: SortCall,
    ) -> Sorted<Self> {
        let limits = Limits {
            mask: match limits.mask {
                Mask::All => Mask::All,
                Mask::Only(mask) => Mask::Only(mask),
            },
            factors: limits.factors.map(|factors| factors.into_primitive()),
        };
        B::moe_sort(weights.into_primitive(), indices, limits, call).under_autodiff()
    }
}

impl<B: burn::backend::Backend> Sorted<B> {
    /// The same integers for the recording backend.
    pub(crate) fn under_autodiff<C: CheckpointStrategy>(self) -> Sorted<Autodiff<B, C>> {
        let Self {
            order,
            offsets,
            tiles,
            positions,
            dropped,
        } = self;
        Sorted {
            order,
            offsets,
            tiles,
            positions,
            dropped,
        }
    }
}

impl<B: burn::backend::Backend, C: CheckpointStrategy> Sorted<Autodiff<B, C>> {
    /// The same integers for the backend that computes.
    pub(crate) fn without_autodiff(self) -> Sorted<B> {
        let Self {
            order,
            offsets,
            tiles,
            positions,
            dropped,
        } = self;
        Sorted {
            order,
            offsets,
            tiles,
            positions,
            dropped,
        }
    }
}

impl<B: burn::backend::Backend, C: CheckpointStrategy> Grouping<Autodiff<B, C>> {
    /// The same for the backend that computes.
    pub(crate) fn without_autodiff(self) -> Grouping<B> {
        match self {
            Self::Dense => Grouping::Dense,
            Self::Sorted(sorted) => Grouping::Sorted(sorted.without_autodiff()),
        }
    }
}

//! The sort recorded for XLA.

use super::{Grouping, Limits, SortCall, SortOps, Sorted};
use crate::ops::xla::{Recorded, record};
use burn::backend::tensor::{FloatTensor, IntTensor};
use moebius_ops::Routing;
use moebius_xla::{BackendRouter, RouterChannel};

impl<C: RouterChannel> SortOps for BackendRouter<C> {
    fn moe_sort(
        weights: FloatTensor<Self>,
        indices: IntTensor<Self>,
        limits: Limits<Self>,
        call: SortCall,
    ) -> Sorted<Self> {
        let (mask, factors) = (limits.mask.into_option(), limits.factors.into_option());
        let sort = Routing::Sort {
            problem: call.problem,
            mask: mask.is_some(),
        };
        let inputs = [weights, indices].into_iter().chain(mask).chain(factors);
        let mut results = record::<C>(sort, inputs.collect());
        let (order, offsets) = (results.take(), results.take());
        Sorted {
            order,
            // Tiles are the kernels' way to walk the segments: nothing here reads them.
            tiles: offsets.clone(),
            offsets,
            positions: results.take(),
            dropped: results.take(),
        }
    }
}

impl<C: RouterChannel> Grouping<BackendRouter<C>> {
    /// Where the rows of every expert begin; a dense product has one expert.
    pub(in crate::ops) fn offsets(self) -> Option<Recorded<C>> {
        match self {
            Self::Dense => None,
            Self::Sorted(sorted) => Some(sorted.offsets),
        }
    }
}

//! The sort recorded for XLA.

use super::{Grouping, Limits, SortCall, SortOps, Sorted};
use crate::ops::xla::{Recorded, Results};
use burn::backend::TensorMetadata;
use burn::backend::tensor::{FloatTensor, IntTensor};
use moebius_xla::custom::{Call, sort};
use moebius_xla::{BackendRouter, RouterChannel};

impl<C: RouterChannel> SortOps for BackendRouter<C> {
    fn moe_sort(
        weights: FloatTensor<Self>,
        indices: IntTensor<Self>,
        limits: Limits<Self>,
        call: SortCall,
    ) -> Sorted<Self> {
        let problem = &call.problem;
        let (slots, experts) = (problem.slots(), problem.experts());
        let capacity = problem.capacity().map(|capacity| sort::Capacity {
            even: capacity.slots_per_expert(slots, experts),
            least: capacity.min.min(slots),
        });
        let (mask, factors) = (limits.mask.into_option(), limits.factors.into_option());
        let [tokens, top_k] = indices.shape().dims();
        let call = Call::Sort(sort::Sort {
            tokens,
            top_k,
            experts,
            capacity,
            mask: mask.is_some(),
            factors: factors.is_some(),
        });
        let inputs = [weights, indices].into_iter().chain(mask).chain(factors);
        let mut results = Results::<C>::of(&call, inputs.collect());
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

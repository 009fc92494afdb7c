//! Attention within segments, recorded for XLA.

use super::{Attended, AttentionCall, Projections, SegmentAttentionGradients, SegmentAttentionOps};
use crate::ops::Grouping;
use crate::ops::xla::{Recorded, record};
use burn::backend::tensor::FloatTensor;
use moebius_xla::{BackendRouter, RouterChannel};

/// The operands of either direction, but those of the backward pass alone.
fn operands<C: RouterChannel>(
    projections: Projections<BackendRouter<C>>,
    grouping: Grouping<BackendRouter<C>>,
) -> Vec<Recorded<C>> {
    let Projections { q, k, v } = projections;
    match grouping {
        Grouping::Dense => vec![q, k, v],
        Grouping::Sorted(sorted) => vec![q, k, v, sorted.order, sorted.offsets],
    }
}

impl<C: RouterChannel> SegmentAttentionOps for BackendRouter<C> {
    fn moe_segment_attention(
        projections: Projections<Self>,
        grouping: Grouping<Self>,
        call: AttentionCall,
    ) -> Attended<Self> {
        let attention = call.operation(matches!(grouping, Grouping::Dense), false);
        let mut results = record::<C>(attention, operands(projections, grouping));
        Attended {
            o: results.take(),
            lse: results.take(),
        }
    }
}

impl<C: RouterChannel> SegmentAttentionGradients for BackendRouter<C> {
    fn moe_segment_attention_backward(
        gradient: FloatTensor<Self>,
        projections: Projections<Self>,
        attended: Attended<Self>,
        grouping: Grouping<Self>,
        call: AttentionCall,
    ) -> Projections<Self> {
        let attention = call.operation(matches!(grouping, Grouping::Dense), true);
        let mut inputs = operands(projections, grouping);
        inputs.extend([attended.o, attended.lse, gradient]);
        let mut results = record::<C>(attention, inputs);
        Projections {
            q: results.take(),
            k: results.take(),
            v: results.take(),
        }
    }
}

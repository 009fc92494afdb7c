//! Attention within segments, recorded for XLA.

use super::{Attended, AttentionCall, Projections, SegmentAttentionGradients, SegmentAttentionOps};
use crate::ops::Grouping;
use crate::ops::xla::{Recorded, Results};
use burn::backend::tensor::FloatTensor;
use moebius_xla::custom::Call;
use moebius_xla::custom::attention::Attention;
use moebius_xla::custom::neighbours::Sequences;
use moebius_xla::{BackendRouter, RouterChannel};

fn attention<C: RouterChannel>(
    grouping: &Grouping<BackendRouter<C>>,
    call: &AttentionCall,
    backward: bool,
) -> Call {
    Call::Attention(Attention {
        sequences: Sequences {
            slots: call.segments.slots(),
            experts: call.segments.experts(),
            row_bound: call.segments.rows(),
            sequence_slots: call.segments.sequence_slots(),
        },
        heads: call.heads,
        head_dim: call.head_dim,
        causal: call.causal,
        backward,
        dense: matches!(grouping, Grouping::Dense),
    })
}

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
        let call = attention(&grouping, &call, false);
        let mut results = Results::<C>::of(&call, operands(projections, grouping));
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
        let call = attention(&grouping, &call, true);
        let mut inputs = operands(projections, grouping);
        inputs.extend([attended.o, attended.lse, gradient]);
        let mut results = Results::<C>::of(&call, inputs);
        Projections {
            q: results.take(),
            k: results.take(),
            v: results.take(),
        }
    }
}

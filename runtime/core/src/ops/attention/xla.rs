//! Attention within segments, recorded for XLA.

use super::{Attended, AttentionCall, Projections, SegmentAttentionGradients, SegmentAttentionOps};
use crate::ops::Sorted;
use crate::ops::xla::{Recorded, Results};
use burn::backend::TensorMetadata;
use burn::backend::tensor::FloatTensor;
use moebius_xla::custom::Call;
use moebius_xla::custom::attention::Attention;
use moebius_xla::custom::neighbours::Sequences;
use moebius_xla::{BackendRouter, RouterChannel};

fn attention<C: RouterChannel>(
    sorted: &Sorted<BackendRouter<C>>,
    call: &AttentionCall,
    backward: bool,
) -> Call {
    Call::Attention(Attention {
        sequences: Sequences {
            slots: sorted.order.shape()[0],
            experts: sorted.offsets.shape()[0] - 1,
            row_bound: call.rows,
            sequence_slots: call.sequence_slots,
        },
        heads: call.heads,
        head_dim: call.head_dim,
        causal: call.causal,
        backward,
    })
}

/// The operands of either direction, but those of the backward pass alone.
fn operands<C: RouterChannel>(
    projections: Projections<BackendRouter<C>>,
    sorted: Sorted<BackendRouter<C>>,
) -> Vec<Recorded<C>> {
    let Projections { q, k, v } = projections;
    vec![q, k, v, sorted.order, sorted.offsets]
}

impl<C: RouterChannel> SegmentAttentionOps for BackendRouter<C> {
    fn moe_segment_attention(
        projections: Projections<Self>,
        sorted: Sorted<Self>,
        call: AttentionCall,
    ) -> Attended<Self> {
        let call = attention(&sorted, &call, false);
        let mut results = Results::<C>::of(&call, operands(projections, sorted));
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
        sorted: Sorted<Self>,
        call: AttentionCall,
    ) -> Projections<Self> {
        let call = attention(&sorted, &call, true);
        let mut inputs = operands(projections, sorted);
        inputs.extend([attended.o, attended.lse, gradient]);
        let mut results = Results::<C>::of(&call, inputs);
        Projections {
            q: results.take(),
            k: results.take(),
            v: results.take(),
        }
    }
}

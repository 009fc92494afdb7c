//! Gradients of an attention: of queries, keys and values.

use super::{Attended, AttentionCall, Projections, SegmentAttentionGradients, SegmentAttentionOps};
use crate::ops::Grouping;
use crate::ops::graph::register;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::{Autodiff, AutodiffBackend, Backend};

/// What a backward pass knows of its forward.
#[derive(Clone, Debug)]
struct State<B: Backend> {
    projections: Projections<B>,
    attended: Attended<B>,
    grouping: Grouping<B>,
    call: AttentionCall,
}

#[derive(Debug)]
struct AttentionBackward;

impl<B: SegmentAttentionGradients> Backward<B, 3> for AttentionBackward {
    type State = State<B>;

    fn backward(self, ops: Ops<Self::State, 3>, grads: &mut Gradients, _: &mut Checkpointer) {
        let gradient = grads.consume::<B>(&ops.node);
        let State {
            projections,
            attended,
            grouping,
            call,
        } = ops.state;
        let Projections { q, k, v } =
            B::moe_segment_attention_backward(gradient, projections, attended, grouping, call);
        for (parent, gradient) in ops.parents.into_iter().zip([q, k, v]) {
            register::<B>(grads, parent.map(|node| node.id), Some(gradient));
        }
    }
}

impl<B, C> SegmentAttentionOps for Autodiff<B, C>
where
    B: SegmentAttentionOps + SegmentAttentionGradients,
    C: CheckpointStrategy,
{
    fn moe_segment_attention(
        projections: Projections<Self>,
        grouping: Grouping<Self>,
        call: AttentionCall,
    ) -> Attended<Self> {
        let (q, q_node) = projections.q.into_parts();
        let (k, k_node) = projections.k.into_parts();
        let (v, v_node) = projections.v.into_parts();
        let projections = Projections { q, k, v };
        let grouping = grouping.without_autodiff();
        let attended =
            B::moe_segment_attention(projections.clone(), grouping.clone(), call.clone());
        let lse = Self::from_inner(attended.lse.clone());
        let step = AttentionBackward.prepare::<C>([q_node, k_node, v_node]);
        let o = match step.compute_bound().stateful() {
            OpsKind::UnTracked(step) => step.finish(attended.o),
            OpsKind::Tracked(step) => {
                let o = attended.o.clone();
                let state = State {
                    projections,
                    attended,
                    grouping,
                    call,
                };
                step.finish(state, o)
            }
        };
        Attended { o, lse }
    }
}

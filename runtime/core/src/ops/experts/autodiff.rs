//! Gradients of the experts: of x, the router weights, and the experts' weights and biases.

use super::{ExpertWeights, ExpertsCall, ExpertsGradients, ExpertsOps, Forward, Needs, Trained};
use crate::ops::graph::register;
use crate::ops::{Maybe, Sorted};
use burn::backend::Autodiff;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, NodeGuard, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;
use moebius_ops::moe::Keep;

/// Parents: x, router weights, w_in, w_out, and b_in, b_out where the experts have them.
#[derive(Debug)]
struct ExpertsBackward;

impl<B: ExpertsGradients, const N: usize> Backward<B, N> for ExpertsBackward {
    type State = (Forward<B>, ExpertsCall);

    fn backward(
        self,
        ops: Ops<Self::State, N>,
        grads: &mut Gradients,
        _checkpointer: &mut Checkpointer,
    ) {
        let dy = grads.consume::<B>(&ops.node);
        let (forward, call) = ops.state;
        let parent = |at: usize| {
            let parent = ops.parents.get(at).and_then(Option::as_ref);
            parent.map(|node| node.id)
        };
        let needs = Needs {
            x: parent(0).is_some(),
            experts: (2..N).any(|at| parent(at).is_some()),
        };
        let gradients = B::moe_experts_backward(dy, forward, needs, call);
        register::<B>(grads, parent(0), gradients.x.into_option());
        register::<B>(grads, parent(1), Some(gradients.weights));
        register::<B>(grads, parent(2), gradients.w_in.into_option());
        register::<B>(grads, parent(3), gradients.w_out.into_option());
        register::<B>(grads, parent(4), gradients.b_in.into_option());
        register::<B>(grads, parent(5), gradients.b_out.into_option());
    }
}

impl<B: ExpertsOps + ExpertsGradients, C: CheckpointStrategy> ExpertsOps for Autodiff<B, C> {
    fn moe_experts(
        x: FloatTensor<Self>,
        weights: FloatTensor<Self>,
        sorted: Sorted<Self>,
        experts: ExpertWeights<Self>,
        call: ExpertsCall,
    ) -> FloatTensor<Self> {
        let ((x, x_node), (weights, weights_node)) = (x.into_parts(), weights.into_parts());
        let (w_in, w_in_node) = experts.w_in.into_parts();
        let (w_out, w_out_node) = experts.w_out.into_parts();
        let (b_in, b_in_node) = parts(experts.b_in);
        let (b_out, b_out_node) = parts(experts.b_out);
        let forward = Forward {
            x,
            weights,
            sorted: sorted.without_autodiff(),
            experts: ExpertWeights {
                w_in,
                w_out,
                b_in,
                b_out,
            },
            pre: Maybe::Absent,
        };
        let nodes = [x_node, weights_node, w_in_node, w_out_node];
        match (b_in_node, b_out_node) {
            (Some(b_in), Some(b_out)) => {
                let [x, weights, w_in, w_out] = nodes;
                record::<B, C, 6>([x, weights, w_in, w_out, b_in, b_out], forward, call)
            }
            _ => record::<B, C, 4>(nodes, forward, call),
        }
    }
}

/// A bias and its node.
fn parts<B: ExpertsOps, C: CheckpointStrategy>(
    bias: Maybe<Autodiff<B, C>>,
) -> (Maybe<B>, Option<NodeGuard>) {
    match bias {
        Maybe::Absent => (Maybe::Absent, None),
        Maybe::Present(bias) => {
            let (bias, node) = bias.into_parts();
            (Maybe::Present(bias), Some(node))
        }
    }
}

/// Runs the forward, and records it when a parent wants a gradient.
fn record<B: ExpertsOps + ExpertsGradients, C: CheckpointStrategy, const N: usize>(
    nodes: [NodeGuard; N],
    mut forward: Forward<B>,
    call: ExpertsCall,
) -> FloatTensor<Autodiff<B, C>> {
    let Forward {
        x,
        weights,
        sorted,
        experts,
        ..
    } = forward.clone();
    match ExpertsBackward
        .prepare::<C>(nodes)
        .compute_bound()
        .stateful()
    {
        OpsKind::UnTracked(step) => step.finish(B::moe_experts(x, weights, sorted, experts, call)),
        OpsKind::Tracked(step) if call.run.keep == Keep::Inputs => {
            let y = B::moe_experts(x, weights, sorted, experts, call.clone());
            step.finish((forward, call), y)
        }
        OpsKind::Tracked(step) => {
            let Trained { y, pre } =
                B::moe_experts_keeping(x, weights, sorted, experts, call.clone());
            forward.pre = Maybe::Present(pre);
            step.finish((forward, call), y)
        }
    }
}

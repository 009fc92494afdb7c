//! Gradients of the router: of the logits through weights, probabilities and log-sum-exp, and of
//! x and Wg through the logits. The choice itself is a constant.

use super::{
    Choices, HashCall, Hashed, LoadCall, LogitsCall, RouteCall, Routed, RouterGradients, RouterOps,
};
use crate::ops::Mask;
use crate::ops::graph::register;
use burn::backend::Autodiff;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, NodeGuard, Ops, OpsKind};
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{AutodiffBackend, Backend};
use moebius_ops::routing::TopkGradient;

/// x, Wg and how their product was computed.
#[derive(Clone, Debug)]
struct LogitsState<B: Backend> {
    x: FloatTensor<B>,
    w: FloatTensor<B>,
    call: LogitsCall,
}

#[derive(Debug)]
struct LogitsBackward;

impl<B: RouterGradients> Backward<B, 2> for LogitsBackward {
    type State = LogitsState<B>;

    fn backward(
        self,
        ops: Ops<Self::State, 2>,
        grads: &mut Gradients,
        _checkpointer: &mut Checkpointer,
    ) {
        let dlogits = grads.consume::<B>(&ops.node);
        let LogitsState { x, w, call } = ops.state;
        let gradients = B::moe_router_logits_backward(x, w, dlogits, call);
        let [x, w] = ops.parents.map(|parent| parent.map(|node| node.id));
        register::<B>(grads, x, Some(gradients.dx));
        register::<B>(grads, w, Some(gradients.dw));
    }
}

/// Logits, what was chosen from them, and how.
#[derive(Clone, Debug)]
struct RouteState<B: Backend> {
    logits: FloatTensor<B>,
    mask: Mask<B>,
    routed: Routed<B>,
    output: TopkGradient,
    call: RouteCall,
}

#[derive(Debug)]
struct RouteBackward;

impl<B: RouterGradients> Backward<B, 1> for RouteBackward {
    type State = RouteState<B>;

    fn backward(
        self,
        ops: Ops<Self::State, 1>,
        grads: &mut Gradients,
        _checkpointer: &mut Checkpointer,
    ) {
        let gradient = grads.consume::<B>(&ops.node);
        let state = ops.state;
        let dlogits = B::moe_route_backward(
            gradient,
            state.logits,
            state.mask,
            state.routed,
            state.output,
            state.call,
        );
        let [parent] = ops.parents.map(|parent| parent.map(|node| node.id));
        register::<B>(grads, parent, Some(dlogits));
    }
}

/// One output of the choice as a node of the graph.
fn route_output<B: RouterGradients, C: CheckpointStrategy>(
    logits: NodeGuard,
    state: RouteState<B>,
) -> FloatTensor<Autodiff<B, C>> {
    let output = match state.output {
        TopkGradient::Weights => state.routed.weights.clone(),
        TopkGradient::Probs => state.routed.probs.clone(),
        TopkGradient::Lse => state.routed.lse.clone(),
    };
    match RouteBackward
        .prepare::<C>([logits])
        .compute_bound()
        .stateful()
    {
        OpsKind::Tracked(step) => step.finish(state, output),
        OpsKind::UnTracked(step) => step.finish(output),
    }
}

impl<B: RouterOps + RouterGradients, C: CheckpointStrategy> RouterOps for Autodiff<B, C> {
    fn moe_router_logits(
        x: FloatTensor<Self>,
        w: FloatTensor<Self>,
        call: LogitsCall,
    ) -> FloatTensor<Self> {
        let ((x, x_node), (w, w_node)) = (x.into_parts(), w.into_parts());
        let logits = B::moe_router_logits(x.clone(), w.clone(), call.clone());
        let step = LogitsBackward.prepare::<C>([x_node, w_node]);
        match step.compute_bound().stateful() {
            OpsKind::Tracked(step) => step.finish(LogitsState { x, w, call }, logits),
            OpsKind::UnTracked(step) => step.finish(logits),
        }
    }

    fn moe_route(
        logits: FloatTensor<Self>,
        choices: Choices<Self>,
        call: RouteCall,
    ) -> Routed<Self> {
        let mask: Mask<B> = match choices.mask {
            Mask::All => Mask::All,
            Mask::Only(mask) => Mask::Only(mask),
        };
        let bias = choices.bias.map(|bias| bias.into_primitive());
        let plain = logits.primitive().clone();
        let choices = Choices {
            mask: mask.clone(),
            bias,
        };
        let routed = B::moe_route(plain.clone(), choices, call.clone());
        let output = |output| {
            let state = RouteState {
                logits: plain.clone(),
                mask: mask.clone(),
                routed: routed.clone(),
                output,
                call: call.clone(),
            };
            route_output::<B, C>(logits.node(), state)
        };
        Routed {
            weights: output(TopkGradient::Weights),
            probs: output(TopkGradient::Probs),
            lse: output(TopkGradient::Lse),
            indices: routed.indices,
        }
    }

    fn moe_hash(x: FloatTensor<Self>, mask: Mask<Self>, call: HashCall) -> Hashed<Self> {
        let mask = match mask {
            Mask::All => Mask::All,
            Mask::Only(mask) => Mask::Only(mask),
        };
        let hashed = B::moe_hash(x.into_primitive(), mask, call);
        Hashed {
            indices: hashed.indices,
            weights: Self::from_inner(hashed.weights),
        }
    }

    fn moe_load(indices: IntTensor<Self>, call: LoadCall) -> IntTensor<Self> {
        B::moe_load(indices, call)
    }
}

//! What the casts do to gradients.

use super::{Fp8TrainOps, RoundCall, round};
use crate::ops::call::Operations;
use crate::ops::tensors::Tensors;
use burn::backend::Autodiff;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;

#[derive(Debug)]
struct StraightThrough;

impl<B: Fp8TrainOps> Backward<B, 1> for StraightThrough {
    type State = ();

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let dy = grads.consume::<B>(&ops.node);
        if let [Some(x)] = ops.parents {
            grads.register::<B>(x.id, dy);
        }
    }
}

/// Parents: what is cast, and the slot.
#[derive(Debug)]
struct RoundGradient;

impl<B: Fp8TrainOps + Operations> Backward<B, 2> for RoundGradient {
    type State = (Option<FloatTensor<B>>, RoundCall);

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        let dy = grads.consume::<B>(&ops.node);
        let (scale, call) = ops.state;
        let (y, amax) = round::<B>(dy, scale, &call);
        let [x, slot] = ops.parents;
        for (parent, gradient) in [(x, Some(y)), (slot, amax)] {
            if let (Some(parent), Some(gradient)) = (parent, gradient) {
                grads.register::<B>(parent.id, gradient);
            }
        }
    }
}

impl<B: Fp8TrainOps + Operations, C: CheckpointStrategy> Fp8TrainOps for Autodiff<B, C> {
    fn fp8_straight_through(x: FloatTensor<Self>, rounded: FloatTensor<Self>) -> FloatTensor<Self> {
        let ((_, node), (y, _)) = (x.into_parts(), rounded.into_parts());
        let step = StraightThrough.prepare::<C>([node]).compute_bound();
        match step.stateful() {
            OpsKind::Tracked(step) => step.finish((), y),
            OpsKind::UnTracked(step) => step.finish(y),
        }
    }

    fn fp8_round_gradient(
        x: FloatTensor<Self>,
        slot: FloatTensor<Self>,
        scale: Tensors<Self>,
        call: RoundCall,
    ) -> FloatTensor<Self> {
        // The value passes: only its gradient is rounded.
        let ((y, node), (_, slot_node)) = (x.into_parts(), slot.into_parts());
        let scale = scale.0.into_iter().next();
        let scale = scale.map(|scale| scale.float().into_primitive());
        let step = RoundGradient.prepare::<C>([node, slot_node]);
        match step.compute_bound().stateful() {
            OpsKind::Tracked(step) => step.finish((scale, call), y),
            OpsKind::UnTracked(step) => step.finish(y),
        }
    }
}

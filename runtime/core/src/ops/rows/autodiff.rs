//! Gradients of moved rows: what is gathered forward is summed backward, and the reverse.

use super::{NeighboursCall, RowsCall, RowsGradients, RowsOps};
use crate::ops::graph::register;
use crate::ops::{Maybe, Sorted};
use burn::backend::Autodiff;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;

#[derive(Debug)]
struct GatherBackward;

impl<B: RowsOps> Backward<B, 1> for GatherBackward {
    type State = (Sorted<B>, RowsCall);

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let dy = grads.consume::<B>(&ops.node);
        let (sorted, call) = ops.state;
        let dx = B::moe_combine(dy, Maybe::Absent, sorted, call);
        let [x] = ops.parents.map(|parent| parent.map(|node| node.id));
        register::<B>(grads, x, Some(dx));
    }
}

#[derive(Debug)]
struct SumBackward;

impl<B: RowsOps> Backward<B, 1> for SumBackward {
    type State = (Sorted<B>, RowsCall);

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let dy = grads.consume::<B>(&ops.node);
        let (sorted, call) = ops.state;
        let drows = B::moe_gather(dy, sorted, call);
        let [rows] = ops.parents.map(|parent| parent.map(|node| node.id));
        register::<B>(grads, rows, Some(drows));
    }
}

#[derive(Debug)]
struct CombineBackward;

impl<B: RowsGradients> Backward<B, 2> for CombineBackward {
    type State = (FloatTensor<B>, FloatTensor<B>, Sorted<B>, RowsCall);

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        let dy = grads.consume::<B>(&ops.node);
        let (rows, weights, sorted, call) = ops.state;
        let gradients = B::moe_combine_backward(dy, rows, weights, sorted, call);
        let [rows, weights] = ops.parents.map(|parent| parent.map(|node| node.id));
        register::<B>(grads, rows, Some(gradients.rows));
        register::<B>(grads, weights, Some(gradients.weights));
    }
}

#[derive(Debug)]
struct NeighboursBackward;

impl<B: RowsGradients> Backward<B, 1> for NeighboursBackward {
    type State = (Sorted<B>, NeighboursCall);

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let dy = grads.consume::<B>(&ops.node);
        let (sorted, call) = ops.state;
        let drows = B::moe_neighbours_backward(dy, sorted, call);
        let [rows] = ops.parents.map(|parent| parent.map(|node| node.id));
        register::<B>(grads, rows, Some(drows));
    }
}

impl<B: RowsOps + RowsGradients, C: CheckpointStrategy> RowsOps for Autodiff<B, C> {
    fn moe_gather(x: FloatTensor<Self>, sorted: Sorted<Self>, call: RowsCall) -> FloatTensor<Self> {
        let (x, node) = x.into_parts();
        let sorted = sorted.without_autodiff();
        let rows = B::moe_gather(x, sorted.clone(), call.clone());
        match GatherBackward
            .prepare::<C>([node])
            .compute_bound()
            .stateful()
        {
            OpsKind::Tracked(step) => step.finish((sorted, call), rows),
            OpsKind::UnTracked(step) => step.finish(rows),
        }
    }

    fn moe_combine(
        rows: FloatTensor<Self>,
        weights: Maybe<Self>,
        sorted: Sorted<Self>,
        call: RowsCall,
    ) -> FloatTensor<Self> {
        let (rows, node) = rows.into_parts();
        let sorted = sorted.without_autodiff();
        let Maybe::Present(weights) = weights else {
            let y = B::moe_combine(rows, Maybe::Absent, sorted.clone(), call.clone());
            return match SumBackward.prepare::<C>([node]).compute_bound().stateful() {
                OpsKind::Tracked(step) => step.finish((sorted, call), y),
                OpsKind::UnTracked(step) => step.finish(y),
            };
        };
        let (weights, weights_node) = weights.into_parts();
        let of = Maybe::Present(weights.clone());
        let y = B::moe_combine(rows.clone(), of, sorted.clone(), call.clone());
        let step = CombineBackward.prepare::<C>([node, weights_node]);
        match step.compute_bound().stateful() {
            OpsKind::Tracked(step) => step.finish((rows, weights, sorted, call), y),
            OpsKind::UnTracked(step) => step.finish(y),
        }
    }

    fn moe_neighbours(
        rows: FloatTensor<Self>,
        sorted: Sorted<Self>,
        call: NeighboursCall,
    ) -> FloatTensor<Self> {
        let (rows, node) = rows.into_parts();
        let sorted = sorted.without_autodiff();
        let y = B::moe_neighbours(rows, sorted.clone(), call.clone());
        let step = NeighboursBackward.prepare::<C>([node]);
        match step.compute_bound().stateful() {
            OpsKind::Tracked(step) => step.finish((sorted, call), y),
            OpsKind::UnTracked(step) => step.finish(y),
        }
    }
}

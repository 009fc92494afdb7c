//! Gradients of a product: of the rows, the weights and the biases.

use super::{LinearCall, LinearGradientOps, LinearOps, Needs};
use crate::ops::graph::register;
use crate::ops::{Grouping, Maybe};
use burn::backend::Autodiff;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, NodeGuard, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;

/// Rows, weights and how they were multiplied.
type State<B> = (FloatTensor<B>, FloatTensor<B>, Grouping<B>, LinearCall);

/// Parents: rows, weights, and the bias where there is one.
#[derive(Debug)]
struct LinearBackward;

impl<B: LinearGradientOps, const N: usize> Backward<B, N> for LinearBackward {
    type State = State<B>;

    fn backward(self, ops: Ops<Self::State, N>, grads: &mut Gradients, _: &mut Checkpointer) {
        let dy = grads.consume::<B>(&ops.node);
        let (rows, w, grouping, call) = ops.state;
        let parent = |at: usize| {
            let parent = ops.parents.get(at).and_then(Option::as_ref);
            parent.map(|node| node.id)
        };
        let needs = Needs {
            rows: parent(0).is_some(),
            w: parent(1).is_some(),
            bias: parent(2).is_some(),
        };
        let gradients = B::moe_grouped_linear_backward(dy, rows, w, grouping, needs, call);
        register::<B>(grads, parent(0), gradients.rows.into_option());
        register::<B>(grads, parent(1), gradients.w.into_option());
        register::<B>(grads, parent(2), gradients.bias.into_option());
    }
}

impl<B: LinearOps + LinearGradientOps, C: CheckpointStrategy> LinearOps for Autodiff<B, C> {
    fn moe_grouped_linear(
        rows: FloatTensor<Self>,
        w: FloatTensor<Self>,
        bias: Maybe<Self>,
        grouping: Grouping<Self>,
        call: LinearCall,
    ) -> FloatTensor<Self> {
        let ((rows, rows_node), (w, w_node)) = (rows.into_parts(), w.into_parts());
        let state = (rows, w, grouping.without_autodiff(), call);
        match bias {
            Maybe::Absent => record::<B, C, 2>([rows_node, w_node], Maybe::Absent, state),
            Maybe::Present(bias) => {
                let (bias, node) = bias.into_parts();
                record::<B, C, 3>([rows_node, w_node, node], Maybe::Present(bias), state)
            }
        }
    }
}

fn record<B: LinearOps + LinearGradientOps, C: CheckpointStrategy, const N: usize>(
    nodes: [NodeGuard; N],
    bias: Maybe<B>,
    state: State<B>,
) -> FloatTensor<Autodiff<B, C>> {
    let (rows, w, grouping, call) = state.clone();
    let y = B::moe_grouped_linear(rows, w, bias, grouping, call);
    match LinearBackward
        .prepare::<C>(nodes)
        .compute_bound()
        .stateful()
    {
        OpsKind::Tracked(step) => step.finish(state, y),
        OpsKind::UnTracked(step) => step.finish(y),
    }
}

//! The experts recorded for XLA.

use super::{
    ExpertGradients, ExpertWeights, ExpertsCall, ExpertsGradients, ExpertsOps, Forward, Needs,
    Trained,
};
use crate::ops::Sorted;
use crate::ops::xla::{Recorded, record};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, TensorMetadata};
use moebius_shaders::moe::Stage;
use moebius_xla::{BackendRouter, RouterChannel};

/// The operands of the forward pass, in the description's order.
fn operands<C: RouterChannel>(
    x: Recorded<C>,
    weights: Recorded<C>,
    sorted: Sorted<BackendRouter<C>>,
    experts: ExpertWeights<BackendRouter<C>>,
) -> Vec<Recorded<C>> {
    let Sorted {
        order,
        offsets,
        positions,
        ..
    } = sorted;
    let (w_in, w_out) = (experts.w_in, experts.w_out);
    let mut operands = vec![x, weights, order, offsets, positions, w_in, w_out];
    operands.extend(experts.b_in.into_option());
    operands.extend(experts.b_out.into_option());
    operands
}

/// Notes when everything is done: both products and the sum are one loop.
fn mark<C: RouterChannel>(call: &ExpertsCall, y: &Recorded<C>) {
    if let Some(clock) = &call.run.clock {
        // A device error shows at the caller's next read; the clock only needs the wait.
        let _ = BackendRouter::<C>::sync(&y.device());
        clock.mark(Stage::Experts);
    }
}

impl<C: RouterChannel> ExpertsOps for BackendRouter<C> {
    fn moe_experts(
        x: FloatTensor<Self>,
        weights: FloatTensor<Self>,
        sorted: Sorted<Self>,
        experts: ExpertWeights<Self>,
        call: ExpertsCall,
    ) -> FloatTensor<Self> {
        let operands = operands::<C>(x, weights, sorted, experts);
        let y = record::<C>(call.forward(false), operands).take();
        mark::<C>(&call, &y);
        y
    }
}

impl<C: RouterChannel> ExpertsGradients for BackendRouter<C> {
    fn moe_experts_keeping(
        x: FloatTensor<Self>,
        weights: FloatTensor<Self>,
        sorted: Sorted<Self>,
        experts: ExpertWeights<Self>,
        call: ExpertsCall,
    ) -> Trained<Self> {
        let operands = operands::<C>(x, weights, sorted, experts);
        let mut results = record::<C>(call.forward(true), operands);
        let y = results.take();
        mark::<C>(&call, &y);
        Trained {
            y,
            pre: results.take(),
        }
    }

    fn moe_experts_backward(
        dy: FloatTensor<Self>,
        forward: Forward<Self>,
        needs: Needs,
        call: ExpertsCall,
    ) -> ExpertGradients<Self> {
        let Forward {
            x,
            weights,
            sorted,
            experts,
            pre,
        } = forward;
        let pre = pre.into_option();
        let backward = call.backward(pre.is_some(), needs);
        let biases = needs.experts && call.problem.bias;
        let mut inputs = vec![dy];
        inputs.extend(operands::<C>(x, weights, sorted, experts));
        inputs.extend(pre);
        let mut results = record::<C>(backward, inputs);
        ExpertGradients {
            x: results.take_if(needs.x).into(),
            weights: results.take(),
            w_in: results.take_if(needs.experts).into(),
            w_out: results.take_if(needs.experts).into(),
            b_in: results.take_if(biases).into(),
            b_out: results.take_if(biases).into(),
        }
    }
}

//! The experts recorded for XLA.

use super::{
    ExpertGradients, ExpertWeights, ExpertsCall, ExpertsGradients, ExpertsOps, Forward, Needs,
    Trained,
};
use crate::ops::Sorted;
use crate::ops::xla::{Recorded, Results};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, TensorMetadata};
use moebius_ops::grouped_gemm::Activation;
use moebius_ops::moe::Problem;
use moebius_shaders::moe::Stage;
use moebius_xla::custom::{Call, experts};
use moebius_xla::{BackendRouter, RouterChannel};

/// The activation as the descriptors have it.
pub(in crate::ops) fn activation(activation: Activation) -> experts::Activation {
    match activation {
        Activation::Relu => experts::Activation::Relu,
        Activation::Gelu => experts::Activation::Gelu,
        Activation::Silu => experts::Activation::Silu,
        Activation::Mish => experts::Activation::Mish,
    }
}

fn descriptor(problem: &Problem) -> experts::Experts {
    experts::Experts {
        tokens: problem.routing.tokens(),
        top_k: problem.routing.top_k(),
        experts: problem.routing.experts(),
        hidden: problem.hidden,
        inter: problem.inter,
        row_bound: problem.row_bound,
        activation: activation(problem.activation),
        gated: problem.gated,
        bias: problem.bias,
    }
}

/// The operands of the forward pass, in the descriptor's order.
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
        let forward = Call::Experts(experts::Forward {
            experts: descriptor(&call.problem),
            keep: false,
        });
        let operands = operands::<C>(x, weights, sorted, experts);
        let y = Results::<C>::of(&forward, operands).take();
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
        let forward = Call::Experts(experts::Forward {
            experts: descriptor(&call.problem),
            keep: true,
        });
        let operands = operands::<C>(x, weights, sorted, experts);
        let mut results = Results::<C>::of(&forward, operands);
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
        let (experts_of, bias) = (descriptor(&call.problem), call.problem.bias);
        let call = Call::ExpertsBackward(experts::Backward {
            experts: experts_of,
            pre: pre.is_some(),
            x: needs.x,
            weights: needs.experts,
        });
        let mut inputs = vec![dy];
        inputs.extend(operands::<C>(x, weights, sorted, experts));
        inputs.extend(pre);
        let mut results = Results::<C>::of(&call, inputs);
        ExpertGradients {
            x: results.take_if(needs.x).into(),
            weights: results.take(),
            w_in: results.take_if(needs.experts).into(),
            w_out: results.take_if(needs.experts).into(),
            b_in: results.take_if(needs.experts && bias).into(),
            b_out: results.take_if(needs.experts && bias).into(),
        }
    }
}

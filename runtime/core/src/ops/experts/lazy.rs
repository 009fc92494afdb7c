//! Shapes of what the experts return.

use super::{
    ExpertGradientsMetadata, ExpertWeightsMetadata, ExpertsCall, ForwardMetadata, Needs,
    TrainedMetadata,
};
use crate::ops::MaybeMetadata;
use crate::ops::results::specs;
use crate::ops::sort::SortedMetadata;
use burn::backend::fusion::custom::TensorSpec;

pub(super) fn output(
    _x: &TensorSpec,
    _weights: &TensorSpec,
    _sorted: &SortedMetadata,
    _experts: &ExpertWeightsMetadata,
    call: &ExpertsCall,
) -> TensorSpec {
    specs(call.forward(false)).take()
}

pub(super) fn trained(
    _x: &TensorSpec,
    _weights: &TensorSpec,
    _sorted: &SortedMetadata,
    _experts: &ExpertWeightsMetadata,
    call: &ExpertsCall,
) -> TrainedMetadata {
    let mut results = specs(call.forward(true));
    TrainedMetadata {
        y: results.take(),
        pre: results.take(),
    }
}

pub(super) fn gradients(
    _dy: &TensorSpec,
    forward: &ForwardMetadata,
    needs: &Needs,
    call: &ExpertsCall,
) -> ExpertGradientsMetadata {
    let pre = matches!(forward.pre, MaybeMetadata::Present(_));
    let mut results = specs(call.backward(pre, *needs));
    let biases = needs.experts && call.problem.bias;
    ExpertGradientsMetadata {
        x: results.take_if(needs.x).into(),
        weights: results.take(),
        w_in: results.take_if(needs.experts).into(),
        w_out: results.take_if(needs.experts).into(),
        b_in: results.take_if(biases).into(),
        b_out: results.take_if(biases).into(),
    }
}

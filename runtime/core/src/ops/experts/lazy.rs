//! Shapes of what the experts return.

use super::{
    ExpertGradientsMetadata, ExpertWeightsMetadata, ExpertsCall, ForwardMetadata, Needs,
    TrainedMetadata,
};
use crate::ops::MaybeMetadata;
use crate::ops::sort::SortedMetadata;
use burn::backend::fusion::custom::TensorSpec;
use burn::tensor::Shape;

pub(super) fn output(
    x: &TensorSpec,
    _weights: &TensorSpec,
    _sorted: &SortedMetadata,
    _experts: &ExpertWeightsMetadata,
    _call: &ExpertsCall,
) -> TensorSpec {
    x.clone()
}

pub(super) fn trained(
    x: &TensorSpec,
    _weights: &TensorSpec,
    _sorted: &SortedMetadata,
    _experts: &ExpertWeightsMetadata,
    call: &ExpertsCall,
) -> TrainedMetadata {
    let p = &call.problem;
    TrainedMetadata {
        y: x.clone(),
        pre: TensorSpec::new(Shape::from([p.row_bound, p.columns_in()]), x.dtype),
    }
}

pub(super) fn gradients(
    _dy: &TensorSpec,
    forward: &ForwardMetadata,
    needs: &Needs,
    _call: &ExpertsCall,
) -> ExpertGradientsMetadata {
    let of = |needed: bool, spec: &TensorSpec| match needed {
        true => MaybeMetadata::Present(spec.clone()),
        false => MaybeMetadata::Absent,
    };
    let bias = |bias: &MaybeMetadata| match (needs.experts, bias) {
        (true, MaybeMetadata::Present(spec)) => MaybeMetadata::Present(spec.clone()),
        _ => MaybeMetadata::Absent,
    };
    let experts = &forward.experts;
    ExpertGradientsMetadata {
        x: of(needs.x, &forward.x),
        weights: forward.weights.clone(),
        w_in: of(needs.experts, &experts.w_in),
        w_out: of(needs.experts, &experts.w_out),
        b_in: bias(&experts.b_in),
        b_out: bias(&experts.b_out),
    }
}

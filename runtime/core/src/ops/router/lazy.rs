//! Shapes of what the router returns.

use super::{
    ChoicesMetadata, HashCall, HashedMetadata, LoadCall, LogitsCall, LogitsGradientsMetadata,
    RouteCall, RoutedMetadata,
};
use crate::ops::MaskMetadata;
use burn::backend::fusion::custom::TensorSpec;
use burn::tensor::{DType, Shape};
use moebius_ops::routing::TopkGradient;

fn spec<const D: usize>(shape: [usize; D], dtype: DType) -> TensorSpec {
    TensorSpec::new(Shape::from(shape), dtype)
}

pub(super) fn logits(_x: &TensorSpec, _w: &TensorSpec, call: &LogitsCall) -> TensorSpec {
    spec([call.problem.tokens(), call.problem.experts()], DType::F32)
}

pub(super) fn routed(
    _logits: &TensorSpec,
    _choices: &ChoicesMetadata,
    call: &RouteCall,
) -> RoutedMetadata {
    let p = &call.problem;
    RoutedMetadata {
        indices: spec([p.tokens(), p.top_k()], DType::I32),
        weights: spec([p.tokens(), p.top_k()], DType::F32),
        probs: spec([p.tokens(), p.experts()], DType::F32),
        lse: spec([p.tokens()], DType::F32),
    }
}

pub(super) fn hashed(_x: &TensorSpec, _mask: &MaskMetadata, call: &HashCall) -> HashedMetadata {
    let p = &call.routing;
    HashedMetadata {
        indices: spec([p.tokens(), p.top_k()], DType::I32),
        weights: spec([p.tokens(), p.top_k()], DType::F32),
    }
}

pub(super) fn load(_indices: &TensorSpec, call: &LoadCall) -> TensorSpec {
    spec([call.groups, call.routing.experts()], DType::I32)
}

pub(super) fn logits_gradients(
    x: &TensorSpec,
    w: &TensorSpec,
    _dlogits: &TensorSpec,
    _call: &LogitsCall,
) -> LogitsGradientsMetadata {
    LogitsGradientsMetadata {
        dx: x.clone(),
        dw: w.clone(),
    }
}

pub(super) fn route_gradient(
    _gradient: &TensorSpec,
    logits: &TensorSpec,
    _mask: &MaskMetadata,
    _routed: &RoutedMetadata,
    _output: &TopkGradient,
    _call: &RouteCall,
) -> TensorSpec {
    logits.clone()
}

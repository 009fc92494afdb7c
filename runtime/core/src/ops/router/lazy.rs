//! Shapes of what the router returns.

use super::{
    ChoicesMetadata, HashCall, HashedMetadata, LoadCall, LogitsCall, LogitsGradientsMetadata,
    RouteCall, RoutedMetadata,
};
use crate::ops::results::specs;
use crate::ops::{MaskMetadata, MaybeMetadata};
use burn::backend::fusion::custom::TensorSpec;
use moebius_ops::Routing;
use moebius_ops::routing::TopkGradient;

pub(super) fn logits(_x: &TensorSpec, _w: &TensorSpec, call: &LogitsCall) -> TensorSpec {
    specs(call.operation(false)).take()
}

pub(super) fn routed(
    _logits: &TensorSpec,
    choices: &ChoicesMetadata,
    call: &RouteCall,
) -> RoutedMetadata {
    let mut results = specs(Routing::Route {
        problem: call.problem,
        mask: matches!(choices.mask, MaskMetadata::Only(_)),
        bias: matches!(choices.bias, MaybeMetadata::Present(_)),
    });
    RoutedMetadata {
        indices: results.take(),
        weights: results.take(),
        probs: results.take(),
        lse: results.take(),
    }
}

pub(super) fn hashed(_x: &TensorSpec, mask: &MaskMetadata, call: &HashCall) -> HashedMetadata {
    let mut results = specs(call.operation(matches!(mask, MaskMetadata::Only(_))));
    HashedMetadata {
        indices: results.take(),
        weights: results.take(),
    }
}

pub(super) fn load(_indices: &TensorSpec, call: &LoadCall) -> TensorSpec {
    specs(Routing::Load(call.problem)).take()
}

pub(super) fn logits_gradients(
    _x: &TensorSpec,
    _w: &TensorSpec,
    _dlogits: &TensorSpec,
    call: &LogitsCall,
) -> LogitsGradientsMetadata {
    let mut results = specs(call.operation(true));
    LogitsGradientsMetadata {
        dx: results.take(),
        dw: results.take(),
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

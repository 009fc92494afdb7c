//! Shapes and types of results, for Burn's fusion to hand out before anything has run.

use super::{
    CombinedMetadata, ExpertsCall, ExpertsMetadata, Fp8Cast, LogitsCall, MaskMetadata, RouteCall,
    RoutedMetadata,
};
use burn::backend::fusion::custom::TensorSpec;
use burn::tensor::{DType, Shape};
use moebius_shaders::fp8::{LANES_PER_WORD, Overflow};

fn spec<const D: usize>(shape: [usize; D], dtype: DType) -> TensorSpec {
    TensorSpec::new(Shape::from(shape), dtype)
}

pub(super) fn encoded(_x: &TensorSpec, call: &Fp8Cast, _overflow: &Overflow) -> TensorSpec {
    spec([call.len.div_ceil(LANES_PER_WORD)], DType::I32)
}

pub(super) fn decoded(_words: &TensorSpec, call: &Fp8Cast) -> TensorSpec {
    spec([call.len], DType::F32)
}

pub(super) fn logits(_x: &TensorSpec, _w: &TensorSpec, call: &LogitsCall) -> TensorSpec {
    spec([call.problem.tokens(), call.problem.experts()], DType::F32)
}

pub(super) fn routed(
    _logits: &TensorSpec,
    _mask: &MaskMetadata,
    call: &RouteCall,
) -> RoutedMetadata {
    let (t, k, e) = (
        call.problem.tokens(),
        call.problem.top_k(),
        call.problem.experts(),
    );
    RoutedMetadata {
        indices: spec([t, k], DType::I32),
        weights: spec([t, k], DType::F32),
        probs: spec([t, e], DType::F32),
    }
}

pub(super) fn combined(
    x: &TensorSpec,
    _indices: &TensorSpec,
    _weights: &TensorSpec,
    _experts: &ExpertsMetadata,
    call: &ExpertsCall,
) -> CombinedMetadata {
    CombinedMetadata {
        y: spec(
            [call.problem.routing.tokens(), call.problem.hidden],
            x.dtype,
        ),
        dropped: spec([1], DType::I32),
    }
}

//! Shapes of products with FP8 weights.

use super::{CodedWeightsMetadata, Fp8LinearCall};
use crate::ops::sort::SortedMetadata;
use burn::backend::fusion::custom::TensorSpec;
use burn::tensor::Shape;

pub(super) fn output(
    x: &TensorSpec,
    _weights: &CodedWeightsMetadata,
    call: &Fp8LinearCall,
) -> TensorSpec {
    let p = &call.problem;
    TensorSpec::new(Shape::from([p.row_bound, p.n]), x.dtype)
}

pub(super) fn grouped_output(
    x: &TensorSpec,
    weights: &CodedWeightsMetadata,
    _sorted: &SortedMetadata,
    call: &Fp8LinearCall,
) -> TensorSpec {
    output(x, weights, call)
}

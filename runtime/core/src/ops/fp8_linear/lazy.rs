//! Shapes of products with FP8 weights.

use super::{CodedWeightsMetadata, Fp8LinearCall};
use crate::ops::sort::GroupingMetadata;
use burn::backend::fusion::custom::TensorSpec;
use burn::tensor::Shape;

pub(super) fn output(
    x: &TensorSpec,
    _weights: &CodedWeightsMetadata,
    _grouping: &GroupingMetadata,
    call: &Fp8LinearCall,
) -> TensorSpec {
    let p = &call.problem;
    TensorSpec::new(Shape::from([p.row_bound, p.n]), x.dtype)
}

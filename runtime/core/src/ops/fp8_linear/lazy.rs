//! Shapes of products with FP8 weights.

use super::{CodedWeightsMetadata, Fp8LinearCall};
use crate::ops::results::specs;
use crate::ops::sort::GroupingMetadata;
use burn::backend::fusion::custom::TensorSpec;
use moebius_ops::Product;

pub(super) fn output(
    _x: &TensorSpec,
    _weights: &CodedWeightsMetadata,
    _grouping: &GroupingMetadata,
    call: &Fp8LinearCall,
) -> TensorSpec {
    specs(Product::Fp8Linear(call.problem)).take()
}

//! Shapes of products of FP8 codes.

use super::Fp8MmaCall;
use crate::ops::ScalesMetadata;
use crate::ops::fp8_linear::CodedWeightsMetadata;
use burn::backend::fusion::custom::TensorSpec;
use burn::tensor::{DType, Shape};

pub(super) fn output(
    _words: &TensorSpec,
    _scales: &ScalesMetadata,
    _weights: &CodedWeightsMetadata,
    call: &Fp8MmaCall,
) -> TensorSpec {
    let p = &call.plan.problem.product;
    TensorSpec::new(Shape::from([p.row_bound, p.n]), DType::F32)
}

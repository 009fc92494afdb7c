//! Shapes of an attention.

use super::{AttendedMetadata, AttentionCall, ProjectionsMetadata};
use crate::ops::sort::GroupingMetadata;
use burn::backend::fusion::custom::TensorSpec;
use burn::tensor::{DType, Shape};

pub(super) fn attended(
    projections: &ProjectionsMetadata,
    _grouping: &GroupingMetadata,
    call: &AttentionCall,
) -> AttendedMetadata {
    AttendedMetadata {
        o: projections.q.clone(),
        lse: TensorSpec::new(Shape::from([call.segments.rows(), call.heads]), DType::F32),
    }
}

pub(super) fn gradients(
    _gradient: &TensorSpec,
    projections: &ProjectionsMetadata,
    _attended: &AttendedMetadata,
    _grouping: &GroupingMetadata,
    _call: &AttentionCall,
) -> ProjectionsMetadata {
    projections.clone()
}

//! Shapes of an attention.

use super::{AttendedMetadata, AttentionCall, ProjectionsMetadata};
use crate::ops::results::specs;
use crate::ops::sort::GroupingMetadata;
use burn::backend::fusion::custom::TensorSpec;

pub(super) fn attended(
    _projections: &ProjectionsMetadata,
    grouping: &GroupingMetadata,
    call: &AttentionCall,
) -> AttendedMetadata {
    let dense = matches!(grouping, GroupingMetadata::Dense);
    let mut results = specs(call.operation(dense, false));
    AttendedMetadata {
        o: results.take(),
        lse: results.take(),
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

//! Shapes of moved rows.

use super::{CombineGradientsMetadata, NeighboursCall, RowsCall};
use crate::ops::MaybeMetadata;
use crate::ops::results::specs;
use crate::ops::sort::SortedMetadata;
use burn::backend::fusion::custom::TensorSpec;
use moebius_ops::Rows;

pub(super) fn gathered(_x: &TensorSpec, _sorted: &SortedMetadata, call: &RowsCall) -> TensorSpec {
    specs(Rows::Gather(call.problem)).take()
}

pub(super) fn combined(
    _rows: &TensorSpec,
    weights: &MaybeMetadata,
    _sorted: &SortedMetadata,
    call: &RowsCall,
) -> TensorSpec {
    let (problem, weighted) = (call.problem, matches!(weights, MaybeMetadata::Present(_)));
    specs(Rows::Combine { problem, weighted }).take()
}

pub(super) fn combine_gradients(
    _dy: &TensorSpec,
    _rows: &TensorSpec,
    _weights: &TensorSpec,
    _sorted: &SortedMetadata,
    call: &RowsCall,
) -> CombineGradientsMetadata {
    let mut results = specs(Rows::CombineBackward(call.problem));
    CombineGradientsMetadata {
        rows: results.take(),
        weights: results.take(),
    }
}

pub(super) fn neighbours(
    _rows: &TensorSpec,
    _sorted: &SortedMetadata,
    call: &NeighboursCall,
) -> TensorSpec {
    specs(call.operation(false)).take()
}

pub(super) fn neighbours_gradient(
    _dy: &TensorSpec,
    _sorted: &SortedMetadata,
    call: &NeighboursCall,
) -> TensorSpec {
    specs(call.operation(true)).take()
}

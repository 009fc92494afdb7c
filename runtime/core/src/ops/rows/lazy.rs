//! Shapes of moved rows.

use super::{CombineGradientsMetadata, NeighboursCall, RowsCall};
use crate::ops::MaybeMetadata;
use crate::ops::sort::SortedMetadata;
use burn::backend::fusion::custom::TensorSpec;
use burn::tensor::Shape;

fn rows(like: &TensorSpec, rows: usize, width: usize) -> TensorSpec {
    TensorSpec::new(Shape::from([rows, width]), like.dtype)
}

pub(super) fn gathered(x: &TensorSpec, _sorted: &SortedMetadata, call: &RowsCall) -> TensorSpec {
    rows(x, call.problem.row_bound(), call.problem.width())
}

pub(super) fn combined(
    input: &TensorSpec,
    _weights: &MaybeMetadata,
    _sorted: &SortedMetadata,
    call: &RowsCall,
) -> TensorSpec {
    rows(input, call.problem.tokens(), call.problem.width())
}

pub(super) fn combine_gradients(
    _dy: &TensorSpec,
    rows: &TensorSpec,
    weights: &TensorSpec,
    _sorted: &SortedMetadata,
    _call: &RowsCall,
) -> CombineGradientsMetadata {
    CombineGradientsMetadata {
        rows: rows.clone(),
        weights: weights.clone(),
    }
}

pub(super) fn neighbours(
    input: &TensorSpec,
    _sorted: &SortedMetadata,
    call: &NeighboursCall,
) -> TensorSpec {
    rows(input, call.problem.row_bound(), 3 * call.problem.width())
}

pub(super) fn neighbours_gradient(
    dy: &TensorSpec,
    _sorted: &SortedMetadata,
    call: &NeighboursCall,
) -> TensorSpec {
    rows(dy, call.problem.row_bound(), call.problem.width())
}

//! Shapes of products.

use super::{LinearCall, LinearGradientsMetadata, Needs};
use crate::ops::MaybeMetadata;
use crate::ops::sort::GroupingMetadata;
use burn::backend::fusion::custom::TensorSpec;
use burn::tensor::Shape;

pub(super) fn output(
    rows: &TensorSpec,
    _w: &TensorSpec,
    _bias: &MaybeMetadata,
    _grouping: &GroupingMetadata,
    call: &LinearCall,
) -> TensorSpec {
    let p = &call.problem;
    TensorSpec::new(Shape::from([p.row_bound, p.n]), rows.dtype)
}

pub(super) fn gradients(
    _dy: &TensorSpec,
    rows: &TensorSpec,
    w: &TensorSpec,
    _grouping: &GroupingMetadata,
    needs: &Needs,
    call: &LinearCall,
) -> LinearGradientsMetadata {
    let of = |needed: bool, spec: TensorSpec| match needed {
        true => MaybeMetadata::Present(spec),
        false => MaybeMetadata::Absent,
    };
    let p = &call.problem;
    let bias = TensorSpec::new(Shape::from([p.experts, p.n]), w.dtype);
    LinearGradientsMetadata {
        rows: of(needs.rows, rows.clone()),
        w: of(needs.w, w.clone()),
        bias: of(needs.bias, bias),
    }
}

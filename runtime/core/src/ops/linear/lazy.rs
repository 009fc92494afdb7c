//! Shapes of products.

use super::{LinearCall, LinearGradientsMetadata, Needs};
use crate::ops::MaybeMetadata;
use crate::ops::results::specs;
use crate::ops::sort::GroupingMetadata;
use burn::backend::fusion::custom::TensorSpec;
use moebius_ops::Product;

pub(super) fn output(
    _rows: &TensorSpec,
    _w: &TensorSpec,
    _bias: &MaybeMetadata,
    _grouping: &GroupingMetadata,
    call: &LinearCall,
) -> TensorSpec {
    specs(Product::Linear(call.problem)).take()
}

pub(super) fn gradients(
    _dy: &TensorSpec,
    _rows: &TensorSpec,
    _w: &TensorSpec,
    _grouping: &GroupingMetadata,
    needs: &Needs,
    call: &LinearCall,
) -> LinearGradientsMetadata {
    let mut results = specs(call.backward(*needs));
    LinearGradientsMetadata {
        rows: results.take_if(needs.rows).into(),
        w: results.take_if(needs.w).into(),
        bias: results.take_if(needs.bias).into(),
    }
}

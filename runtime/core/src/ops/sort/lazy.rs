//! Shapes of a sort.

use super::{LimitsMetadata, SortCall, SortedMetadata};
use crate::ops::MaskMetadata;
use crate::ops::results::specs;
use burn::backend::fusion::custom::TensorSpec;
use burn::tensor::{DType, Shape};
use moebius_ops::Routing;
use moebius_shaders::permute::TILE_WORDS;

pub(super) fn sorted(
    _weights: &TensorSpec,
    _indices: &TensorSpec,
    limits: &LimitsMetadata,
    call: &SortCall,
) -> SortedMetadata {
    let mut results = specs(Routing::Sort {
        problem: call.problem,
        mask: matches!(limits.mask, MaskMetadata::Only(_)),
    });
    let tiles = call.plan.as_ref().map_or(0, |plan| plan.max_tiles());
    SortedMetadata {
        order: results.take(),
        offsets: results.take(),
        tiles: TensorSpec::new(Shape::from([TILE_WORDS * tiles]), DType::I32),
        positions: results.take(),
        dropped: results.take(),
    }
}

//! Shapes of a sort.

use super::{LimitsMetadata, SortCall, SortedMetadata};
use burn::backend::fusion::custom::TensorSpec;
use burn::tensor::{DType, Shape};
use moebius_shaders::permute::TILE_WORDS;

pub(super) fn sorted(
    _weights: &TensorSpec,
    _indices: &TensorSpec,
    _limits: &LimitsMetadata,
    call: &SortCall,
) -> SortedMetadata {
    let sort = &call.problem;
    let words = |len: usize| TensorSpec::new(Shape::from([len]), DType::I32);
    SortedMetadata {
        order: words(sort.slots()),
        offsets: words(sort.experts() + 1),
        tiles: words(
            call.plan
                .as_ref()
                .map_or(0, |plan| TILE_WORDS * plan.max_tiles()),
        ),
        positions: words(sort.slots()),
        dropped: words(1),
    }
}

//! The sort as kernels.

use super::{Grouping, Limits, SortCall, SortOps, Sorted};
use crate::ops::Mask;
use crate::ops::buffers::{empty_like, handle, planned};
use burn::tensor::DType;
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;
use moebius_shaders::checked;
use moebius_shaders::grouped_gemm::Segments;
use moebius_shaders::moe::sorting;
use moebius_shaders::permute::TILE_WORDS;

impl Sorted<CubeBackend> {
    /// The buffers of the integers.
    pub(crate) fn buffers(self) -> sorting::Sorted {
        sorting::Sorted {
            order: handle(self.order),
            offsets: handle(self.offsets),
            tiles: handle(self.tiles),
            positions: handle(self.positions),
            dropped: handle(self.dropped),
        }
    }
}

impl Grouping<CubeBackend> {
    /// The buffers that products read.
    pub(crate) fn segments(self) -> Option<Segments> {
        match self {
            Self::Dense => None,
            Self::Sorted(sorted) => Some(sorted.buffers().segments()),
        }
    }
}

impl SortOps for CubeBackend {
    fn moe_sort(
        weights: CubeTensor,
        indices: CubeTensor,
        limits: Limits<Self>,
        call: SortCall,
    ) -> Sorted<Self> {
        let plan = planned(call.plan);
        let words = |len: usize| empty_like(&weights, [len], DType::I32);
        let sorted: Sorted<Self> = Sorted {
            order: words(call.problem.slots()),
            offsets: words(call.problem.experts() + 1),
            tiles: words(TILE_WORDS * plan.max_tiles()),
            positions: words(call.problem.slots()),
            dropped: words(1),
        };
        let client = weights.client.clone();
        let buffers = sorting::Buffers {
            indices: handle(indices),
            weights: handle(weights),
            mask: match limits.mask {
                Mask::All => None,
                Mask::Only(mask) => Some(handle(mask)),
            },
            factors: limits.factors.into_option().map(handle),
            sorted: sorted.clone().buffers(),
        };
        let Sorted {
            order,
            offsets,
            tiles,
            positions,
            dropped,
        } = &sorted;
        let outputs = [order, offsets, tiles, positions, dropped].map(|tensor| &tensor.handle);
        checked(&client, &outputs, || {
            sorting::launch(&client, &plan, buffers);
        });
        sorted
    }
}

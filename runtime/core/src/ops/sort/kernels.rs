//! Kernels of a sort.

use crate::ops::call::{Buffers, Kernels};
use moebius_device::Capability;
use moebius_ops::moe::sorting::Problem;
use moebius_shaders::PlanError;
use moebius_shaders::grouped_gemm::Segments;
use moebius_shaders::moe::sorting::{self, Sorted};
use moebius_shaders::permute::TILE_WORDS;

pub(super) fn sort(
    problem: Problem,
    tile_rows: usize,
    device: &Capability,
) -> Result<Kernels, PlanError> {
    let plan = sorting::plan(problem, tile_rows, device)?;
    let tiles = Some(TILE_WORDS * plan.max_tiles());
    let kernels = Kernels::new(move |client, b| {
        let buffers = sorting::Buffers {
            indices: b.get("indices"),
            weights: b.get("weights"),
            mask: b.maybe("mask"),
            factors: b.maybe("factors"),
            sorted: Sorted {
                order: b.get("order"),
                offsets: b.get("offsets"),
                tiles: b.get("tiles"),
                positions: b.get("positions"),
                dropped: b.get("dropped"),
            },
        };
        sorting::launch(client, &plan, buffers);
    });
    Ok(Kernels { tiles, ..kernels })
}

/// The segments of sorted rows; none in a dense product.
pub(in crate::ops) fn segments(b: &Buffers) -> Option<Segments> {
    Some(Segments {
        offsets: b.maybe("offsets")?,
        order: b.get("order"),
        tiles: b.get("tiles"),
    })
}

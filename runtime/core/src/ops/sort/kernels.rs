//! Kernels of a sort.

use crate::ops::call::Kernels;
use moebius_device::Capability;
use moebius_ops::moe::sorting::Problem;
use moebius_shaders::PlanError;
use moebius_shaders::moe::sorting;
use moebius_shaders::permute::TILE_WORDS;

pub(super) fn sort(
    problem: Problem,
    tile_rows: usize,
    device: &Capability,
) -> Result<Kernels, PlanError> {
    let plan = sorting::plan(problem, tile_rows, device)?;
    let tiles = Some(TILE_WORDS * plan.max_tiles());
    let kernels = Kernels::of(plan, sorting::launch);
    Ok(Kernels { tiles, ..kernels })
}

//! How CubeCL computes [`moebius_ops::permute`].
//!
//! Multi-pass, because WebGPU has no memory ordering between cubes within a launch. Slots are cut
//! into blocks and no two units count in one place, so no atomics are needed and equal keys keep
//! their order. Reads: on a GPU 2·S·(E+1) keys, from cache; on a CPU 2·S keys and as many counts.
//! The scan reads and writes (E+1)·S/256 counts.

pub mod capacity;
pub mod combine;
pub mod dispatch;
#[cfg(feature = "emit")]
mod entries;
mod rows;
mod sort;
pub mod sorting;
pub mod weights_gradient;

pub use capacity::{CapacitiesPlan, CapacityPlan};
#[cfg(feature = "emit")]
pub use entries::entries;
pub use rows::{RowsPlan, plan_rows};

use crate::prelude::*;
use cubecl::prelude::*;
use moebius_ops::permute::{NOWHERE, Problem};
use sort::{sort_histogram, sort_histogram_serial, sort_scan, sort_scatter, sort_scatter_serial};

/// Words of a tile: its expert, its first row, one past its last.
pub const TILE_WORDS: usize = 3;

/// Slots one unit of a GPU walks in the histogram and the scatter.
const BLOCK: usize = 256;

/// Units of the single cube that scans the counts.
const SCAN_UNITS: usize = 256;

/// Length of the buffer of counts.
pub fn counts(problem: &Problem) -> usize {
    (problem.experts() + 1) * blocks(problem)
}

fn blocks(problem: &Problem) -> usize {
    problem.slots().div_ceil(BLOCK).max(1)
}

/// How the slots are walked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Walk {
    /// One unit for an expert and a block; GPUs.
    PerExpert {
        /// Keys of a vector load.
        lanes: usize,
    },
    /// One unit for a block; CPUs.
    Serial,
}

/// A [`Problem`] this device can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What is sorted.
    pub problem: Problem,
    walk: Walk,
    grid: Grid,
    blocks: usize,
    scan_units: usize,
}

/// Plans a sort.
///
/// # Errors
/// [`Unsupported`] when the slots exceed one binding or the blocks one grid.
pub fn plan(problem: Problem, device: &Capability) -> Result<Plan, Unsupported> {
    let words = problem.slots().max(counts(&problem));
    let words = words.max(TILE_WORDS * problem.max_tiles());
    crate::fits_binding("sort", words * 4, device)?;
    let most_units = device.limits.max_units_per_cube.max(1);
    let (mut blocks, lanes) = (blocks(&problem), lanes(problem.slots(), 4, device));
    let (walk, grid, scan_units) = match device.cpu_cores {
        None => {
            let grid = Grid::elementwise("sort", counts(&problem), device)?;
            let scan_units = SCAN_UNITS.min(most_units as usize);
            (Walk::PerExpert { lanes }, grid, scan_units)
        }
        Some(cores) => {
            blocks = blocks.min(cores.clamp(1, most_units) as usize);
            let grid = Grid::of_cubes("sort", 1, [blocks as u32, 1], device)?;
            // One unit: a CPU would spin at the barrier for a scan of a few hundred counts.
            (Walk::Serial, grid, 1)
        }
    };
    Ok(Plan {
        problem,
        walk,
        grid,
        blocks,
        scan_units,
    })
}

impl Plan {
    fn sizes(&self) -> sort::SizesLaunch {
        let (slots, experts) = (self.problem.slots(), self.problem.experts());
        let block = match self.walk {
            Walk::PerExpert { .. } => BLOCK,
            Walk::Serial => slots.div_ceil(self.blocks),
        };
        sort::SizesLaunch::new(slots, experts + 1, self.blocks, block)
    }

    /// Where the scan finds the counts.
    fn strides(&self) -> sort::StridesLaunch {
        match self.walk {
            Walk::PerExpert { .. } => sort::StridesLaunch::new(self.blocks, 1),
            Walk::Serial => sort::StridesLaunch::new(1, self.problem.experts() + 1),
        }
    }
}

buffers! {
    /// Buffers of a sort, all u32; lengths from [`Problem`].
    pub struct SortBuffers {
        pub keys: Handle => "[S]" read,
        pub counts: Handle => "[counts(problem)]" scratch,
        pub offsets: Handle => "[E+1]" written,
        pub dropped: Handle => "[1]" written,
        pub order: Handle => "[S]" written,
        pub positions: Handle => "[S]" written,
        pub tiles: Handle => "[3·max_tiles]" written,
    }
}

impl SortBuffers {
    /// Buffers for the results of a sort of `keys`; contents undefined.
    pub fn new(client: &Client, problem: &Problem, keys: Handle) -> Self {
        let words = |len| empty_words(client, len);
        Self {
            keys,
            counts: words(counts(problem)),
            offsets: words(problem.experts() + 1),
            dropped: words(1),
            order: words(problem.slots()),
            positions: words(problem.slots()),
            tiles: words(TILE_WORDS * problem.max_tiles()),
        }
    }
}

/// Enqueues a sort: three launches, or none for no slots.
pub fn launch(client: &Client, plan: &Plan, buffers: &SortBuffers) {
    if plan.problem.slots() == 0 {
        return;
    }
    launch_counts(client, plan, buffers.clone());
    launch_scatter(client, plan, buffers.clone());
}

/// The histogram, and its scan.
fn launch_counts(client: &Client, plan: &Plan, buffers: SortBuffers) {
    let (count, dim, sizes) = (plan.grid.count(), plan.grid.dim(), plan.sizes());
    let (keys, counts) = (bind(buffers.keys), bind(buffers.counts.clone()));
    launched::note(|| "sort_histogram");
    // SAFETY: the buffers are as long as they are described; blocks end at the last slot, and `counts` is enough for the blocks of
    // any plan.
    unsafe {
        match plan.walk {
            Walk::PerExpert { lanes } => {
                sort_histogram::launch_unchecked(client, count, dim, lanes, keys, counts, sizes);
            }
            Walk::Serial => {
                sort_histogram_serial::launch_unchecked(client, count, dim, keys, counts, sizes);
            }
        }
    }
    launched::note(|| "sort_scan");
    // SAFETY: the buffers are as long as they are described; chunks end at the last count.
    unsafe {
        sort_scan::launch_unchecked(
            client,
            CubeCount::Static(1, 1, 1),
            CubeDim::new_1d(plan.scan_units as u32),
            bind(buffers.counts),
            bind(buffers.offsets),
            bind(buffers.dropped),
            plan.sizes(),
            plan.strides(),
            plan.scan_units,
        );
    }
}

fn launch_scatter(client: &Client, plan: &Plan, buffers: SortBuffers) {
    let (count, dim, sizes) = (plan.grid.count(), plan.grid.dim(), plan.sizes());
    let tile_rows = plan.problem.tile_rows() as u32;
    let [keys, starts, offsets] = [buffers.keys, buffers.counts, buffers.offsets].map(bind);
    let [order, positions, tiles] = [buffers.order, buffers.positions, buffers.tiles].map(bind);
    launched::note(|| "sort_scatter");
    // SAFETY: starts come from the scan of the same keys, so positions are a permutation of the
    // slots, and no tile is written past the end of the list.
    unsafe {
        match plan.walk {
            Walk::PerExpert { lanes } => {
                sort_scatter::launch_unchecked(
                    client, count, dim, lanes, keys, starts, offsets, order, positions, tiles,
                    sizes, tile_rows,
                );
            }
            Walk::Serial => {
                sort_scatter_serial::launch_unchecked(
                    client, count, dim, keys, starts, offsets, order, positions, tiles, sizes,
                    tile_rows,
                );
            }
        }
    }
}

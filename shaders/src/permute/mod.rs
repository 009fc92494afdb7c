//! Moving slots between the order of tokens and the order of experts.
//!
//! A slot is a (token, choice) pair, s = t·K + k. The sort here is a counting sort on the device,
//! histogram → scan → stable scatter. Keys u32 \[S\] hold the expert of every slot, or E for a slot
//! that goes nowhere. Results, all u32:
//! - `order` \[S\]: slots sorted by key, equal keys in slot order; entries past `offsets[E]` go nowhere.
//! - `offsets` \[E+1\]: expert e owns `order[offsets[e]..offsets[e+1]]`.
//! - `positions` \[S\]: where in `order` a slot is, [`NOWHERE`] for a slot without an expert.
//! - `dropped` \[1\]: slots that go nowhere.
//! - `tiles` \[3·max_tiles\]: (expert, first row, one past the last) of every tile of at most `tile_rows`
//!   rows; (E, 0, 0) for no tile.
//!
//! Row r of a *sorted* buffer belongs to the slot `order[r]`. Such buffers have R =
//! [`Problem::row_bound`] rows, the most that a routing can produce. A caller that sorts more breaks
//! the contract: `tiles` lacks the last ones, and kernels on sorted rows would leave their buffers.
//!
//! Multi-pass, because WebGPU has no memory ordering between cubes within a launch. Slots are cut
//! into blocks and no two units count in one place, so no atomics are needed and equal keys keep
//! their order. Reads: on a GPU 2·S·(E+1) keys, from cache; on a CPU 2·S keys and as many counts.
//! The scan reads and writes (E+1)·S/256 counts.

pub mod capacity;
pub mod combine;
pub mod dispatch;
pub mod neighbours;
mod rows;
mod sort;
pub mod weights_gradient;

pub use capacity::{CapacitiesPlan, Capacity, CapacityPlan};
pub use rows::{RowsPlan, RowsProblem, plan_rows};

use crate::error::{ShapeError, Unsupported};
use crate::grid::{Grid, lanes};
use crate::launched;
use cubecl::prelude::*;
use cubecl::server::Handle;
use moebius_device::Capability;

/// The position of a slot that no expert has.
pub const NOWHERE: u32 = u32::MAX;

/// Words of a tile: its expert, its first row, one past its last.
pub const TILE_WORDS: usize = 3;

/// Slots one unit of a GPU walks in the histogram and the scatter.
const BLOCK: usize = 256;
/// Units of the single cube that scans the counts.
const SCAN_UNITS: usize = 256;

/// A sort of `slots` slots into `experts` segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Problem {
    slots: usize,
    experts: usize,
    tile_rows: usize,
    row_bound: usize,
}

impl Problem {
    /// Sorts `slots` slots by expert and cuts the segments into tiles of `tile_rows` rows.
    ///
    /// # Errors
    /// [`ShapeError`] for no experts, no tile rows, or more slots than 31 bits count.
    pub fn new(slots: usize, experts: usize, tile_rows: usize) -> Result<Self, ShapeError> {
        if experts == 0 {
            return Err(ShapeError::new("experts", "at least 1", experts));
        }
        if tile_rows == 0 {
            return Err(ShapeError::new("tile rows", "at least 1", tile_rows));
        }
        let largest = experts
            .checked_add(1)
            .and_then(|bins| slots.checked_mul(bins));
        if largest.is_none_or(|n| n > i32::MAX as usize) {
            return Err(ShapeError::new(
                "slots",
                "fewer than 2^31 / (experts + 1)",
                slots,
            ));
        }
        Ok(Self {
            slots,
            experts,
            tile_rows,
            row_bound: slots,
        })
    }

    /// The same for a routing in which at most `rows` slots have an expert.
    ///
    /// # Errors
    /// [`ShapeError`] for more rows than slots, or none.
    pub fn with_row_bound(self, rows: usize) -> Result<Self, ShapeError> {
        check_row_bound(rows, self.slots)?;
        Ok(Self {
            row_bound: rows,
            ..self
        })
    }

    /// The most tiles such a routing can need: every expert's last tile may be partial.
    pub fn max_tiles(&self) -> usize {
        let partial = self.experts * (self.tile_rows - 1);
        ((self.row_bound + partial) / self.tile_rows).min(self.row_bound)
    }

    /// Slots S.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// Experts E.
    pub fn experts(&self) -> usize {
        self.experts
    }

    /// The most rows of a sorted buffer R.
    pub fn row_bound(&self) -> usize {
        self.row_bound
    }

    /// Length of the buffer of counts.
    pub fn counts(&self) -> usize {
        (self.experts + 1) * self.blocks()
    }

    fn blocks(&self) -> usize {
        self.slots.div_ceil(BLOCK).max(1)
    }
}

/// Checks that some of `slots` slots can have `rows` rows.
pub(crate) fn check_row_bound(rows: usize, slots: usize) -> Result<(), ShapeError> {
    if (1.min(slots)..=slots).contains(&rows) {
        return Ok(());
    }
    let expected = format!("1 to {slots} (the slots)");
    Err(ShapeError::new("row bound", expected, rows))
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
    let words = problem.slots.max(problem.counts());
    crate::fits_binding(
        "sort",
        words.max(TILE_WORDS * problem.max_tiles()) * 4,
        device,
    )?;
    let most_units = device.limits.max_units_per_cube.max(1);
    let Some(cores) = device.cpu_cores else {
        return Ok(Plan {
            problem,
            walk: Walk::PerExpert {
                lanes: lanes(problem.slots, 4, device),
            },
            grid: Grid::elementwise("sort", problem.counts(), device)?,
            blocks: problem.blocks(),
            scan_units: SCAN_UNITS.min(most_units as usize),
        });
    };
    let blocks = (cores.clamp(1, most_units) as usize).min(problem.blocks());
    Ok(Plan {
        problem,
        walk: Walk::Serial,
        grid: Grid::of_cubes("sort", 1, [blocks as u32, 1], device)?,
        blocks,
        // One unit: a CPU would spin at the barrier for a scan of a few hundred counts.
        scan_units: 1,
    })
}

impl Plan {
    fn sizes(&self) -> sort::SizesLaunch {
        let Problem { slots, experts, .. } = self.problem;
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
            Walk::Serial => sort::StridesLaunch::new(1, self.problem.experts + 1),
        }
    }
}

/// Buffers of a sort, all u32; lengths from [`Problem`].
#[derive(Clone)]
pub struct SortBuffers {
    /// \[S\], read.
    pub keys: Handle,
    /// \[[`Problem::counts`]\], scratch.
    pub counts: Handle,
    /// \[E+1\], written.
    pub offsets: Handle,
    /// \[1\], written.
    pub dropped: Handle,
    /// \[S\], written.
    pub order: Handle,
    /// \[S\], written.
    pub positions: Handle,
    /// \[3·[`Problem::max_tiles`]\], written.
    pub tiles: Handle,
}

impl SortBuffers {
    /// Buffers for the results of a sort of `keys`; contents undefined.
    pub fn new(client: &Client, problem: &Problem, keys: Handle) -> Self {
        let words = |len: usize| client.empty(len.max(1) * 4);
        Self {
            keys,
            counts: words(problem.counts()),
            offsets: words(problem.experts + 1),
            dropped: words(1),
            order: words(problem.slots),
            positions: words(problem.slots),
            tiles: words(TILE_WORDS * problem.max_tiles()),
        }
    }
}

/// Enqueues a sort: three launches, or none for no slots.
pub fn launch(client: &Client, plan: &Plan, buffers: &SortBuffers) {
    if plan.problem.slots == 0 {
        return;
    }
    launch_histogram(client, plan, buffers);
    launch_scan(client, plan, buffers);
    launch_scatter(client, plan, buffers);
}

fn launch_histogram(client: &Client, plan: &Plan, buffers: &SortBuffers) {
    let problem = &plan.problem;
    let (count, dim) = (plan.grid.count(), plan.grid.dim());
    let keys = buffers.keys.clone();
    launched::note(|| "sort_histogram");
    // SAFETY: the caller's buffers have the planned lengths; blocks end at the last slot, and
    // `Problem::counts` is enough for the blocks of any plan.
    unsafe {
        let counts = BufferArg::from_raw_parts(buffers.counts.clone(), problem.counts());
        match plan.walk {
            Walk::PerExpert { lanes } => {
                let keys = BufferArg::from_raw_parts(keys, problem.slots / lanes);
                sort::sort_histogram::launch_unchecked(
                    client,
                    count,
                    dim,
                    lanes,
                    keys,
                    counts,
                    plan.sizes(),
                );
            }
            Walk::Serial => {
                let keys = BufferArg::from_raw_parts(keys, problem.slots);
                sort::sort_histogram_serial::launch_unchecked(
                    client,
                    count,
                    dim,
                    keys,
                    counts,
                    plan.sizes(),
                );
            }
        }
    }
}

fn launch_scan(client: &Client, plan: &Plan, buffers: &SortBuffers) {
    let problem = &plan.problem;
    // SAFETY: the caller's buffers have the planned lengths; chunks end at the last count.
    unsafe {
        launched::note(|| "sort_scan");
        sort::sort_scan::launch_unchecked(
            client,
            CubeCount::Static(1, 1, 1),
            CubeDim::new_1d(plan.scan_units as u32),
            BufferArg::from_raw_parts(buffers.counts.clone(), problem.counts()),
            BufferArg::from_raw_parts(buffers.offsets.clone(), problem.experts + 1),
            BufferArg::from_raw_parts(buffers.dropped.clone(), 1),
            plan.sizes(),
            plan.strides(),
            plan.scan_units,
        );
    }
}

fn launch_scatter(client: &Client, plan: &Plan, buffers: &SortBuffers) {
    let problem = &plan.problem;
    let (count, dim) = (plan.grid.count(), plan.grid.dim());
    let keys = buffers.keys.clone();
    launched::note(|| "sort_scatter");
    // SAFETY: starts come from the scan of the same keys, so positions are a permutation of the
    // slots, and no tile is written past the end of the list.
    unsafe {
        let starts = BufferArg::from_raw_parts(buffers.counts.clone(), problem.counts());
        let offsets = BufferArg::from_raw_parts(buffers.offsets.clone(), problem.experts + 1);
        let order = BufferArg::from_raw_parts(buffers.order.clone(), problem.slots);
        let positions = BufferArg::from_raw_parts(buffers.positions.clone(), problem.slots);
        let tiles =
            BufferArg::from_raw_parts(buffers.tiles.clone(), TILE_WORDS * problem.max_tiles());
        match plan.walk {
            Walk::PerExpert { lanes } => {
                let keys = BufferArg::from_raw_parts(keys, problem.slots / lanes);
                sort::sort_scatter::launch_unchecked(
                    client,
                    count,
                    dim,
                    lanes,
                    keys,
                    starts,
                    offsets,
                    order,
                    positions,
                    tiles,
                    plan.sizes(),
                    problem.tile_rows as u32,
                );
            }
            Walk::Serial => {
                let keys = BufferArg::from_raw_parts(keys, problem.slots);
                sort::sort_scatter_serial::launch_unchecked(
                    client,
                    count,
                    dim,
                    keys,
                    starts,
                    offsets,
                    order,
                    positions,
                    tiles,
                    plan.sizes(),
                    problem.tile_rows as u32,
                );
            }
        }
    }
}

/// What [`reference()`] returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sorted {
    /// Slots by expert, those that go nowhere last.
    pub order: Vec<u32>,
    /// Start of every expert's segment, and the end of the last.
    pub offsets: Vec<u32>,
    /// Where in the order a slot is; [`NOWHERE`] for those that go nowhere.
    pub positions: Vec<u32>,
}

/// The oracle: a stable sort of the slots by key.
pub fn reference(keys: &[u32], experts: usize) -> Sorted {
    let mut order: Vec<u32> = (0..keys.len() as u32).collect();
    order.sort_by_key(|slot| keys[*slot as usize].min(experts as u32));
    let before = |e: usize| keys.iter().filter(|key| (**key as usize) < e).count() as u32;
    let offsets: Vec<u32> = (0..=experts).map(before).collect();
    let mut positions = vec![NOWHERE; keys.len()];
    for (row, slot) in order.iter().enumerate().take(offsets[experts] as usize) {
        positions[*slot as usize] = row as u32;
    }
    Sorted {
        order,
        offsets,
        positions,
    }
}

/// The sort, the drop rule, and the moves of rows of every element type.
#[cfg(feature = "emit")]
pub(crate) fn entries() -> Vec<crate::emit::KernelEntry> {
    let mut entries = sort_entries();
    entries.extend(capacity::entries());
    entries.extend(combine::entries());
    entries.extend(dispatch::entries());
    entries.extend(weights_gradient::entries());
    entries.extend(neighbours::entries());
    entries
}

/// The three launches of a sort on a GPU.
#[cfg(feature = "emit")]
fn sort_entries() -> Vec<crate::emit::KernelEntry> {
    use crate::emit::{KernelEntry, Machine, Planned, buffer};
    use sort::{sort_histogram::SortHistogram, sort_scan::SortScan, sort_scatter::SortScatter};
    type Build = fn(&Machine, Plan) -> Box<dyn CubeKernel>;
    let launches: [(&str, Build); 3] = [
        ("sort_histogram", |at, plan| {
            let (settings, device, target) = at.parts(plan.grid.dim());
            let [a, b] = [(); 2].map(|()| buffer());
            let sizes = sort::sizes_argument();
            Box::new(SortHistogram::new(settings, device, target, a, b, sizes, 4))
        }),
        ("sort_scan", |at, plan| {
            let units = plan.scan_units;
            let (settings, device, target) = at.parts(CubeDim::new_1d(units as u32));
            let [a, b, c] = [(); 3].map(|()| buffer());
            let (sizes, strides) = (sort::sizes_argument(), sort::strides_argument());
            let kernel = SortScan::new(settings, device, target, a, b, c, sizes, strides, units);
            Box::new(kernel)
        }),
        ("sort_scatter", |at, plan| {
            let (settings, device, target) = at.parts(plan.grid.dim());
            let [a, b, c, d, e, f] = [(); 6].map(|()| buffer());
            let sizes = sort::sizes_argument();
            let kernel = SortScatter::new(settings, device, target, a, b, c, d, e, f, sizes, 4, 64);
            Box::new(kernel)
        }),
    ];
    let entry = |(name, kernel): (&str, Build)| {
        let build = move |at: &Machine| -> Planned {
            let plan = plan(Problem::new(2048, 8, 64)?, &at.capability)?;
            Ok(kernel(at, plan))
        };
        KernelEntry::new(("permute", "sort"), name.to_owned(), build)
    };
    launches.map(entry).into()
}

#[cfg(test)]
mod tests {
    use super::{NOWHERE, Problem, reference};

    #[test]
    fn slots_of_an_expert_keep_their_order() {
        let sorted = reference(&[2, 0, 3, 0, 2], 3);
        assert_eq!(sorted.order, [1, 3, 0, 4, 2]);
        assert_eq!(sorted.offsets, [0, 2, 2, 4]);
        assert_eq!(sorted.positions, [2, 0, NOWHERE, 1, 3]);
    }

    /// 3 experts of 4-row tiles: each of the 3 may have a last tile of one row.
    #[test]
    fn fewer_rows_need_fewer_tiles() {
        let problem = Problem::new(100, 3, 4).unwrap();
        assert_eq!((problem.row_bound(), problem.max_tiles()), (100, 27));
        let bounded = problem.with_row_bound(10).unwrap();
        assert_eq!((bounded.row_bound(), bounded.max_tiles()), (10, 4));
        // No more tiles than rows.
        assert_eq!(problem.with_row_bound(2).unwrap().max_tiles(), 2);
        assert!(problem.with_row_bound(0).is_err() && problem.with_row_bound(101).is_err());
    }
}

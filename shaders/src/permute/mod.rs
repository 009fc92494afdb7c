//! Counting sort of slots by expert, on the device: histogram → scan → stable scatter.
//!
//! A slot is a (token, choice) pair, s = t·K + k. Keys u32 \[S\] hold the expert of every slot, or
//! E for a slot that goes nowhere. Results, all u32:
//! - `order` \[S\]: slots sorted by key, equal keys in slot order; entries past `offsets[E]` go nowhere.
//! - `offsets` \[E+1\]: expert e owns `order[offsets[e]..offsets[e+1]]`.
//! - `dropped` \[1\]: slots that go nowhere.
//! - `tiles` \[2·max_tiles\]: (expert, first row) of every tile of `tile_rows` rows, E for no tile.
//!
//! Multi-pass, because WebGPU has no memory ordering between cubes within a launch. Slots are cut
//! into blocks and one unit counts one expert in one block, so no atomics are needed and equal
//! keys keep their order. Reads: 2·S·(E+1) keys, from cache; the scan reads and writes
//! (E+1)·S/256 counts.

pub mod capacity;
mod combine;

pub use capacity::{Capacity, CapacityPlan};
pub use combine::{CombineBuffers, CombinePlan};

use crate::error::{ShapeError, Unsupported};
use crate::grid::Grid;
use cubecl::prelude::*;
use cubecl::server::Handle;
use moebius_device::Capability;

/// STUB
pub const NOWHERE: u32 = u32::MAX;
/// STUB
#[derive(Clone, Debug)]
pub struct RowsPlan;
/// STUB
pub fn plan_rows(
    _: crate::routing::Problem,
    _: usize,
    _: usize,
    _: crate::Element,
    _: &Capability,
) -> Result<RowsPlan, Unsupported> {
    Ok(RowsPlan)
}
/// STUB
pub mod neighbours {
    /// STUB
    #[derive(Clone, Copy, Debug)]
    pub struct Problem {
        row_bound: usize,
        width: usize,
        top_k: usize,
        sequence: usize,
        causal: bool,
    }
    impl Problem {
        /// STUB
        pub fn new(
            r: &crate::routing::Problem,
            row_bound: usize,
            width: usize,
            sequence: usize,
            causal: bool,
        ) -> Result<Self, crate::ShapeError> {
            Ok(Self {
                row_bound,
                width,
                top_k: r.top_k(),
                sequence,
                causal,
            })
        }
        /// STUB
        pub fn row_bound(&self) -> usize {
            self.row_bound
        }
        /// STUB
        pub fn width(&self) -> usize {
            self.width
        }
        /// STUB
        pub fn top_k(&self) -> usize {
            self.top_k
        }
        /// STUB
        pub fn sequence(&self) -> usize {
            self.sequence
        }
        /// STUB
        pub fn causal(&self) -> bool {
            self.causal
        }
    }
    /// STUB
    #[derive(Clone, Copy, Debug)]
    pub struct Plan;
    /// STUB
    pub fn plan(
        _: Problem,
        _: crate::Element,
        _: &moebius_device::Capability,
    ) -> Result<Plan, crate::Unsupported> {
        Ok(Plan)
    }
}
pub mod drop_rule {
    //! The capacity rule as kernels: who is dropped when an expert is full.
    pub use super::capacity::{CapacityBuffers, launch, plan, reference};
}
pub mod sum {
    //! Weighted sum of the slots of a token.
    pub use super::combine::{launch, plan, reference};
}

/// Slots one unit walks in the histogram and the scatter.
const BLOCK: usize = 256;
/// Units of the single cube that scans the counts.
const SCAN_UNITS: usize = 256;

/// A sort of `slots` slots into `experts` segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Problem {
    slots: usize,
    experts: usize,
    tile_rows: usize,
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
        })
    }

    /// The most tiles any routing can need: every expert's last tile may be partial.
    pub fn max_tiles(&self) -> usize {
        let partial = self.experts * (self.tile_rows - 1);
        ((self.slots + partial) / self.tile_rows).min(self.slots)
    }

    /// Slots S.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// Experts E.
    pub fn experts(&self) -> usize {
        self.experts
    }

    /// Length of the buffer of counts.
    pub fn counts(&self) -> usize {
        (self.experts + 1) * self.blocks()
    }

    fn blocks(&self) -> usize {
        self.slots.div_ceil(BLOCK).max(1)
    }
}

/// A [`Problem`] this device can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What is sorted.
    pub problem: Problem,
    blocks: Grid,
    scan_units: usize,
}

/// Plans a sort.
///
/// # Errors
/// [`Unsupported`] when the slots exceed one binding or the blocks one grid.
pub fn plan(problem: Problem, device: &Capability) -> Result<Plan, Unsupported> {
    crate::fits_binding("sort", problem.slots.max(problem.counts()) * 4, device)?;
    let scan_units = match device.cpu_cores {
        // One unit: a CPU would spin at the barrier for a scan of a few hundred counts.
        Some(_) => 1,
        None => SCAN_UNITS.min(device.limits.max_units_per_cube as usize),
    };
    Ok(Plan {
        problem,
        blocks: Grid::elementwise("sort", problem.counts(), device)?,
        scan_units,
    })
}

/// The bin of a key: its expert, or the last bin for anything else.
#[cube]
fn bin_of(key: u32, bins: usize) -> usize {
    min(key as usize, bins - 1)
}

/// counts\[e, b\] = slots of block b whose key is e.
#[cube(launch_unchecked)]
fn histogram(keys: &[u32], counts: &mut [u32], bins: usize, blocks: usize, slots: usize) {
    if ABSOLUTE_POS < bins * blocks {
        let bin = ABSOLUTE_POS % bins;
        let block = ABSOLUTE_POS / bins;
        let first = block * comptime!(BLOCK);
        let last = min(first + comptime!(BLOCK), slots);
        let mut count = 0u32;
        for slot in first..last {
            count += select(bin_of(keys[slot], bins) == bin, 1u32, 0u32);
        }
        counts[bin * blocks + block] = count;
    }
}

/// Exclusive scan of the counts in place; the first count of every expert is its offset.
#[cube(launch_unchecked)]
fn scan(
    counts: &mut [u32],
    offsets: &mut [u32],
    dropped: &mut [u32],
    bins: usize,
    blocks: usize,
    slots: usize,
    #[comptime] units: usize,
) {
    let len = bins * blocks;
    let unit = UNIT_POS as usize;
    let chunk = len.div_ceil(units);
    let first = min(unit * chunk, len);
    let last = min(first + chunk, len);
    let mut partial = Shared::<[u32]>::new_slice(units);

    let mut sum = 0u32;
    for i in first..last {
        sum += counts[i];
    }
    partial[unit] = sum;
    sync_cube();

    let mut position = 0u32;
    for before in 0..unit {
        position += partial[before];
    }
    for i in first..last {
        let count = counts[i];
        counts[i] = position;
        if i % blocks == 0 {
            offsets[i / blocks] = position;
            if i / blocks == bins - 1 {
                dropped[0] = slots as u32 - position;
            }
        }
        position += count;
    }
}

/// order\[position\] = slot, blocks and slots in order; the units of the first block also write
/// the tiles of their expert.
#[cube(launch_unchecked)]
fn scatter(
    keys: &[u32],
    positions: &[u32],
    offsets: &[u32],
    order: &mut [u32],
    tiles: &mut [u32],
    bins: usize,
    blocks: usize,
    slots: usize,
    tile_rows: u32,
) {
    if ABSOLUTE_POS < bins * blocks {
        let bin = ABSOLUTE_POS % bins;
        let block = ABSOLUTE_POS / bins;
        let first = block * comptime!(BLOCK);
        let last = min(first + comptime!(BLOCK), slots);
        let mut position = positions[bin * blocks + block] as usize;
        for slot in first..last {
            if bin_of(keys[slot], bins) == bin {
                order[position] = slot as u32;
                position += 1;
            }
        }
        if block == 0 {
            write_tiles(offsets, tiles, bin, bins - 1, tile_rows);
        }
    }
}

/// Writes the tiles of `expert`, after those of the experts before it; `expert` = E fills the rest.
#[cube]
fn write_tiles(offsets: &[u32], tiles: &mut [u32], expert: usize, experts: usize, tile_rows: u32) {
    let max_tiles = tiles.len() / 2;
    let mut tile = 0usize;
    for e in 0..expert {
        tile += (offsets[e + 1] - offsets[e]).div_ceil(tile_rows) as usize;
    }
    if expert < experts {
        let rows = offsets[expert + 1] - offsets[expert];
        for i in 0..rows.div_ceil(tile_rows) {
            let at = tile + i as usize;
            tiles[2 * at] = expert as u32;
            tiles[2 * at + 1] = offsets[expert] + i * tile_rows;
        }
    } else {
        for at in tile..max_tiles {
            tiles[2 * at] = experts as u32;
            tiles[2 * at + 1] = 0;
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
    /// \[2·[`Problem::max_tiles`]\], written.
    pub tiles: Handle,
}

/// Enqueues a sort: three launches.
pub fn launch(client: &Client, plan: &Plan, buffers: &SortBuffers) {
    launch_histogram(client, plan, buffers);
    launch_scan(client, plan, buffers);
    launch_scatter(client, plan, buffers);
}

fn launch_histogram(client: &Client, plan: &Plan, buffers: &SortBuffers) {
    let problem = &plan.problem;
    // SAFETY: the caller's buffers have the planned lengths; blocks end at the last slot.
    unsafe {
        histogram::launch_unchecked(
            client,
            plan.blocks.count(),
            plan.blocks.dim(),
            BufferArg::from_raw_parts(buffers.keys.clone(), problem.slots),
            BufferArg::from_raw_parts(buffers.counts.clone(), problem.counts()),
            problem.experts + 1,
            problem.blocks(),
            problem.slots,
        );
    }
}

fn launch_scan(client: &Client, plan: &Plan, buffers: &SortBuffers) {
    let problem = &plan.problem;
    // SAFETY: the caller's buffers have the planned lengths; chunks end at the last count.
    unsafe {
        scan::launch_unchecked(
            client,
            CubeCount::Static(1, 1, 1),
            CubeDim::new_1d(plan.scan_units as u32),
            BufferArg::from_raw_parts(buffers.counts.clone(), problem.counts()),
            BufferArg::from_raw_parts(buffers.offsets.clone(), problem.experts + 1),
            BufferArg::from_raw_parts(buffers.dropped.clone(), 1),
            problem.experts + 1,
            problem.blocks(),
            problem.slots,
            plan.scan_units,
        );
    }
}

fn launch_scatter(client: &Client, plan: &Plan, buffers: &SortBuffers) {
    let problem = &plan.problem;
    // SAFETY: positions come from the scan of the same keys, so they are a permutation of the
    // slots, and `max_tiles` bounds the tiles of any routing.
    unsafe {
        scatter::launch_unchecked(
            client,
            plan.blocks.count(),
            plan.blocks.dim(),
            BufferArg::from_raw_parts(buffers.keys.clone(), problem.slots),
            BufferArg::from_raw_parts(buffers.counts.clone(), problem.counts()),
            BufferArg::from_raw_parts(buffers.offsets.clone(), problem.experts + 1),
            BufferArg::from_raw_parts(buffers.order.clone(), problem.slots),
            BufferArg::from_raw_parts(buffers.tiles.clone(), 2 * problem.max_tiles()),
            problem.experts + 1,
            problem.blocks(),
            problem.slots,
            problem.tile_rows as u32,
        );
    }
}

/// What [`reference()`] returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sorted {
    /// Slots by expert, those that go nowhere last.
    pub order: Vec<u32>,
    /// Start of every expert's segment, and the end of the last.
    pub offsets: Vec<u32>,
}

/// The oracle: a stable sort of the slots by key.
pub fn reference(keys: &[u32], experts: usize) -> Sorted {
    let mut order: Vec<u32> = (0..keys.len() as u32).collect();
    order.sort_by_key(|slot| keys[*slot as usize].min(experts as u32));
    let before = |e: usize| keys.iter().filter(|key| (**key as usize) < e).count() as u32;
    Sorted {
        order,
        offsets: (0..=experts).map(before).collect(),
    }
}

/// The sort, the drop rule, and combinations of every element type.
#[cfg(feature = "emit")]
pub(crate) fn entries() -> Vec<crate::emit::KernelEntry> {
    let mut entries = sort_entries();
    entries.push(capacity::entry());
    entries.extend(combine::entries());
    entries
}

/// The three launches of a sort.
#[cfg(feature = "emit")]
fn sort_entries() -> Vec<crate::emit::KernelEntry> {
    use crate::emit::{KernelEntry, Machine, Planned, buffer};
    type Build = fn(&Machine, Plan) -> Box<dyn CubeKernel>;
    let launches: [(&str, Build); 3] = [
        ("sort_histogram", |at, plan| {
            let (settings, device, target) = at.parts(plan.blocks.dim());
            let [keys, counts] = [(); 2].map(|()| buffer());
            let kernel =
                histogram::Histogram::new(settings, device, target, keys, counts, (), (), ());
            Box::new(kernel)
        }),
        ("sort_scan", |at, plan| {
            let units = plan.scan_units;
            let (settings, device, target) = at.parts(CubeDim::new_1d(units as u32));
            let [a, b, c] = [(); 3].map(|()| buffer());
            let kernel = scan::Scan::new(settings, device, target, a, b, c, (), (), (), units);
            Box::new(kernel)
        }),
        ("sort_scatter", |at, plan| {
            let (settings, device, target) = at.parts(plan.blocks.dim());
            let [a, b, c, d, e] = [(); 5].map(|()| buffer());
            let kernel =
                scatter::Scatter::new(settings, device, target, a, b, c, d, e, (), (), (), ());
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

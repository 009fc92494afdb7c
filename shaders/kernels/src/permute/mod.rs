//! How CubeCL computes [`moebius_ops::permute`].
//!
//! The sort takes several launches, because WebGPU has no memory ordering between the cubes of a launch. Slots are cut into
//! blocks, and each counter belongs to one unit, so no atomics are needed and equal keys keep their order. Reads: on a GPU
//! 2·S·(E+1) keys, from cache; on a CPU 2·S keys and as many counts. The scan reads and writes (E+1)·S/256 counts.
//!
//! On a GPU each unit counts one expert in one block of slots, so neighbouring units read the same keys. A CPU has few units,
//! each with its own cache, so each unit counts all experts in its block, in counters that no other unit touches.

pub mod capacity;
pub mod combine;
pub mod dispatch;
#[cfg(feature = "emit")]
mod entries;
mod rows;
pub mod sorting;
pub mod weights_gradient;

pub use capacity::{CapacitiesPlan, CapacityPlan};
#[cfg(feature = "emit")]
pub use entries::entries;
pub use rows::{RowsPlan, plan_rows};

use crate::prelude::*;
use crate::rounds::{fits_rounds, looped};
use cubecl::prelude::*;
use moebius_ops::permute::{NOWHERE, Problem};

/// Words per tile: the expert, the first row, and one past the last.
pub const TILE_WORDS: usize = 3;

/// Slots that one unit of a GPU walks in the histogram and in the scatter.
const BLOCK: usize = 256;

/// Units of the single cube that scans the counts.
const SCAN_UNITS: usize = 256;

/// The number of counts, which is the length of their buffer.
pub fn counts(problem: &Problem) -> usize {
    (problem.experts() + 1) * blocks(problem)
}

fn blocks(problem: &Problem) -> usize {
    problem.slots().div_ceil(BLOCK).max(1)
}

/// How units walk the slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Walk {
    /// One unit per expert and block, for GPUs.
    PerExpert {
        /// Keys per vector load.
        lanes: usize,
    },
    /// One unit per block, for CPUs.
    Serial,
}

/// A [`Problem`], planned for a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The sort.
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
            fits_rounds("sort", rounds(&problem, lanes, scan_units), device)?;
            (Walk::PerExpert { lanes }, grid, scan_units)
        }
        Some(cores) => {
            blocks = blocks.min(cores.clamp(1, most_units) as usize);
            let grid = Grid::of_cubes("sort", 1, [blocks as u32, 1], device)?;
            // One unit scans: a CPU would spin at barriers, just for a few hundred counts.
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

/// Rounds of the longest launch on a GPU: the histogram's and scatter's walks over a block, a search for a tile and a share of the
/// list of tiles, or the scan of the counts.
fn rounds(problem: &Problem, lanes: usize, scan_units: usize) -> usize {
    let tiles = problem.max_tiles().div_ceil(blocks(problem));
    let scatter = looped(BLOCK / lanes, 0) + looped(problem.experts(), 0) + looped(tiles, 0);
    let chunk = counts(problem).div_ceil(scan_units);
    let scan = 2 * looped(chunk, 0) + looped(scan_units, 0);
    scatter.max(scan)
}

impl Plan {
    fn sizes(&self) -> SizesLaunch {
        let (slots, experts) = (self.problem.slots(), self.problem.experts());
        let block = match self.walk {
            Walk::PerExpert { .. } => BLOCK,
            Walk::Serial => slots.div_ceil(self.blocks),
        };
        SizesLaunch::new(slots, experts + 1, self.blocks, block)
    }

    /// The strides by which the scan finds the counts.
    fn strides(&self) -> StridesLaunch {
        match self.walk {
            Walk::PerExpert { .. } => StridesLaunch::new(self.blocks, 1),
            Walk::Serial => StridesLaunch::new(1, self.problem.experts() + 1),
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
    /// Allocates buffers for the results of a sort of `keys`, with undefined contents.
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

/// Enqueues a sort: three launches, or none without slots.
pub fn launch(client: &Client, plan: &Plan, buffers: &SortBuffers) {
    if plan.problem.slots() == 0 {
        return;
    }
    launch_counts(client, plan, buffers.clone());
    launch_scatter(client, plan, buffers.clone());
}

/// Enqueues the histogram and its scan.
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

/// The strides of counts: the count of a bin in a block is at bin · `bin` + block · `block`.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
struct Strides {
    bin: usize,
    block: usize,
}

/// Sizes of a sort.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
struct Sizes {
    slots: usize,
    /// The number of bins: one per expert, and one for the slots that go nowhere.
    bins: usize,
    blocks: usize,
    /// Slots per block.
    block: usize,
}

/// The bin of a key: its expert, or the last bin for any other key.
#[cube]
fn bin_of(key: u32, bins: usize) -> usize {
    min(key as usize, bins - 1)
}

/// Computes counts\[e, b\], the number of slots of block b with key e; one unit per expert and block.
#[cube(launch_unchecked)]
fn sort_histogram<N: Size>(keys: &[Vector<u32, N>], counts: &mut [u32], sizes: Sizes) {
    if ABSOLUTE_POS < sizes.bins * sizes.blocks {
        let bin = ABSOLUTE_POS % sizes.bins;
        let block = ABSOLUTE_POS / sizes.bins;
        let first = block * sizes.block / N::value();
        let last = min(first + sizes.block / N::value(), sizes.slots / N::value());
        let mut count = 0u32;
        for i in first..last {
            let vector = keys[i];
            #[unroll]
            for lane in 0..N::value() {
                let same = bin_of(vector.extract(lane), sizes.bins) == bin;
                count += select(same, 1u32, 0u32);
            }
        }
        counts[bin * sizes.blocks + block] = count;
    }
}

/// Computes counts\[b, e\] with one unit per block, for processors.
#[cube(launch_unchecked)]
fn sort_histogram_serial(keys: &[u32], counts: &mut [u32], sizes: Sizes) {
    let block = ABSOLUTE_POS;
    let own = block * sizes.bins;
    for bin in 0..sizes.bins {
        counts[own + bin] = 0;
    }
    let first = min(block * sizes.block, sizes.slots);
    let last = min(first + sizes.block, sizes.slots);
    for slot in first..last {
        counts[own + bin_of(keys[slot], sizes.bins)] += 1;
    }
}

/// Scans the counts exclusively, in place; the first count of each expert is its offset.
#[cube(launch_unchecked)]
fn sort_scan(
    counts: &mut [u32],
    offsets: &mut [u32],
    dropped: &mut [u32],
    sizes: Sizes,
    strides: Strides,
    #[comptime] units: usize,
) {
    let len = sizes.bins * sizes.blocks;
    let unit = UNIT_POS as usize;
    let chunk = len.div_ceil(units);
    let first = min(unit * chunk, len);
    let last = min(first + chunk, len);
    let mut partial = Shared::<[u32]>::new_slice(units);

    let mut sum = 0u32;
    let mut bin = first / sizes.blocks;
    let mut block = first % sizes.blocks;
    for _ in first..last {
        sum += counts[bin * strides.bin + block * strides.block];
        block += 1;
        if block == sizes.blocks {
            block = 0;
            bin += 1;
        }
    }
    partial[unit] = sum;
    sync_cube();

    let mut position = 0u32;
    for before in 0..unit {
        position += partial[before];
    }
    bin = first / sizes.blocks;
    block = first % sizes.blocks;
    for _ in first..last {
        let at = bin * strides.bin + block * strides.block;
        let count = counts[at];
        counts[at] = position;
        if block == 0 {
            offsets[bin] = position;
            if bin == sizes.bins - 1 {
                dropped[0] = sizes.slots as u32 - position;
            }
        }
        position += count;
        block += 1;
        if block == sizes.blocks {
            block = 0;
            bin += 1;
        }
    }
}

/// Writes order\[position\] = slot, in the order of blocks and slots, and positions\[slot\] = position for slots with an expert.
///
/// The units of an expert share the writing of its tiles, and those of the last bin write the rest of the list.
#[cube(launch_unchecked)]
fn sort_scatter<N: Size>(
    keys: &[Vector<u32, N>],
    starts: &[u32],
    offsets: &[u32],
    order: &mut [u32],
    positions: &mut [u32],
    tiles: &mut [u32],
    sizes: Sizes,
    #[comptime] tile_rows: u32,
) {
    if ABSOLUTE_POS < sizes.bins * sizes.blocks {
        let bin = ABSOLUTE_POS % sizes.bins;
        let block = ABSOLUTE_POS / sizes.bins;
        let first = block * sizes.block / N::value();
        let last = min(first + sizes.block / N::value(), sizes.slots / N::value());
        let mut position = starts[bin * sizes.blocks + block];
        for i in first..last {
            let vector = keys[i];
            #[unroll]
            for lane in 0..N::value() {
                if bin_of(vector.extract(lane), sizes.bins) == bin {
                    let slot = i * N::value() + lane;
                    place(order, positions, slot, position, bin, &sizes);
                    position += 1;
                }
            }
        }
        let experts = sizes.bins - 1;
        let all = tiles.len() / TILE_WORDS;
        let mut count = all;
        if bin < experts {
            count = tiles_of(offsets, bin, tile_rows);
        }
        // An expert rarely has as many tiles as there are blocks, so few units look for its first tile.
        if block < count {
            let mut tile = 0usize;
            for e in 0..bin {
                tile += tiles_of(offsets, e, tile_rows);
            }
            let end = select(bin < experts, min(tile + count, all), all);
            for at in range_stepped(tile + block, end, sizes.blocks) {
                let row = offsets[bin] + (at - tile) as u32 * tile_rows;
                write_tile(tiles, offsets, at, row, bin, tile_rows);
            }
        }
    }
}

/// The scatter with one unit per block, for processors; the first block's unit writes all tiles.
#[cube(launch_unchecked)]
fn sort_scatter_serial(
    keys: &[u32],
    starts: &mut [u32],
    offsets: &[u32],
    order: &mut [u32],
    positions: &mut [u32],
    tiles: &mut [u32],
    sizes: Sizes,
    #[comptime] tile_rows: u32,
) {
    let block = ABSOLUTE_POS;
    let own = block * sizes.bins;
    let first = min(block * sizes.block, sizes.slots);
    let last = min(first + sizes.block, sizes.slots);
    for slot in first..last {
        let bin = bin_of(keys[slot], sizes.bins);
        let position = starts[own + bin];
        starts[own + bin] = position + 1;
        place(order, positions, slot, position, bin, &sizes);
    }
    if block == 0 {
        let experts = sizes.bins - 1;
        let all = tiles.len() / TILE_WORDS;
        let mut tile = 0usize;
        for e in 0..experts {
            let end = min(tile + tiles_of(offsets, e, tile_rows), all);
            for at in tile..end {
                let row = offsets[e] + (at - tile) as u32 * tile_rows;
                write_tile(tiles, offsets, at, row, e, tile_rows);
            }
            tile = end;
        }
        for at in tile..all {
            write_tile(tiles, offsets, at, 0u32, experts, tile_rows);
        }
    }
}

/// Writes `slot` to `position` of the order, and the position of the slot if the slot has an expert.
#[cube]
fn place(
    order: &mut [u32],
    positions: &mut [u32],
    slot: usize,
    position: u32,
    bin: usize,
    sizes: &Sizes,
) {
    order[position as usize] = slot as u32;
    positions[slot] = select(bin < sizes.bins - 1, position, NOWHERE);
}

/// The number of tiles of an expert's rows. `tile_rows` is a compile-time constant, because dividing by a constant is faster.
#[cube]
fn tiles_of(offsets: &[u32], expert: usize, #[comptime] tile_rows: u32) -> usize {
    (offsets[expert + 1] - offsets[expert]).div_ceil(tile_rows) as usize
}

/// Writes an entry of the list of tiles: the tile of `expert` that starts at `row`; E as the expert marks an entry without a
/// tile.
#[cube]
fn write_tile(
    tiles: &mut [u32],
    offsets: &[u32],
    tile: usize,
    row: u32,
    expert: usize,
    #[comptime] tile_rows: u32,
) {
    let experts = offsets.len() - 1;
    let first = tile * TILE_WORDS;
    tiles[first] = expert as u32;
    if expert < experts {
        tiles[first + 1] = row;
        tiles[first + 2] = min(row + tile_rows, offsets[expert + 1]);
    } else {
        tiles[first + 1] = 0u32;
        tiles[first + 2] = 0u32;
    }
}

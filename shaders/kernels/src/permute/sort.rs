//! The kernels of the sort: histogram, scan, scatter.
//!
//! On a GPU one unit counts one expert in one block of slots, so that neighbouring units read the
//! same keys. A CPU has few units and a cache of its own for each, so there one unit counts all
//! experts in its block, in counters no other unit touches.

use super::{NOWHERE, TILE_WORDS};
use cubecl::prelude::*;

/// Where the count of a bin and a block lies: bin · `bin` + block · `block`.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
pub(super) struct Strides {
    bin: usize,
    block: usize,
}

/// Sizes of a sort.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
pub(super) struct Sizes {
    slots: usize,
    /// Experts, and one more for the slots that go nowhere.
    bins: usize,
    blocks: usize,
    /// Slots of a block.
    block: usize,
}

/// The bin of a key: its expert, or the last bin for anything else.
#[cube]
fn bin_of(key: u32, bins: usize) -> usize {
    min(key as usize, bins - 1)
}

/// counts\[e, b\] = slots of block b whose key is e.
#[cube(launch_unchecked)]
pub(super) fn sort_histogram<N: Size>(keys: &[Vector<u32, N>], counts: &mut [u32], sizes: Sizes) {
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

/// The histogram with one unit per block, for processors; counts\[b, e\].
#[cube(launch_unchecked)]
pub(super) fn sort_histogram_serial(keys: &[u32], counts: &mut [u32], sizes: Sizes) {
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

/// Exclusive scan of the counts in place; the first count of every expert is its offset.
#[cube(launch_unchecked)]
pub(super) fn sort_scan(
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

/// order\[position\] = slot, blocks and slots in order, and the reverse for slots with an expert.
///
/// The units of an expert share its tiles, those of the last bin the rest of the list.
#[cube(launch_unchecked)]
pub(super) fn sort_scatter<N: Size>(
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
        // An expert seldom has as many tiles as there are blocks, so few units look for the expert's first tile.
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

/// The scatter with one unit per block, for processors; the unit of the first block writes all tiles.
#[cube(launch_unchecked)]
pub(super) fn sort_scatter_serial(
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

/// Writes `slot` at its `position` of the order, and the position for the slot, if the slot has an expert.
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

/// How many tiles an expert's rows take. `tile_rows` is a constant of the kernel, because dividing by a constant is
/// faster.
#[cube]
fn tiles_of(offsets: &[u32], expert: usize, #[comptime] tile_rows: u32) -> usize {
    (offsets[expert + 1] - offsets[expert]).div_ceil(tile_rows) as usize
}

/// Writes an entry of the list of tiles: the tile of `expert` that starts at `row`. With E for the expert the
/// entry says that there is no tile.
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

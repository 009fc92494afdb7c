//! Scales and codes of x in one kernel: amax and encoding are fused if a row of units (on a CPU: one unit) owns a block.

use super::amax::{Finish, launch_reduction, row_max};
use super::apply::launch_by;
use super::plan::Variant;
use super::word::{Coding, Four, encode_word, load, scale_of, word_amax};
use super::{Buffers, Plan, Sizes};
use crate::prelude::*;
use cubecl::prelude::*;
use moebius_ops::fp8::LANES_PER_WORD;
use moebius_ops::scaling::ScaleType;

/// Compile-time parameters of the distribution of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Spec {
    pub(super) coding: Coding,
    /// Units per block, and blocks per cube.
    pub(super) units: [u32; 2],
    /// Whether each unit has at most one word of a block, so that x is read once.
    pub(super) held: bool,
}

impl Spec {
    fn of(plan: &Plan, units: [u32; 2]) -> Self {
        let [rows, columns] = plan.problem.block();
        let words = rows * columns.div_ceil(LANES_PER_WORD);
        Self {
            coding: plan.coding(),
            units,
            held: words <= units[0] as usize,
        }
    }
}

/// The words of a block: `len` words, `width` per row.
#[derive(CubeType, Clone, Copy)]
struct Area {
    row: usize,
    word: usize,
    width: usize,
    len: usize,
    line: usize,
    across: usize,
}

/// The words of block `block`; blocks that only pad the scales have none.
#[cube]
fn area_of(block: usize, sizes: &Sizes) -> Area {
    let (line, across) = (block / sizes.padded, block % sizes.padded);
    let down = line % sizes.down * sizes.block_rows;
    let word = min(across * sizes.block_words, sizes.row_words);
    let width = min(sizes.block_words, sizes.row_words - word);
    let rows = min(sizes.block_rows, sizes.rows - down);
    Area {
        row: line / sizes.down * sizes.rows + down,
        word,
        width,
        len: select(line < sizes.lines, rows * width, 0),
        line,
        across,
    }
}

/// The f32 bits of the values of word `i` of an area.
#[cube]
fn word_of<F: Float, N: Size>(
    x: &[Vector<F, N>],
    area: &Area,
    i: usize,
    sizes: &Sizes,
) -> Four<u32> {
    load::<F, N>(
        x,
        area.row + i / area.width,
        area.word + i % area.width,
        sizes,
    )
}

/// Computes scales and codes; one row of units per block.
#[cube(launch_unchecked)]
pub(super) fn fp8_quantize<F: Float, N: Size>(
    x: &[Vector<F, N>],
    words: &mut [u32],
    scales: &mut [u32],
    sizes: Sizes,
    margin: i32,
    #[comptime] spec: Spec,
    #[define(F)] _element: ElemType,
) {
    let coding = comptime!(spec.coding);
    let (along, beside) = comptime!((spec.units[0] as usize, spec.units[1] as usize));
    let (unit, slot) = (UNIT_POS_X as usize, UNIT_POS_Y as usize);
    let area = area_of(CUBE_POS * beside + slot, &sizes);

    let mut held = Four::<u32>::new(0u32);
    let mut amax = 0u32;
    if comptime!(spec.held) {
        if unit < area.len {
            held = word_of::<F, N>(x, &area, unit, &sizes);
        }
        amax = word_amax(held);
    } else {
        for i in range_stepped(unit, area.len, along) {
            amax = max(amax, word_amax(word_of::<F, N>(x, &area, i, &sizes)));
        }
    }
    let amax = row_max(amax, along, beside);
    let scale = scale_of(
        amax,
        margin,
        comptime!(coding.format),
        comptime!(coding.scale_type),
    );

    if comptime!(spec.held) {
        if unit < area.len {
            let at = (area.row + unit / area.width) * sizes.row_words;
            words[at + area.word + unit % area.width] = encode_word(held, scale, coding);
        }
    } else {
        for i in range_stepped(unit, area.len, along) {
            let bits = word_of::<F, N>(x, &area, i, &sizes);
            let at = (area.row + i / area.width) * sizes.row_words;
            words[at + area.word + i % area.width] = encode_word(bits, scale, coding);
        }
    }
    write_scale(scales, scale, &area, &sizes, unit, slot, spec);
}

/// Writes the scale of a block; four neighbouring blocks' E8M0 bytes are written as one word.
#[cube]
fn write_scale(
    scales: &mut [u32],
    scale: u32,
    area: &Area,
    sizes: &Sizes,
    unit: usize,
    slot: usize,
    #[comptime] spec: Spec,
) {
    if comptime!(spec.coding.scale_type == ScaleType::F32) {
        if unit == 0 && area.line < sizes.lines {
            scales[area.line * sizes.across + area.across] = scale;
        }
    } else {
        let mut bytes = Shared::<[u32]>::new_slice(comptime!(spec.units[1] as usize));
        if unit == 0 {
            bytes[slot] = select(area.across < sizes.across, scale, 0);
        }
        sync_cube();
        if unit == 0 && slot.is_multiple_of(4) && area.line < sizes.lines {
            let high = bytes[slot + 2] << 16 | bytes[slot + 3] << 24;
            let word = bytes[slot] | bytes[slot + 1] << 8 | high;
            scales[(area.line * sizes.padded + area.across) / 4] = word;
        }
    }
}

/// Computes scales and codes on a CPU; one unit per word of scales.
#[cube(launch_unchecked)]
pub(super) fn fp8_quantize_cpu<F: Float, N: Size>(
    x: &[Vector<F, N>],
    words: &mut [u32],
    scales: &mut [u32],
    sizes: Sizes,
    margin: i32,
    #[comptime] coding: Coding,
    #[define(F)] _element: ElemType,
) {
    let e8m0 = comptime!(coding.scale_type == ScaleType::E8M0);
    let blocks = comptime!(if e8m0 { 4usize } else { 1usize });
    if ABSOLUTE_POS < scales.len() {
        let mut packed = 0u32;
        for neighbour in 0..blocks {
            let area = area_of(ABSOLUTE_POS * blocks + neighbour, &sizes);
            let rows = area.len / max(area.width, 1);
            let mut amax = 0u32;
            for row in area.row..area.row + rows {
                for word in area.word..area.word + area.width {
                    amax = max(amax, word_amax(load::<F, N>(x, row, word, &sizes)));
                }
            }
            let scale = scale_of(
                amax,
                margin,
                comptime!(coding.format),
                comptime!(coding.scale_type),
            );
            for row in area.row..area.row + rows {
                for word in area.word..area.word + area.width {
                    let bits = load::<F, N>(x, row, word, &sizes);
                    words[row * sizes.row_words + word] = encode_word(bits, scale, coding);
                }
            }
            let there = select(area.across < sizes.across, scale, 0);
            packed |= there << (8 * neighbour as u32);
        }
        scales[ABSOLUTE_POS] = packed;
    }
}

/// Enqueues scales and codes of x: at most three launches, usually one; none without values.
pub fn launch(client: &Client, plan: &Plan, buffers: Buffers) {
    let p = &plan.problem;
    if p.is_empty() {
        return;
    }
    let (grid, units) = match plan.variant {
        Variant::Parts(reduction) => {
            let finish = Finish::Scale(p.format());
            let (x, scales) = (buffers.values.clone(), buffers.scales.clone());
            launch_reduction(client, &reduction, finish, p.margin(), x, scales);
            return launch_by(client, plan, buffers);
        }
        Variant::Cube(grid) => (grid, Some(grid.units)),
        Variant::Unit(grid) => (grid, None),
    };
    let (count, dim, element) = (grid.count(), grid.dim(), p.element().elem_type());
    let (lanes, sizes, margin) = (plan.lanes, super::sizes(p), p.margin());
    launched::note(|| super::quantize_name(p) + plan.conversion.suffix());
    let [x, words, scales] = [buffers.values, buffers.words, buffers.scales].map(bind);
    // SAFETY: the buffers are as long as they are described; blocks end with their matrix, and those that only pad have no words.
    unsafe {
        match units {
            Some(units) => {
                let spec = Spec::of(plan, units);
                fp8_quantize::launch_unchecked(
                    client, count, dim, lanes, x, words, scales, sizes, margin, spec, element,
                );
            }
            None => {
                let coding = plan.coding();
                fp8_quantize_cpu::launch_unchecked(
                    client, count, dim, lanes, x, words, scales, sizes, margin, coding, element,
                );
            }
        }
    }
}

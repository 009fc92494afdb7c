//! How CubeCL loads [`moebius_ops::grouped_gemm::sparse24`]: a group of four weights at a time, with 0 for those that were dropped.
//!
//! Rows are those of the weights as they lie in memory, counted from the first of the bound slab. Places are bound whole.

use super::pipeline::Chunk;
use super::{KERNEL, Problem, Sizes, Stored, WeightLayout};
use crate::prelude::*;
use cubecl::prelude::*;
use moebius_ops::grouped_gemm::sparse24::place_words;

/// Kept weights per load of the variants without matrix instructions: those of a group.
pub(super) const LANES: usize = 2;

/// Checks that the kernels can read the problem's weights on `device`.
pub(super) fn supported(problem: &Problem, device: &Capability) -> Result<(), Unsupported> {
    if problem.stored != Stored::Sparse24 {
        return Ok(());
    }
    let [rows, width] = problem.weight_rows();
    crate::fits_binding(
        KERNEL,
        problem.experts * rows * place_words(width) * 4,
        device,
    )
}

/// Checks that rows of 2:4 weights consist of as many weights as `variant` loads together, a multiple of `together`.
pub(super) fn whole_loads(
    problem: &Problem,
    variant: &str,
    together: usize,
) -> Result<(), Unsupported> {
    let [_, width] = problem.weight_rows();
    let whole = problem.stored != Stored::Sparse24 || width.is_multiple_of(together);
    let needs =
        format!("rows of 2:4 weights that are a multiple of {together} for the {variant} variant");
    Unsupported::unless(whole, KERNEL, needs, format_args!("rows of {width}"))
}

/// The weights in a row, and the rows before the bound slab.
#[derive(CubeType, Clone, Copy)]
pub(super) struct Stack {
    width: usize,
    skipped: usize,
}

#[cube]
pub(super) fn stack_of(
    sizes: &Sizes,
    #[comptime] parts: usize,
    #[comptime] layout: WeightLayout,
) -> Stack {
    match comptime!(layout) {
        WeightLayout::OutIn => Stack {
            width: sizes.k,
            skipped: sizes.slab_first * sizes.n * parts,
        },
        WeightLayout::InOut => Stack {
            width: sizes.n,
            skipped: sizes.slab_first * sizes.k,
        },
    }
}

/// The places of the kept weights of a group of a row: the first in two bits, the second in the next two.
#[cube]
fn places_of(places: &[u32], stack: &Stack, row: usize, group: usize) -> u32 {
    let words = stack.width.div_ceil(32);
    let word = places[(row + stack.skipped) * words + group / 8];
    (word >> (4 * (group % 8) as u32)) & 0xF
}

/// Kept weight `which`, 0 or 1, of group `group` of a row.
#[cube]
fn kept_weight<F: Float, L: Size>(
    kept: &[Vector<F, L>],
    stack: &Stack,
    row: usize,
    group: usize,
    #[comptime] which: usize,
) -> f32 {
    let lanes = L::value();
    let at = row * (stack.width / 4) + group;
    if comptime!(lanes == 4) {
        // A vector holds the weights of two groups.
        let two = kept[at / 2];
        let later = two.extract(comptime!(which + 2));
        f32::cast_from(select(at & 1 == 0, two.extract(which), later))
    } else {
        f32::cast_from(kept[at].extract(which))
    }
}

/// The weight at place `place` of a group with these places and kept weights.
#[cube]
fn weight_at(bits: u32, first: f32, second: f32, place: u32) -> f32 {
    let other = select((bits >> 2) == place, second, 0.0f32);
    select((bits & 3) == place, first, other)
}

/// Four weights of row `row` from `column` on, a multiple of 4; 0 past the end of the row.
#[cube]
pub(super) fn four_of_row<F: Float, L: Size>(
    kept: &[Vector<F, L>],
    places: &[u32],
    stack: &Stack,
    row: usize,
    column: usize,
) -> Vector<f32, Const<4>> {
    let mut four = Vector::<f32, Const<4>>::new(0.0f32);
    if column < stack.width {
        let group = column / 4;
        let bits = places_of(places, stack, row, group);
        let first = kept_weight::<F, L>(kept, stack, row, group, 0usize);
        let second = kept_weight::<F, L>(kept, stack, row, group, 1usize);
        #[unroll]
        for lane in 0..4usize {
            let place = comptime!(lane as u32).runtime();
            four.insert(lane, weight_at(bits, first, second, place));
        }
    }
    four
}

/// The weight of row `row` at `column`.
#[cube]
pub(super) fn one_of_row<F: Float, L: Size>(
    kept: &[Vector<F, L>],
    places: &[u32],
    stack: &Stack,
    row: usize,
    column: usize,
) -> f32 {
    let group = column / 4;
    let bits = places_of(places, stack, row, group);
    let first = kept_weight::<F, L>(kept, stack, row, group, 0usize);
    let second = kept_weight::<F, L>(kept, stack, row, group, 1usize);
    weight_at(bits, first, second, (column % 4) as u32)
}

/// Four weights of column `column` from row `row` on; 0 from row `end` on.
#[cube]
pub(super) fn four_of_rows<F: Float, L: Size>(
    kept: &[Vector<F, L>],
    places: &[u32],
    stack: &Stack,
    row: usize,
    end: usize,
    column: usize,
) -> Vector<f32, Const<4>> {
    let mut four = Vector::<f32, Const<4>>::new(0.0f32);
    #[unroll]
    for lane in 0..4usize {
        if row + lane < end {
            four.insert(
                lane,
                one_of_row::<F, L>(kept, places, stack, row + lane, column),
            );
        }
    }
    four
}

/// Chunk `chunk` of a row of weights in 16 bits, which is two groups; a chunk of kept weights is four.
#[cube]
pub(super) fn chunk_of_row(
    kept: &[Chunk],
    places: &[u32],
    stack: &Stack,
    row: usize,
    chunk: usize,
) -> Chunk {
    let four = kept[row * (stack.width / 16) + chunk / 2];
    let mut dense = Chunk::new(0u32);
    #[unroll]
    for group in 0..2usize {
        let later = four.extract(comptime!(group + 2));
        let pair = select(chunk & 1 == 0, four.extract(group), later);
        let bits = places_of(places, stack, row, 2 * chunk + group);
        #[unroll]
        for half in 0..2usize {
            let place = comptime!(2 * half as u32).runtime();
            let (low, high) = (half_at(pair, bits, place), half_at(pair, bits, place + 1));
            dense.insert(comptime!(2 * group + half), low | (high << 16));
        }
    }
    dense
}

/// The bits of the weight at place `place` of a group with these places, whose kept weights are the halves of `pair`.
#[cube]
fn half_at(pair: u32, bits: u32, place: u32) -> u32 {
    let other = select((bits >> 2) == place, pair >> 16, 0u32);
    select((bits & 3) == place, pair & 0xFFFF, other)
}

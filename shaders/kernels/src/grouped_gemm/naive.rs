//! The `naive` variant: one unit per output, as the baseline of the benchmarks.

use super::activation::{activate, gated};
use super::blocks;
use super::fp8::{one_of_line, panels_of};
use super::sparse24::{one_of_row, stack_of};
use super::tile::Spec;
use super::{
    Bindings, DeviceElement, Fp8Scheme, Operands, Plan, Sizes, Slab, Stored, WeightLayout, count,
    input_row, sizes, tile_at,
};
use cubecl::prelude::*;
use moebius_ops::blocks::BlockFormat;

/// Units per cube, one per column.
pub(super) const UNITS: u32 = 64;

#[cube(launch_unchecked)]
fn grouped_gemm_naive<F: Float, L: Size>(
    x: &[F],
    order: ComptimeOption<&[u32]>,
    tiles: ComptimeOption<&[u32]>,
    w: ComptimeOption<&[Vector<F, L>]>,
    words: ComptimeOption<&[u32]>,
    scales: ComptimeOption<&[u32]>,
    bias: ComptimeOption<&[F]>,
    out: &mut [F],
    sizes: Sizes,
    #[comptime] spec: Spec,
    #[define(F)] _element: ElemType,
) {
    let parts = comptime!(spec.parts);
    let (expert, row, _) = tile_at(&tiles, CUBE_POS_X as usize, sizes.rows, 1usize);
    let column = (CUBE_POS_Y * CUBE_DIM_X + UNIT_POS_X) as usize;
    if expert >= sizes.slab_first && expert < sizes.slab_last && column < sizes.n {
        let from = input_row(&order, row, sizes.top_k, comptime!(spec.rows)) * sizes.k;
        let mut value = 1.0f32;
        #[unroll]
        for part in 0..parts {
            // Parts are computed in reverse, so that the last factor is part 0, the gate, which gets the activation.
            let part = comptime!(parts - 1 - part);
            let mut sum = match comptime!(spec.stored) {
                Stored::Values => {
                    dot::<F, L>(x, w.unwrap(), &sizes, from, expert, part, column, spec)
                }
                Stored::Fp8(fp8) => {
                    let (codes, scales) = (words.unwrap(), scales.unwrap());
                    dot_codes::<F>(
                        x, codes, scales, &sizes, from, expert, part, column, spec, fp8,
                    )
                }
                Stored::Sparse24 => {
                    let (kept, places) = (w.unwrap(), words.unwrap());
                    dot_sparse::<F, L>(x, kept, places, &sizes, from, expert, part, column, spec)
                }
                Stored::Blocks(format) => {
                    let codes = words.unwrap();
                    dot_blocks::<F>(x, codes, &sizes, from, expert, part, column, spec, format)
                }
            };
            #[comptime]
            if let ComptimeOption::Some(bias) = &bias {
                sum += f32::cast_from(bias[(expert * parts + part) * sizes.n + column]);
            }
            let sum = Vector::<f32, Const<1>>::new(sum);
            if comptime!(part == 0) {
                value *= activate::<Const<1>>(sum, spec.activation).extract(0usize);
            } else {
                value *= gated::<Const<1>>(sum, spec.activation).extract(0usize);
            }
        }
        out[row * sizes.n + column] = F::cast_from(value);
    }
}

/// The dot product of the row of x at `from` and a column of a part of an expert.
#[cube]
fn dot<F: Float, L: Size>(
    x: &[F],
    w: &[Vector<F, L>],
    sizes: &Sizes,
    from: usize,
    expert: usize,
    part: usize,
    column: usize,
    #[comptime] spec: Spec,
) -> f32 {
    let in_slab = expert - sizes.slab_first;
    let (first, step) = match comptime!(spec.layout) {
        WeightLayout::OutIn => {
            let w_row = in_slab * sizes.n * comptime!(spec.parts) + part * sizes.n + column;
            (w_row * sizes.k, 1usize)
        }
        WeightLayout::InOut => (in_slab * sizes.k * sizes.n + column, sizes.n),
    };
    let mut sum = 0.0f32;
    for kk in 0..sizes.k {
        let a = f32::cast_from(x[from + kk]);
        sum = fma(a, f32::cast_from(w[first + kk * step].extract(0usize)), sum);
    }
    sum
}

/// Like [`dot`], with FP8 weights.
#[cube]
fn dot_codes<F: Float>(
    x: &[F],
    codes: &[u32],
    scales: &[u32],
    sizes: &Sizes,
    from: usize,
    expert: usize,
    part: usize,
    column: usize,
    #[comptime] spec: Spec,
    #[comptime] fp8: Fp8Scheme,
) -> f32 {
    let panels = panels_of(sizes, expert, spec.parts, spec.layout, fp8.granularity);
    let mut sum = 0.0f32;
    for kk in 0..sizes.k {
        let (line, at) = match comptime!(spec.layout) {
            WeightLayout::OutIn => (column, kk),
            WeightLayout::InOut => (kk, column),
        };
        let w = one_of_line(codes, scales, sizes, &panels, part, line, at, fp8);
        sum = fma(f32::cast_from(x[from + kk]), w, sum);
    }
    sum
}

/// Like [`dot`], with two of each four weights.
#[cube]
fn dot_sparse<F: Float, L: Size>(
    x: &[F],
    kept: &[Vector<F, L>],
    places: &[u32],
    sizes: &Sizes,
    from: usize,
    expert: usize,
    part: usize,
    column: usize,
    #[comptime] spec: Spec,
) -> f32 {
    let parts = comptime!(spec.parts);
    let in_slab = expert - sizes.slab_first;
    let stack = stack_of(sizes, parts, spec.layout);
    let mut sum = 0.0f32;
    for kk in 0..sizes.k {
        let (row, at) = match comptime!(spec.layout) {
            WeightLayout::OutIn => ((in_slab * parts + part) * sizes.n + column, kk),
            WeightLayout::InOut => (in_slab * sizes.k + kk, column),
        };
        let w = one_of_row::<F, L>(kept, places, &stack, row, at);
        sum = fma(f32::cast_from(x[from + kk]), w, sum);
    }
    sum
}

/// Like [`dot`], with weights in blocks.
#[cube]
fn dot_blocks<F: Float>(
    x: &[F],
    codes: &[u32],
    sizes: &Sizes,
    from: usize,
    expert: usize,
    part: usize,
    column: usize,
    #[comptime] spec: Spec,
    #[comptime] format: BlockFormat,
) -> f32 {
    let in_slab = expert - sizes.slab_first;
    let mut sum = 0.0f32;
    match comptime!(spec.layout) {
        WeightLayout::OutIn => {
            let row = (in_slab * comptime!(spec.parts) + part) * sizes.n + column;
            for kk in range_stepped(0, sizes.k, 4usize) {
                let four = blocks::four_of_row(codes, row, kk, sizes.k, format);
                #[unroll]
                for lane in 0..4usize {
                    let a = f32::cast_from(x[from + kk + lane]);
                    sum = fma(a, four.extract(lane), sum);
                }
            }
        }
        WeightLayout::InOut => {
            for kk in 0..sizes.k {
                let row = in_slab * sizes.k + kk;
                let w = blocks::one_of_row(codes, row, column, sizes.n, format);
                sum = fma(f32::cast_from(x[from + kk]), w, sum);
            }
        }
    }
    sum
}

pub(super) fn launch(client: &Client, plan: &Plan, slab: &Slab, operands: &Operands) {
    let p = &plan.problem;
    let spec = Spec::of(plan);
    let bound = Bindings::new(p, slab, operands);
    let (count, dim) = (count(plan.cubes()), CubeDim::new_1d(UNITS));
    let (order, tiles, bias) = (bound.order.into(), bound.tiles.into(), bound.bias.into());
    let (w, words, scales) = (bound.w.into(), bound.words.into(), bound.scales.into());
    let lanes = spec.weight_lanes(1);
    let (sizes, element) = (sizes(plan, slab), p.element.elem_type());
    // SAFETY: `plan` checked the shapes; rows come from tiles of one row, columns are guarded.
    unsafe {
        grouped_gemm_naive::launch_unchecked(
            client, count, dim, lanes, bound.x, order, tiles, w, words, scales, bias, bound.out,
            sizes, spec, element,
        );
    }
}

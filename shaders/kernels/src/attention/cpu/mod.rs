//! The `cpu` variant of attention: one task per core, no barriers, no workgroup memory.
//!
//! | file | contents |
//! |---|---|
//! | `forward.rs` | o and lse |
//! | `backward.rs` | dq, dk and dv |
//!
//! Each row sums in ascending order, independently of the rows beside it. Keys and values are packed for the register tile that
//! both passes use: as panels of two registers (the transpose, as the grouped GEMM packs weights), or as rows of f32 padded to
//! whole pairs of registers.

mod backward;
mod forward;

pub(super) use backward::launch as launch_backward;
pub(super) use forward::launch;

use super::operands::{Strided, Strides, StridesLaunch, head_at};
use super::{Form, Plan, name};
use crate::prelude::*;
use cubecl::prelude::*;
use std::ops::Range;

/// Query rows per block: enough to amortise loading a tile of keys and values into the cache.
const ROWS: usize = 96;

/// Rows of the register tile, as in the grouped GEMM.
const STRIP: usize = 6;

/// The rows of the block, and of the strip, that contain row `row` of the `rows` rows of a key head.
pub(super) fn shared_with(row: usize, rows: usize) -> [Range<usize>; 2] {
    let block = row / ROWS * ROWS;
    let strip = block + (row - block) / STRIP * STRIP;
    [
        block..(block + ROWS).min(rows),
        strip..(strip + STRIP).min(rows),
    ]
}

/// The number of keys of a tile.
pub(super) fn tile_keys(plan: &Plan) -> usize {
    Spec::of(plan).tile
}

/// Compile-time parameters of the kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Spec {
    form: Form,
    head_dim: usize,
    value_dim: usize,
    /// f32s per row of keys and per row of values, rounded up to whole pairs of registers.
    padded_head: usize,
    padded_value: usize,
    /// Keys per tile; with their values they fit the first-level cache.
    tile: usize,
}

impl Spec {
    fn of(plan: &Plan) -> Self {
        let (s, pair) = (plan.problem.sizes(), 2 * plan.register);
        let narrow = s.head_dim.max(s.value_dim) <= 64;
        Self {
            form: plan.form(),
            head_dim: s.head_dim,
            value_dim: s.value_dim,
            padded_head: s.head_dim.next_multiple_of(pair),
            padded_value: s.value_dim.next_multiple_of(pair),
            tile: if narrow { 64 } else { 32 },
        }
    }

    /// The width of a row of queries or keys.
    const fn head(self) -> Width {
        Width {
            dim: self.head_dim,
            padded: self.padded_head,
        }
    }

    /// The width of a row of values.
    const fn value(self) -> Width {
        Width {
            dim: self.value_dim,
            padded: self.padded_value,
        }
    }
}

/// The number of values of a row, and of the f32s that it takes in scratch.
#[derive(Clone, Copy)]
struct Width {
    dim: usize,
    padded: usize,
}

/// Where the operands of a product begin: the scalar of the left one, the register of the right one.
#[derive(CubeType, Clone, Copy)]
struct Corner {
    left: usize,
    right: usize,
}

/// The strides of the operands of a product: of the left one, in scalars, to the next row (`row`) and to the next step
/// (`across`); of the right one, in registers, to the next step (`down`).
#[derive(Clone, Copy)]
struct Apart {
    row: usize,
    across: usize,
    down: usize,
}

impl Apart {
    /// The strides of rows on the left and panels of two registers on the right.
    const fn of_panels(row: usize) -> Self {
        Self {
            row,
            across: 1,
            down: 2,
        }
    }
}

/// sums += left · right: [`STRIP`] rows of scalars times two registers in each of `steps` steps. If `careful`, a factor of 0 on
/// the left gives 0 for any number on the right, so that a hidden pair passes no NaN on.
#[cube]
fn multiply<N: Size>(
    sums: &mut Array<Vector<f32, N>>,
    left: &[Vector<f32, Const<1>>],
    right: &[Vector<f32, N>],
    from: &Corner,
    steps: usize,
    careful: bool,
    #[comptime] apart: Apart,
) {
    let (row, across, down) = comptime!((apart.row, apart.across, apart.down));
    if careful {
        let zero = Vector::<f32, N>::new(0.0f32);
        for step in 0..steps {
            let first = right[from.right + step * down];
            let second = right[from.right + step * down + 1];
            #[unroll]
            for i in 0..comptime!(STRIP) {
                let a = left[from.left + i * row + step * across].extract(0usize);
                let a = Vector::<f32, N>::new(a);
                let none = a.equal(&zero);
                sums[2 * i] = fma(a, select_many(none, zero, first), sums[2 * i]);
                sums[2 * i + 1] = fma(a, select_many(none, zero, second), sums[2 * i + 1]);
            }
        }
    } else {
        for step in 0..steps {
            let first = right[from.right + step * down];
            let second = right[from.right + step * down + 1];
            #[unroll]
            for i in 0..comptime!(STRIP) {
                let a = left[from.left + i * row + step * across].extract(0usize);
                let a = Vector::<f32, N>::new(a);
                sums[2 * i] = fma(a, first, sums[2 * i]);
                sums[2 * i + 1] = fma(a, second, sums[2 * i + 1]);
            }
        }
    }
}

/// The number of rows of sums and of f32s per row, and the strides of the product's left operand.
#[derive(Clone, Copy)]
struct Sums {
    rows: usize,
    padded: usize,
    row: usize,
    across: usize,
}

/// sums\[rows\] += left · right, strip by strip; the sums begin at `sums_at`, the operands at `from`.
#[cube]
fn add_product<N: Size>(
    scratch: &mut [Vector<f32, Const<1>>],
    right: &[Vector<f32, N>],
    sums_at: usize,
    from: &Corner,
    steps: usize,
    careful: bool,
    #[comptime] of: Sums,
) {
    let width = N::value();
    let (rows, padded) = comptime!((of.rows, of.padded));
    let across = comptime!(padded / width);
    for strip in 0..comptime!(rows.div_ceil(STRIP)) {
        for pair in 0..comptime!(across / 2) {
            let to = sums_at / width + strip * comptime!(STRIP * across) + 2 * pair;
            let mut sums = Array::<Vector<f32, N>>::new(comptime!(2 * STRIP));
            let view = scratch.with_vector_size_mut::<N>();
            #[unroll]
            for i in 0..comptime!(STRIP) {
                sums[2 * i] = view[to + i * across];
                sums[2 * i + 1] = view[to + i * across + 1];
            }
            let corner = Corner {
                left: from.left + strip * comptime!(STRIP * of.row),
                right: from.right + 2 * pair,
            };
            multiply::<N>(
                &mut sums,
                scratch.with_vector_size::<Const<1>>(),
                right,
                &corner,
                steps,
                careful,
                comptime!(Apart {
                    row: of.row,
                    across: of.across,
                    down: padded / width
                }),
            );
            let view = scratch.with_vector_size_mut::<N>();
            #[unroll]
            for i in 0..comptime!(STRIP) {
                view[to + i * across] = sums[2 * i];
                view[to + i * across + 1] = sums[2 * i + 1];
            }
        }
    }
}

/// Whether any number in `count` registers from `first` on is infinite or NaN.
#[cube]
fn any_infinite<N: Size>(from: &[Vector<f32, N>], first: usize, count: usize) -> bool {
    let zero = Vector::<f32, N>::new(0.0f32);
    let mut sum = zero;
    for i in 0..count {
        sum = fma(from[first + i], zero, sum);
    }
    sum.vector_sum() != 0.0f32
}

/// packed\[head\]\[panel\]\[d\]\[2\] = column d of the panel's rows; rows past the last repeat the last.
#[cube(launch_unchecked)]
fn attention_pack_panels<F: Float, N: Size>(
    x: &[F],
    packed: &mut [Vector<f32, N>],
    rows: usize,
    heads: usize,
    of_sequence: usize,
    strides: Strides,
    cores: usize,
    #[comptime] dim: usize,
    #[define(F)] _element: ElemType,
) {
    let width = N::value();
    let panels = rows.div_ceil(comptime!(2 * width));
    for at in range_stepped(ABSOLUTE_POS, panels * heads, cores) {
        let first = at % panels * comptime!(2 * width);
        let head = at / panels;
        let before = head_at(&strides, head / of_sequence, head % of_sequence);
        for d in 0..dim {
            #[unroll]
            for half in 0..2usize {
                let mut column = Vector::<f32, N>::new(0.0f32);
                #[unroll]
                for lane in 0..width {
                    let row = min(first + half * width + lane, rows - 1);
                    column.insert(lane, f32::cast_from(x[before + row * strides.row + d]));
                }
                packed[(at * dim + d) * 2 + half] = column;
            }
        }
    }
}

/// Converts rows to f32, padded with zeros to `padded` values.
#[cube(launch_unchecked)]
fn attention_pack_rows<F: Float>(
    x: &[F],
    packed: &mut [f32],
    rows: usize,
    of_head: usize,
    heads: usize,
    strides: Strides,
    cores: usize,
    #[comptime] dim: usize,
    #[comptime] padded: usize,
    #[define(F)] _element: ElemType,
) {
    for row in range_stepped(ABSOLUTE_POS, rows, cores) {
        let head = row / of_head;
        let from = head_at(&strides, head / heads, head % heads) + row % of_head * strides.row;
        for d in 0..dim {
            packed[row * padded + d] = f32::cast_from(x[from + d]);
        }
        for d in dim..padded {
            packed[row * padded + d] = 0.0f32;
        }
    }
}

/// Packs k or v, whose rows have `dim` values, into panels.
fn panels(client: &Client, plan: &Plan, x: &Strided, dim: usize) -> Handle {
    let (p, s, width) = (&plan.problem, plan.problem.sizes(), plan.register);
    let keys = s.keys.next_multiple_of(2 * width);
    let words = s.batch * s.kv_heads * keys * dim;
    let packed = empty_words(client, words);
    if words == 0 {
        return packed;
    }
    let (x, of_x) = elements(plan, x, dim, &packed);
    launched::note(|| name(p, "attention_cpu"));
    // SAFETY: the buffers hold the rows and their panels; rows past the last repeat it.
    unsafe {
        attention_pack_panels::launch_unchecked(
            client,
            CubeCount::Static(1, 1, 1),
            CubeDim::new_1d(plan.cores as u32),
            width,
            x,
            bind(packed.clone()),
            s.keys,
            s.batch * s.kv_heads,
            s.kv_heads,
            of_x,
            plan.cores,
            dim,
            p.element().elem_type(),
        );
    }
    packed
}

/// Binds k or v, whose rows have `dim` values, as scalars.
fn elements(plan: &Plan, x: &Strided, dim: usize, other: &Handle) -> (BufferArg, StridesLaunch) {
    let s = plan.problem.sizes();
    let shape = [s.batch, s.kv_heads, s.keys, dim];
    x.bind(shape, 1, plan.problem.element().bytes(), other)
}

/// Converts the rows of k or v, of `dim` values, to f32 padded to whole pairs of registers; returns the tensor itself if it
/// already is.
fn rows(client: &Client, plan: &Plan, x: &Strided, dim: usize, padded: usize) -> Handle {
    let p = &plan.problem;
    if p.element() == Element::F32 && padded == dim && x.strides.is_none() {
        return x.buffer.clone();
    }
    let words = p.key_rows() * padded;
    let packed = empty_words(client, words);
    if words == 0 {
        return packed;
    }
    let (x, of_x) = elements(plan, x, dim, &packed);
    launched::note(|| name(p, "attention_cpu"));
    // SAFETY: the buffers hold the rows, as they are and filled up.
    unsafe {
        attention_pack_rows::launch_unchecked(
            client,
            CubeCount::Static(1, 1, 1),
            CubeDim::new_1d(plan.cores as u32),
            x,
            bind(packed.clone()),
            p.key_rows(),
            p.sizes().keys,
            p.sizes().kv_heads,
            of_x,
            plan.cores,
            dim,
            padded,
            p.element().elem_type(),
        );
    }
    packed
}

//! The `unit` variant: a cube owns 64 × 64 elements of a gradient, a unit 4 × 4 of them.
//!
//! Each step loads 16 rows of both operands into workgroup memory, with zeros past the expert's last row; a unit reads a vector
//! of four of each row and adds their outer product. The units of a cube read neighbouring vectors of a row or the same one, so
//! there are no bank conflicts. The kernel stays within WebGPU's default limits: 256 units, 8 KiB, 5 bindings, no subgroups.

use super::{Bindings, Operands, Plan, Sizes, Slab, Source, Spec, Step, cubes, sizes};
use crate::grouped_gemm::{input_row, segment, tile::load_four};
use crate::prelude::*;
use cubecl::prelude::*;

/// Edge of a cube's tile.
pub(super) const EDGE: usize = 64;

/// Vectors of four along an edge, which is also the number of units along an edge.
const VECTORS: usize = EDGE / 4;

/// Units per cube.
pub(super) const UNITS: u32 = (VECTORS * VECTORS) as u32;

/// Rows per step: each unit loads one vector of each operand.
pub(super) const STEP: usize = UNITS as usize / VECTORS;

/// Bytes of workgroup memory.
pub(super) const SHARED_BYTES: usize = 2 * STEP * VECTORS * 16;

/// Loads this unit's vector of a step.
#[cube]
fn load_step<F: Float, N: Size>(
    from: &[Vector<F, N>],
    order: &ComptimeOption<&[u32]>,
    tile: &mut Shared<[Vector<f32, Const<4>>]>,
    step: &Step,
    top_k: usize,
    #[comptime] source: Source,
) {
    let unit = UNIT_POS as usize;
    let row = step.row + unit / comptime!(VECTORS);
    let column = step.first + 4 * (unit % comptime!(VECTORS));
    let mut four = Vector::<f32, Const<4>>::new(0.0f32);
    if row < step.end {
        let row = input_row(order, row, top_k, source);
        four = load_four::<F, N>(from, row, column, step.columns);
    }
    tile[unit] = four;
}

/// Adds the outer products of a step's rows to the register tile, in order.
#[cube]
fn multiply(
    a_tile: &Shared<[Vector<f32, Const<4>>]>,
    b_tile: &Shared<[Vector<f32, Const<4>>]>,
    sums: &mut Array<Vector<f32, Const<4>>>,
) {
    #[unroll]
    for row in 0..comptime!(STEP) {
        let left = a_tile[row * comptime!(VECTORS) + UNIT_POS_Y as usize];
        let right = b_tile[row * comptime!(VECTORS) + UNIT_POS_X as usize];
        #[unroll]
        for i in 0..4usize {
            sums[i] = fma(Vector::new(left.extract(i)), right, sums[i]);
        }
    }
}

#[cube(launch_unchecked)]
fn weight_gradient_tile<F: Float, M: Size, L: Size>(
    a: &[Vector<F, M>],
    b: &[Vector<F, L>],
    order: ComptimeOption<&[u32]>,
    offsets: ComptimeOption<&[u32]>,
    out: &mut [Vector<f32, L>],
    sizes: Sizes,
    #[comptime] spec: Spec,
    #[define(F)] _element: ElemType,
) {
    let len = comptime!(STEP * VECTORS);
    let mut a_tile = Shared::<[Vector<f32, Const<4>>]>::new_slice(len);
    let mut b_tile = Shared::<[Vector<f32, Const<4>>]>::new_slice(len);
    let mut sums = Array::<Vector<f32, Const<4>>>::new(4usize);
    #[unroll]
    for i in 0..4usize {
        sums[i] = Vector::new(0.0f32);
    }
    let expert = sizes.slab_first + CUBE_POS_Z as usize;
    let (begin, end) = segment(&offsets, expert, sizes.rows);
    let first_line = CUBE_POS_X as usize * comptime!(EDGE);
    let first = CUBE_POS_Y as usize * comptime!(EDGE);
    // The range is the same for the whole cube, so either all units or none reach the barriers inside.
    for row in range_stepped(begin, end, comptime!(STEP)) {
        let left = Step {
            row,
            end,
            first: first_line,
            columns: sizes.m,
        };
        let right = Step {
            row,
            end,
            first,
            columns: sizes.n,
        };
        load_step::<F, M>(a, &order, &mut a_tile, &left, sizes.top_k, spec.a);
        load_step::<F, L>(b, &order, &mut b_tile, &right, sizes.top_k, spec.b);
        sync_cube();
        multiply(&a_tile, &b_tile, &mut sums);
        sync_cube();
    }
    let line = first_line + 4 * UNIT_POS_Y as usize;
    let column = first + 4 * UNIT_POS_X as usize;
    #[unroll]
    for i in 0..4usize {
        if line + i < sizes.m {
            let to = (CUBE_POS_Z as usize * sizes.m + line + i) * sizes.n;
            store_four::<L>(out, sums[i], to, column, sizes.n);
        }
    }
}

/// Stores those of four columns that lie inside the row of `n` elements that starts at `row`.
#[cube]
fn store_four<N: Size>(
    out: &mut [Vector<f32, N>],
    four: Vector<f32, Const<4>>,
    row: usize,
    column: usize,
    n: usize,
) {
    let lanes = N::value();
    if comptime!(lanes == 4) {
        if column < n {
            out[(row + column) / 4] = Vector::cast_from(four);
        }
    } else {
        #[unroll]
        for lane in 0..4usize {
            if column + lane < n {
                out[row + column + lane] = Vector::new(four.extract(lane));
            }
        }
    }
}

pub(super) fn launch(client: &Client, plan: &Plan, slab: &Slab, operands: &Operands) {
    let [a_lanes, b_lanes] = plan.lanes;
    let bound = Bindings::new(&plan.problem, slab, operands);
    let dim = CubeDim::new_2d(VECTORS as u32, VECTORS as u32);
    let (count, sizes) = (count(cubes(plan, slab)), sizes(plan, slab));
    let (order, offsets) = (bound.order.into(), bound.offsets.into());
    let spec = Spec::of(&plan.problem);
    let element = plan.problem.product.element.elem_type();
    // SAFETY: `plan` checked shapes, workgroup memory and cube counts; rows past an expert's last
    // and elements past the last column are neither read nor stored.
    unsafe {
        weight_gradient_tile::launch_unchecked(
            client, count, dim, a_lanes, b_lanes, bound.a, bound.b, order, offsets, bound.out,
            sizes, spec, element,
        );
    }
}

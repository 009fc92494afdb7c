//! The `naive` variant: one unit per element of a gradient.

use super::{Bindings, Operands, Plan, Slab, Spec, cubes};
use crate::grouped_gemm::{input_row, segment};
use crate::prelude::*;
use cubecl::prelude::*;

/// Units of a cube, one per column of b.
pub(super) const UNITS: u32 = 64;

#[cube(launch_unchecked)]
fn weight_gradient_naive<F: Float>(
    a: &[F],
    b: &[F],
    order: ComptimeOption<&[u32]>,
    offsets: ComptimeOption<&[u32]>,
    out: &mut [f32],
    m: usize,
    n: usize,
    top_k: usize,
    rows: usize,
    slab_first: usize,
    #[comptime] spec: Spec,
    #[define(F)] _element: ElemType,
) {
    let column = (CUBE_POS_X * CUBE_DIM_X + UNIT_POS_X) as usize;
    let line = CUBE_POS_Y as usize;
    let expert = slab_first + CUBE_POS_Z as usize;
    if column < n {
        let mut sum = 0.0f32;
        let (begin, end) = segment(&offsets, expert, rows);
        for row in begin..end {
            let a_row = input_row(&order, row, top_k, comptime!(spec.a));
            let b_row = input_row(&order, row, top_k, comptime!(spec.b));
            let left = f32::cast_from(a[a_row * m + line]);
            sum = fma(left, f32::cast_from(b[b_row * n + column]), sum);
        }
        out[(CUBE_POS_Z as usize * m + line) * n + column] = sum;
    }
}

pub(super) fn launch(client: &Client, plan: &Plan, slab: &Slab, operands: &Operands) {
    let p = &plan.problem;
    // SAFETY: `plan` checked the shapes; a cube's line and expert exist, columns are guarded.
    unsafe {
        let bound = Bindings::new(plan, slab, operands, [1; 3]);
        weight_gradient_naive::launch_unchecked(
            client,
            count(cubes(plan, slab)),
            CubeDim::new_1d(UNITS),
            bound.a,
            bound.b,
            bound.order.into(),
            bound.offsets.into(),
            bound.out,
            p.m,
            p.n,
            p.top_k,
            p.row_bound,
            slab.first as usize,
            Spec::of(p),
            p.element.elem_type(),
        );
    }
}

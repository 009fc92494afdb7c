//! The `naive` variant: one unit per element of a gradient.

use super::{Bindings, Operands, Plan, Sizes, Slab, Spec, cubes, sizes};
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
    sizes: Sizes,
    #[comptime] spec: Spec,
    #[define(F)] _element: ElemType,
) {
    let column = (CUBE_POS_X * CUBE_DIM_X + UNIT_POS_X) as usize;
    let line = CUBE_POS_Y as usize;
    let expert = sizes.slab_first + CUBE_POS_Z as usize;
    if column < sizes.n {
        let mut sum = 0.0f32;
        let (begin, end) = segment(&offsets, expert, sizes.rows);
        for row in begin..end {
            // Mesa's software driver leaves a loop after one more round in which no unit counts, and reads there what is
            // the same for all units: a row past the end would lead it to any address.
            let row = min(row, end - 1);
            let a_row = input_row(&order, row, sizes.top_k, comptime!(spec.a));
            let b_row = input_row(&order, row, sizes.top_k, comptime!(spec.b));
            let left = f32::cast_from(a[a_row * sizes.m + line]);
            sum = fma(left, f32::cast_from(b[b_row * sizes.n + column]), sum);
        }
        out[(CUBE_POS_Z as usize * sizes.m + line) * sizes.n + column] = sum;
    }
}

pub(super) fn launch(client: &Client, plan: &Plan, slab: &Slab, operands: &Operands) {
    // SAFETY: `plan` checked the shapes; a cube's line and expert exist, columns are guarded.
    unsafe {
        let bound = Bindings::new(&plan.problem, slab, operands);
        weight_gradient_naive::launch_unchecked(
            client,
            count(cubes(plan, slab)),
            CubeDim::new_1d(UNITS),
            bound.a,
            bound.b,
            bound.order.into(),
            bound.offsets.into(),
            bound.out,
            sizes(plan, slab),
            Spec::of(&plan.problem),
            plan.problem.product.element.elem_type(),
        );
    }
}

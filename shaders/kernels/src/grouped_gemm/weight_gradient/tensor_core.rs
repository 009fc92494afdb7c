//! The `tensor_core` variant: a cube owns 64 × 64 elements of a gradient, and a plane the rows of one fragment of them.
//!
//! Each step loads the rows of one fragment of both operands into workgroup memory, with zeros past the expert's last row. The
//! rows are the inner columns of the product, so a is read transposed.

use super::{
    Bindings, Matrices, Operands, Plan, Problem, Sizes, Slab, Source, Spec, Step, cubes, sizes,
};
use crate::grouped_gemm::fragments::{
    ALIGNMENT, Fragments, Lines, TILE, multiply, stage, zero_sums,
};
use crate::grouped_gemm::{input_row, segment};
use crate::prelude::*;
use cubecl::prelude::*;

/// Edge of a cube's tile.
pub(super) const EDGE: usize = TILE;

/// The fragments of `device` for this problem.
pub(super) fn supported(problem: &Problem, device: &Capability) -> Result<Fragments, Unsupported> {
    let element = problem.product.element;
    let fragments = Fragments::of(element, super::KERNEL, device)?;
    let columns = problem.columns();
    let needs = "columns that are multiples of 4 for the tensor_core variant";
    let whole = columns.iter().all(|columns| columns.is_multiple_of(4));
    Unsupported::unless(whole, super::KERNEL, needs, format_args!("{columns:?}"))?;
    let tiles = 2 * Lines::Inner.vectors(fragments, EDGE) * 4 * element.bytes();
    let memory = tiles + fragments.staged(1) * 4;
    crate::fits_cube(super::KERNEL, fragments.units() as u32, memory, device)?;
    Ok(fragments)
}

#[cube]
fn step(row: usize, end: usize, first: usize, columns: usize) -> Step {
    Step {
        row,
        end,
        first,
        columns,
    }
}

/// Loads the rows of a step.
#[cube]
fn load_step<F: Float>(
    from: &[Vector<F, Const<4>>],
    order: &ComptimeOption<&[u32]>,
    tile: &mut Shared<[Vector<F, Const<4>>]>,
    step: Step,
    top_k: usize,
    #[comptime] source: Source,
    #[comptime] fragments: Fragments,
) {
    let across = comptime!(EDGE / 4);
    let (vectors, units) = comptime!((fragments.edge * EDGE / 4, fragments.units()));
    #[unroll]
    for round in 0..comptime!(vectors.div_ceil(units)) {
        let i = UNIT_POS as usize + round * units;
        if i < vectors {
            let row = step.row + i / across;
            let column = step.first + 4 * (i % across);
            let mut four = Vector::<F, Const<4>>::new(F::new(0.0));
            if row < step.end && column < step.columns {
                let row = input_row(order, row, top_k, source);
                four = from[(row * step.columns + column) / 4];
            }
            tile[(i / across) * comptime!(Lines::Inner.stride(fragments, EDGE)) + i % across] =
                four;
        }
    }
}

#[cube(launch_unchecked)]
fn weight_gradient_tensor_core<F: Float>(
    a: &[Vector<F, Const<4>>],
    b: &[Vector<F, Const<4>>],
    order: ComptimeOption<&[u32]>,
    offsets: ComptimeOption<&[u32]>,
    out: &mut [f32],
    sizes: Sizes,
    #[comptime] spec: Spec,
    #[comptime] fragments: Fragments,
    #[define(F)] _element: ElemType,
) {
    let len = comptime!(Lines::Inner.vectors(fragments, EDGE));
    let mut a_tile = Shared::<[Vector<F, Const<4>>]>::new_aligned_slice(len, ALIGNMENT);
    let mut b_tile = Shared::<[Vector<F, Const<4>>]>::new_aligned_slice(len, ALIGNMENT);
    let mut staged = Shared::<[f32]>::new_aligned_slice(comptime!(fragments.staged(1)), ALIGNMENT);
    let sums = zero_sums(EDGE, fragments);
    let expert = sizes.slab_first + CUBE_POS_Z as usize;
    let (begin, end) = segment(&offsets, expert, sizes.rows);
    let first_line = CUBE_POS_X as usize * comptime!(EDGE);
    let first = CUBE_POS_Y as usize * comptime!(EDGE);
    // The range is the same for the whole cube, so either all units or none reach the barriers inside.
    for row in range_stepped(begin, end, comptime!(fragments.edge)) {
        let of_a = step(row, end, first_line, sizes.m);
        let of_b = step(row, end, first, sizes.n);
        load_step::<F>(a, &order, &mut a_tile, of_a, sizes.top_k, spec.a, fragments);
        load_step::<F>(b, &order, &mut b_tile, of_b, sizes.top_k, spec.b, fragments);
        sync_cube();
        let lines = comptime!([Lines::Inner, Lines::Inner]);
        multiply::<F>(&a_tile, &b_tile, &sums, lines, EDGE, fragments);
        sync_cube();
    }
    let edge = comptime!(fragments.edge);
    let area = comptime!(edge * edge);
    let plane = UNIT_POS_Y as usize;
    #[unroll]
    for j in 0..comptime!(EDGE / edge) {
        stage(&mut staged, &sums[j], 0usize, 1usize, fragments);
        sync_cube();
        for i in range_stepped(UNIT_POS_X as usize, area, comptime!(fragments.plane)) {
            let line = first_line + plane * edge + i / edge;
            let column = first + comptime!(j * edge) + i % edge;
            if line < sizes.m && column < sizes.n {
                let to = (CUBE_POS_Z as usize * sizes.m + line) * sizes.n + column;
                out[to] = staged[plane * area + i];
            }
        }
        sync_cube();
    }
}

pub(super) fn launch(client: &Client, plan: &Plan, slab: &Slab, operands: &Operands) {
    let Some(Matrices::Fragments(fragments)) = plan.matrices else {
        return;
    };
    let bound = Bindings::new(&plan.problem, slab, operands);
    let dim = CubeDim::new_2d(fragments.plane as u32, fragments.planes() as u32);
    let (count, sizes) = (count(cubes(plan, slab)), sizes(plan, slab));
    let (order, offsets) = (bound.order.into(), bound.offsets.into());
    let spec = Spec::of(&plan.problem);
    let element = plan.problem.product.element.elem_type();
    // SAFETY: `plan` checked shapes, fragments, workgroup memory and cube counts; rows past an expert's last and elements past
    // the last column are neither read nor stored.
    unsafe {
        weight_gradient_tensor_core::launch_unchecked(
            client, count, dim, bound.a, bound.b, order, offsets, bound.out, sizes, spec,
            fragments, element,
        );
    }
}

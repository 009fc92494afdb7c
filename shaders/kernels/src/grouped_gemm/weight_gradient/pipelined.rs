//! The `pipelined` variant: a cube owns a tile of an expert's gradient, and the expert's rows are the inner columns.

use super::{
    Bindings, KERNEL, Matrices, Operands, Plan, Problem, Sizes, Slab, Source, Spec, cubes, sizes,
};
use crate::grouped_gemm::fragments::Lines;
use crate::grouped_gemm::pipeline::copies::{
    after, chunks, copied, copy, end_copies, wait_for_stage,
};
use crate::grouped_gemm::pipeline::products::{
    Sums, begin_products, end_products, first_of_unit, four_sums, zero_sums,
};
use crate::grouped_gemm::pipeline::{CHUNK, Chunk, Extent, Pipeline, Rings, rings};
use crate::grouped_gemm::{input_row, segment};
use crate::prelude::*;
use cubecl::prelude::*;

/// The pipeline of `problem` on `device`.
pub(super) fn supported(problem: &Problem, device: &Capability) -> Result<Pipeline, Unsupported> {
    let [m, n] = problem.columns();
    let whole = m.is_multiple_of(CHUNK) && n.is_multiple_of(CHUNK);
    let needs = "rows of multiples of 8 elements for copies of 16 bytes";
    Unsupported::unless(whole, KERNEL, needs, format_args!("{m} and {n} columns"))?;
    let experts = problem.product.experts;
    let extent = Extent {
        segments: experts,
        rows: experts * m,
        columns: n,
    };
    Pipeline::of(problem.product.element, [Lines::Inner; 2], extent, device)
}

/// The rows of this cube's expert, and the first columns of both operands in its tile.
#[derive(CubeType, Clone, Copy)]
struct Part {
    begin: usize,
    end: usize,
    left: usize,
    right: usize,
}

/// Starts the copies of one step of rows of an operand; rows past the expert's last are zeros.
#[cube]
fn copy_rows(
    from: &[Chunk],
    order: &ComptimeOption<&[u32]>,
    ring: &mut Shared<[Chunk]>,
    part: &Part,
    columns: usize,
    top_k: usize,
    step: usize,
    slot: usize,
    #[comptime] source: Source,
    #[comptime] operand: usize,
    #[comptime] of: Pipeline,
) {
    let first = match comptime!(operand) {
        0 => part.left,
        _ => part.right,
    };
    #[unroll]
    for i in 0..comptime!(of.copies(operand)) {
        let (line, chunk) = copied(i, operand, of);
        let row = part.begin + step * comptime!(of.step) + line;
        let column = chunks(first) + chunk;
        let inside = row < part.end && column < chunks(columns);
        let row = input_row(order, min(row, part.end - 1), top_k, source);
        let at = row * chunks(columns) + column;
        copy(from, at, inside, ring, slot, line, chunk, operand, of);
    }
}

/// Starts to fill a stage with both operands' step.
#[cube]
fn fill(
    a: &[Chunk],
    b: &[Chunk],
    order: &ComptimeOption<&[u32]>,
    rings: &mut Rings,
    part: &Part,
    sizes: &Sizes,
    step: usize,
    slot: usize,
    #[comptime] spec: Spec,
    #[comptime] of: Pipeline,
) {
    let (m, n, top_k) = (sizes.m, sizes.n, sizes.top_k);
    copy_rows(
        a,
        order,
        &mut rings.left,
        part,
        m,
        top_k,
        step,
        slot,
        spec.a,
        0usize,
        of,
    );
    copy_rows(
        b,
        order,
        &mut rings.right,
        part,
        n,
        top_k,
        step,
        slot,
        spec.b,
        1usize,
        of,
    );
}

#[cube(launch_unchecked)]
fn weight_gradient_pipelined(
    a: &[Chunk],
    b: &[Chunk],
    order: ComptimeOption<&[u32]>,
    offsets: ComptimeOption<&[u32]>,
    out: &mut [Vector<f32, Const<2>>],
    sizes: Sizes,
    #[comptime] spec: Spec,
    #[comptime] of: Pipeline,
) {
    let stages = comptime!(of.stages);
    let mut rings = rings(of);
    let [rows, columns] = comptime!(of.tile());
    let (begin, end) = segment(&offsets, sizes.slab_first + CUBE_POS_Z as usize, sizes.rows);
    let part = Part {
        begin,
        end,
        left: CUBE_POS_X as usize * rows,
        right: CUBE_POS_Y as usize * columns,
    };
    let size!(S) = comptime!(of.sums());
    let mut sums = zero_sums::<S>(of);
    // The condition is the same for the whole cube, so either all units or none reach the barriers inside.
    if begin < end {
        #[unroll]
        for stage in 0..comptime!(stages - 1) {
            let stage = stage.runtime();
            fill(
                a, b, &order, &mut rings, &part, &sizes, stage, stage, spec, of,
            );
            end_copies();
        }
        let steps = (end - begin).div_ceil(comptime!(of.step));
        let mut slot = 0usize.runtime();
        let mut free = comptime!(stages - 1).runtime();
        for step in 0..steps {
            wait_for_stage(of);
            begin_products::<S>(&rings, &mut sums, slot, of);
            let ahead = step + comptime!(stages - 1);
            if ahead < steps {
                fill(
                    a, b, &order, &mut rings, &part, &sizes, ahead, free, spec, of,
                );
            }
            end_copies();
            end_products::<S>(&rings, &mut sums, slot, of);
            free = slot;
            slot = after(slot, of);
        }
    }
    store::<S>(out, &sums, &part, &sizes, of);
}

/// Stores the sums inside the matrix.
#[cube]
fn store<S: Size>(
    out: &mut [Vector<f32, Const<2>>],
    sums: &Sums<S>,
    part: &Part,
    sizes: &Sizes,
    #[comptime] of: Pipeline,
) {
    let [down, across] = comptime!(of.products());
    let (row, column) = first_of_unit(of);
    #[unroll]
    for i in 0..down {
        #[unroll]
        for j in 0..across {
            let sum = four_sums::<S>(sums, comptime!(i * across + j), of);
            let column = part.right + column + j * 8;
            #[unroll]
            for half in 0..2usize {
                let line = part.left + row + i * 16 + half * 8;
                if line < sizes.m && column < sizes.n {
                    let mut pair = Vector::<f32, Const<2>>::new(0.0f32);
                    pair.insert(0usize, sum.extract(2 * half));
                    pair.insert(1usize, sum.extract(2 * half + 1));
                    let to = (CUBE_POS_Z as usize * sizes.m + line) * sizes.n + column;
                    out[to / 2] = pair;
                }
            }
        }
    }
}

pub(super) fn launch(client: &Client, plan: &Plan, slab: &Slab, operands: &Operands) {
    let Some(Matrices::Pipeline(of)) = plan.matrices else {
        return;
    };
    let bound = Bindings::new(&plan.problem, slab, operands);
    let [units, planes] = of.dim();
    let (count, sizes) = (count(cubes(plan, slab)), sizes(plan, slab));
    let (order, offsets) = (bound.order.into(), bound.offsets.into());
    let spec = Spec::of(&plan.problem);
    // SAFETY: `plan` checked shapes, instructions, workgroup memory and cube counts; rows past an expert's last and chunks past the
    // last column are neither read nor stored.
    unsafe {
        weight_gradient_pipelined::launch_unchecked(
            client,
            count,
            CubeDim::new_2d(units, planes),
            bound.a,
            bound.b,
            order,
            offsets,
            bound.out,
            sizes,
            spec,
            of,
        );
    }
}

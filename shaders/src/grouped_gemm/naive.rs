//! The `naive` variant: one unit per output, the baseline of the benchmarks.

use super::{
    Activation, Bindings, Operands, Plan, Sizes, Slab, Source, WeightLayout, activation::activate,
    sizes, source_row,
};
use cubecl::prelude::*;

/// Units of a cube, one per column.
pub(super) const UNITS: u32 = 64;

/// What the kernel is specialised on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Spec {
    rows: Source,
    layout: WeightLayout,
    parts: usize,
    activation: Option<Activation>,
}

impl Spec {
    fn of(plan: &Plan) -> Self {
        let p = &plan.problem;
        Self {
            rows: p.rows,
            layout: p.layout,
            parts: p.parts(),
            activation: p.activation,
        }
    }
}

#[cube(launch_unchecked)]
fn grouped_gemm_naive<F: Float>(
    x: &[F],
    order: &[u32],
    tiles: &[u32],
    w: &[F],
    bias: ComptimeOption<&[F]>,
    out: &mut [F],
    sizes: Sizes,
    #[comptime] spec: Spec,
    #[define(F)] _element: ElemType,
) {
    let parts = comptime!(spec.parts);
    let row = tiles[2 * CUBE_POS_X as usize + 1] as usize;
    let expert = tiles[2 * CUBE_POS_X as usize] as usize;
    let column = (CUBE_POS_Y * CUBE_DIM_X + UNIT_POS_X) as usize;
    if expert >= sizes.slab_first && expert < sizes.slab_last && column < sizes.n {
        let from = source_row(order, row, sizes.top_k, comptime!(spec.rows));
        let in_slab = expert - sizes.slab_first;
        let mut value = 1.0f32;
        #[unroll]
        for part in 0..parts {
            // The gate's activation belongs to the last factor computed, part 0.
            let part = comptime!(parts - 1 - part);
            let (first, step) = match comptime!(spec.layout) {
                WeightLayout::OutIn => {
                    let w_row = in_slab * sizes.n * parts + part * sizes.n + column;
                    (w_row * sizes.k, 1usize)
                }
                WeightLayout::InOut => (in_slab * sizes.k * sizes.n + column, sizes.n),
            };
            let mut sum = 0.0f32;
            for kk in 0..sizes.k {
                let a = f32::cast_from(x[from * sizes.k + kk]);
                sum = fma(a, f32::cast_from(w[first + kk * step]), sum);
            }
            #[comptime]
            if let ComptimeOption::Some(bias) = &bias {
                sum += f32::cast_from(bias[(expert * parts + part) * sizes.n + column]);
            }
            if comptime!(part == 0) {
                let sum = Vector::<f32, Const<1>>::new(sum);
                value *= activate::<Const<1>>(sum, spec.activation).extract(0usize);
            } else {
                value *= sum;
            }
        }
        out[row * sizes.n + column] = F::cast_from(value);
    }
}

/// Cubes along x and y: one row each, a block of columns each.
pub(super) fn cubes(plan: &Plan) -> [usize; 2] {
    [plan.max_tiles(), plan.problem.n.div_ceil(UNITS as usize)]
}

pub(super) fn launch(client: &Client, plan: &Plan, slab: &Slab, operands: &Operands) {
    let p = &plan.problem;
    let [rows, columns] = cubes(plan);
    let spec = Spec::of(plan);
    // SAFETY: `plan` checked the shapes; rows come from tiles of one row, columns are guarded.
    unsafe {
        let bound = Bindings::new(plan, slab, operands, [1, 1]);
        grouped_gemm_naive::launch_unchecked(
            client,
            CubeCount::Static(rows as u32, columns as u32, 1),
            CubeDim::new_1d(UNITS),
            bound.x,
            bound.order,
            bound.tiles,
            bound.weights,
            bound.bias.into(),
            bound.out,
            sizes(plan, slab),
            spec,
            p.element.elem_type(),
        );
    }
}

/// The kernel that [`launch`] would enqueue.
#[cfg(feature = "emit")]
pub(super) fn kernel(at: &crate::emit::Machine, plan: &Plan) -> Box<dyn CubeKernel> {
    use crate::emit::buffer;
    let p = &plan.problem;
    let (settings, device, target) = at.parts(CubeDim::new_1d(UNITS));
    let spec = Spec::of(plan);
    Box::new(grouped_gemm_naive::GroupedGemmNaive::new(
        settings,
        device,
        target,
        buffer(),
        buffer(),
        buffer(),
        buffer(),
        super::bias_argument(p),
        buffer(),
        super::sizes_argument(),
        spec,
        p.element.elem_type(),
    ))
}

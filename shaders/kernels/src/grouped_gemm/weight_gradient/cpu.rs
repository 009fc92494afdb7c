//! The `cpu` variant of the weight gradient: one task per core, no barriers, no workgroup memory.
//!
//! A task owns a rectangle of every gradient. It takes an expert's rows in blocks of [`BLOCK`]. From a it packs its columns
//! (\[rows, m\] → \[m / 6\]\[rows\]\[6\]) once per block; from b it packs a panel of two registers of columns (→ \[rows\]\[2
//! registers\]) at a time. A register tile of [`TILE`] × 2 registers runs down the panel, with sums that continue those that
//! earlier blocks stored: each step loads two registers of b and broadcasts [`TILE`] elements of a. Both are packed because rows
//! of 2^n bytes share a few sets of a cache, and a tile would read one line of each row.
//!
//! Throughput per second of both cores' processor time, on 2 Zen 5 cores: 427–488 GFLOP for 8192 rows, 8 experts and 2048 × 512
//! or 4096 × 1024 columns either way, where the product reaches 461–489. Tiles of 8, and blocks of 512 or 1024 rows, were at most
//! 17 % slower; a small block also needs the least scratch.

use super::{Bindings, Operands, Plan, Slab, Spec as Sources};
use crate::grouped_gemm::cpu::{ROWS as TILE, load_register, store_register};
use crate::grouped_gemm::{input_row, segment};
use crate::prelude::*;
use cubecl::prelude::*;

/// Rows of a and b that are packed at once: a panel of them is 32 KiB with 16 lanes, which stays in a first-level cache of 48
/// KiB.
const BLOCK: usize = 256;

/// The stride of packed tiles, in elements: one cache line more than a tile, so that tiles don't start in the same set of a
/// cache.
const STRIDE: usize = BLOCK * TILE + 16;

/// Compile-time parameters of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Spec {
    sources: Sources,
    /// Whether the columns of b and dW are a multiple of the register width, so that whole registers are moved.
    aligned: bool,
}

impl Spec {
    fn of(plan: &Plan) -> Self {
        Self {
            sources: Sources::of(&plan.problem),
            aligned: plan.problem.columns()[1].is_multiple_of(plan.lanes[1]),
        }
    }

    /// The number of elements per load of b and per store of dW.
    fn lanes(&self, plan: &Plan) -> usize {
        if self.aligned { plan.lanes[1] } else { 1 }
    }
}

/// Sizes given at launch.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
struct Sizes {
    m: usize,
    n: usize,
    top_k: usize,
    /// The number of rows of a dense product.
    rows: usize,
    /// The number of tasks along m and along n.
    tasks_m: usize,
    tasks_n: usize,
    slab_first: usize,
    slab_last: usize,
}

/// One block of an expert's rows, and a task's part of its work.
#[derive(CubeType, Clone, Copy)]
struct Work {
    m: usize,
    n: usize,
    top_k: usize,
    first_row: usize,
    rows: usize,
    /// Whether these are the expert's first rows.
    fresh: bool,
    /// The task's tiles of a: the first, and one past the last.
    first_tile: usize,
    last_tile: usize,
    /// The offset of the task's scratch, and of row 0 of the expert's gradient.
    lines: usize,
    panel: usize,
    out_row: usize,
}

/// lines\[tile\]\[row\]\[i\] = column 6·tile + i of a; columns past the last repeat the last.
#[cube]
fn pack_lines<F: Float>(
    a: &[F],
    order: &ComptimeOption<&[u32]>,
    lines: &mut [f32],
    work: &Work,
    #[comptime] spec: Spec,
) {
    for row in 0..work.rows {
        let sorted = work.first_row + row;
        let from = input_row(order, sorted, work.top_k, comptime!(spec.sources.a)) * work.m;
        for tile in work.first_tile..work.last_tile {
            let to = work.lines + (tile - work.first_tile) * comptime!(STRIDE) + row * TILE;
            #[unroll]
            for i in 0..comptime!(TILE) {
                let column = min(tile * TILE + i, work.m - 1);
                lines[to + i] = f32::cast_from(a[from + column]);
            }
        }
    }
}

/// panel\[row\]\[half\] = the two registers of b from `column` on.
#[cube]
fn pack_panel<F: Float, N: Size, L: Size>(
    b: &[Vector<F, L>],
    order: &ComptimeOption<&[u32]>,
    panel: &mut [Vector<f32, N>],
    work: &Work,
    column: usize,
    #[comptime] spec: Spec,
) {
    for row in 0..work.rows {
        let sorted = work.first_row + row;
        let from = input_row(order, sorted, work.top_k, comptime!(spec.sources.b)) * work.n;
        #[unroll]
        for half in 0..2usize {
            let column = column + half * N::value();
            panel[work.panel + 2 * row + half] =
                load_register::<F, N, L>(b, from, column, work.n, spec.aligned);
        }
    }
}

/// The sums of a tile with the panel that starts at `column`: this block's rows added to the sums of earlier blocks.
#[cube]
fn tile_sums<N: Size, L: Size>(
    lines: &mut [f32],
    panel: &mut [Vector<f32, N>],
    out: &mut [Vector<f32, L>],
    work: &Work,
    tile: usize,
    column: usize,
    #[comptime] spec: Spec,
) -> Array<Vector<f32, N>> {
    let mut sums = Array::<Vector<f32, N>>::new(comptime!(2 * TILE));
    #[unroll]
    for i in 0..comptime!(2 * TILE) {
        sums[i] = Vector::new(0.0f32);
    }
    if !work.fresh {
        #[unroll]
        for i in 0..comptime!(TILE) {
            let line = work.out_row + min(tile * TILE + i, work.m - 1);
            #[unroll]
            for half in 0..2usize {
                let column = column + half * N::value();
                let row = line * work.n;
                sums[2 * i + half] =
                    load_register::<f32, N, L>(&*out, row, column, work.n, spec.aligned);
            }
        }
    }
    let from = work.lines + (tile - work.first_tile) * comptime!(STRIDE);
    for row in 0..work.rows {
        let left = panel[work.panel + 2 * row];
        let right = panel[work.panel + 2 * row + 1];
        #[unroll]
        for i in 0..comptime!(TILE) {
            let a = Vector::<f32, N>::new(lines[from + row * TILE + i]);
            sums[2 * i] = fma(a, left, sums[2 * i]);
            sums[2 * i + 1] = fma(a, right, sums[2 * i + 1]);
        }
    }
    sums
}

#[cube(launch_unchecked)]
fn weight_gradient_cpu<F: Float, N: Size, L: Size>(
    a: &[F],
    b: &[Vector<F, L>],
    order: ComptimeOption<&[u32]>,
    offsets: ComptimeOption<&[u32]>,
    lines: &mut [f32],
    panel: &mut [Vector<f32, N>],
    out: &mut [Vector<f32, L>],
    sizes: Sizes,
    #[comptime] spec: Spec,
    #[define(F)] _element: ElemType,
) {
    let width = N::value();
    let tiles = sizes.m.div_ceil(TILE);
    let panels = sizes.n.div_ceil(2 * width);
    let task_m = ABSOLUTE_POS / sizes.tasks_n;
    let task_n = ABSOLUTE_POS % sizes.tasks_n;
    let first_panel = panels * task_n / sizes.tasks_n;
    let last_panel = panels * (task_n + 1) / sizes.tasks_n;
    for expert in sizes.slab_first..sizes.slab_last {
        let (begin, end) = segment(&offsets, expert, sizes.rows);
        // An expert without rows has one block without rows, which stores zeros.
        for block in 0..max((end - begin).div_ceil(BLOCK), 1) {
            let first_row = begin + block * BLOCK;
            let work = Work {
                m: sizes.m,
                n: sizes.n,
                top_k: sizes.top_k,
                first_row,
                rows: min(end - first_row, BLOCK),
                fresh: block == 0,
                first_tile: tiles * task_m / sizes.tasks_m,
                last_tile: tiles * (task_m + 1) / sizes.tasks_m,
                lines: ABSOLUTE_POS * tiles.div_ceil(sizes.tasks_m) * STRIDE,
                panel: ABSOLUTE_POS * comptime!(2 * BLOCK),
                out_row: (expert - sizes.slab_first) * sizes.m,
            };
            pack_lines::<F>(a, &order, lines, &work, spec);
            for index in first_panel..last_panel {
                let column = index * 2 * width;
                pack_panel::<F, N, L>(b, &order, panel, &work, column, spec);
                for tile in work.first_tile..work.last_tile {
                    let sums = tile_sums::<N, L>(lines, panel, out, &work, tile, column, spec);
                    store_tile::<N, L>(out, &sums, &work, tile, column, spec);
                }
            }
        }
    }
}

/// Stores the part of a tile inside the matrix.
#[cube]
fn store_tile<N: Size, L: Size>(
    out: &mut [Vector<f32, L>],
    sums: &Array<Vector<f32, N>>,
    work: &Work,
    tile: usize,
    column: usize,
    #[comptime] spec: Spec,
) {
    #[unroll]
    for i in 0..comptime!(TILE) {
        let line = tile * TILE + i;
        if line < work.m {
            let row = work.out_row + line;
            #[unroll]
            for half in 0..2usize {
                let column = column + half * N::value();
                let sum = sums[2 * i + half];
                store_register::<f32, N, L>(out, sum, row, column, work.n, spec.aligned);
            }
        }
    }
}

/// The number of tasks along m and along n; their product is the number of cores. The cost of a split is a task's time per row in
/// cycles: two vector multiply-adds per cycle, about one cycle per packed element of a, and about eight per packed register of b,
/// whose rows lie far apart.
fn tasks(plan: &Plan) -> [usize; 2] {
    let [m, n] = plan.problem.columns();
    let cost = |[along_m, along_n]: &[usize; 2]| {
        let tiles = m.div_ceil(TILE).div_ceil(*along_m);
        let panels = n.div_ceil(2 * plan.lanes[1]).div_ceil(*along_n);
        TILE * tiles * panels + TILE * tiles + 16 * panels
    };
    let splits = (1..=plan.cores).filter(|along_m| plan.cores.is_multiple_of(*along_m));
    splits
        .map(|along_m| [along_m, plan.cores / along_m])
        .min_by_key(cost)
        .unwrap_or([1, plan.cores])
}

pub(super) fn launch(client: &Client, plan: &Plan, slab: &Slab, operands: &Operands) {
    let (p, [m, n]) = (&plan.problem.product, plan.problem.columns());
    let width = plan.lanes[1];
    let spec = Spec::of(plan);
    let lanes = spec.lanes(plan);
    let [tasks_m, tasks_n] = tasks(plan);
    let lines = plan.cores * m.div_ceil(TILE).div_ceil(tasks_m) * STRIDE;
    let panels = plan.cores * 2 * BLOCK;
    let sizes = SizesLaunch::new(
        m,
        n,
        p.top_k,
        p.row_bound,
        tasks_m,
        tasks_n,
        slab.first as usize,
        slab.last as usize,
    );
    let bound = Bindings::new(&plan.problem, slab, operands);
    let (count, dim) = (CubeCount::new_single(), CubeDim::new_1d(plan.cores as u32));
    let (order, offsets) = (bound.order.into(), bound.offsets.into());
    let [lines, panels] = [lines, panels * width].map(|words| bind(client.empty(words * 4)));
    let element = p.element.elem_type();
    // SAFETY: `plan` checked the shapes; a task's tiles, panels and scratch are its own.
    unsafe {
        weight_gradient_cpu::launch_unchecked(
            client, count, dim, width, lanes, bound.a, bound.b, order, offsets, lines, panels,
            bound.out, sizes, spec, element,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Choice, Problem, Product, plan};
    use super::*;
    use moebius_profiles as profiles;

    /// The cost of packing stays small, and a narrow gradient still uses every core.
    #[test]
    fn tasks_share_a_gradient() {
        let split = |m, n, cores| {
            let mut device = profiles::cpu_2core_avx512();
            device.cpu_cores = Some(cores);
            let problem = Problem::of(&Product::new(8192, 8, 2, m, n).unwrap());
            tasks(&plan(problem, &device, Choice::default()).unwrap())
        };
        assert_eq!(split(4, 512, 2), [1, 2]);
        assert_eq!(split(2048, 32, 2), [2, 1]);
        let [along_m, along_n] = split(2048, 2048, 64);
        assert!(along_m > 1 && along_n > 1 && along_m * along_n == 64);
        assert_eq!(split(2048, 512, 1), [1, 1]);
    }
}

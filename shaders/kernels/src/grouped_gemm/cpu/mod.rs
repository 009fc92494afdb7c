//! The `cpu` variant: one task per core, no barriers, no workgroup memory.
//!
//! A task takes every `cores`-th panel of weight columns of every expert. It packs the panel (\[columns, k\] →
//! \[k\]\[registers\], or \[k, columns\] register by register) into its scratch once, and then runs a register tile down the
//! expert's rows: each step loads the panel's registers of weights and broadcasts [`ROWS`] activations. A panel has two
//! registers, or four on a CPU with 32 registers (AVX-512), which halves the reads of the rows. Packing costs one pass over the
//! weights, at most 7 % at 1024 rows per expert; keeping packed weights would double their memory. Rows are multiplied with
//! [`DEEP`] inner columns at a time, which stay in the second-level cache. For few rows, panels have two registers and are packed
//! in blocks of [`BLOCK`] inner columns, which stay in the first-level cache: the time is then that of reading the weights, and
//! the weight rows of four registers would be more streams than a cache has ways. The first half of a gated panel holds gate
//! columns, the second half up columns.

mod panel;

use super::sparse24;
use super::{
    Activation, Bindings, DeviceElement, Fp8Scheme, Operands, Plan, Sizes, Slab, Source, Stored,
    WeightLayout, bind, input_row, segment, sizes,
};
use cubecl::prelude::*;
use moebius_ops::grouped_gemm::sparse24::GROUP;
use panel::pack_panel;

pub(super) use panel::{
    biases_of, load_register, panel_row, store_register, store_rows, transpose,
};

/// Rows of the register tile: 2 × 6 sums and 3 operands fit AVX2's 16 registers, 4 × 6 and 5 the 32 of AVX-512.
pub(super) const ROWS: usize = 6;

/// The largest number of rows of an expert for which a panel is packed in blocks.
const FEW_ROWS: usize = 16;

/// Inner columns per block: 8 KiB of a panel with 16 lanes.
const BLOCK: usize = 64;

/// Rows of an expert that are multiplied with one block of a packed panel before the next block.
const MANY_ROWS: usize = 384;

/// Inner columns of a packed panel per block for many rows: 128 KiB of a panel of four registers with 16 lanes.
const DEEP: usize = 512;

/// The size, in registers, of a task's scratch: a panel of `registers` registers or a block of it, and the sums of rows that wait
/// for the next block.
pub(super) const fn scratch(k: usize, registers: usize) -> usize {
    registers * (if k > BLOCK { k } else { BLOCK } + MANY_ROWS)
}

/// Compile-time parameters of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Spec {
    pub(super) rows: Source,
    pub(super) layout: WeightLayout,
    pub(super) gated: bool,
    pub(super) activation: Option<Activation>,
    /// Registers per panel.
    pub(super) registers: usize,
    /// Whether the columns are a multiple of the register width, so that whole registers are stored.
    pub(super) aligned: bool,
    /// Whether k is a multiple of the register width, so that whole registers of a weight row are loaded.
    whole: bool,
    /// What is stored of the weights.
    stored: Stored,
    /// The FP8 scheme of the weights, and whether k is a multiple of 4, a whole number of words.
    pub(super) fp8: Option<(Fp8Scheme, bool)>,
}

impl Spec {
    pub(super) fn of(plan: &Plan) -> Self {
        let p = &plan.problem;
        Self {
            rows: p.rows,
            layout: p.layout,
            gated: p.gated,
            registers: if plan.lanes == 16 { 4 } else { 2 },
            activation: p.activation,
            aligned: p.n.is_multiple_of(plan.lanes),
            whole: p.k.is_multiple_of(plan.lanes),
            stored: p.stored,
            fp8: p.stored.fp8().map(|fp8| (fp8, p.k.is_multiple_of(4))),
        }
    }

    /// The number of elements per store.
    pub(super) fn out_lanes(&self, plan: &Plan) -> usize {
        if self.aligned { plan.lanes } else { 1 }
    }

    /// The number of elements per load of weights.
    fn weight_lanes(&self, plan: &Plan) -> usize {
        match self.layout {
            _ if self.stored == Stored::Sparse24 => sparse24::LANES,
            _ if self.stored != Stored::Values => 1,
            WeightLayout::OutIn if self.whole => plan.lanes,
            WeightLayout::OutIn => 1,
            WeightLayout::InOut => self.out_lanes(plan),
        }
    }

    /// A copy with `registers` registers per panel.
    pub(super) fn with_registers(self, registers: usize) -> Self {
        Self { registers, ..self }
    }

    /// The number of columns of a panel whose registers have `width` lanes.
    pub(super) fn columns(&self, width: usize) -> usize {
        let parts = if self.gated { 2 } else { 1 };
        self.registers / parts * width
    }

    /// The part (gate or up) of a gated panel that a register belongs to, and the register's index in that part.
    pub(super) fn part_of(&self, register: usize) -> (usize, usize) {
        if self.gated {
            let half = self.registers / 2;
            (register / half, register % half)
        } else {
            (0, register)
        }
    }

    /// The two registers that are stored together, and their first column in units of registers.
    fn pair(&self, pair: usize) -> (usize, usize, usize) {
        if self.gated {
            (pair, pair + self.registers / 2, pair)
        } else {
            (2 * pair, 2 * pair + 1, 2 * pair)
        }
    }

    /// The number of inner columns of weights loaded together into registers of `width` lanes.
    fn depth(self, width: usize) -> usize {
        match self.layout {
            WeightLayout::OutIn if self.stored != Stored::Values => GROUP,
            WeightLayout::OutIn if self.whole => width,
            _ => 1,
        }
    }
}

#[cube(launch_unchecked)]
fn grouped_gemm_cpu<F: Float, N: Size, L: Size, O: Size>(
    x: &[F],
    order: ComptimeOption<&[u32]>,
    offsets: ComptimeOption<&[u32]>,
    w: ComptimeOption<&[Vector<F, L>]>,
    words: ComptimeOption<&[u32]>,
    bias: ComptimeOption<&[F]>,
    packed: &mut [Vector<f32, N>],
    out: &mut [Vector<F, O>],
    sizes: Sizes,
    cores: usize,
    scratch: usize,
    #[comptime] spec: Spec,
    #[define(F)] _element: ElemType,
) {
    let width = N::value();
    let columns = comptime!(spec.columns(width));
    let parts = comptime!(if spec.gated { 2usize } else { 1usize });
    let panels = sizes.n.div_ceil(columns);
    let base = ABSOLUTE_POS * scratch;

    let all = panels * (sizes.slab_last - sizes.slab_first);
    for panel in range_stepped(ABSOLUTE_POS, all, cores) {
        let in_slab = panel / panels;
        let expert = sizes.slab_first + in_slab;
        let first = (panel % panels) * columns;
        let (begin, end) = segment(&offsets, expert, sizes.rows);
        let whole = Panel {
            begin,
            end,
            expert_row: expert * sizes.n * parts,
            row_in_slab: in_slab * sizes.n * parts,
            first,
            base,
        };
        if end - begin > comptime!(FEW_ROWS) {
            let block = sizes.k;
            whole_panel::<F, N, L, O>(
                x, &order, &w, &words, &bias, packed, out, &sizes, &whole, block, spec,
            );
        } else if begin < end {
            let few = comptime!(spec.with_registers(2));
            let past = min(first + columns, sizes.n);
            for first in range_stepped(first, past, comptime!(few.columns(width))) {
                let narrow = Panel {
                    begin,
                    end,
                    expert_row: whole.expert_row,
                    row_in_slab: whole.row_in_slab,
                    first,
                    base,
                };
                let block = comptime!(BLOCK).runtime();
                whole_panel::<F, N, L, O>(
                    x, &order, &w, &words, &bias, packed, out, &sizes, &narrow, block, few,
                );
            }
        }
    }
}

/// A panel of an expert's weights, and the rows that are multiplied with it.
#[derive(CubeType, Clone, Copy)]
struct Panel {
    /// Sorted rows: the first, and one past the last.
    begin: usize,
    end: usize,
    /// The expert's first weight row among those of all experts, and among those of the slab.
    expert_row: usize,
    row_in_slab: usize,
    /// The panel's first column.
    first: usize,
    /// The offset of the task's scratch.
    base: usize,
}

/// Multiplies the rows of an expert by a panel, packing `block` inner columns at a time into the scratch.
#[cube]
fn whole_panel<F: Float, N: Size, L: Size, O: Size>(
    x: &[F],
    order: &ComptimeOption<&[u32]>,
    w: &ComptimeOption<&[Vector<F, L>]>,
    words: &ComptimeOption<&[u32]>,
    bias: &ComptimeOption<&[F]>,
    packed: &mut [Vector<f32, N>],
    out: &mut [Vector<F, O>],
    sizes: &Sizes,
    panel: &Panel,
    block: usize,
    #[comptime] spec: Spec,
) {
    let biases = biases_of::<F, N>(bias, sizes, panel.expert_row, panel.first, spec);
    for from in range_stepped(0, sizes.k, block) {
        let past = min(from + block, sizes.k);
        pack_panel::<F, N, L>(w, words, packed, sizes, panel, from, past, spec);
        let span = Packed {
            begin: panel.begin,
            end: panel.end,
            base: panel.base,
            from,
            past,
            first: panel.first,
            sums: panel.base + comptime!(spec.registers) * max(sizes.k, comptime!(BLOCK)),
        };
        blocks_of_rows::<F, N, O>(x, order, packed, out, sizes, &span, &biases, spec);
    }
}

/// A packed part of a panel, and the rows that are multiplied with it.
#[derive(CubeType, Clone, Copy)]
pub(super) struct Packed {
    /// Sorted rows: the first, and one past the last.
    pub(super) begin: usize,
    pub(super) end: usize,
    /// The offset in the scratch of the weights, from the first packed inner column on.
    pub(super) base: usize,
    /// Inner columns: the first, and one past the last.
    pub(super) from: usize,
    pub(super) past: usize,
    /// The panel's first column.
    pub(super) first: usize,
    /// The offset in the scratch of the sums of rows that wait for the next block.
    pub(super) sums: usize,
}

/// Multiplies rows by a packed part of a panel, in blocks of rows and inner columns that stay in the second-level cache.
#[cube]
pub(super) fn blocks_of_rows<F: Float, N: Size, O: Size>(
    x: &[F],
    order: &ComptimeOption<&[u32]>,
    packed: &mut [Vector<f32, N>],
    out: &mut [Vector<F, O>],
    sizes: &Sizes,
    span: &Packed,
    biases: &Array<Vector<f32, N>>,
    #[comptime] spec: Spec,
) {
    for begin in range_stepped(span.begin, span.end, comptime!(MANY_ROWS)) {
        for from in range_stepped(span.from, span.past, comptime!(DEEP)) {
            let block = Packed {
                begin,
                end: min(begin + comptime!(MANY_ROWS), span.end),
                base: span.base + comptime!(spec.registers) * (from - span.from),
                from,
                past: min(from + comptime!(DEEP), span.past),
                first: span.first,
                sums: span.sums,
            };
            panel_rows::<F, N, O>(x, order, packed, out, sizes, &block, biases, spec);
        }
    }
}

/// Multiplies rows by a packed part of a panel; stores them after the last inner column.
#[cube]
fn panel_rows<F: Float, N: Size, O: Size>(
    x: &[F],
    order: &ComptimeOption<&[u32]>,
    packed: &mut [Vector<f32, N>],
    out: &mut [Vector<F, O>],
    sizes: &Sizes,
    span: &Packed,
    biases: &Array<Vector<f32, N>>,
    #[comptime] spec: Spec,
) {
    if span.end - span.begin == 1 {
        let row = span.begin;
        tile_rows::<F, N, O>(
            x, order, packed, out, sizes, span, biases, row, spec, 1usize,
        );
    } else {
        for row in range_stepped(span.begin, span.end, comptime!(ROWS)) {
            tile_rows::<F, N, O>(x, order, packed, out, sizes, span, biases, row, spec, ROWS);
        }
    }
}

/// Does the work of [`panel_rows`] for a tile of `count` rows from `row`.
#[cube]
fn tile_rows<F: Float, N: Size, O: Size>(
    x: &[F],
    order: &ComptimeOption<&[u32]>,
    packed: &mut [Vector<f32, N>],
    out: &mut [Vector<F, O>],
    sizes: &Sizes,
    span: &Packed,
    biases: &Array<Vector<f32, N>>,
    row: usize,
    #[comptime] spec: Spec,
    #[comptime] count: usize,
) {
    let registers = comptime!(spec.registers);
    let (tokens, mut sums) =
        begun_tile::<N>(order, sizes, row, span.end, spec.rows, count, registers);
    let kept = span.sums + registers * (row - span.begin);
    if span.from > 0 {
        #[unroll]
        for i in 0..comptime!(registers * count) {
            sums[i] = packed[kept + i];
        }
    }
    for kk in span.from..span.past {
        let at = span.base + registers * (kk - span.from);
        let mut weights = Array::<Vector<f32, N>>::new(registers);
        #[unroll]
        for r in 0..registers {
            weights[r] = packed[at + r];
        }
        #[unroll]
        for i in 0..count {
            let a = Vector::<f32, N>::new(f32::cast_from(x[tokens[i] + kk]));
            #[unroll]
            for r in 0..registers {
                let sum = comptime!(registers * i + r);
                sums[sum] = fma(a, weights[r], sums[sum]);
            }
        }
    }
    if span.past == sizes.k {
        let (end, first) = (span.end, span.first);
        store_rows::<F, N, O>(out, &sums, biases, sizes, row, end, first, spec, count);
    } else {
        #[unroll]
        for i in 0..comptime!(registers * count) {
            packed[kept + i] = sums[i];
        }
    }
}

/// For a tile of `count` rows from `row` (rows past `end` repeat the last): the offsets of their rows of x, and zeroed sums of
/// `registers` registers per row.
#[cube]
pub(super) fn begun_tile<N: Size>(
    order: &ComptimeOption<&[u32]>,
    sizes: &Sizes,
    row: usize,
    end: usize,
    #[comptime] rows: Source,
    #[comptime] count: usize,
    #[comptime] registers: usize,
) -> (Array<usize>, Array<Vector<f32, N>>) {
    let mut from = Array::<usize>::new(count);
    let mut sums = Array::<Vector<f32, N>>::new(comptime!(count * registers));
    #[unroll]
    for i in 0..count {
        let sorted = min(row + i, end - 1);
        from[i] = input_row(order, sorted, sizes.top_k, comptime!(rows)) * sizes.k;
        #[unroll]
        for r in 0..registers {
            sums[i * registers + r] = Vector::new(0.0f32);
        }
    }
    (from, sums)
}

pub(super) fn launch(client: &Client, plan: &Plan, slab: &Slab, operands: &Operands) {
    let p = &plan.problem;
    let width = plan.lanes;
    let spec = Spec::of(plan);
    let registers = scratch(p.k, spec.registers);
    let packed = client.empty(plan.cores * registers * width * 4);
    let (of_weights, of_out) = (spec.weight_lanes(plan), spec.out_lanes(plan));
    let bound = Bindings::new(p, slab, operands);
    let (count, dim) = (CubeCount::new_single(), CubeDim::new_1d(plan.cores as u32));
    let (order, offsets, bias) = (bound.order.into(), bound.offsets.into(), bound.bias.into());
    let (w, words) = (bound.w.into(), bound.words.into());
    let (scratch, out) = (bind(packed), bound.out);
    let (sizes, cores, element) = (sizes(plan, slab), plan.cores, p.element.elem_type());
    // SAFETY: `plan` checked the shapes; a task's panels, rows and scratch are its own.
    unsafe {
        grouped_gemm_cpu::launch_unchecked(
            client, count, dim, width, of_weights, of_out, bound.x, order, offsets, w, words, bias,
            scratch, out, sizes, cores, registers, spec, element,
        );
    }
}

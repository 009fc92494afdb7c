//! The `cpu` variant: one task per core, no barriers, no workgroup memory.
//!
//! A task takes every `cores`-th panel of weight columns of every expert. It packs the panel
//! (\[columns, k\] → \[k\]\[2 registers\], or \[k, columns\] register by register) into its scratch
//! once, then runs a register tile of
//! [`ROWS`] × 2 registers down the expert's rows: each step loads two registers of weights and
//! broadcasts [`ROWS`] activations. Packing costs one pass over the weights, at most 7 % at 1024
//! rows per expert; keeping packed weights would double their memory. Few rows take the panel in
//! blocks of [`BLOCK`] inner columns, which stay in the first-level cache, and keep their sums beside
//! them: their time is that of reading the weights. Gated panels hold a register
//! of gate columns and one of up columns.

use super::activation::{activate, gated};
use super::*;

/// Rows of the register tile: 2 × 6 sums + 3 operands fit AVX2's 16 registers, and on AVX-512
/// six rows were as fast as eight and faster than twelve (466, 462, 420 GFLOP/s on 2 Zen 5 cores).
pub(super) const ROWS: usize = 6;

/// Rows of an expert up to which a panel is packed in blocks.
const FEW_ROWS: usize = 16;

/// Inner columns of a block: 8 KiB of a panel with 16 lanes.
const BLOCK: usize = 64;

/// Registers of scratch in which one task keeps a panel, or a block and the sums of few rows.
pub(super) const fn scratch(k: usize) -> usize {
    let few = 2 * (BLOCK + FEW_ROWS.next_multiple_of(ROWS));
    if 2 * k > few { 2 * k } else { few }
}

/// What the kernel is specialised on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Spec {
    pub(super) rows: Source,
    pub(super) layout: WeightLayout,
    pub(super) gated: bool,
    pub(super) activation: Option<Activation>,
    /// Columns are a multiple of the register width, so whole registers are stored.
    pub(super) aligned: bool,
    /// k is a multiple of the register width, so whole registers of a weight row are loaded.
    whole: bool,
    /// What the codes are, and whether k is a number of whole words.
    pub(super) fp8: Option<(Fp8Weights, bool)>,
}

impl Spec {
    pub(super) fn of(plan: &Plan) -> Self {
        let p = &plan.problem;
        Self {
            rows: p.rows,
            layout: p.layout,
            gated: p.gated,
            activation: p.activation,
            aligned: p.n.is_multiple_of(plan.lanes),
            whole: p.k.is_multiple_of(plan.lanes),
            fp8: p.fp8.map(|fp8| (fp8, p.k.is_multiple_of(4))),
        }
    }

    /// Elements per store.
    pub(super) fn out_lanes(&self, plan: &Plan) -> usize {
        if self.aligned { plan.lanes } else { 1 }
    }

    /// Elements per load of weights.
    fn weight_lanes(&self, plan: &Plan) -> usize {
        match self.layout {
            WeightLayout::OutIn if self.whole => plan.lanes,
            WeightLayout::OutIn => 1,
            WeightLayout::InOut => self.out_lanes(plan),
        }
    }

    /// Inner columns of weights that are loaded together, into registers of `width` lanes.
    fn depth(self, width: usize) -> usize {
        if self.whole && self.layout == WeightLayout::OutIn {
            width
        } else {
            1
        }
    }
}

/// The weight row behind lane `lane` of register `half` of the panel that starts at column `first`.
#[cube]
pub(super) fn panel_row(
    sizes: &Sizes,
    first: usize,
    #[comptime] half: usize,
    #[comptime] lane: usize,
    #[comptime] width: usize,
    #[comptime] gated: bool,
) -> usize {
    if comptime!(gated) {
        min(first + lane, sizes.n - 1) + half * sizes.n
    } else {
        min(first + half * width + lane, sizes.n - 1)
    }
}

/// packed\[kk\]\[half\] = the weights of the panel at inner column `span.0` + kk, up to `span.1`; `at` is the
/// expert's first weight row, the panel's first column and the start of the scratch.
#[cube]
fn pack_panel<F: Float, N: Size, L: Size>(
    w: &[Vector<F, L>],
    packed: &mut [Vector<f32, N>],
    sizes: &Sizes,
    at: (usize, usize, usize),
    span: (usize, usize),
    #[comptime] spec: Spec,
) {
    let (expert_row, first, base) = at;
    let (begin, past) = span;
    let width = N::value();
    let depth = comptime!(spec.depth(width));
    // One register after the other: the rows behind both would be more streams than are fetched ahead.
    #[unroll]
    for half in 0..2usize {
        for kk in range_stepped(begin, past, depth) {
            let block = load_block::<F, N, L>(w, sizes, (expert_row, first, kk), half, spec);
            #[unroll]
            for inner in 0..depth {
                packed[base + 2 * (kk - begin + inner) + half] = block[inner];
            }
        }
    }
}

/// The inner columns from `at.2`, [`Spec::depth`] of them, of the weight rows of register `half`.
#[cube]
fn load_block<F: Float, N: Size, L: Size>(
    w: &[Vector<F, L>],
    sizes: &Sizes,
    at: (usize, usize, usize),
    #[comptime] half: usize,
    #[comptime] spec: Spec,
) -> Array<Vector<f32, N>> {
    let (expert_row, first, kk) = at;
    let width = N::value();
    let depth = comptime!(spec.depth(width));
    let mut block = Array::<Vector<f32, N>>::new(depth);
    if comptime!(spec.layout == WeightLayout::InOut) {
        let row = expert_row * sizes.k + kk * sizes.n;
        let column = first + half * width;
        block[0] = load_register::<F, N, L>(w, row, column, sizes.n, spec.aligned);
    } else if comptime!(spec.whole) {
        #[unroll]
        for lane in 0..width {
            let row = expert_row + panel_row(sizes, first, half, lane, width, spec.gated);
            block[lane] = Vector::cast_from(w[(row * sizes.k + kk) / width]);
        }
        transpose::<N>(&mut block);
    } else {
        let mut column = Vector::<f32, N>::empty();
        #[unroll]
        for lane in 0..width {
            let row = expert_row + panel_row(sizes, first, half, lane, width, spec.gated);
            column.insert(lane, f32::cast_from(w[row * sizes.k + kk].extract(0usize)));
        }
        block[0] = column;
    }
    block
}

/// Turns a square of registers about its diagonal: halves of it are exchanged, then halves of those.
#[cube]
fn transpose<N: Size>(square: &mut Array<Vector<f32, N>>) {
    let width = N::value();
    #[unroll]
    for stage in 0..comptime!(width.ilog2() as usize) {
        let apart = comptime!(width >> (stage + 1));
        #[unroll]
        for pair in 0..comptime!(width / 2) {
            let at = comptime!(pair / apart * 2 * apart + pair % apart);
            let (left, right) = (square[at], square[at + apart]);
            let mut upper = Vector::<f32, N>::empty();
            let mut lower = Vector::<f32, N>::empty();
            #[unroll]
            for lane in 0..width {
                if comptime!(lane & apart == 0) {
                    upper.insert(lane, left.extract(lane));
                    upper.insert(lane + apart, right.extract(lane));
                    lower.insert(lane, left.extract(lane + apart));
                    lower.insert(lane + apart, right.extract(lane + apart));
                }
            }
            square[at] = upper;
            square[at + apart] = lower;
        }
    }
}

/// A register of the row of `n` elements that starts at `row`, from `column`; columns past the
/// last repeat it, or the last whole register when rows consist of those.
#[cube]
pub(super) fn load_register<F: Float, N: Size, L: Size>(
    from: &[Vector<F, L>],
    row: usize,
    column: usize,
    n: usize,
    #[comptime] aligned: bool,
) -> Vector<f32, N> {
    let width = N::value();
    let mut value = Vector::<f32, N>::empty();
    if comptime!(aligned) {
        value = Vector::cast_from(from[(row + min(column, n - width)) / width]);
    } else {
        #[unroll]
        for lane in 0..width {
            let at = row + min(column + lane, n - 1);
            value.insert(lane, f32::cast_from(from[at].extract(0usize)));
        }
    }
    value
}

/// Stores one register of a row, or the part of it inside the matrix.
#[cube]
pub(super) fn store<F: Float, N: Size, O: Size>(
    out: &mut [Vector<F, O>],
    value: Vector<f32, N>,
    row: usize,
    column: usize,
    n: usize,
    #[comptime] aligned: bool,
) {
    if comptime!(aligned) {
        if column < n {
            out[(row * n + column) / N::value()] = Vector::cast_from(value);
        }
    } else {
        #[unroll]
        for lane in 0..N::value() {
            if column + lane < n {
                out[row * n + column + lane] = Vector::new(F::cast_from(value.extract(lane)));
            }
        }
    }
}

/// The bias of a register of columns, 0 without one.
#[cube]
pub(super) fn bias_of<F: Float, N: Size>(
    bias: &ComptimeOption<&[F]>,
    sizes: &Sizes,
    expert_row: usize,
    first: usize,
    #[comptime] half: usize,
    #[comptime] gated: bool,
) -> Vector<f32, N> {
    let width = N::value();
    let mut value = Vector::<f32, N>::new(0.0f32);
    #[comptime]
    if let ComptimeOption::Some(bias) = bias {
        #[unroll]
        for lane in 0..width {
            let row = panel_row(sizes, first, half, lane, width, gated);
            value.insert(lane, f32::cast_from(bias[expert_row + row]));
        }
    }
    value
}

/// Bias, activation, gate, and the store of one row of a panel.
#[cube]
pub(super) fn store_row<F: Float, N: Size, O: Size>(
    out: &mut [Vector<F, O>],
    sums: (Vector<f32, N>, Vector<f32, N>),
    at: (usize, usize),
    n: usize,
    #[comptime] spec: Spec,
) {
    let (row, first) = at;
    let left = activate::<N>(sums.0, spec.activation);
    if comptime!(spec.gated) {
        let up = gated::<N>(sums.1, spec.activation);
        store::<F, N, O>(out, left * up, row, first, n, spec.aligned);
    } else {
        let right = activate::<N>(sums.1, spec.activation);
        store::<F, N, O>(out, left, row, first, n, spec.aligned);
        store::<F, N, O>(out, right, row, first + N::value(), n, spec.aligned);
    }
}

/// The biases of either register of a panel.
pub(super) type Biases<N> = (Vector<f32, N>, Vector<f32, N>);

/// Bias, activation, gate and the store of the rows from `at.0` that are before `at.1`.
#[cube]
fn store_rows<F: Float, N: Size, O: Size>(
    out: &mut [Vector<F, O>],
    sums: &Array<Vector<f32, N>>,
    biases: Biases<N>,
    sizes: &Sizes,
    at: (usize, usize, usize),
    #[comptime] spec: (Spec, usize),
) {
    let (row, end, first) = at;
    let (spec, count) = comptime!(spec);
    #[unroll]
    for i in 0..count {
        if row + i < end {
            let sums = (sums[2 * i] + biases.0, sums[2 * i + 1] + biases.1);
            store_row::<F, N, O>(out, sums, (row + i, first), sizes.n, spec);
        }
    }
}

#[cube(launch_unchecked)]
fn grouped_gemm_cpu<F: Float, N: Size, L: Size, O: Size>(
    x: &[F],
    order: ComptimeOption<&[u32]>,
    offsets: ComptimeOption<&[u32]>,
    w: &[Vector<F, L>],
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
    let columns = comptime!(if spec.gated { width } else { 2 * width });
    let parts = comptime!(if spec.gated { 2usize } else { 1usize });
    let panels = sizes.n.div_ceil(columns);
    let base = ABSOLUTE_POS * scratch;

    for panel in range_stepped(
        ABSOLUTE_POS,
        panels * (sizes.slab_last - sizes.slab_first),
        cores,
    ) {
        let in_slab = panel / panels;
        let expert = sizes.slab_first + in_slab;
        let first = (panel % panels) * columns;
        let expert_row = expert * sizes.n * parts;
        let (begin, end) = segment(&offsets, expert, sizes.rows);
        if begin < end {
            let at = (in_slab * sizes.n * parts, first, base);
            let bias0 = bias_of::<F, N>(&bias, &sizes, expert_row, first, 0usize, spec.gated);
            let bias1 = bias_of::<F, N>(&bias, &sizes, expert_row, first, 1usize, spec.gated);
            let few = end - begin <= comptime!(FEW_ROWS);
            let block = select(few, comptime!(BLOCK).runtime(), sizes.k);
            for from in range_stepped(0, sizes.k, block) {
                let past = min(from + block, sizes.k);
                pack_panel::<F, N, L>(w, packed, &sizes, at, (from, past), spec);
                let span = Packed {
                    begin,
                    end,
                    base,
                    from,
                    past,
                    first,
                };
                let biases = (bias0, bias1);
                panel_rows::<F, N, O>(x, &order, packed, out, &sizes, &span, biases, spec);
            }
        }
    }
}

/// What of a panel is packed, and the rows it is multiplied with.
#[derive(CubeType, Clone, Copy)]
pub(super) struct Packed {
    /// Sorted rows: the first, and one past the last.
    pub(super) begin: usize,
    pub(super) end: usize,
    /// Start of the scratch.
    pub(super) base: usize,
    /// Inner columns: the first, and one past the last.
    pub(super) from: usize,
    pub(super) past: usize,
    /// The panel's first column.
    pub(super) first: usize,
}

/// Rows times what is packed; after the last inner column they are stored.
#[cube]
pub(super) fn panel_rows<F: Float, N: Size, O: Size>(
    x: &[F],
    order: &ComptimeOption<&[u32]>,
    packed: &mut [Vector<f32, N>],
    out: &mut [Vector<F, O>],
    sizes: &Sizes,
    span: &Packed,
    biases: Biases<N>,
    #[comptime] spec: Spec,
) {
    if span.end - span.begin == 1 {
        let (at, spec) = ((biases, span.begin), comptime!((spec, 1usize)));
        tile_rows::<F, N, O>(x, order, packed, out, (sizes, span), at, spec);
    } else {
        for row in range_stepped(span.begin, span.end, comptime!(ROWS)) {
            let (at, spec) = ((biases, row), comptime!((spec, ROWS)));
            tile_rows::<F, N, O>(x, order, packed, out, (sizes, span), at, spec);
        }
    }
}

/// As [`panel_rows`], of a tile of so many rows from `at.1`.
#[cube]
fn tile_rows<F: Float, N: Size, O: Size>(
    x: &[F],
    order: &ComptimeOption<&[u32]>,
    packed: &mut [Vector<f32, N>],
    out: &mut [Vector<F, O>],
    of: (&Sizes, &Packed),
    at: (Biases<N>, usize),
    #[comptime] spec: (Spec, usize),
) {
    let (sizes, span) = of;
    let (biases, row) = at;
    let (what, count) = comptime!(spec);
    let rows = comptime!((what.rows, count, 2usize));
    let (tokens, mut sums) = begun_tile::<N>(order, sizes, (row, span.end), rows);
    let kept = span.base + 2 * (comptime!(BLOCK) + row - span.begin);
    if span.from > 0 {
        #[unroll]
        for i in 0..comptime!(2 * count) {
            sums[i] = packed[kept + i];
        }
    }
    for kk in span.from..span.past {
        let at = span.base + 2 * (kk - span.from);
        let (left, right) = (packed[at], packed[at + 1]);
        #[unroll]
        for i in 0..count {
            let a = Vector::<f32, N>::new(f32::cast_from(x[tokens[i] + kk]));
            sums[2 * i] = fma(a, left, sums[2 * i]);
            sums[2 * i + 1] = fma(a, right, sums[2 * i + 1]);
        }
    }
    if span.past == sizes.k {
        let at = (row, span.end, span.first);
        store_rows::<F, N, O>(out, &sums, biases, sizes, at, spec);
    } else {
        #[unroll]
        for i in 0..comptime!(2 * count) {
            packed[kept + i] = sums[i];
        }
    }
}

/// Where the tokens of a tile's rows from `at.0` begin (rows past `at.1` repeat the last), and sums of 0: `spec.1` rows of `spec.2`
/// registers.
#[cube]
pub(super) fn begun_tile<N: Size>(
    order: &ComptimeOption<&[u32]>,
    sizes: &Sizes,
    at: (usize, usize),
    #[comptime] spec: (Source, usize, usize),
) -> (Array<usize>, Array<Vector<f32, N>>) {
    let (row, end) = at;
    let (rows, count, registers) = comptime!(spec);
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
    let registers = scratch(p.k);
    let packed = client.empty(plan.cores * registers * width * 4);
    let spec = Spec::of(plan);
    let (weight_lanes, out_lanes) = (spec.weight_lanes(plan), spec.out_lanes(plan));
    // SAFETY: `plan` checked the shapes; a task's panels, rows and scratch are its own.
    unsafe {
        let bound = Bindings::new(plan, slab, operands, [1, weight_lanes, out_lanes]);
        grouped_gemm_cpu::launch_unchecked(
            client,
            CubeCount::Static(1, 1, 1),
            CubeDim::new_1d(plan.cores as u32),
            width,
            weight_lanes,
            out_lanes,
            bound.x,
            bound.order.into(),
            bound.offsets.into(),
            bound.weights,
            bound.bias.into(),
            bind(packed, plan.cores * registers, 4 * width),
            bound.out,
            sizes(plan, slab),
            plan.cores,
            registers,
            spec,
            p.element.elem_type(),
        );
    }
}

//! The `cpu` variant on FP8 codes: a panel of 64 columns at a time, front to back.
//!
//! Few rows multiply the codes while decoding them, which is bound by memory: 16 MB are read instead of the 64 MB of f32 weights.
//! More rows share one decoding of a group of columns into scratch, and then use the product of [`super::cpu`], as all do whose weights are
//! \[k, n\]. Both sum over k in order.

use super::cpu::{
    Packed, Spec, begun_tile, biases_of, blocks_of_rows, panel_row, scratch, store_rows, transpose,
};
use super::fp8::{beyond, block_words, decode_lane, plain_lane, rebias, scale_at, special_codes};
use super::{
    Bindings, DeviceElement, Operands, Plan, Sizes, Slab, WeightLayout, bind, segment, sizes,
};
use cubecl::prelude::*;
use moebius_ops::fp8::Fp8Format;
use moebius_ops::grouped_gemm::fp8::PANEL;

/// The largest number of rows that multiply codes while decoding them. With more rows, decoding repeatedly costs more than
/// writing the decoded weights once.
const FEW_ROWS: usize = 8;

/// Words of a register of columns that are checked together for NaN and infinite codes: 16 KiB of a panel.
const CHUNK: usize = 64;

/// The kernel's compile-time parameters, and the number of rows of a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Tile {
    what: Spec,
    count: usize,
}

impl Tile {
    const fn of(what: Spec, count: usize) -> Self {
        Self { what, count }
    }
}

/// The rows of an expert (the first, and one past the last), and its first weight row.
#[derive(CubeType, Clone, Copy)]
struct Rows {
    begin: usize,
    end: usize,
    expert_row: usize,
}

/// A group of columns: those of two or more registers.
#[derive(CubeType, Clone, Copy)]
struct Group {
    expert: usize,
    /// The first column.
    first: usize,
    /// The index of the first word of its first register at inner column 0, and, if gated, of the first register of its up
    /// columns.
    left: usize,
    right: usize,
}

/// The group of `expert` that starts at column `first`.
#[cube]
fn group_at<N: Size>(sizes: &Sizes, expert: usize, first: usize, #[comptime] gated: bool) -> Group {
    let width = N::value();
    let words = sizes.k.div_ceil(4) * comptime!(PANEL / width);
    let panels = sizes.n.div_ceil(PANEL);
    let parts = comptime!(if gated { 2usize } else { 1usize });
    let panel = (expert - sizes.slab_first) * parts * panels + first / PANEL;
    let left = panel * words + first % PANEL / width;
    let right = left + (parts - 1) * panels * words;
    Group {
        expert,
        first,
        left,
        right,
    }
}

/// The scales of a register of columns in block `block` across.
#[cube]
fn scale_register<N: Size>(
    scales: &[u32],
    sizes: &Sizes,
    group: &Group,
    block: usize,
    #[comptime] half: usize,
    #[comptime] spec: Spec,
) -> Vector<f32, N> {
    let (fp8, _) = comptime!(codes_of(spec));
    let mut register = Vector::<f32, N>::empty();
    #[unroll]
    for lane in 0..N::value() {
        let row = panel_row(sizes, group.first, half, lane, N::value(), spec);
        let scale = scale_at(scales, sizes, group.expert, row, block, fp8.granularity);
        register.insert(lane, scale);
    }
    register
}

/// The FP8 scheme of the weights; the kernel is launched only for codes.
fn codes_of(spec: Spec) -> (super::Fp8Scheme, bool) {
    match spec.fp8 {
        Some(codes) => codes,
        None => unreachable!("the kernel on codes has codes"),
    }
}

/// The scales of every register of a group in block `block` across.
#[cube]
fn scale_registers<N: Size>(
    scales: &[u32],
    sizes: &Sizes,
    group: &Group,
    block: usize,
    #[comptime] spec: Spec,
) -> Array<Vector<f32, N>> {
    let registers = comptime!(spec.registers);
    let mut of_block = Array::<Vector<f32, N>>::new(registers);
    #[unroll]
    for r in 0..registers {
        of_block[r] = scale_register::<N>(scales, sizes, group, block, r, spec);
    }
    of_block
}

/// packed\[kk\]\[register\] = the decoded weights of a group at inner column kk.
#[cube]
fn pack_codes<N: Size>(
    codes: &[Vector<u32, N>],
    scales: &[u32],
    packed: &mut [Vector<f32, N>],
    sizes: &Sizes,
    group: &Group,
    base: usize,
    #[comptime] spec: Spec,
) {
    let (fp8, _) = comptime!(codes_of(spec));
    let registers = comptime!(spec.registers);
    let words = sizes.k.div_ceil(4);
    let block = block_words(words, fp8.granularity);
    for b in 0..words.div_ceil(block) {
        let of_block = scale_registers::<N>(scales, sizes, group, b, spec);
        for word in b * block..min((b + 1) * block, words) {
            #[unroll]
            for r in 0..registers {
                let codes = codes[word_at::<N>(group, word, r, spec)];
                #[unroll]
                for lane in 0..4usize {
                    let to = base + registers * (4 * word + lane) + r;
                    packed[to] = decode_lane::<N>(codes, lane, fp8.format) * of_block[r];
                }
            }
        }
    }
}

/// packed\[kk\]\[register\] = the decoded weights \[k, n\] of a group at inner column kk. The words of neighbouring inner columns lie side by
/// side, so a register holds one word of each, and the square of registers that it is decoded to is transposed.
#[cube]
fn pack_turned<N: Size>(
    codes: &[Vector<u32, N>],
    scales: &[u32],
    packed: &mut [Vector<f32, N>],
    sizes: &Sizes,
    group: &Group,
    base: usize,
    #[comptime] spec: Spec,
) {
    let (fp8, _) = comptime!(codes_of(spec));
    let registers = comptime!(spec.registers);
    let width = N::value();
    let words = sizes.n.div_ceil(4);
    let block = block_words(words, fp8.granularity);
    let first_panel = (group.expert - sizes.slab_first) * sizes.k.div_ceil(PANEL);
    for kk in range_stepped(0, sizes.k, comptime!(width)) {
        let panel = (first_panel + kk / PANEL) * words;
        #[unroll]
        for r in 0..registers {
            let mut square = Array::<Vector<f32, N>>::new(width);
            #[unroll]
            for w in 0..comptime!(width / 4) {
                let word = min(group.first / 4 + comptime!(r * width / 4 + w), words - 1);
                let at = (panel + word) * comptime!(PANEL / width) + kk % PANEL / width;
                let of_word = codes[at];
                let of_lines = line_scales::<N>(scales, sizes, group, kk, word / block, spec);
                #[unroll]
                for lane in 0..4usize {
                    square[comptime!(4 * w + lane)] =
                        decode_lane::<N>(of_word, lane, fp8.format) * of_lines;
                }
            }
            transpose::<N>(&mut square);
            #[unroll]
            for inner in 0..width {
                packed[base + registers * (kk + inner) + r] = square[inner];
            }
        }
    }
}

/// The scales in block `block` across of as many inner columns of weights \[k, n\] as a register has lanes, from `kk` on; past the last they
/// repeat it.
#[cube]
fn line_scales<N: Size>(
    scales: &[u32],
    sizes: &Sizes,
    group: &Group,
    kk: usize,
    block: usize,
    #[comptime] spec: Spec,
) -> Vector<f32, N> {
    let (fp8, _) = comptime!(codes_of(spec));
    let mut register = Vector::<f32, N>::empty();
    #[unroll]
    for lane in 0..N::value() {
        let row = min(kk + lane, sizes.k - 1);
        let scale = scale_at(scales, sizes, group.expert, row, block, fp8.granularity);
        register.insert(lane, scale);
    }
    register
}

/// The index of word `word` of register `register` of a group.
#[cube]
fn word_at<N: Size>(
    group: &Group,
    word: usize,
    #[comptime] register: usize,
    #[comptime] spec: Spec,
) -> usize {
    let (part, within) = comptime!(spec.part_of(register));
    let width = N::value();
    let at = word * comptime!(PANEL / width) + within;
    if comptime!(part > 0) {
        group.right + at
    } else {
        group.left + at
    }
}

/// The values of code `lane` of every word; if `plain`, without the factor [`rebias`].
#[cube]
fn lane_of<N: Size>(
    words: Vector<u32, N>,
    #[comptime] lane: usize,
    #[comptime] format: Fp8Format,
    #[comptime] plain: bool,
) -> Vector<f32, N> {
    if comptime!(plain) {
        plain_lane::<N>(words, lane, format)
    } else {
        decode_lane::<N>(words, lane, format)
    }
}

/// The sums of a tile of rows from `row` (rows past `end` repeat the last) times a group of columns, decoding the codes on the
/// way.
#[cube]
fn direct_tile<F: Float, N: Size>(
    x: &[F],
    order: &ComptimeOption<&[u32]>,
    codes: &[Vector<u32, N>],
    scales: &[u32],
    sizes: &Sizes,
    row: usize,
    end: usize,
    group: &Group,
    #[comptime] tile: Tile,
) -> Array<Vector<f32, N>> {
    let (what, count) = comptime!((tile.what, tile.count));
    let (fp8, _) = comptime!(codes_of(what));
    let registers = comptime!(what.registers);
    let (from, mut sums) = begun_tile::<N>(order, sizes, row, end, what.rows, count, registers);
    let words = sizes.k.div_ceil(4);
    let block = block_words(words, fp8.granularity);
    for b in 0..words.div_ceil(block) {
        let of_block = scale_registers::<N>(scales, sizes, group, b, what);
        let past = min((b + 1) * block, words);
        if comptime!(count > 1) {
            // With several rows, checking the words first takes longer than checking each value.
            let begin = b * block;
            add_words::<F, N>(
                x, codes, &from, &of_block, &mut sums, sizes, group, begin, past, tile, false,
            );
        } else {
            let mut infinite = Vector::<u32, N>::new(0u32);
            #[unroll]
            for r in 0..registers {
                infinite |= beyond::<N>(of_block[r], fp8.format);
            }
            for begin in range_stepped(b * block, past, comptime!(CHUNK)) {
                let end = min(begin + comptime!(CHUNK), past);
                let mut other = infinite;
                for word in begin..end {
                    #[unroll]
                    for r in 0..registers {
                        let at = word_at::<N>(group, word, r, what);
                        other |= special_codes::<N>(codes[at], fp8.format);
                    }
                }
                if any_lane::<N>(other) {
                    add_words::<F, N>(
                        x, codes, &from, &of_block, &mut sums, sizes, group, begin, end, tile,
                        false,
                    );
                } else {
                    add_words::<F, N>(
                        x, codes, &from, &of_block, &mut sums, sizes, group, begin, end, tile, true,
                    );
                }
            }
        }
    }
    sums
}

/// Adds the products of rows and a group's words from `begin` to before `past`, which share scales. If no code is NaN or infinite
/// (`plain`), the factor [`rebias`] is multiplied into the scale.
#[cube]
fn add_words<F: Float, N: Size>(
    x: &[F],
    codes: &[Vector<u32, N>],
    from: &Array<usize>,
    scales: &Array<Vector<f32, N>>,
    sums: &mut Array<Vector<f32, N>>,
    sizes: &Sizes,
    group: &Group,
    begin: usize,
    past: usize,
    #[comptime] tile: Tile,
    #[comptime] plain: bool,
) {
    let (what, count) = comptime!((tile.what, tile.count));
    let (fp8, whole) = comptime!(codes_of(what));
    let registers = comptime!(what.registers);
    let mut factors = Array::<Vector<f32, N>>::new(registers);
    #[unroll]
    for r in 0..registers {
        factors[r] = scales[r];
        if comptime!(plain) {
            factors[r] *= Vector::new(comptime!(rebias(fp8.format)));
        }
    }
    for word in begin..past {
        #[unroll]
        for lane in 0..4usize {
            let kk = 4 * word + lane;
            if whole || kk < sizes.k {
                #[unroll]
                for r in 0..registers {
                    let at = word_at::<N>(group, word, r, what);
                    let value = lane_of::<N>(codes[at], lane, fp8.format, plain) * factors[r];
                    #[unroll]
                    for i in 0..count {
                        let a = Vector::<f32, N>::new(f32::cast_from(x[from[i] + kk]));
                        let sum = comptime!(i * registers + r);
                        sums[sum] = fma(a, value, sums[sum]);
                    }
                }
            }
        }
    }
}

/// Whether any lane has a bit set.
#[cube]
fn any_lane<N: Size>(bits: Vector<u32, N>) -> bool {
    let mut all = 0u32;
    #[unroll]
    for lane in 0..N::value() {
        all |= bits.extract(lane);
    }
    all != 0
}

/// The number of columns that `rows` rows are multiplied with at once.
#[cube]
fn columns_for<N: Size>(
    rows: usize,
    #[comptime] alone: Spec,
    #[comptime] few: Spec,
    #[comptime] many: Spec,
) -> usize {
    let width = N::value();
    if rows == 1 {
        comptime!(alone.columns(width)).runtime()
    } else if rows <= comptime!(FEW_ROWS) {
        comptime!(few.columns(width)).runtime()
    } else {
        comptime!(many.columns(width)).runtime()
    }
}

#[cube(launch_unchecked)]
fn grouped_gemm_cpu_fp8<F: Float, N: Size, O: Size>(
    x: &[F],
    order: ComptimeOption<&[u32]>,
    offsets: ComptimeOption<&[u32]>,
    codes: &[Vector<u32, N>],
    scales: &[u32],
    bias: ComptimeOption<&[F]>,
    packed: &mut [Vector<f32, N>],
    out: &mut [Vector<F, O>],
    sizes: Sizes,
    cores: usize,
    #[comptime] spec: Spec,
    #[define(F)] _element: ElemType,
) {
    let width = N::value();
    let parts = comptime!(if spec.gated { 2usize } else { 1usize });
    let panels = sizes.n.div_ceil(PANEL);
    let base = ABSOLUTE_POS * (packed.len() / cores);

    let all = panels * (sizes.slab_last - sizes.slab_first);
    for panel in range_stepped(ABSOLUTE_POS, all, cores) {
        let expert = sizes.slab_first + panel / panels;
        let expert_row = expert * sizes.n * parts;
        let (begin, end) = segment(&offsets, expert, sizes.rows);
        let rows = end - begin;
        let from = panel % panels * PANEL;
        let past = select(rows == 0, from, min(from + PANEL, sizes.n));
        let alone = comptime!(spec.with_registers(if spec.gated { 2 } else { PANEL / width }));
        let few = comptime!(spec.with_registers(2));
        let of = Rows {
            begin,
            end,
            expert_row,
        };
        if comptime!(spec.layout == WeightLayout::InOut) {
            for first in range_stepped(from, past, comptime!(spec.columns(width))) {
                let group = group_at::<N>(&sizes, expert, first, spec.gated);
                many_rows::<F, N, O>(
                    x, codes, scales, &order, &bias, packed, out, &sizes, &of, &group, base, spec,
                );
            }
        } else {
            let step = columns_for::<N>(rows, alone, few, spec);
            for first in range_stepped(from, past, step) {
                let group = group_at::<N>(&sizes, expert, first, spec.gated);
                any_rows::<F, N, O>(
                    x, codes, scales, &order, &bias, packed, out, &sizes, &of, &group, base, alone,
                    few, spec,
                );
            }
        }
    }
}

/// Multiplies all rows of an expert by a group in the way that their number suits.
#[cube]
fn any_rows<F: Float, N: Size, O: Size>(
    x: &[F],
    codes: &[Vector<u32, N>],
    scales: &[u32],
    order: &ComptimeOption<&[u32]>,
    bias: &ComptimeOption<&[F]>,
    packed: &mut [Vector<f32, N>],
    out: &mut [Vector<F, O>],
    sizes: &Sizes,
    of: &Rows,
    group: &Group,
    base: usize,
    #[comptime] alone: Spec,
    #[comptime] few: Spec,
    #[comptime] many: Spec,
) {
    let rows = of.end - of.begin;
    if rows == 1 {
        let tile = comptime!(Tile::of(alone, 1));
        few_rows::<F, N, O>(x, codes, scales, order, bias, out, sizes, of, group, tile);
    } else if rows <= comptime!(FEW_ROWS / 2) {
        let tile = comptime!(Tile::of(few, FEW_ROWS / 2));
        few_rows::<F, N, O>(x, codes, scales, order, bias, out, sizes, of, group, tile);
    } else if rows <= comptime!(FEW_ROWS) {
        let tile = comptime!(Tile::of(few, FEW_ROWS));
        few_rows::<F, N, O>(x, codes, scales, order, bias, out, sizes, of, group, tile);
    } else {
        many_rows::<F, N, O>(
            x, codes, scales, order, bias, packed, out, sizes, of, group, base, many,
        );
    }
}

/// Multiplies all rows of an expert by a group that is first decoded into the scratch at `base`.
#[cube]
fn many_rows<F: Float, N: Size, O: Size>(
    x: &[F],
    codes: &[Vector<u32, N>],
    scales: &[u32],
    order: &ComptimeOption<&[u32]>,
    bias: &ComptimeOption<&[F]>,
    packed: &mut [Vector<f32, N>],
    out: &mut [Vector<F, O>],
    sizes: &Sizes,
    of: &Rows,
    group: &Group,
    base: usize,
    #[comptime] spec: Spec,
) {
    match comptime!(spec.layout) {
        WeightLayout::OutIn => {
            pack_codes::<N>(codes, scales, packed, sizes, group, base, spec);
        }
        WeightLayout::InOut => {
            pack_turned::<N>(codes, scales, packed, sizes, group, base, spec);
        }
    }
    let biases = biases_of::<F, N>(bias, sizes, of.expert_row, group.first, spec);
    let span = Packed {
        begin: of.begin,
        end: of.end,
        base,
        from: 0usize.runtime(),
        past: sizes.k,
        first: group.first,
        sums: base + comptime!(4 * spec.registers) * sizes.k.div_ceil(4),
    };
    blocks_of_rows::<F, N, O>(x, order, packed, out, sizes, &span, &biases, spec);
}

/// Multiplies all rows of an expert by a group, decoding the codes on the way.
#[cube]
fn few_rows<F: Float, N: Size, O: Size>(
    x: &[F],
    codes: &[Vector<u32, N>],
    scales: &[u32],
    order: &ComptimeOption<&[u32]>,
    bias: &ComptimeOption<&[F]>,
    out: &mut [Vector<F, O>],
    sizes: &Sizes,
    of: &Rows,
    group: &Group,
    #[comptime] tile: Tile,
) {
    let (begin, end, first) = (of.begin, of.end, group.first);
    let (what, count) = comptime!((tile.what, tile.count));
    let sums = direct_tile::<F, N>(x, order, codes, scales, sizes, begin, end, group, tile);
    let biases = biases_of::<F, N>(bias, sizes, of.expert_row, first, what);
    store_rows::<F, N, O>(out, &sums, &biases, sizes, begin, end, first, what, count);
}

pub(super) fn launch(client: &Client, plan: &Plan, slab: &Slab, operands: &Operands) {
    let p = &plan.problem;
    let width = plan.lanes;
    let spec = Spec::of(plan);
    let packed = plan.cores * scratch(p.k.next_multiple_of(4), spec.registers);
    let out_lanes = spec.out_lanes(plan);
    let bound = Bindings::new(p, slab, operands);
    let (Some(codes), Some(scales)) = (bound.words, bound.scales) else {
        unreachable!("a problem on codes comes with scales");
    };
    let (count, dim) = (CubeCount::new_single(), CubeDim::new_1d(plan.cores as u32));
    let (order, offsets, bias) = (bound.order.into(), bound.offsets.into(), bound.bias.into());
    let out = bound.out;
    let packed = bind(client.empty(packed * width * 4));
    let (sizes, cores, element) = (sizes(plan, slab), plan.cores, p.element.elem_type());
    // SAFETY: `plan` checked the shapes; a task's panels, rows and scratch are its own.
    unsafe {
        grouped_gemm_cpu_fp8::launch_unchecked(
            client, count, dim, width, out_lanes, bound.x, order, offsets, codes, scales, bias,
            packed, out, sizes, cores, spec, element,
        );
    }
}

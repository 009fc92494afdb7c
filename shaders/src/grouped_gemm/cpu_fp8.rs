//! The `cpu` variant on FP8 codes: a panel of 64 columns at a time, front to back.
//!
//! Few rows multiply the codes as they are decoded, so that 16 MB are read where f32 weights have
//! 64: decode is bound by memory. More rows share one decoding of two registers of columns into
//! scratch, and from there on the product is that of [`super::cpu`]. Both sum over k in order.

use super::cpu::{Biases, Packed, Spec, begun_tile, bias_of, panel_row, panel_rows, store_rows};
use super::fp8::{block_words, decode_lane, scale_at};
use super::*;
use moebius_ops::grouped_gemm::fp8::PANEL;

/// Rows up to which codes are multiplied as they are decoded. Beyond, decoding them again costs
/// more than writing the decoded weights once.
const FEW_ROWS: usize = 8;

/// A group of columns, those of two registers: expert, first column, and where the words of either
/// register are at inner column 0.
type Group = (usize, usize, usize, usize);

/// The group of `expert` from column `first`.
#[cube]
fn group_at<N: Size>(
    sizes: &Sizes,
    expert: usize,
    first: usize,
    #[comptime] gated: bool,
) -> (usize, usize, usize, usize) {
    let width = N::value();
    let words = sizes.k.div_ceil(4) * comptime!(PANEL / width);
    let panels = sizes.n.div_ceil(PANEL);
    let parts = comptime!(if gated { 2usize } else { 1usize });
    let panel = (expert - sizes.slab_first) * parts * panels + first / PANEL;
    let left = panel * words + first % PANEL / width;
    let right = if comptime!(gated) {
        left + panels * words
    } else {
        left + 1
    };
    (expert, first, left, right)
}

/// The scales of a register of columns in block `block` across.
#[cube]
fn scale_register<N: Size>(
    scales: &[u32],
    sizes: &Sizes,
    at: (usize, usize, usize),
    #[comptime] half: usize,
    #[comptime] spec: Spec,
) -> Vector<f32, N> {
    let (expert, first, block) = at;
    let (fp8, _) = comptime!(codes_of(spec));
    let mut register = Vector::<f32, N>::empty();
    #[unroll]
    for lane in 0..N::value() {
        let row = panel_row(sizes, first, half, lane, N::value(), spec.gated);
        let scale = scale_at(scales, sizes, (expert, row, block), fp8.granularity);
        register.insert(lane, scale);
    }
    register
}

/// What the codes are; the kernel is launched for those only.
fn codes_of(spec: Spec) -> (super::Fp8Weights, bool) {
    match spec.fp8 {
        Some(codes) => codes,
        None => unreachable!("the kernel on codes has codes"),
    }
}

/// packed\[kk\]\[half\] = the decoded weights of a group at inner column kk.
#[cube]
fn pack_codes<N: Size>(
    codes: &[Vector<u32, N>],
    scales: &[u32],
    packed: &mut [Vector<f32, N>],
    sizes: &Sizes,
    at: (Group, usize),
    #[comptime] spec: Spec,
) {
    let ((expert, first, left_at, right_at), base) = at;
    let (fp8, _) = comptime!(codes_of(spec));
    let width = N::value();
    let step = comptime!(PANEL / width);
    let words = sizes.k.div_ceil(4);
    let block = block_words(words, fp8.granularity);
    for b in 0..words.div_ceil(block) {
        let from = (expert, first, b);
        let left_scale = scale_register::<N>(scales, sizes, from, 0usize, spec);
        let right_scale = scale_register::<N>(scales, sizes, from, 1usize, spec);
        for word in b * block..min((b + 1) * block, words) {
            let left = codes[left_at + word * step];
            let right = codes[right_at + word * step];
            #[unroll]
            for lane in 0..4usize {
                let to = base + 2 * (4 * word + lane);
                packed[to] = decode_lane::<N>(left, lane, fp8.format) * left_scale;
                packed[to + 1] = decode_lane::<N>(right, lane, fp8.format) * right_scale;
            }
        }
    }
}

/// The sums of `count` rows from `at.0` (rows past `at.1` repeat the last) by a group, decoded on
/// the way.
#[cube]
fn direct_tile<F: Float, N: Size>(
    x: &[F],
    order: &ComptimeOption<&[u32]>,
    weights: (&[Vector<u32, N>], &[u32]),
    sizes: &Sizes,
    at: (usize, usize, Group),
    #[comptime] spec: (Spec, usize),
) -> Array<Vector<f32, N>> {
    let (codes, scales) = weights;
    let (row, end, (expert, first, left_at, right_at)) = at;
    let (spec, count) = comptime!(spec);
    let (fp8, whole) = comptime!(codes_of(spec));
    let tile = comptime!((spec.rows, count));
    let (from, mut sums) = begun_tile::<N>(order, sizes, (row, end), tile);
    let width = N::value();
    let step = comptime!(PANEL / width);
    let words = sizes.k.div_ceil(4);
    let block = block_words(words, fp8.granularity);
    for b in 0..words.div_ceil(block) {
        let of = (expert, first, b);
        let left_scale = scale_register::<N>(scales, sizes, of, 0usize, spec);
        let right_scale = scale_register::<N>(scales, sizes, of, 1usize, spec);
        for word in b * block..min((b + 1) * block, words) {
            let left = codes[left_at + word * step];
            let right = codes[right_at + word * step];
            #[unroll]
            for lane in 0..4usize {
                let kk = 4 * word + lane;
                if whole || kk < sizes.k {
                    let left = decode_lane::<N>(left, lane, fp8.format) * left_scale;
                    let right = decode_lane::<N>(right, lane, fp8.format) * right_scale;
                    #[unroll]
                    for i in 0..count {
                        let a = Vector::<f32, N>::new(f32::cast_from(x[from[i] + kk]));
                        sums[2 * i] = fma(a, left, sums[2 * i]);
                        sums[2 * i + 1] = fma(a, right, sums[2 * i + 1]);
                    }
                }
            }
        }
    }
    sums
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
    let columns = comptime!(if spec.gated { width } else { 2 * width });
    let parts = comptime!(if spec.gated { 2usize } else { 1usize });
    let panels = sizes.n.div_ceil(PANEL);
    let base = ABSOLUTE_POS * sizes.k.div_ceil(4) * 8;

    for panel in range_stepped(
        ABSOLUTE_POS,
        panels * (sizes.slab_last - sizes.slab_first),
        cores,
    ) {
        let expert = sizes.slab_first + panel / panels;
        let expert_row = expert * sizes.n * parts;
        let (begin, end) = segment(&offsets, expert, sizes.rows);
        let panel_first = panel % panels * PANEL;
        let mut past = min(panel_first + PANEL, sizes.n);
        if begin == end {
            past = panel_first;
        }
        for first in range_stepped(panel_first, past, columns) {
            let group = group_at::<N>(&sizes, expert, first, spec.gated);
            let left = bias_of::<F, N>(&bias, &sizes, expert_row, first, 0usize, spec.gated);
            let right = bias_of::<F, N>(&bias, &sizes, expert_row, first, 1usize, spec.gated);
            let biases = (left, right);
            let inputs = (x, codes, scales);
            let at = (begin, end, group, biases);
            if end - begin <= 1 {
                few_rows::<F, N, O>(inputs, &order, out, &sizes, at, comptime!((spec, 1)));
            } else if end - begin <= comptime!(FEW_ROWS / 2) {
                let spec = comptime!((spec, FEW_ROWS / 2));
                few_rows::<F, N, O>(inputs, &order, out, &sizes, at, spec);
            } else if end - begin <= comptime!(FEW_ROWS) {
                let spec = comptime!((spec, FEW_ROWS));
                few_rows::<F, N, O>(inputs, &order, out, &sizes, at, spec);
            } else {
                many_rows::<F, N, O>(inputs, &order, packed, out, &sizes, (at, base), spec);
            }
        }
    }
}

/// All rows of an expert, from `at.0` to `at.1`, times a group that is decoded into the scratch at `base` first.
#[cube]
fn many_rows<F: Float, N: Size, O: Size>(
    inputs: (&[F], &[Vector<u32, N>], &[u32]),
    order: &ComptimeOption<&[u32]>,
    packed: &mut [Vector<f32, N>],
    out: &mut [Vector<F, O>],
    sizes: &Sizes,
    at: ((usize, usize, Group, Biases<N>), usize),
    #[comptime] spec: Spec,
) {
    let (x, codes, scales) = inputs;
    let ((begin, end, group, biases), base) = at;
    pack_codes::<N>(codes, scales, packed, sizes, (group, base), spec);
    let (_, first, _, _) = group;
    let span = Packed {
        begin,
        end,
        base,
        from: 0usize.runtime(),
        past: sizes.k,
        first,
    };
    panel_rows::<F, N, O>(x, order, packed, out, sizes, &span, biases, spec);
}

/// All rows of an expert, from `at.0` to `at.1`, times a group.
#[cube]
fn few_rows<F: Float, N: Size, O: Size>(
    inputs: (&[F], &[Vector<u32, N>], &[u32]),
    order: &ComptimeOption<&[u32]>,
    out: &mut [Vector<F, O>],
    sizes: &Sizes,
    at: (usize, usize, Group, Biases<N>),
    #[comptime] spec: (Spec, usize),
) {
    let (x, codes, scales) = inputs;
    let (begin, end, group, biases) = at;
    let weights = (codes, scales);
    let sums = direct_tile::<F, N>(x, order, weights, sizes, (begin, end, group), spec);
    let (_, first, _, _) = group;
    store_rows::<F, N, O>(out, &sums, biases, sizes, (begin, end, first), spec);
}

pub(super) fn launch(client: &Client, plan: &Plan, slab: &Slab, operands: &Operands) {
    let p = &plan.problem;
    let width = plan.lanes;
    let packed = plan.cores * p.k.div_ceil(4) * 8;
    let scratch = client.empty(packed * width * 4);
    let spec = Spec::of(plan);
    let out_lanes = spec.out_lanes(plan);
    // SAFETY: `plan` checked the shapes; a task's panels, rows and scratch are its own.
    unsafe {
        let bound = Bindings::new(plan, slab, operands, [1, width, out_lanes]);
        let Some(scales) = bound.scales else {
            unreachable!("a problem on codes comes with scales");
        };
        grouped_gemm_cpu_fp8::launch_unchecked(
            client,
            CubeCount::Static(1, 1, 1),
            CubeDim::new_1d(plan.cores as u32),
            width,
            out_lanes,
            bound.x,
            bound.order.into(),
            bound.offsets.into(),
            bound.weights,
            scales,
            bound.bias.into(),
            bind(scratch, packed, 4 * width),
            bound.out,
            sizes(plan, slab),
            plan.cores,
            spec,
            p.element.elem_type(),
        );
    }
}

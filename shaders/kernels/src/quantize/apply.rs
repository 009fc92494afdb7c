//! Encoding under given scales, and decoding, a word at a time.

use super::word::{
    Coding, Four, decode_scaled, decode_word, encode_scaled, encode_word, load, store,
};
use super::{Buffers, Plan, Sizes};
use crate::prelude::*;
use cubecl::prelude::*;
use moebius_ops::scaling::ScaleType;

/// Compile-time parameters for finding the scales of words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Spec {
    pub(super) coding: Coding,
    /// Whether a word may hold values of two blocks.
    pub(super) cuts_words: bool,
    /// The largest number of neighbouring words per unit; unless it is 1, they belong to one row of a block.
    pub(super) run: usize,
}

impl Spec {
    fn of(plan: &Plan) -> Self {
        Self {
            coding: plan.coding(),
            cuts_words: plan.problem.cuts_words(),
            run: plan.run,
        }
    }
}

/// The index of a row's first scale: in f32s, or in words of E8M0 bytes.
#[cube]
fn first_scale(row: usize, sizes: &Sizes, #[comptime] coding: Coding) -> usize {
    let line = row / sizes.rows * sizes.down + row % sizes.rows / sizes.block_rows;
    if comptime!(coding.scale_type == ScaleType::F32) {
        line * sizes.across
    } else {
        line * (sizes.padded / 4)
    }
}

/// The scale of block `across` of a row whose scales begin at `first`.
#[cube]
fn scale_at(scales: &[u32], first: usize, across: usize, #[comptime] coding: Coding) -> u32 {
    if comptime!(coding.scale_type == ScaleType::F32) {
        scales[first + across]
    } else {
        (scales[first + across / 4] >> (8 * (across % 4) as u32)) & 0xFF
    }
}

#[cube]
fn encode_at<F: Float, N: Size>(
    x: &[Vector<F, N>],
    scales: &[u32],
    at: usize,
    sizes: &Sizes,
    #[comptime] spec: Spec,
) -> u32 {
    let coding = comptime!(spec.coding);
    let (row, word) = (at / sizes.row_words, at % sizes.row_words);
    let bits = load::<F, N>(x, row, word, sizes);
    let first = first_scale(row, sizes, coding);
    if comptime!(spec.cuts_words) {
        let mut codes = 0u32;
        #[unroll]
        for lane in 0..4usize {
            // Lanes past the row hold zeros and use the last scale.
            let across = min((word * 4 + lane) / sizes.block_columns, sizes.across - 1);
            let scale = scale_at(scales, first, across, coding);
            let shift = comptime!(8 * lane as u32);
            codes |= encode_scaled(bits.extract(lane), scale, coding) << shift;
        }
        codes
    } else {
        let scale = scale_at(scales, first, word / sizes.block_words, coding);
        encode_word(bits, scale, coding)
    }
}

#[cube]
fn decode_at(
    codes: u32,
    scales: &[u32],
    row: usize,
    word: usize,
    sizes: &Sizes,
    #[comptime] spec: Spec,
) -> Four<f32> {
    let coding = comptime!(spec.coding);
    let first = first_scale(row, sizes, coding);
    if comptime!(spec.cuts_words) {
        let mut values = Four::<f32>::new(0.0f32);
        #[unroll]
        for lane in 0..4usize {
            let across = min((word * 4 + lane) / sizes.block_columns, sizes.across - 1);
            let scale = scale_at(scales, first, across, coding);
            let shift = comptime!(8 * lane as u32);
            values.insert(lane, decode_scaled((codes >> shift) & 0xFF, scale, coding));
        }
        values
    } else {
        let scale = scale_at(scales, first, word / sizes.block_words, coding);
        decode_word(codes, scale, coding)
    }
}

/// Neighbouring words of one row of a block.
#[derive(CubeType, Clone, Copy)]
struct Run {
    row: usize,
    across: usize,
    first: usize,
    last: usize,
}

/// Run `index`; runs past the last word of a row are empty.
#[cube]
fn run_of(index: usize, sizes: &Sizes, #[comptime] run: usize) -> Run {
    let of_block = sizes.block_words.div_ceil(run);
    let of_row = of_block * sizes.across;
    let across = index % of_row / of_block;
    let block = across * sizes.block_words;
    let first = block + index % of_block * run;
    Run {
        row: index / of_row,
        across,
        first,
        last: min(first + run, min(block + sizes.block_words, sizes.row_words)),
    }
}

/// Computes words = encode(x / scales); each unit takes one word or a run of them.
#[cube(launch_unchecked)]
pub(super) fn fp8_quantize_by<F: Float, N: Size>(
    x: &[Vector<F, N>],
    scales: &[u32],
    words: &mut [u32],
    sizes: Sizes,
    #[comptime] spec: Spec,
    #[define(F)] _element: ElemType,
) {
    let coding = comptime!(spec.coding);
    if comptime!(spec.run == 1) {
        if ABSOLUTE_POS < words.len() {
            words[ABSOLUTE_POS] = encode_at::<F, N>(x, scales, ABSOLUTE_POS, &sizes, spec);
        }
    } else {
        let run = run_of(ABSOLUTE_POS, &sizes, comptime!(spec.run));
        if run.row * sizes.row_words < words.len() {
            let first = first_scale(run.row, &sizes, coding);
            let scale = scale_at(scales, first, run.across, coding);
            for word in run.first..run.last {
                let bits = load::<F, N>(x, run.row, word, &sizes);
                words[run.row * sizes.row_words + word] = encode_word(bits, scale, coding);
            }
        }
    }
}

/// Computes y = decode(words) · scales; each unit takes one word or a run of them.
#[cube(launch_unchecked)]
pub(super) fn fp8_dequantize<F: Float, N: Size>(
    words: &[u32],
    scales: &[u32],
    y: &mut [Vector<F, N>],
    sizes: Sizes,
    #[comptime] spec: Spec,
    #[define(F)] _element: ElemType,
) {
    let coding = comptime!(spec.coding);
    if comptime!(spec.run == 1) {
        if ABSOLUTE_POS < words.len() {
            let row = ABSOLUTE_POS / sizes.row_words;
            let word = ABSOLUTE_POS % sizes.row_words;
            let values = decode_at(words[ABSOLUTE_POS], scales, row, word, &sizes, spec);
            store::<F, N>(y, row, word, values, &sizes);
        }
    } else {
        let run = run_of(ABSOLUTE_POS, &sizes, comptime!(spec.run));
        if run.row * sizes.row_words < words.len() {
            let first = first_scale(run.row, &sizes, coding);
            let scale = scale_at(scales, first, run.across, coding);
            for word in run.first..run.last {
                let codes = words[run.row * sizes.row_words + word];
                let values = decode_word(codes, scale, coding);
                store::<F, N>(y, run.row, word, values, &sizes);
            }
        }
    }
}

/// Enqueues words = encode(x / scales) for given scales: one launch, or none without values.
pub fn launch_by(client: &Client, plan: &Plan, buffers: Buffers) {
    enqueue(client, plan, buffers, true);
}

/// Enqueues y = decode(words) · scales: one launch, or none without values.
pub fn launch_dequantize(client: &Client, plan: &Plan, buffers: Buffers) {
    enqueue(client, plan, buffers, false);
}

fn enqueue(client: &Client, plan: &Plan, buffers: Buffers, encode: bool) {
    let p = &plan.problem;
    if p.is_empty() {
        return;
    }
    let (count, dim, lanes) = (plan.words.count(), plan.words.dim(), plan.lanes);
    let (sizes, spec, element) = (super::sizes(p), Spec::of(plan), p.element().elem_type());
    let [values, words, scales] = [buffers.values, buffers.words, buffers.scales].map(bind);
    // SAFETY: the buffers are as long as they are described; units past the last word, and lanes past the end of a row, touch
    // nothing, and every row and column has a scale.
    unsafe {
        if encode {
            launched::note(|| super::quantize_by_name(p) + plan.conversion.suffix());
            fp8_quantize_by::launch_unchecked(
                client, count, dim, lanes, values, scales, words, sizes, spec, element,
            );
        } else {
            launched::note(|| super::dequantize_name(p) + plan.conversion.suffix());
            fp8_dequantize::launch_unchecked(
                client, count, dim, lanes, words, scales, values, sizes, spec, element,
            );
        }
    }
}

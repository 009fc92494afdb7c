//! o and its log-sum-exp, a block of queries by a block of keys at a time (Milakov & Gimelshein 2018, Dao 2022).

use super::few;
use super::panels::{Left, Line, PANEL, Panels, add_product};
use super::scores::{Block, Host, KEYS};
use super::source::Source;
use moebius_host::{Kernel, Transpose, dispatch, exp, vectorized};
use moebius_ops::attention::Sizes;
use pulp::{Simd, WithSimd};
use rayon::prelude::*;
use std::ops::Range;

/// What queries read of one key head.
struct Packed {
    /// kᵀ \[D, Skv\].
    keys: Panels,
    /// v \[Skv, Dv\].
    values: Panels,
    /// Whether all values of a block of keys are finite.
    finite: Vec<bool>,
}

/// o \[B, Hq, Sq, Dv\] and lse \[B, Hq, Sq\].
pub(super) fn run(host: &Host<'_>, source: &impl Source) -> [Vec<f32>; 2] {
    let problem = host.problem;
    let s = problem.sizes();
    let width = s.value_dim;
    let mut o = vec![0.0; problem.query_rows() * width];
    let mut lse = vec![f32::MIN; problem.query_rows()];
    if s.queries * problem.group() <= few::ROWS {
        few::run(host, source, &mut o, &mut lse);
        return [o, lse];
    }
    let heads = (0..s.batch * s.kv_heads).into_par_iter();
    let packed: Vec<Packed> = heads.map(|head| Packed::of(source, head, s)).collect();
    let (mut o_rest, mut lse_rest) = (&mut o[..], &mut lse[..]);
    let mut tasks = Vec::new();
    for block in host.query_blocks() {
        let (o, rest) = o_rest.split_at_mut(block.rows() * width);
        o_rest = rest;
        let (lse, rest) = lse_rest.split_at_mut(block.rows());
        lse_rest = rest;
        let head = block.batch * s.kv_heads + block.heads.start / problem.group();
        let packed = &packed[head];
        tasks.push(Task {
            host,
            packed,
            block,
            out: (o, lse),
        });
    }
    tasks.into_par_iter().for_each(vectorized);
    [o, lse]
}

/// Fills what queries read of key head `head`.
struct Pack<'a, K> {
    source: &'a K,
    head: usize,
    keys: usize,
    to: &'a mut Packed,
}

impl<K: Source> Kernel for Pack<'_, K> {
    #[inline(always)]
    fn run<S: Simd, T: Transpose>(self, _: S, transpose: T) {
        let Self { source, head, .. } = self;
        let blocks = |size: usize| {
            let firsts = (0..self.keys).step_by(size);
            firsts.map(move |first| first..(first + size).min(self.keys))
        };
        for (keys, lines) in blocks(PANEL).zip(self.to.keys.each()) {
            source.keys(transpose, head, keys, lines);
        }
        let mut room = Vec::new();
        for keys in blocks(KEYS) {
            let first = keys.start;
            let values = source.values(head, keys, &mut room);
            let finite = values.iter().all(|value| value.is_finite());
            self.to.finite.push(finite);
            self.to.values.put(first, values);
        }
    }
}

impl Packed {
    fn of(source: &impl Source, head: usize, s: &Sizes) -> Self {
        let mut to = Self {
            keys: Panels::new(s.head_dim, s.keys),
            values: Panels::new(s.keys, s.value_dim),
            finite: Vec::new(),
        };
        dispatch(Pack {
            source,
            head,
            keys: s.keys,
            to: &mut to,
        });
        to
    }
}

/// A block of queries.
struct Task<'a> {
    host: &'a Host<'a>,
    packed: &'a Packed,
    block: Block,
    /// Its rows of o and lse.
    out: (&'a mut [f32], &'a mut [f32]),
}

/// The largest score of a row so far, and the sum of the others' exponentials by it.
#[derive(Clone, Copy)]
pub(super) struct Running {
    largest: f32,
    sum: f32,
}

impl WithSimd for Task<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (host, block) = (self.host, &self.block);
        let (width, rows) = (host.problem.sizes().head_dim, block.rows());
        let q = host.scaled_queries(block);
        let across = self.packed.values.count();
        let mut sums = vec![[0.0; PANEL]; rows * across];
        let mut scores = vec![[0.0; PANEL]; rows * (KEYS / PANEL)];
        let mut running = vec![Running::new(); rows];
        for (keys, full) in host.key_blocks(block) {
            let panels = panels_of(&keys);
            let tiles = panels.len();
            let scores = &mut scores[..rows * tiles];
            scores.fill([0.0; PANEL]);
            let right = (&self.packed.keys, 0..width, panels);
            add_product(simd, (Left::Rows(&q, width), rows), right, scores);
            let finite = self.packed.finite[keys.start / KEYS];
            let mut hidden = Hidden::new(!finite);
            for (row, running) in running.iter_mut().enumerate() {
                let scores = scores[row * tiles..][..tiles].as_flattened_mut();
                let none: [&mut [f32]; 2] = [&mut [], &mut []];
                host.apply(simd, (block, row), (&keys, full), scores, none);
                hidden.note(scores);
                let shrink = running.add(simd, scores);
                host.drop((block, row), keys.start, scores);
                scale(simd, shrink, &mut sums[row * across..][..across]);
            }
            let p = scores.as_flattened();
            let (left, inner) = (Left::Rows(p, tiles * PANEL), keys.clone());
            match hidden.0 {
                None => {
                    let right = (&self.packed.values, inner, 0..across);
                    add_product(simd, (left, rows), right, &mut sums);
                }
                Some(hidden) => {
                    let pairs = Pairs::new(p, &hidden, tiles * PANEL);
                    pairs.add_rows(&self.packed.values, inner, &mut sums);
                }
            }
        }
        self.finish(&running, &sums, across);
    }
}

impl Task<'_> {
    /// Divides by the sums, in which sinks take part.
    #[inline(always)]
    fn finish(self, running: &[Running], sums: &[Line], across: usize) {
        let (host, block) = (self.host, &self.block);
        let width = host.problem.sizes().value_dim;
        let (o, lse) = self.out;
        let sums = sums.chunks_exact(across);
        let rows = running.iter().zip(sums).zip(o.chunks_exact_mut(width));
        for (row, ((running, sums), o)) in rows.enumerate() {
            let head = block.heads.start + row / block.queries.len();
            let sink = host.sinks.get(head).copied();
            let Some((found, factor)) = running.finish(sink) else {
                continue;
            };
            lse[row] = found;
            for (o, sum) in o.iter_mut().zip(sums.as_flattened()) {
                *o = sum * factor;
            }
        }
    }
}

impl Running {
    pub(super) fn new() -> Self {
        Self {
            largest: f32::NEG_INFINITY,
            sum: 0.0,
        }
    }

    /// Scores become exponentials by the largest so far; what came before shrinks by the factor that is returned.
    #[inline(always)]
    pub(super) fn add<S: Simd>(&mut self, simd: S, scores: &mut [f32]) -> f32 {
        let scores = S::as_mut_simd_f32s(scores).0;
        let mut largest = simd.splat_f32s(f32::NEG_INFINITY);
        for score in scores.iter() {
            largest = simd.max_f32s(largest, *score);
        }
        let before = self.largest;
        self.largest = before.max(simd.reduce_max_f32s(largest));
        // Nothing seen so far: exponentials of −∞ are 0 by any base but −∞.
        let base = if self.largest == f32::NEG_INFINITY {
            0.0
        } else {
            self.largest
        };
        let by = simd.splat_f32s(base);
        let mut sum = simd.splat_f32s(0.0);
        for score in scores.iter_mut() {
            *score = exp(simd, simd.sub_f32s(*score, by));
            sum = simd.add_f32s(sum, *score);
        }
        let shrink = if before == self.largest {
            1.0
        } else {
            (before - base).exp()
        };
        self.sum = self.sum * shrink + simd.reduce_sum_f32s(sum);
        shrink
    }

    /// The log-sum-exp, and what the row of sums is multiplied by; `None` where nothing is seen and there is no sink.
    #[inline(always)]
    pub(super) fn finish(self, sink: Option<f32>) -> Option<(f32, f32)> {
        let Some(sink) = sink else {
            // Not `> 0`: a NaN that is seen stays.
            let empty = self.sum == 0.0;
            return (!empty).then(|| (self.largest + self.sum.ln(), 1.0 / self.sum));
        };
        let largest = self.largest.max(sink);
        let shrink = (self.largest - largest).exp();
        let sum = self.sum * shrink + (sink - largest).exp();
        Some((largest + sum.ln(), shrink / sum))
    }
}

impl Host<'_> {
    /// scale · q of a block.
    pub(super) fn scaled_queries(&self, block: &Block) -> Vec<f32> {
        let width = self.problem.sizes().head_dim;
        let first = self.first_row(block) * width;
        let q = self.q[first..][..block.rows() * width].iter();
        q.map(|q| q * self.problem.scale()).collect()
    }

    /// Where a block's rows lie in \[B, Hq, Sq\].
    pub(super) fn first_row(&self, block: &Block) -> usize {
        let s = self.problem.sizes();
        (block.batch * s.heads + block.heads.start) * s.queries + block.queries.start
    }
}

/// The panels of transposed keys.
pub(super) fn panels_of(keys: &Range<usize>) -> Range<usize> {
    keys.start / PANEL..keys.end.div_ceil(PANEL)
}

/// Multiplies the lines of a row.
#[inline(always)]
fn scale<S: Simd>(simd: S, factor: f32, lines: &mut [Line]) {
    if factor == 1.0 {
        return;
    }
    let by = simd.splat_f32s(factor);
    for value in S::as_mut_simd_f32s(lines.as_flattened_mut()).0 {
        *value = simd.mul_f32s(*value, by);
    }
}

/// Which pairs of a block aren't seen, where that matters: 0 times a NaN isn't 0.
pub(super) struct Hidden(pub(super) Option<Vec<bool>>);

impl Hidden {
    pub(super) fn new(matters: bool) -> Self {
        Self(matters.then(Vec::new))
    }

    /// Adds a row of scores.
    pub(super) fn note(&mut self, scores: &[f32]) {
        if let Some(hidden) = &mut self.0 {
            hidden.extend(scores.iter().map(|score| *score == f32::NEG_INFINITY));
        }
    }
}

/// Factors of the pairs of a block \[rows, stride\], of which those that are hidden count for nothing.
pub(super) struct Pairs<'a> {
    factors: &'a [f32],
    hidden: &'a [bool],
    stride: usize,
}

impl<'a> Pairs<'a> {
    pub(super) fn new(factors: &'a [f32], hidden: &'a [bool], stride: usize) -> Self {
        Self {
            factors,
            hidden,
            stride,
        }
    }

    /// Adds factors · right to `sums` \[rows, panels\], of the rows `keys` of the right.
    pub(super) fn add_rows(&self, right: &Panels, keys: Range<usize>, sums: &mut [Line]) {
        let across = right.count();
        for (row, sums) in sums.chunks_exact_mut(across).enumerate() {
            for (lane, key) in keys.clone().enumerate() {
                self.add((row, lane), right.row(key), sums);
            }
        }
    }

    /// Adds factorsᵀ · right to `sums` \[keys, panels\].
    pub(super) fn add_columns(&self, right: &Panels, sums: &mut [Line]) {
        let across = right.count();
        for (lane, sums) in sums.chunks_exact_mut(across).enumerate() {
            for row in 0..self.factors.len() / self.stride {
                self.add((row, lane), right.row(row), sums);
            }
        }
    }

    fn add<'l>(
        &self,
        (row, lane): (usize, usize),
        lines: impl Iterator<Item = &'l Line>,
        sums: &mut [Line],
    ) {
        let at = row * self.stride + lane;
        if self.hidden[at] {
            return;
        }
        let factor = self.factors[at];
        for (sums, line) in sums.iter_mut().zip(lines) {
            for (sum, value) in sums.iter_mut().zip(line) {
                *sum = factor.mul_add(*value, *sum);
            }
        }
    }
}

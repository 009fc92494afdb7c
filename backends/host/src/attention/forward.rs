//! o and its log-sum-exp, a block of queries by a block of keys at a time (Milakov & Gimelshein 2018, Dao 2022).

use super::few;
use super::pairs::{Hidden, Pairs};
use super::panels::{Left, Line, PANEL, Panels, add_product, panels_of};
use super::running::Running;
use super::scores::{Block, KEYS, Operands};
use super::source::Source;
use crate::vector::{Kernel, Transpose, dispatch, vectorized};
use moebius_ops::attention::Sizes;
use pulp::{Simd, WithSimd};
use rayon::prelude::*;

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
pub(crate) fn run(operands: &Operands<'_>, source: &impl Source) -> [Vec<f32>; 2] {
    let problem = operands.problem;
    let s = problem.sizes();
    let width = s.value_dim;
    let mut o = vec![0.0; problem.query_rows() * width];
    let mut lse = vec![f32::MIN; problem.query_rows()];
    if s.queries * problem.group() <= few::ROWS {
        few::run(operands, source, &mut o, &mut lse);
        return [o, lse];
    }
    let heads = (0..s.batch * s.kv_heads).into_par_iter();
    let packed: Vec<Packed> = heads.map(|head| Packed::of(source, head, s)).collect();
    let (mut o_rest, mut lse_rest) = (&mut o[..], &mut lse[..]);
    let mut tasks = Vec::new();
    for block in operands.query_blocks() {
        let (o, rest) = o_rest.split_at_mut(block.rows() * width);
        o_rest = rest;
        let (lse, rest) = lse_rest.split_at_mut(block.rows());
        lse_rest = rest;
        let head = block.batch * s.kv_heads + block.heads.start / problem.group();
        let packed = &packed[head];
        tasks.push(Task {
            operands,
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
    operands: &'a Operands<'a>,
    packed: &'a Packed,
    block: Block,
    /// Its rows of o and lse.
    out: (&'a mut [f32], &'a mut [f32]),
}

impl WithSimd for Task<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (operands, block) = (self.operands, &self.block);
        let (width, rows) = (operands.problem.sizes().head_dim, block.rows());
        let q = operands.scaled_queries(block);
        let across = self.packed.values.count();
        let mut sums = vec![[0.0; PANEL]; rows * across];
        let mut scores = vec![[0.0; PANEL]; rows * (KEYS / PANEL)];
        let mut running = vec![Running::new(); rows];
        for (keys, full) in operands.key_blocks(block) {
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
                operands.apply(simd, (block, row), (&keys, full), scores, none);
                hidden.note(scores);
                let shrink = running.add(simd, scores);
                operands.drop((block, row), keys.start, scores);
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
        let (operands, block) = (self.operands, &self.block);
        let width = operands.problem.sizes().value_dim;
        let (o, lse) = self.out;
        let sums = sums.chunks_exact(across);
        let rows = running.iter().zip(sums).zip(o.chunks_exact_mut(width));
        for (row, ((running, sums), o)) in rows.enumerate() {
            let head = block.heads.start + row / block.queries.len();
            let sink = operands.sinks.get(head).copied();
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

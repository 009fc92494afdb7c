//! The gradients of queries, keys, values and biases by distance.
//!
//! A task covers some queries of one head and goes over all keys that they see, with five products. Each task has buffers of its own for
//! the gradients of keys and values, which are summed in the order of the tasks; that order depends only on the sizes of one sequence.

use super::panels::{Hidden, Left, Line, PANEL, Pairs, Panels, add_product, panels_of};
use super::scores::{Block, KEYS, Operands, QUERIES};
use crate::vector::{exp, vectorized};
use moebius_ops::attention::Rule;
use pulp::{Simd, WithSimd};
use rayon::prelude::*;
use std::ops::Range;

/// The most tasks per head: each holds gradients of all keys that its queries see.
const TASKS: usize = 4;
/// The fewest blocks of queries per task.
const BLOCKS: usize = 8;

/// The inputs of a backward pass.
pub(super) struct Incoming<'a> {
    /// The gradient of o \[B, Hq, Sq, Dv\]; `None` if the gradient is that of the log-sum-exp.
    pub(super) d_o: Option<&'a [f32]>,
    /// The log-sum-exp \[B, Hq, Sq\].
    pub(super) lse: &'a [f32],
    /// ⟨do, o⟩, or −dlse if the gradient is that of the log-sum-exp, \[B, Hq, Sq\].
    pub(super) delta: Vec<f32>,
}

/// The keys and values of one key head, packed for products.
pub(super) struct Packed {
    /// kᵀ \[D, Skv\].
    transposed_keys: Panels,
    /// k \[Skv, D\].
    keys: Panels,
    /// vᵀ \[Dv, Skv\].
    transposed_values: Panels,
    /// Whether each block of keys and values is finite.
    finite: Vec<bool>,
}

/// Returns whether each block of [`KEYS`] rows of `width` values is finite.
fn finite(values: &[f32], width: usize) -> Vec<bool> {
    let blocks = values.chunks(KEYS * width);
    let finite = |block: &[f32]| block.iter().all(|value| value.is_finite());
    blocks.map(finite).collect()
}

impl Packed {
    /// Packs all key heads.
    pub(super) fn all(operands: &Operands<'_>) -> Vec<Self> {
        let s = *operands.problem.sizes();
        let heads = (0..s.batch * s.kv_heads).into_par_iter();
        let packed = heads.map(|head| {
            let k = &operands.k[head * s.keys * s.head_dim..][..s.keys * s.head_dim];
            let v = &operands.v[head * s.keys * s.value_dim..][..s.keys * s.value_dim];
            let both = finite(k, s.head_dim)
                .into_iter()
                .zip(finite(v, s.value_dim));
            Self {
                transposed_keys: Panels::transposed(k, s.head_dim),
                keys: Panels::of(k, s.head_dim),
                transposed_values: Panels::transposed(v, s.value_dim),
                finite: both.map(|(k, v)| k && v).collect(),
            }
        });
        packed.collect()
    }
}

/// The gradients, by their names in the description.
pub(super) struct Gradients {
    pub(super) dq: Vec<f32>,
    pub(super) dk: Vec<f32>,
    pub(super) dv: Vec<f32>,
    pub(super) drelative: Vec<f32>,
}

pub(super) fn run(
    operands: &Operands<'_>,
    incoming: &Incoming<'_>,
    packed: &[Packed],
) -> Gradients {
    let problem = operands.problem;
    let s = *problem.sizes();
    let mut dq = vec![0.0; problem.query_rows() * s.head_dim];
    let queries = s.queries.div_ceil(TASKS).next_multiple_of(QUERIES);
    let queries = queries.max(BLOCKS * QUERIES);
    let mut rest = &mut dq[..];
    let mut tasks = Vec::new();
    for (batch, head) in (0..s.batch).flat_map(|b| (0..s.heads).map(move |h| (b, h))) {
        for first in (0..s.queries).step_by(queries) {
            let queries = first..(first + queries).min(s.queries);
            let (dq, after) = rest.split_at_mut(queries.len() * s.head_dim);
            rest = after;
            tasks.push(Task {
                pairs: PairGradients {
                    operands,
                    incoming,
                    packed: &packed[batch * s.kv_heads + head / problem.group()],
                },
                block: Block {
                    batch,
                    heads: head..head + 1,
                    queries,
                },
                dq,
            });
        }
    }
    let parts: Vec<Part> = tasks.into_par_iter().map(vectorized).collect();
    let mut gradients = Gradients {
        dq,
        dk: vec![0.0; operands.k.len()],
        dv: vec![0.0; operands.v.len()],
        drelative: vec![0.0; operands.relative.len()],
    };
    gradients.add(operands, &parts, s.queries.div_ceil(queries));
    gradients
}

impl Gradients {
    /// Adds the parts of all tasks, `of_head` tasks per query head, to the gradients of keys, values and biases.
    fn add(&mut self, operands: &Operands<'_>, parts: &[Part], of_head: usize) {
        let s = operands.problem.sizes();
        let of_kv_head = of_head * operands.problem.group();
        if parts.is_empty() || s.keys == 0 {
            return;
        }
        let [dk, dv] = [s.head_dim, s.value_dim].map(|width| s.keys * width);
        let heads = self.dk.par_chunks_mut(dk).zip(self.dv.par_chunks_mut(dv));
        let heads = heads.zip(parts.par_chunks(of_kv_head));
        heads.for_each(|((dk, dv), parts)| {
            for part in parts {
                add_lines(&mut dk[part.first_key * s.head_dim..], s.head_dim, &part.dk);
                add_lines(
                    &mut dv[part.first_key * s.value_dim..],
                    s.value_dim,
                    &part.dv,
                );
            }
        });
        let width = self.drelative.len() / s.heads;
        for (at, part) in parts.iter().enumerate() {
            let head = at / of_head % s.heads;
            let sums = &mut self.drelative[head * width..][..width];
            for (sum, value) in sums.iter_mut().zip(&part.drelative) {
                *sum += value;
            }
        }
    }
}

/// Adds padded rows of lines to rows of `width` values.
fn add_lines(to: &mut [f32], width: usize, lines: &[Line]) {
    let rows = lines.chunks_exact(width.div_ceil(PANEL));
    for (to, lines) in to.chunks_exact_mut(width).zip(rows) {
        for (to, value) in to.iter_mut().zip(lines.as_flattened()) {
            *to += value;
        }
    }
}

/// A task's gradients of keys and values, from `first_key` on, and of the biases by distance of its head.
struct Part {
    first_key: usize,
    dk: Vec<Line>,
    dv: Vec<Line>,
    drelative: Vec<f32>,
}

/// Some queries of one head.
struct Task<'a> {
    pairs: PairGradients<'a>,
    block: Block,
    dq: &'a mut [f32],
}

impl WithSimd for Task<'_> {
    type Output = Part;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Part {
        let operands = self.pairs.operands;
        let s = *operands.problem.sizes();
        let keys = operands.problem.keys_of(self.block.queries.clone());
        let first_key = keys.start / KEYS * KEYS;
        let count = keys.end.next_multiple_of(KEYS).min(s.keys);
        let count = count.saturating_sub(first_key);
        let lines = |width: usize| vec![[0.0; PANEL]; count * width.div_ceil(PANEL)];
        let mut part = Part {
            first_key,
            dk: lines(s.head_dim),
            dv: lines(s.value_dim),
            drelative: vec![0.0; operands.relative.len() / s.heads],
        };
        let blocks = self.block.queries.clone().step_by(QUERIES);
        let dq = self.dq.chunks_mut(QUERIES * s.head_dim);
        for (first, dq) in blocks.zip(dq) {
            let queries = first..(first + QUERIES).min(self.block.queries.end);
            let block = Block {
                queries,
                ..self.block.clone()
            };
            self.pairs.queries(simd, &block, dq, &mut part);
        }
        part
    }
}

/// The inputs from which the gradients of scores are computed.
pub(super) struct PairGradients<'a> {
    pub(super) operands: &'a Operands<'a>,
    pub(super) incoming: &'a Incoming<'a>,
    pub(super) packed: &'a Packed,
}

/// A block of queries with its inputs, which goes over the keys.
pub(super) struct Queries<'a> {
    block: &'a Block,
    /// The queries times the scale.
    q: Vec<f32>,
    d_o: Option<&'a [f32]>,
    lse: &'a [f32],
    delta: &'a [f32],
    finite: bool,
}

/// Values of all pairs of a block of queries and a block of keys: \[queries, keys\], padded to whole panels.
#[derive(Default)]
pub(super) struct Work {
    /// Scores; later probabilities after dropout.
    p: Vec<Line>,
    /// Products ⟨do, v⟩; later gradients of the scores that the rules return.
    pub(super) ds: Vec<Line>,
    /// Slopes of a cap.
    pub(super) slopes: Vec<Line>,
    /// Slopes of the program's own rule.
    own: Vec<Line>,
}

impl<'a> PairGradients<'a> {
    pub(super) fn of(&'a self, block: &'a Block) -> Queries<'a> {
        let s = self.operands.problem.sizes();
        let (first, rows) = (self.operands.first_row(block), block.rows());
        let q = self.operands.scaled_queries(block);
        let d_o = self.incoming.d_o;
        let d_o = d_o.map(|d_o| &d_o[first * s.value_dim..][..rows * s.value_dim]);
        let all = q.iter().chain(d_o.into_iter().flatten());
        Queries {
            block,
            finite: all.copied().all(f32::is_finite),
            q,
            d_o,
            lse: &self.incoming.lse[first..][..rows],
            delta: &self.incoming.delta[first..][..rows],
        }
    }

    /// Fills `work` for one block of keys; returns the hidden pairs if they matter.
    #[inline(always)]
    pub(super) fn scores<S: Simd>(
        &self,
        simd: S,
        queries: &Queries<'_>,
        (keys, full): (&Range<usize>, bool),
        work: &mut Work,
    ) -> Hidden {
        let (s, packed) = (self.operands.problem.sizes(), self.packed);
        let (rows, panels) = (queries.block.rows(), panels_of(keys));
        let tiles = panels.len();
        for lines in [&mut work.p, &mut work.ds, &mut work.slopes, &mut work.own] {
            lines.clear();
            lines.resize(rows * tiles, [0.0; PANEL]);
        }
        let right = (&packed.transposed_keys, 0..s.head_dim, panels.clone());
        let left = Left::Rows(&queries.q, s.head_dim);
        add_product(simd, (left, rows), right, &mut work.p);
        if let Some(d_o) = queries.d_o {
            let right = (&packed.transposed_values, 0..s.value_dim, panels);
            let left = Left::Rows(d_o, s.value_dim);
            add_product(simd, (left, rows), right, &mut work.ds);
        }
        let finite = queries.finite && packed.finite[keys.start / KEYS];
        let mut hidden = Hidden::new(!finite);
        for row in 0..rows {
            let of_row = row * tiles..(row + 1) * tiles;
            let p = work.p[of_row.clone()].as_flattened_mut();
            let slopes = work.slopes[of_row.clone()].as_flattened_mut();
            let at = (queries.block, row);
            let own = work.own[of_row.clone()].as_flattened_mut();
            let both = [&mut *slopes, &mut *own];
            self.operands.apply(simd, at, (keys, full), p, both);
            hidden.note(p);
            let ds = work.ds[of_row].as_flattened_mut();
            self.operands.drop(at, keys.start, ds);
            let statistics = (queries.lse[row], queries.delta[row]);
            gradients_of_row(simd, statistics, p, [&mut *ds, slopes]);
            if self.operands.rule.is_some() {
                // Pairs with a gradient of 0, such as hidden ones, are skipped, because their slope may be NaN.
                for (ds, slope) in ds.iter_mut().zip(own).filter(|(ds, _)| **ds != 0.0) {
                    *ds *= *slope;
                }
            }
            self.operands.drop(at, keys.start, p);
        }
        hidden
    }

    /// Computes all gradients of a block of queries.
    #[inline(always)]
    fn queries<S: Simd>(&self, simd: S, block: &Block, dq: &mut [f32], part: &mut Part) {
        let s = *self.operands.problem.sizes();
        let queries = self.of(block);
        let q = Panels::of(&queries.q, s.head_dim);
        let d_o = queries.d_o.map(|d_o| Panels::of(d_o, s.value_dim));
        let (rows, across) = (block.rows(), q.count());
        let mut sums = vec![[0.0; PANEL]; rows * across];
        let mut work = Work::default();
        for (keys, full) in self.operands.key_blocks(block) {
            let hidden = self.scores(simd, &queries, (&keys, full), &mut work);
            self.distances(block, &keys, &work, &mut part.drelative);
            self.before_cap(&mut work);
            let stride = panels_of(&keys).len() * PANEL;
            let (p, ds) = (work.p.as_flattened(), work.ds.as_flattened());
            let local = keys.start - part.first_key;
            let dk = &mut part.dk[local * across..][..keys.len() * across];
            if let Some(hidden) = &hidden.0 {
                let pairs = Pairs::new(ds, hidden, stride);
                pairs.add_rows(simd, (&self.packed.keys, keys.clone()), &mut sums);
                pairs.add_columns(simd, &q, dk);
            } else {
                let right = (&self.packed.keys, keys.clone(), 0..across);
                add_product(simd, (Left::Rows(ds, stride), rows), right, &mut sums);
                let left = (Left::Columns(ds, stride), keys.len());
                add_product(simd, left, (&q, 0..rows, 0..across), dk);
            }
            let Some(d_o) = &d_o else {
                continue;
            };
            let across = d_o.count();
            let dv = &mut part.dv[local * across..][..keys.len() * across];
            if let Some(hidden) = &hidden.0 {
                Pairs::new(p, hidden, stride).add_columns(simd, d_o, dv);
            } else {
                let left = (Left::Columns(p, stride), keys.len());
                add_product(simd, left, (d_o, 0..rows, 0..across), dv);
            }
        }
        let scale = self.operands.problem.scale();
        let sums = sums.chunks_exact(across);
        for (dq, sums) in dq.chunks_exact_mut(s.head_dim).zip(sums) {
            for (dq, sum) in dq.iter_mut().zip(sums.as_flattened()) {
                *dq = sum * scale;
            }
        }
    }

    /// Turns the gradients of the scores that the rules return into gradients of the scores before the cap.
    #[inline(always)]
    fn before_cap(&self, work: &mut Work) {
        if !self.operands.capped_from(0) {
            return;
        }
        let slopes = work.slopes.as_flattened();
        for (ds, slope) in work.ds.as_flattened_mut().iter_mut().zip(slopes) {
            *ds *= slope;
        }
    }

    /// Adds the gradients of scores to those of biases by distance.
    #[inline(always)]
    fn distances(&self, block: &Block, keys: &Range<usize>, work: &Work, sums: &mut [f32]) {
        let rules = self.operands.problem.rules();
        let place = rules
            .iter()
            .position(|rule| matches!(rule, Rule::Relative(_)));
        let (Some(place), Some(reach)) = (place, rules.relative()) else {
            return;
        };
        let (reach, capped) = (reach as i64, self.operands.capped_from(place));
        let stride = panels_of(keys).len() * PANEL;
        let ds = work.ds.as_flattened().chunks_exact(stride);
        let slopes = work.slopes.as_flattened().chunks_exact(stride);
        for ((query, ds), slopes) in block.queries.clone().zip(ds).zip(slopes) {
            let ahead = keys.start as i64 - self.operands.problem.position(query);
            for lane in 0..keys.len() {
                let at = (ahead + lane as i64).clamp(-reach, reach) + reach;
                let slope = if capped { slopes[lane] } else { 1.0 };
                sums[at as usize] += ds[lane] * slope;
            }
        }
    }
}

/// Turns scores into probabilities, and ⟨do, v⟩ into gradients of scores; both, and the slope, become 0 where a key is hidden.
#[inline(always)]
fn gradients_of_row<S: Simd>(
    simd: S,
    (lse, delta): (f32, f32),
    scores: &mut [f32],
    [products, slopes]: [&mut [f32]; 2],
) {
    let (lse, delta) = (simd.splat_f32s(lse), simd.splat_f32s(delta));
    let (none, zero) = (simd.splat_f32s(f32::NEG_INFINITY), simd.splat_f32s(0.0));
    let products = S::as_mut_simd_f32s(products).0.iter_mut();
    let products = products.zip(S::as_mut_simd_f32s(slopes).0);
    for (score, (product, slope)) in S::as_mut_simd_f32s(scores).0.iter_mut().zip(products) {
        let hidden = simd.equal_f32s(*score, none);
        let p = exp(simd, simd.sub_f32s(*score, lse));
        let ds = simd.mul_f32s(p, simd.sub_f32s(*product, delta));
        *score = simd.select_f32s(hidden, zero, p);
        *product = simd.select_f32s(hidden, zero, ds);
        *slope = simd.select_f32s(hidden, zero, *slope);
    }
}

//! o and its log-sum-exp where a key head has few rows of queries, as while tokens are generated: keys and values are read
//! once, a block at a time, because packing them would take longer than the products. Sums run in the order of those of many queries: a query's
//! result doesn't depend on how many come with it.

use super::panels::{Left, PANEL, Panels, add_product};
use super::running::Running;
use super::scores::{Block, KEYS, Operands};
use super::source::Source;
use crate::vector::{Kernel, Transpose, dispatch};
use pulp::Simd;
use rayon::prelude::*;

/// The most rows of a key head; from there on, packed keys and values pay off.
pub(super) const ROWS: usize = 8;

/// Fills o \[B, Hq, Sq, Dv\] and lse \[B, Hq, Sq\], which holds `f32::MIN`.
pub(super) fn run(operands: &Operands<'_>, source: &impl Source, o: &mut [f32], lse: &mut [f32]) {
    let width = operands.problem.sizes().value_dim;
    let blocks = operands.query_blocks();
    let Some(rows) = blocks.first().map(Block::rows) else {
        return;
    };
    // All queries of a key head are in one block.
    let out = o.par_chunks_mut(rows * width).zip(lse.par_chunks_mut(rows));
    let tasks = blocks.into_par_iter().zip(out);
    tasks.for_each(|(block, out)| {
        dispatch(Task {
            operands,
            source,
            block,
            out,
        });
    });
}

/// The queries of a key head.
struct Task<'a, K> {
    operands: &'a Operands<'a>,
    source: &'a K,
    block: Block,
    /// Its rows of o and lse.
    out: (&'a mut [f32], &'a mut [f32]),
}

impl<K: Source> Kernel for Task<'_, K> {
    #[inline(always)]
    fn run<S: Simd, T: Transpose>(self, simd: S, transpose: T) {
        let (operands, block) = (self.operands, &self.block);
        let (s, rows) = (*operands.problem.sizes(), block.rows());
        let (dim, width) = (s.head_dim, s.value_dim);
        let head = block.batch * s.kv_heads + block.heads.start / operands.problem.group();
        let q = operands.scaled_queries(block);
        let (o, lse) = self.out;
        let mut running = vec![Running::new(); rows];
        let mut turned = Panels::new(dim, PANEL);
        let mut room = Vec::new();
        let mut scores = [[[0.0; PANEL]; KEYS / PANEL]; ROWS];
        for (keys, full) in operands.key_blocks(block) {
            for (at, first) in keys.clone().step_by(PANEL).enumerate() {
                let some = first..(first + PANEL).min(keys.end);
                let lines = turned.only(some.len());
                self.source.keys(transpose, head, some, lines);
                let mut sums = [[0.0; PANEL]; ROWS];
                let right = (&turned, 0..dim, 0..1);
                add_product(simd, (Left::Rows(&q, dim), rows), right, &mut sums);
                for (scores, sums) in scores.iter_mut().zip(sums) {
                    scores[at] = sums;
                }
            }
            let v = self.source.values(head, keys.clone(), &mut room);
            for (row, o) in o.chunks_exact_mut(width).enumerate() {
                let scores = scores[row].as_flattened_mut();
                let none: [&mut [f32]; 2] = [&mut [], &mut []];
                operands.apply(simd, (block, row), (&keys, full), scores, none);
                let shrink = running[row].add(simd, scores);
                operands.drop((block, row), keys.start, scores);
                if shrink != 1.0 {
                    o.iter_mut().for_each(|o| *o *= shrink);
                }
                for (p, v) in scores.iter().zip(v.chunks_exact(width)) {
                    // Not with a probability of 0: 0 times a NaN would not be 0.
                    if *p != 0.0 {
                        add(simd, *p, v, o);
                    }
                }
            }
        }
        for (row, o) in o.chunks_exact_mut(width).enumerate() {
            let head = block.heads.start + row / block.queries.len();
            let sink = operands.sinks.get(head).copied();
            if let Some((found, factor)) = running[row].finish(sink) {
                lse[row] = found;
                o.iter_mut().for_each(|o| *o *= factor);
            }
        }
    }
}

/// Adds factor · values.
#[inline(always)]
fn add<S: Simd>(simd: S, factor: f32, values: &[f32], to: &mut [f32]) {
    let by = simd.splat_f32s(factor);
    let (values, values_rest) = S::as_simd_f32s(values);
    let (to, to_rest) = S::as_mut_simd_f32s(to);
    for (to, value) in to.iter_mut().zip(values) {
        *to = simd.mul_add_e_f32s(by, *value, *to);
    }
    if !to_rest.is_empty() {
        let value = simd.partial_load_f32s(values_rest);
        let sum = simd.partial_load_f32s(to_rest);
        simd.partial_store_f32s(to_rest, simd.mul_add_e_f32s(by, value, sum));
    }
}

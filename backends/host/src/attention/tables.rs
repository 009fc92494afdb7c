//! Gradients of dense biases and of sinks.

use super::backward::{Incoming, Packed, PairGradients, Work};
use super::panels::PANEL;
use super::scores::{Block, Operands, QUERIES};
use crate::vector::vectorized;
use moebius_ops::attention::{Pattern, Rule};
use pulp::{Simd, WithSimd};
use rayon::prelude::*;

/// Computes dbias \[B or 1, Hq or 1, Sq, Skv\]: a task computes the rows of some queries, and sums over all sequences and heads that share
/// the bias.
pub(super) fn bias(
    operands: &Operands<'_>,
    incoming: &Incoming<'_>,
    packed: &[Packed],
) -> Vec<f32> {
    let s = operands.problem.sizes();
    let mut dbias = vec![0.0; operands.bias.len()];
    let rules = operands.problem.rules();
    let place = rules.iter().position(|rule| matches!(rule, Rule::Bias(_)));
    let (Some(pattern), Some(place)) = (rules.bias(), place) else {
        return dbias;
    };
    if dbias.is_empty() {
        return dbias;
    }
    let capped = operands.capped_from(place);
    let heads = if pattern.heads { s.heads } else { 1 };
    let matrices = dbias.par_chunks_mut(s.queries * s.keys).enumerate();
    matrices.for_each(|(matrix, rows)| {
        let blocks = rows.par_chunks_mut(QUERIES * s.keys).enumerate();
        blocks.for_each(|(block, rows)| {
            let first = block * QUERIES;
            for (batch, head) in sharing(operands, pattern, (matrix / heads, matrix % heads)) {
                let head_block = Block {
                    batch,
                    heads: head..head + 1,
                    queries: first..(first + QUERIES).min(s.queries),
                };
                let packed = &packed[batch * s.kv_heads + head / operands.problem.group()];
                vectorized(Rows {
                    pairs: PairGradients {
                        operands,
                        incoming,
                        packed,
                    },
                    block: head_block,
                    capped,
                    rows: &mut *rows,
                });
            }
        });
    });
    dbias
}

/// Returns the sequences and heads that share the bias of `batch` and `head`.
fn sharing(
    operands: &Operands<'_>,
    pattern: Pattern,
    (batch, head): (usize, usize),
) -> impl Iterator<Item = (usize, usize)> {
    let s = operands.problem.sizes();
    let of = |own: bool, at: usize, all: usize| if own { at..at + 1 } else { 0..all };
    let heads = of(pattern.heads, head, s.heads);
    let batches = of(pattern.batch, batch, s.batch);
    batches.flat_map(move |batch| heads.clone().map(move |head| (batch, head)))
}

/// Some rows of one matrix of biases, and the queries whose gradients are added to them.
struct Rows<'a> {
    pairs: PairGradients<'a>,
    block: Block,
    /// Whether a cap comes after the bias.
    capped: bool,
    rows: &'a mut [f32],
}

impl WithSimd for Rows<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let operands = self.pairs.operands;
        let queries = self.pairs.of(&self.block);
        let mut work = Work::default();
        for (keys, full) in operands.key_blocks(&self.block) {
            self.pairs.scores(simd, &queries, (&keys, full), &mut work);
            let stride = work.ds.len() / self.block.rows() * PANEL;
            let ds = work.ds.as_flattened().chunks_exact(stride);
            let slopes = work.slopes.as_flattened().chunks_exact(stride);
            let rows = self.rows.chunks_exact_mut(operands.problem.sizes().keys);
            for ((to, ds), slopes) in rows.zip(ds).zip(slopes) {
                for ((to, ds), slope) in to[keys.clone()].iter_mut().zip(ds).zip(slopes) {
                    *to += if self.capped { ds * slope } else { *ds };
                }
            }
        }
    }
}

/// Computes dsinks \[Hq\].
pub(super) fn sinks(operands: &Operands<'_>, incoming: &Incoming<'_>) -> Vec<f32> {
    let s = operands.problem.sizes();
    let mut sums = vec![0.0_f64; s.heads];
    let rows = incoming.lse.iter().zip(&incoming.delta);
    for (row, (lse, delta)) in rows.enumerate() {
        let head = row / s.queries % s.heads;
        let p = (f64::from(operands.sinks[head]) - f64::from(*lse)).exp();
        sums[head] -= p * f64::from(*delta);
    }
    sums.into_iter().map(|sum| sum as f32).collect()
}

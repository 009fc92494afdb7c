//! Products of pairs one by one, where a block has values that aren't finite: 0 times a NaN isn't 0.

use super::panels::{Line, Panels};
use std::ops::Range;

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

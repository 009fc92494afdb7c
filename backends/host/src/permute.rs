//! Slots sorted by expert, and the movement of rows into that order and back.

use crate::workers::each_row;
use moebius_ops::permute::{NOWHERE, RowsProblem, Sorted};
use rayon::prelude::*;
use std::ops::Range;

/// The experts' segments of sorted rows.
#[derive(Clone, Debug)]
pub struct Segments {
    /// Slots of the rows that have an expert.
    pub(crate) order: Vec<u32>,
    offsets: Vec<usize>,
    /// Rows of the slots.
    positions: Vec<u32>,
}

impl Segments {
    /// Segments from the order, offsets and positions of a sort, or a single segment of `rows` rows if there is no sort.
    pub fn new([order, offsets, positions]: [Option<Vec<u32>>; 3], rows: usize) -> Self {
        let all = || (0..rows as u32).collect();
        let offsets: Vec<usize> = match offsets {
            Some(offsets) => offsets.iter().map(|offset| *offset as usize).collect(),
            None => vec![0, rows],
        };
        let mut order = order.unwrap_or_else(all);
        order.truncate(offsets[offsets.len() - 1]);
        Self {
            order,
            offsets,
            positions: positions.unwrap_or_else(all),
        }
    }

    pub(crate) fn experts(&self) -> usize {
        self.offsets.len() - 1
    }

    pub(crate) fn rows(&self, e: usize) -> Range<usize> {
        self.offsets[e]..self.offsets[e + 1]
    }

    /// Returns the range of rows of neighbouring experts.
    pub(crate) fn rows_of(&self, experts: Range<usize>) -> Range<usize> {
        self.offsets[experts.start]..self.offsets[experts.end]
    }

    /// The experts that have rows.
    pub(crate) fn occupied(&self) -> impl Iterator<Item = usize> {
        (0..self.experts()).filter(|e| !self.rows(*e).is_empty())
    }

    /// Returns the rows that have an expert, without padding.
    pub(crate) fn unpadded<'a>(&self, rows: &'a [f32], columns: usize) -> &'a [f32] {
        &rows[..self.order.len() * columns]
    }

    /// Gathers values of slots by row.
    pub(crate) fn of_rows(&self, slots: &[f32]) -> Vec<f32> {
        self.order.iter().map(|s| slots[*s as usize]).collect()
    }

    /// Scatters values of rows by slot; slots without a row get 0.
    pub(crate) fn to_slots(&self, rows: &[f32]) -> Vec<f32> {
        let value = |row: &u32| match *row {
            NOWHERE => 0.0,
            row => rows[row as usize],
        };
        self.positions.iter().map(value).collect()
    }

    /// Sums the rows \[R,n\] of every expert: \[E,n\].
    pub(crate) fn sums(&self, rows: &[f32], n: usize) -> Vec<f32> {
        let mut sums = vec![0.0; self.experts() * n];
        self.add_sums(0..self.experts(), rows, &mut sums);
        sums
    }

    /// Adds the rows of some experts to their sums; `rows` holds exactly these rows.
    pub(crate) fn add_sums(&self, experts: Range<usize>, rows: &[f32], sums: &mut [f32]) {
        let n = sums.len() / experts.len().max(1);
        let mut rows = rows.chunks_exact(n.max(1));
        for (e, sum) in experts.zip(sums.chunks_exact_mut(n.max(1))) {
            for row in rows.by_ref().take(self.rows(e).len()) {
                for (sum, value) in sum.iter_mut().zip(row) {
                    *sum += value;
                }
            }
        }
    }

    /// The token of every row.
    pub(crate) fn tokens(&self, top_k: usize) -> Vec<u32> {
        self.order.iter().map(|slot| slot / top_k as u32).collect()
    }
}

/// Sorts slots by expert, stably; slots whose key is no expert come last.
pub fn sort(keys: &[u32], experts: usize) -> Sorted {
    let slots = keys.len();
    let expert = |slot: usize| keys[slot].min(experts as u32) as usize;
    let mut offsets = vec![0_u32; experts + 2];
    for slot in 0..slots {
        offsets[expert(slot) + 1] += 1;
    }
    for e in 0..=experts {
        offsets[e + 1] += offsets[e];
    }
    let mut next = offsets.clone();
    offsets.truncate(experts + 1);
    let kept = offsets[experts];
    let (mut order, mut positions) = (vec![0; slots], vec![NOWHERE; slots]);
    for slot in 0..slots {
        let row = next[expert(slot)];
        next[expert(slot)] += 1;
        order[row as usize] = slot as u32;
        if row < kept {
            positions[slot] = row;
        }
    }
    Sorted {
        order,
        offsets,
        positions,
    }
}

/// Gathers the token of every sorted row from x \[T, width\]: \[R, width\].
pub fn gather(problem: &RowsProblem, segments: &Segments, x: &[f32]) -> Vec<f32> {
    let rows = selected(x, problem.width(), &segments.tokens(problem.top_k()));
    padded(rows, problem.row_bound(), problem.width())
}

/// Computes the weighted sum of every token's rows \[R, width\] in slot order: \[T, width\]; `None` stands for weights of 1.
pub fn combine(
    problem: &RowsProblem,
    segments: &Segments,
    rows: &[f32],
    weights: Option<&[f32]>,
) -> Vec<f32> {
    combined(rows, weights, segments, [problem.top_k(), problem.width()])
}

/// Computes the gradients of [`combine`]'s rows \[R, width\] and weights \[T,K\] from dy \[T, width\].
pub fn combine_backward(
    problem: &RowsProblem,
    segments: &Segments,
    [rows, weights]: [&[f32]; 2],
    dy: &[f32],
) -> [Vec<f32>; 2] {
    let (top_k, width) = (problem.top_k(), problem.width());
    let mut drows = selected(dy, width, &segments.tokens(top_k));
    let dots = row_dots(segments.unpadded(rows, width), &drows, width);
    scale_rows(&mut drows, width, &segments.of_rows(weights));
    let drows = padded(drows, problem.row_bound(), width);
    [drows, segments.to_slots(&dots)]
}

/// Pads rows of `columns` values with zeros up to `bound` rows.
pub(crate) fn padded(mut rows: Vec<f32>, bound: usize, columns: usize) -> Vec<f32> {
    rows.resize(bound * columns, 0.0);
    rows
}

/// Copies some rows of x, of `width` values each, one below the other.
pub(crate) fn selected(x: &[f32], width: usize, rows: &[u32]) -> Vec<f32> {
    /// The least number of values for which threads share the work.
    const MANY: usize = 1 << 20;
    /// The least number of values per thread.
    const LEAST: usize = 1 << 16;
    let row = |row: &u32| &x[*row as usize * width..][..width];
    if rows.len() * width < MANY {
        let mut all = Vec::with_capacity(rows.len() * width);
        rows.iter().for_each(|at| all.extend_from_slice(row(at)));
        return all;
    }
    let mut all = vec![0.0; rows.len() * width];
    let lines = all.par_chunks_exact_mut(width).zip(rows);
    let lines = lines.with_min_len(LEAST.div_ceil(width));
    lines.for_each(|(line, at)| line.copy_from_slice(row(at)));
    all
}

/// Multiplies each row of `width` values by its factor.
pub(crate) fn scale_rows(rows: &mut [f32], width: usize, factors: &[f32]) {
    for (row, factor) in rows.chunks_exact_mut(width.max(1)).zip(factors) {
        row.iter_mut().for_each(|value| *value *= factor);
    }
}

/// Computes ⟨a, b⟩ of every row.
fn row_dots(a: &[f32], b: &[f32], width: usize) -> Vec<f32> {
    let width = width.max(1);
    let rows = a.chunks(width).zip(b.chunks(width));
    rows.map(|(a, b)| a.iter().zip(b).map(|(a, b)| a * b).sum())
        .collect()
}

/// Computes the weighted sum of every token's rows in slot order: \[T,width\]; `None` stands for weights of 1.
pub(crate) fn combined(
    rows: &[f32],
    weights: Option<&[f32]>,
    segments: &Segments,
    [top_k, width]: [usize; 2],
) -> Vec<f32> {
    let slots = segments.positions.len();
    let mut sums = vec![0.0; slots / top_k * width];
    let add = |token: usize, sum: &mut [f32]| {
        for slot in token * top_k..(token + 1) * top_k {
            let row = segments.positions[slot];
            // A slot without a row is skipped instead of weighted with 0, because 0 times a NaN would not be 0.
            if row == NOWHERE {
                continue;
            }
            let weight = weights.map_or(1.0, |weights| weights[slot]);
            let pairs = sum.iter_mut().zip(&rows[row as usize * width..]);
            pairs.for_each(|(sum, value)| *sum += weight * value);
        }
    };
    each_row(&mut sums, width, &add);
    sums
}

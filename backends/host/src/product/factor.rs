//! The factors of a product, and how they are packed into panels.

use crate::values::{Matrices, Values};
use crate::vector::Transpose;
use std::ops::Range;

/// Which way the lines of a factor run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Run {
    /// A line has all inner values of one row of a left factor, or of one column of a right one.
    Along,
    /// A line has one inner value of every row or column.
    Across,
}

/// Where lines are in memory, counted in lines.
#[derive(Clone, Copy)]
pub(crate) enum Lines<'a> {
    From(usize),
    At(&'a [u32]),
}

/// A matrix by its lines, of `width` neighbouring values each.
#[derive(Clone, Copy)]
pub(crate) struct Factor<'a> {
    pub(crate) values: Values<'a>,
    pub(crate) width: usize,
    pub(crate) run: Run,
    pub(crate) lines: Lines<'a>,
}

/// Some inner values of some rows or columns.
#[derive(Clone)]
pub(crate) struct Part {
    pub(crate) inner: Range<usize>,
    pub(crate) across: Range<usize>,
}

/// The most inner values that are packed at once.
pub(super) const DEEPEST: usize = 1024;
/// Values behind panels that packing may overwrite.
pub(super) const SLACK: usize = 8;
/// Panels that are packed together from lines across: whole lines of the cache are read.
const TOGETHER: usize = 8;
/// The most rows or columns of a panel, and the columns of a task that shares its rows with others are a multiple of it.
pub(crate) const WIDEST: usize = 64;

/// Lines that are converted.
pub(crate) struct Scratch {
    along: Vec<[f32; DEEPEST]>,
    across: Vec<f32>,
}

impl Default for Scratch {
    fn default() -> Self {
        Self {
            along: vec![[0.0; DEEPEST]; 8],
            across: vec![0.0; TOGETHER * WIDEST],
        }
    }
}

impl<'a> Factor<'a> {
    /// The rows of a matrix, or of all of a stack.
    pub(crate) fn rows(matrices: Matrices<'a>) -> Self {
        Self::of(matrices, Run::Along)
    }

    /// The columns of a matrix.
    pub(crate) fn columns(matrix: Matrices<'a>) -> Self {
        Self::of(matrix, Run::Across)
    }

    /// Matrix `e` of a stack.
    pub(crate) fn stacked(stack: Matrices<'a>, e: usize, run: Run) -> Self {
        let lines = Lines::From(e * stack.rows);
        Self {
            lines,
            ..Self::of(stack, run)
        }
    }

    /// Of a matrix with rows of so many values.
    pub(crate) fn of_slice(values: &'a [f32], width: usize, run: Run) -> Self {
        Self {
            values: Values::F32(values),
            width,
            run,
            lines: Lines::From(0),
        }
    }

    fn of(matrices: Matrices<'a>, run: Run) -> Self {
        Self {
            values: matrices.values,
            width: matrices.columns,
            run,
            lines: Lines::From(0),
        }
    }
}

impl Factor<'_> {
    pub(super) fn start(&self, line: usize) -> usize {
        let line = match self.lines {
            Lines::From(first) => first + line,
            Lines::At(places) => places[line] as usize,
        };
        line * self.width
    }

    /// Panels of `size` rows or columns, one behind the other, each by its inner values; what the last panel has beyond the part means
    /// nothing.
    #[inline(always)]
    pub(super) fn pack<T: Transpose>(
        &self,
        transpose: T,
        part: &Part,
        (panels, size): (&mut [f32], usize),
        scratch: &mut Scratch,
    ) {
        let together = match self.run {
            Run::Along => size,
            Run::Across => TOGETHER * size,
        };
        for first in part.across.clone().step_by(together) {
            let at = (first - part.across.start) * part.inner.len();
            let across = first..(first + together).min(part.across.end);
            let part = Part {
                inner: part.inner.clone(),
                across,
            };
            let panels = (&mut panels[at..], size);
            match self.run {
                Run::Along => self.pack_along(transpose, &part, panels, scratch),
                Run::Across => self.pack_across(&part, panels, scratch),
            }
        }
    }

    #[inline(always)]
    fn pack_across(
        &self,
        Part { inner, across }: &Part,
        (panels, size): (&mut [f32], usize),
        scratch: &mut Scratch,
    ) {
        let scratch = &mut scratch.across[..across.len()];
        for (row, kk) in inner.clone().enumerate() {
            let at = self.start(kk) + across.start;
            let line = match self.values {
                Values::F32(values) => &values[at..][..across.len()],
                values => {
                    values.convert(at, scratch);
                    &*scratch
                }
            };
            let (to, step) = (&mut panels[row * size..], inner.len() * size);
            match size {
                6 => spread::<6>(line, to, step),
                8 => spread::<8>(line, to, step),
                16 => spread::<16>(line, to, step),
                32 => spread::<32>(line, to, step),
                _ => spread_by(line, to, (step, size)),
            }
        }
    }

    #[inline(always)]
    fn pack_along<T: Transpose>(
        &self,
        transpose: T,
        Part { inner, across }: &Part,
        (panel, size): (&mut [f32], usize),
        scratch: &mut Scratch,
    ) {
        let depth = inner.len();
        for first in across.clone().step_by(8) {
            let start = |i: usize| self.start((first + i).min(across.end - 1)) + inner.start;
            let runs: [&[f32]; 8] = match self.values {
                Values::F32(values) => std::array::from_fn(|i| &values[start(i)..][..depth]),
                values => {
                    for (i, run) in scratch.along.iter_mut().enumerate() {
                        values.convert(start(i), &mut run[..depth]);
                    }
                    std::array::from_fn(|i| &scratch.along[i][..depth])
                }
            };
            let panel = &mut panel[first - across.start..];
            transpose_runs(transpose, runs, panel, size);
            for kk in depth / 8 * 8..depth {
                for (to, run) in panel[kk * size..][..8].iter_mut().zip(runs) {
                    *to = run[kk];
                }
            }
        }
    }
}

/// Copies a line, so many values at a time, to places `step` apart. With a length that is known no copy is a call.
#[inline(always)]
fn spread<const SIZE: usize>(line: &[f32], to: &mut [f32], step: usize) {
    let (whole, rest) = line.as_chunks::<SIZE>();
    for (values, to) in whole.iter().zip(to.chunks_mut(step)) {
        if let Some(to) = to.first_chunk_mut() {
            *to = *values;
        }
    }
    if let Some(to) = to.get_mut(whole.len() * step..) {
        spread_by(rest, to, (step, SIZE));
    }
}

#[inline(always)]
fn spread_by(line: &[f32], to: &mut [f32], (step, size): (usize, usize)) {
    for (values, to) in line.chunks(size).zip(to.chunks_mut(step)) {
        to[..values.len()].copy_from_slice(values);
    }
}

/// Whole squares of eight runs, side by side in rows of `size`. Each row is written after the one before, whose end it overwrites where
/// a row has less than eight.
#[inline(always)]
fn transpose_runs<T: Transpose>(transpose: T, runs: [&[f32]; 8], panel: &mut [f32], size: usize) {
    let [a, b, c, d, e, f, g, h] = runs;
    let (a, b, c, d) = (squares(a), squares(b), squares(c), squares(d));
    let (e, f, g, h) = (squares(e), squares(f), squares(g), squares(h));
    for at in 0..a.len() {
        let rows = [
            &a[at], &b[at], &c[at], &d[at], &e[at], &f[at], &g[at], &h[at],
        ];
        let panel = &mut panel[8 * at * size..][..7 * size + 8];
        transpose.square(rows, panel, size);
    }
}

#[inline(always)]
fn squares(run: &[f32]) -> &[[f32; 8]] {
    run.as_chunks().0
}

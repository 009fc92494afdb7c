//! The factors of a product, and how they are packed into panels.

use crate::values::{Matrices, Stored, Values};
use crate::vector::Transpose;
use half::slice::HalfFloatSliceExt;
use std::ops::Range;

/// The direction in which the lines of a factor run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Run {
    /// A line holds all inner values of one row of a left factor, or of one column of a right factor.
    Along,
    /// A line holds the values of every row or column at one inner index.
    Across,
}

/// The places of lines in memory, counted in lines.
#[derive(Clone, Copy)]
pub(crate) enum Lines<'a> {
    From(usize),
    At(&'a [u32]),
}

/// What a product takes as one value.
#[derive(Clone, Copy)]
pub(crate) enum Items<'a> {
    Numbers(Values<'a>),
    /// Two bf16 numbers that are neighbours along the inner dimension, which are packed as one f32 would be.
    Pairs(&'a [[u16; 2]]),
}

impl Items<'_> {
    /// Converts `to.len()` numbers from `at` on to f32, or copies the bits of as many pairs.
    #[inline(always)]
    fn read(self, at: usize, to: &mut [f32]) {
        match self {
            Self::Numbers(values) => values.convert(at, to),
            Self::Pairs(pairs) => {
                let pairs = &pairs[at..][..to.len()];
                for (to, pair) in to.iter_mut().zip(pairs) {
                    *to = pair.f32();
                }
            }
        }
    }
}

/// A matrix as lines of `width` contiguous values each.
#[derive(Clone, Copy)]
pub(crate) struct Factor<'a> {
    pub(crate) items: Items<'a>,
    pub(crate) width: usize,
    pub(crate) run: Run,
    pub(crate) lines: Lines<'a>,
}

/// A range of inner values for a range of rows or columns.
#[derive(Clone)]
pub(crate) struct Part {
    pub(crate) inner: Range<usize>,
    pub(crate) across: Range<usize>,
}

/// The most inner values that are packed at once.
pub(super) const DEEPEST: usize = 1024;
/// The number of values after the panels that packing may overwrite.
pub(super) const SLACK: usize = 8;
/// The number of panels that are packed together from lines across, so that whole cache lines are read.
const TOGETHER: usize = 8;
/// The most rows or columns of a panel. Tasks that share the same rows have multiples of it as columns; those of a few rows, multiples of what
/// its right factor says.
pub(crate) const WIDEST: usize = 64;

/// Lines converted to f32, and those that another factor decodes before it packs them.
pub(crate) struct Scratch {
    along: Vec<[f32; DEEPEST]>,
    across: Vec<f32>,
    pub(crate) decoded: Vec<f32>,
}

impl Default for Scratch {
    fn default() -> Self {
        Self {
            along: vec![[0.0; DEEPEST]; 8],
            across: vec![0.0; TOGETHER * WIDEST],
            decoded: Vec::new(),
        }
    }
}

impl<'a> Factor<'a> {
    /// The rows of a matrix, or of all matrices of a stack.
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

    /// A factor from a slice of f32 values in rows of `width` values.
    pub(crate) fn of_slice(values: &'a [f32], width: usize, run: Run) -> Self {
        Self {
            items: Items::Numbers(Values::F32(values)),
            width,
            run,
            lines: Lines::From(0),
        }
    }

    fn of(matrices: Matrices<'a>, run: Run) -> Self {
        Self {
            items: Items::Numbers(matrices.values),
            width: matrices.columns,
            run,
            lines: Lines::From(0),
        }
    }

    /// The factor with pairs as its values, if it is bf16 and each line has whole pairs of inner values; otherwise `None`.
    pub(crate) fn in_pairs(&self) -> Option<Self> {
        let Items::Numbers(Values::Bf16(values)) = self.items else {
            return None;
        };
        let whole = self.run == Run::Along && self.width.is_multiple_of(2);
        let pairs = values.reinterpret_cast().as_chunks().0;
        whole.then_some(Self {
            items: Items::Pairs(pairs),
            width: self.width / 2,
            ..*self
        })
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

    /// Packs a part into panels of `size` rows or columns, one after the other, each ordered by inner index; rows or columns of the last
    /// panel past the part hold arbitrary values.
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
            let line = match self.items {
                Items::Numbers(Values::F32(values)) => &values[at..][..across.len()],
                items => {
                    items.read(at, scratch);
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
            let runs: [&[f32]; 8] = match self.items {
                Items::Numbers(Values::F32(values)) => {
                    std::array::from_fn(|i| &values[start(i)..][..depth])
                }
                items => {
                    for (i, run) in scratch.along.iter_mut().enumerate() {
                        items.read(start(i), &mut run[..depth]);
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

/// Copies a line, `SIZE` values at a time, to places `step` apart. Because the size is constant, no copy is a function call.
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

/// Transposes whole squares of eight runs, one below the other, into rows of `size`. Rows are written in order; if `size` is less than
/// eight, each row overwrites the end of the one before.
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

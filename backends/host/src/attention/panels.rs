//! Matrices in panels of columns, and products with them: in register tiles, or pair by pair if a block has values that aren't finite.
//!
//! Sums run over the inner dimension in order, and a row's result doesn't depend on other rows.

use crate::vector::Transpose;
use pulp::Simd;
use std::ops::Range;

/// The side of the squares that are transposed in registers.
const SQUARE: usize = 8;

/// Columns of a panel: two registers of AVX-512.
pub(super) const PANEL: usize = 32;
/// Rows of a register tile.
const ROWS: usize = 6;
/// The registers in a row of a tile: with two for a line and one for a broadcast value, a tile takes 15 of AVX2's 16 registers.
const REGISTERS: usize = 2;

/// One row of a panel.
pub(crate) type Line = [f32; PANEL];

/// A matrix \[rows, columns\] stored as \[⌈columns / 32⌉, rows, 32\], with zeros past the last column.
#[derive(Default)]
pub(super) struct Panels {
    rows: usize,
    columns: usize,
    lines: Vec<Line>,
}

impl Panels {
    /// Packs a row-major matrix with `columns` columns.
    pub(super) fn of(values: &[f32], columns: usize) -> Self {
        let mut panels = Self::new(values.len() / columns, columns);
        panels.put(0, values);
        panels
    }

    /// Packs the transpose of a row-major matrix whose rows have `rows` values.
    pub(super) fn transposed(values: &[f32], rows: usize) -> Self {
        let mut panels = Self::new(rows, values.len() / rows);
        for (values, lines) in values.chunks(PANEL * rows).zip(panels.each()) {
            for (lane, values) in values.chunks_exact(rows).enumerate() {
                for (line, value) in lines.iter_mut().zip(values) {
                    line[lane] = *value;
                }
            }
        }
        panels
    }

    /// Panels of zeros.
    pub(super) fn new(rows: usize, columns: usize) -> Self {
        Self {
            rows,
            columns,
            lines: vec![[0.0; PANEL]; columns.div_ceil(PANEL) * rows],
        }
    }

    /// Overwrites rows from row `first` on with rows of a row-major matrix.
    #[inline(always)]
    pub(super) fn put(&mut self, first: usize, values: &[f32]) {
        for (row, values) in (first..).zip(values.chunks_exact(self.columns)) {
            for (panel, values) in values.chunks(PANEL).enumerate() {
                self.lines[panel * self.rows + row][..values.len()].copy_from_slice(values);
            }
        }
    }

    /// Becomes a single panel of `rows` rows, whose lines hold arbitrary values.
    pub(super) fn make_one(&mut self, rows: usize) {
        self.rows = rows;
        self.lines.resize(rows, [0.0; PANEL]);
    }

    /// Returns the lines of a single panel, of which the first `columns` columns will be used.
    pub(super) fn only(&mut self, columns: usize) -> &mut [Line] {
        self.columns = columns;
        &mut self.lines
    }

    /// The lines of each panel.
    pub(super) fn each(&mut self) -> impl Iterator<Item = &mut [Line]> {
        self.lines.chunks_exact_mut(self.rows)
    }

    /// The number of panels.
    pub(super) fn count(&self) -> usize {
        self.columns.div_ceil(PANEL)
    }

    /// The number of columns of a panel that aren't padding.
    fn used(&self, panel: usize) -> usize {
        (self.columns - panel * PANEL).min(PANEL)
    }

    /// Some lines of a panel.
    fn lines(&self, panel: usize, rows: Range<usize>) -> &[Line] {
        &self.lines[panel * self.rows..][..self.rows][rows]
    }

    /// The line of row `row` in each panel.
    #[inline(always)]
    pub(super) fn row(&self, row: usize) -> impl Iterator<Item = &Line> {
        self.lines.iter().skip(row).step_by(self.rows.max(1))
    }
}

/// Returns the panels of transposed keys that hold `keys`.
pub(super) fn panels_of(keys: &Range<usize>) -> Range<usize> {
    keys.start / PANEL..keys.end.div_ceil(PANEL)
}

/// Transposes up to [`PANEL`] rows with as many values as there are lines; squares are transposed in registers. Columns past the last row
/// hold arbitrary values.
#[inline(always)]
pub(super) fn turn<T: Transpose>(transpose: T, values: &[f32], lines: &mut [Line]) {
    let width = lines.len();
    let rows = values.len() / width;
    let whole = width / SQUARE * SQUARE;
    for lane in (0..rows).step_by(SQUARE) {
        let row = |i: usize| &values[(lane + i).min(rows - 1) * width..][..width];
        let sources: [&[f32]; SQUARE] = std::array::from_fn(row);
        for at in (0..whole).step_by(SQUARE) {
            let square = sources.map(|row| {
                let eight = row[at..].first_chunk::<SQUARE>();
                eight.unwrap_or_else(|| unreachable!("whole squares are inside a row"))
            });
            let to = &mut lines[at..at + SQUARE].as_flattened_mut()[lane..];
            transpose.square(square, to, PANEL);
        }
        for (i, row) in sources.iter().enumerate() {
            for (line, value) in lines[whole..].iter_mut().zip(&row[whole..]) {
                line[lane + i] = *value;
            }
        }
    }
}

/// The left side of a product.
#[derive(Clone, Copy)]
pub(super) enum Left<'a> {
    /// A row-major matrix, and the number of values from one row to the next.
    Rows(&'a [f32], usize),
    /// The transpose of a row-major matrix, and the number of values from one row of that matrix to the next.
    Columns(&'a [f32], usize),
}

/// Adds left · right to `sums` \[rows, panels\], for `rows` rows of the left, and the rows `inner` and panels `panels` of the right.
#[inline(always)]
pub(super) fn add_product<S: Simd>(
    simd: S,
    (left, rows): (Left<'_>, usize),
    (right, inner, panels): (&Panels, Range<usize>, Range<usize>),
    sums: &mut [Line],
) {
    let across = panels.len();
    for (at, panel) in panels.enumerate() {
        let lines = right.lines(panel, inner.clone());
        let used = right.used(panel);
        for first in (0..rows).step_by(ROWS) {
            let sums = &mut sums[first * across + at..];
            let tile = (left, first);
            match rows - first {
                1 => multiply::<S, 1>(simd, tile, (lines, used), sums, across),
                2 => multiply::<S, 2>(simd, tile, (lines, used), sums, across),
                3 => multiply::<S, 3>(simd, tile, (lines, used), sums, across),
                4 => multiply::<S, 4>(simd, tile, (lines, used), sums, across),
                5 => multiply::<S, 5>(simd, tile, (lines, used), sums, across),
                _ => multiply::<S, ROWS>(simd, tile, (lines, used), sums, across),
            }
        }
    }
}

/// Multiplies R rows from `first` on by the lines of a panel.
#[inline(always)]
fn multiply<S: Simd, const R: usize>(
    simd: S,
    (left, first): (Left<'_>, usize),
    (lines, used): (&[Line], usize),
    sums: &mut [Line],
    across: usize,
) {
    match left {
        Left::Rows(values, stride) => {
            let row = |r: usize| &values[(first + r) * stride..][..lines.len()];
            let rows: [&[f32]; R] = std::array::from_fn(row);
            tile::<S, R>(simd, Rows(rows), (lines, used), sums, across);
        }
        Left::Columns(values, stride) => {
            let columns = Columns(&values[first..], stride);
            tile::<S, R>(simd, columns, (lines, used), sums, across);
        }
    }
}

/// The values of R rows at one index of the inner dimension.
trait Factors<const R: usize>: Copy {
    fn at(self, k: usize) -> [f32; R];
}

/// R rows of a matrix.
#[derive(Clone, Copy)]
struct Rows<'a, const R: usize>([&'a [f32]; R]);

impl<const R: usize> Factors<R> for Rows<'_, R> {
    #[inline(always)]
    fn at(self, k: usize) -> [f32; R] {
        let mut values = [0.0; R];
        for r in 0..R {
            values[r] = self.0[r][k];
        }
        values
    }
}

/// The first columns of a row-major matrix, and the number of values from one row to the next.
#[derive(Clone, Copy)]
struct Columns<'a>(&'a [f32], usize);

impl<const R: usize> Factors<R> for Columns<'_> {
    #[inline(always)]
    fn at(self, k: usize) -> [f32; R] {
        let row = &self.0[k * self.1..][..R];
        let mut values = [0.0; R];
        values.copy_from_slice(row);
        values
    }
}

/// Multiplies a tile of R rows × two registers at a time, with sums that stay in registers.
#[inline(always)]
fn tile<S: Simd, const R: usize>(
    simd: S,
    left: impl Factors<R>,
    (lines, used): (&[Line], usize),
    sums: &mut [Line],
    across: usize,
) {
    for first in (0..PANEL / S::F32_LANES).step_by(REGISTERS) {
        if first * S::F32_LANES >= used {
            break;
        }
        let mut tile = [[simd.splat_f32s(0.0); REGISTERS]; R];
        for (r, tile) in tile.iter_mut().enumerate() {
            let sums = &S::as_simd_f32s(&sums[r * across]).0[first..first + REGISTERS];
            tile.copy_from_slice(sums);
        }
        for (k, line) in lines.iter().enumerate() {
            let line = &S::as_simd_f32s(line).0[first..first + REGISTERS];
            let left = left.at(k);
            for r in 0..R {
                let a = simd.splat_f32s(left[r]);
                for c in 0..REGISTERS {
                    tile[r][c] = simd.mul_add_e_f32s(a, line[c], tile[r][c]);
                }
            }
        }
        for (r, tile) in tile.iter().enumerate() {
            let sums = &mut S::as_mut_simd_f32s(&mut sums[r * across]).0[first..first + REGISTERS];
            sums.copy_from_slice(tile);
        }
    }
}

/// The hidden pairs of a block; `None` if they don't matter. They matter if a value isn't finite, because 0 times a NaN isn't 0.
pub(super) struct Hidden(pub(super) Option<Vec<bool>>);

impl Hidden {
    pub(super) fn new(matters: bool) -> Self {
        Self(matters.then(Vec::new))
    }

    /// Notes which pairs of a row have a score of −∞.
    pub(super) fn note(&mut self, scores: &[f32]) {
        if let Some(hidden) = &mut self.0 {
            hidden.extend(scores.iter().map(|score| *score == f32::NEG_INFINITY));
        }
    }
}

/// The factors of the pairs of a block \[rows, stride\]; hidden pairs are left out of products.
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

    /// Adds factors · right to `sums` \[rows, panels\], for the rows `keys` of the right.
    #[inline(always)]
    pub(super) fn add_rows<S: Simd>(
        &self,
        simd: S,
        (right, keys): (&Panels, Range<usize>),
        sums: &mut [Line],
    ) {
        let across = right.count();
        for (row, sums) in sums.chunks_exact_mut(across).enumerate() {
            for (lane, key) in keys.clone().enumerate() {
                self.add(simd, (row, lane), right.row(key), sums);
            }
        }
    }

    /// Adds factorsᵀ · right to `sums` \[keys, panels\].
    #[inline(always)]
    pub(super) fn add_columns<S: Simd>(&self, simd: S, right: &Panels, sums: &mut [Line]) {
        let across = right.count();
        for (lane, sums) in sums.chunks_exact_mut(across).enumerate() {
            for row in 0..self.factors.len() / self.stride {
                self.add(simd, (row, lane), right.row(row), sums);
            }
        }
    }

    #[inline(always)]
    fn add<'l, S: Simd>(
        &self,
        simd: S,
        (row, lane): (usize, usize),
        lines: impl Iterator<Item = &'l Line>,
        sums: &mut [Line],
    ) {
        let at = row * self.stride + lane;
        if self.hidden[at] {
            return;
        }
        let factor = simd.splat_f32s(self.factors[at]);
        for (sums, line) in sums.iter_mut().zip(lines) {
            let sums = S::as_mut_simd_f32s(sums).0;
            for (sum, value) in sums.iter_mut().zip(S::as_simd_f32s(line).0) {
                *sum = simd.mul_add_e_f32s(factor, *value, *sum);
            }
        }
    }
}

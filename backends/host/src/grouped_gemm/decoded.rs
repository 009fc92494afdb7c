//! Weights that are decoded to f32 in a cache, a few rows at a time, and then multiplied as dense weights are, in the same order; and codes in
//! lanes, which products with few rows decode in registers.

use super::lanes::{ACROSS, DEPTH, Lanes};
use super::one_row::OneRow;
use super::turned::{Raw, Taker};
use crate::product::{Factor, Part, Right, Run, Scratch, WIDEST};
use crate::vector::{Kernel, Transpose, dispatch};
use pulp::Simd;
use std::cell::Cell;
use std::ops::Range;

thread_local! {
    /// Memory that is kept from product to product, because it would have to be cleared.
    static LANES: Cell<Option<Box<InLanes>>> = const { Cell::new(None) };
}

/// Rows of weights that a product with few rows decodes at once: as many as a [`Factor`] multiplies together.
const COLUMNS: usize = 16;

/// A block of each column, and what blocks are kept as.
#[derive(Default)]
struct InLanes {
    raw: Raw,
    lanes: Lanes,
}

/// The rows of one expert's weights, in any form.
pub(super) trait Decode: Sync {
    /// Writes the weights of row `row` from `column` on. Columns begin at multiples of [`DEPTH`] or of what is packed at once, which is more.
    fn decode(&self, row: usize, column: usize, to: &mut [f32]);

    /// Whether weights have offsets in lanes; `None` for a form that isn't put in lanes.
    fn offsets(&self) -> Option<bool> {
        None
    }

    /// Puts weights of at most [`ACROSS`] rows in lanes, for a taker. The last row stands for those that lack.
    #[inline(always)]
    fn lanes<S: Simd, T: Transpose, K: Taker>(&self, _: (S, T), _: &Part, _: &mut Raw, _: &mut K) {
        unreachable!("a form without lanes");
    }
}

/// Panels of such rows of any form. A product calls it once for a panel, so that the compiler makes one product for all forms, and the decoding of
/// a form once for each set of vector instructions, instead of once for each form and number of rows.
trait Panels: Sync {
    /// Writes some weights of some rows, one row after the other.
    fn panel(&self, rows: Range<usize>, columns: Range<usize>, to: &mut [f32]);

    /// Says what [`Decode::offsets`] says.
    fn offsets_in_lanes(&self) -> Option<bool>;

    /// Keeps at most [`DEPTH`] inner values in lanes.
    fn put_in_lanes(&self, part: &Part, to: &mut InLanes);

    /// Multiplies one row by what [`Decode::lanes`] gives.
    fn multiply_one(&self, part: &Part, raw: &mut Raw, row: &mut OneRow<'_>);
}

impl<D: Decode> Panels for D {
    fn panel(&self, rows: Range<usize>, columns: Range<usize>, to: &mut [f32]) {
        dispatch(Panel {
            from: self,
            rows,
            columns,
            to,
        });
    }

    fn offsets_in_lanes(&self) -> Option<bool> {
        self.offsets()
    }

    fn put_in_lanes(&self, part: &Part, InLanes { raw, lanes }: &mut InLanes) {
        dispatch(Turn {
            from: self,
            part,
            raw,
            taker: lanes,
        });
    }

    fn multiply_one(&self, part: &Part, raw: &mut Raw, row: &mut OneRow<'_>) {
        dispatch(Turn {
            from: self,
            part,
            raw,
            taker: row,
        });
    }
}

/// The work of [`Panels::panel`].
struct Panel<'a, D> {
    from: &'a D,
    rows: Range<usize>,
    columns: Range<usize>,
    to: &'a mut [f32],
}

impl<D: Decode> Kernel for Panel<'_, D> {
    #[inline(always)]
    fn run<S: Simd, T: Transpose>(self, _: S, _: T) {
        let Range { start, end } = self.columns;
        for (row, to) in self.rows.zip(self.to.chunks_exact_mut(end - start)) {
            self.from.decode(row, start, to);
        }
    }
}

/// The work of [`Panels::put_in_lanes`] and [`Panels::multiply_one`].
struct Turn<'a, D, K> {
    from: &'a D,
    part: &'a Part,
    raw: &'a mut Raw,
    taker: &'a mut K,
}

impl<D: Decode, K: Taker> Kernel for Turn<'_, D, K> {
    #[inline(always)]
    fn run<S: Simd, T: Transpose>(self, simd: S, transpose: T) {
        let vectors = (simd, transpose);
        self.from.lanes(vectors, self.part, self.raw, self.taker);
    }
}

/// The weights of one expert, or their transpose.
pub(super) struct Decoded<'a> {
    rows: Box<dyn Panels + 'a>,
    run: Run,
}

impl<'a> Decoded<'a> {
    /// The weights with these rows, as a factor whose lines run as `run` says.
    pub(super) fn new(rows: impl Decode + 'a, run: Run) -> Self {
        let rows = Box::new(rows);
        Self { rows, run }
    }
}

impl Right for Decoded<'_> {
    fn unit(&self) -> usize {
        match self.run {
            Run::Along => ACROSS,
            Run::Across => WIDEST,
        }
    }

    fn together(&self, width: usize) -> usize {
        match self.run {
            Run::Along => width,
            Run::Across => WIDEST,
        }
    }

    #[inline(always)]
    fn pack<S: Simd, T: Transpose>(
        &self,
        vectors: (S, T),
        Part { inner, across }: &Part,
        panels: (&mut [f32], usize),
        scratch: &mut Scratch,
    ) {
        let (rows, columns) = match self.run {
            Run::Along => (across, inner),
            Run::Across => (inner, across),
        };
        let mut decoded = std::mem::take(&mut scratch.decoded);
        decoded.resize(rows.len() * columns.len(), 0.0);
        self.rows.panel(rows.clone(), columns.clone(), &mut decoded);
        let part = Part {
            inner: 0..inner.len(),
            across: 0..across.len(),
        };
        let dense = Factor::of_slice(&decoded, columns.len(), self.run);
        Right::pack(&dense, vectors, &part, panels, scratch);
        scratch.decoded = decoded;
    }

    fn tile(&self) -> usize {
        match self.run {
            Run::Along => 8,
            Run::Across => 0,
        }
    }

    #[inline(always)]
    fn multiply<S: Simd, T: Transpose, const N: usize>(
        &self,
        vectors: (S, T),
        part: &Part,
        left: &[[f32; N]],
        sums: &mut [[f32; WIDEST]; N],
    ) {
        match self.rows.offsets_in_lanes() {
            None => self.multiply_cached(vectors, part, left, sums),
            Some(_) if N == 1 => {
                let left = left.as_flattened().as_chunks().0;
                self.multiply_one(part, left, sums.as_flattened_mut());
            }
            Some(false) => self.multiply_lanes::<S, N, false>(vectors.0, part, left, sums),
            Some(true) => self.multiply_lanes::<S, N, true>(vectors.0, part, left, sums),
        }
    }
}

impl Decoded<'_> {
    /// Multiplies one row by weights that are decoded in registers.
    fn multiply_one(&self, Part { inner, across }: &Part, left: &[[f32; 1]], sums: &mut [f32]) {
        let mut memory = LANES.take().unwrap_or_default();
        let firsts = across.clone().step_by(ACROSS);
        for (first, sums) in firsts.zip(sums.as_chunks_mut::<ACROSS>().0) {
            let part = Part {
                inner: inner.clone(),
                across: first..(first + ACROSS).min(across.end),
            };
            let mut row = OneRow { left, sums };
            self.rows.multiply_one(&part, &mut memory.raw, &mut row);
        }
        LANES.set(Some(memory));
    }

    /// Multiplies weights that are decoded in registers.
    #[inline(always)]
    fn multiply_lanes<S: Simd, const N: usize, const OFFSETS: bool>(
        &self,
        simd: S,
        Part { inner, across }: &Part,
        left: &[[f32; N]],
        sums: &mut [[f32; WIDEST]; N],
    ) {
        let mut memory = LANES.take().unwrap_or_default();
        for first in across.clone().step_by(ACROSS) {
            for from in inner.clone().step_by(DEPTH) {
                let part = Part {
                    inner: from..(from + DEPTH).min(inner.end),
                    across: first..(first + ACROSS).min(across.end),
                };
                self.rows.put_in_lanes(&part, &mut memory);
                let left = &left[from - inner.start..][..part.inner.len()];
                let sums = (&mut *sums, first - across.start);
                let lanes = &memory.lanes;
                lanes.multiply::<S, N, OFFSETS>(simd, left, sums);
            }
        }
        LANES.set(Some(memory));
    }

    /// Multiplies weights that are decoded in a cache.
    #[inline(always)]
    fn multiply_cached<S: Simd, T: Transpose, const N: usize>(
        &self,
        vectors: (S, T),
        Part { inner, across }: &Part,
        left: &[[f32; N]],
        sums: &mut [[f32; WIDEST]; N],
    ) {
        let mut decoded = [0.0; COLUMNS * DEPTH];
        for first in across.clone().step_by(COLUMNS) {
            let count = COLUMNS.min(across.end - first);
            let at = first - across.start;
            let mut own = [[0.0; WIDEST]; N];
            for (own, sums) in own.iter_mut().zip(&*sums) {
                own[..count].copy_from_slice(&sums[at..][..count]);
            }
            for from in inner.clone().step_by(DEPTH) {
                let depth = DEPTH.min(inner.end - from);
                let (rows, columns) = (first..first + count, from..from + depth);
                self.rows.panel(rows, columns, &mut decoded);
                let part = Part {
                    inner: 0..depth,
                    across: 0..count,
                };
                let left = &left[from - inner.start..][..depth];
                let dense = Factor::of_slice(&decoded, depth, Run::Along);
                dense.multiply(vectors, &part, left, &mut own);
            }
            for (sums, own) in sums.iter_mut().zip(&own) {
                sums[at..][..count].copy_from_slice(&own[..count]);
            }
        }
    }
}

//! Weights that are decoded to f32 in a cache, from where they are multiplied as dense weights are, in the same order; those in blocks of codes are
//! put in lanes by products with few rows.

use super::lanes::Few;
use super::turned::{ACROSS, Raw};
use crate::product::{Factor, Part, Right, Run, Scratch, WIDEST};
use crate::vector::{Kernel, Transpose, dispatch};
use pulp::Simd;
use std::cell::Cell;
use std::ops::Range;

thread_local! {
    /// Memory that is kept from product to product, because it would have to be cleared.
    static RAW: Cell<Option<Box<Raw>>> = const { Cell::new(None) };
}

/// Weights of a row that products with few rows decode at once: a level-one cache holds those of a part's columns.
const DEPTH: usize = 64;

/// The rows of one expert's weights, in any form.
pub(super) trait Decode: Sync {
    /// Whether [`Decode::multiply`] multiplies a few rows; otherwise the weights are decoded for that, too.
    const IN_LANES: bool = false;

    /// Writes the weights of row `row` from `column` on, which is a multiple of [`WIDEST`].
    fn decode(&self, row: usize, column: usize, to: &mut [f32]);

    /// Multiplies a few rows by the weights of at most [`ACROSS`] rows, put in lanes. The sums of rows that lack may become anything.
    #[inline(always)]
    fn multiply<S: Simd, T: Transpose>(&self, _: (S, T), _: &Part, _: &mut Raw, _: &mut Few<'_>) {
        unreachable!("weights that aren't put in lanes are decoded");
    }
}

/// Panels of such rows of any form. A product calls it once for a panel, so that the compiler makes one product for all forms, and the decoding of
/// a form once for each set of vector instructions.
trait Panels: Sync {
    /// Writes some weights of some rows, one row after the other.
    fn panel(&self, rows: Range<usize>, columns: Range<usize>, to: &mut [f32]);

    /// Does what [`Decode::multiply`] does.
    fn multiply_few(&self, part: &Part, raw: &mut Raw, few: &mut Few<'_>);
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

    fn multiply_few(&self, part: &Part, raw: &mut Raw, few: &mut Few<'_>) {
        dispatch(Lanes {
            from: self,
            part,
            raw,
            few,
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

/// The work of [`Panels::multiply_few`].
struct Lanes<'a, 'b, D> {
    from: &'a D,
    part: &'a Part,
    raw: &'a mut Raw,
    few: &'a mut Few<'b>,
}

impl<D: Decode> Kernel for Lanes<'_, '_, D> {
    #[inline(always)]
    fn run<S: Simd, T: Transpose>(self, simd: S, transpose: T) {
        let vectors = (simd, transpose);
        self.from.multiply(vectors, self.part, self.raw, self.few);
    }
}

/// The weights of one expert, or their transpose.
pub(super) struct Decoded<'a> {
    rows: Box<dyn Panels + 'a>,
    run: Run,
    in_lanes: bool,
}

impl<'a> Decoded<'a> {
    /// The weights with these rows, as a factor whose lines run as `run` says.
    pub(super) fn new<D: Decode + 'a>(rows: D, run: Run) -> Self {
        Self {
            rows: Box::new(rows),
            run,
            in_lanes: D::IN_LANES,
        }
    }

    /// Multiplies N rows by weights in lanes.
    fn multiply_in_lanes<const N: usize>(
        &self,
        Part { inner, across }: &Part,
        left: &[[f32; N]],
        sums: &mut [[f32; WIDEST]; N],
    ) {
        let mut raw = RAW.take().unwrap_or_default();
        for first in across.clone().step_by(ACROSS) {
            let part = Part {
                inner: inner.clone(),
                across: first..(first + ACROSS).min(across.end),
            };
            let mut few = Few {
                rows: N,
                left: left.as_flattened(),
                sums: &mut sums.as_flattened_mut()[first - across.start..],
            };
            self.rows.multiply_few(&part, &mut raw, &mut few);
        }
        RAW.set(Some(raw));
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

    fn tile<S: Simd>(&self) -> usize {
        match self.run {
            // Words in lanes are numbers whose bytes are those of a block.
            Run::Along if cfg!(target_endian = "little") => 8,
            Run::Along | Run::Across => 0,
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
        if self.in_lanes {
            return self.multiply_in_lanes(part, left, sums);
        }
        let Part { inner, across } = part;
        let mut decoded = [0.0; WIDEST * DEPTH];
        for (first, left) in inner.clone().step_by(DEPTH).zip(left.chunks(DEPTH)) {
            let columns = first..first + left.len();
            self.rows.panel(across.clone(), columns, &mut decoded);
            let part = Part {
                inner: 0..left.len(),
                across: 0..across.len(),
            };
            let dense = Factor::of_slice(&decoded, left.len(), Run::Along);
            Right::multiply(&dense, vectors, &part, left, sums);
        }
    }
}

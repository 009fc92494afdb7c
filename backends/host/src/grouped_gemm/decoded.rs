//! Weights that are decoded to f32 in a cache, from where they are multiplied as dense weights are, in the same order; those in blocks of codes are
//! put in lanes, and multiplied or packed from there.

use super::columns::{ACROSS, Plane};
use super::lanes::{Few, Packing, Take};
use crate::product::{Factor, Part, Right, Run, Scratch, WIDEST};
use crate::vector::{Kernel, Transpose, dispatch};
use pulp::Simd;
use std::cell::Cell;
use std::ops::Range;

thread_local! {
    /// Memory that is kept from product to product.
    static ROOM: Cell<Room> = const { Cell::new(Room(Vec::new())) };
}

/// Room for the bytes of a panel that lacks columns.
#[derive(Default)]
pub(super) struct Room(pub(super) Vec<Plane>);

/// Weights of a row that products with few rows decode at once: a level-one cache holds those of a part's columns.
const DEPTH: usize = 64;

/// The rows of one expert's weights, in any form.
pub(super) trait Decode: Sync {
    /// Whether weights can be put in lanes; otherwise they are decoded for all that is done with them.
    const IN_LANES: bool = false;

    /// Writes the weights of row `row` from `column` on, which is a multiple of [`WIDEST`].
    fn decode(&self, row: usize, column: usize, to: &mut [f32]);

    /// Puts the weights of at most [`ACROSS`] rows in lanes, and has them taken. Those of rows that lack may be any.
    #[inline(always)]
    fn in_lanes<S: Simd, T: Transpose>(
        &self,
        _: (S, T),
        _: &Part,
        _: &mut Room,
        _: &mut impl Take,
    ) {
        unreachable!("weights that can't be in lanes are decoded");
    }
}

/// Panels of such rows of any form. A product calls it once for a panel, so that the compiler makes one product for all forms, and the decoding of
/// a form once for each set of vector instructions.
trait Panels: Sync {
    /// Writes some weights of some rows, one row after the other.
    fn panel(&self, rows: Range<usize>, columns: Range<usize>, to: &mut [f32]);

    /// Puts weights in lanes to multiply a few rows by them.
    fn multiply_few(&self, part: &Part, room: &mut Room, few: &mut Few<'_>);

    /// Puts weights in lanes to pack them.
    fn pack(&self, part: &Part, room: &mut Room, packing: &mut Packing<'_>);
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

    fn multiply_few(&self, part: &Part, room: &mut Room, few: &mut Few<'_>) {
        let from = self;
        dispatch(Lanes {
            from,
            part,
            room,
            to: few,
        });
    }

    fn pack(&self, part: &Part, room: &mut Room, packing: &mut Packing<'_>) {
        let from = self;
        dispatch(Lanes {
            from,
            part,
            room,
            to: packing,
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

/// The work of [`Panels::multiply_few`] and [`Panels::pack`].
struct Lanes<'a, D, K> {
    from: &'a D,
    part: &'a Part,
    room: &'a mut Room,
    to: &'a mut K,
}

impl<D: Decode, K: Take> Kernel for Lanes<'_, D, K> {
    #[inline(always)]
    fn run<S: Simd, T: Transpose>(self, simd: S, transpose: T) {
        let vectors = (simd, transpose);
        self.from.in_lanes(vectors, self.part, self.room, self.to);
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

    /// Whether lines that run along the inner dimension are put in lanes: bytes of words have the order of little-endian ones.
    fn takes_lanes(&self) -> bool {
        self.in_lanes && matches!(self.run, Run::Along) && cfg!(target_endian = "little")
    }

    /// Calls `f` for the parts of at most [`ACROSS`] columns, with memory for one that lacks some.
    fn by_lanes(&self, Part { inner, across }: &Part, mut f: impl FnMut(&Part, &mut Room)) {
        let mut room = ROOM.take();
        for first in across.clone().step_by(ACROSS) {
            let part = Part {
                inner: inner.clone(),
                across: first..(first + ACROSS).min(across.end),
            };
            f(&part, &mut room);
        }
        ROOM.set(room);
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
            Run::Along if self.takes_lanes() => ACROSS,
            Run::Along => width,
            Run::Across => WIDEST,
        }
    }

    #[inline(always)]
    fn pack<S: Simd, T: Transpose>(
        &self,
        vectors: (S, T),
        part: &Part,
        panels: (&mut [f32], usize),
        scratch: &mut Scratch,
    ) {
        let Part { inner, across } = part;
        if self.takes_lanes() {
            return self.by_lanes(part, |part, room| {
                let (to, depth) = (&mut panels.0[..], inner.len());
                let at = (part.across.start - across.start) * depth;
                let to = &mut to[at..];
                self.rows.pack(part, room, &mut Packing { to, depth });
            });
        }
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
            // The bytes of words are taken for those of little-endian ones.
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
        let Part { inner, across } = part;
        if self.takes_lanes() {
            return self.by_lanes(part, |part, room| {
                let at = part.across.start - across.start;
                let mut few = Few {
                    rows: N,
                    left: left.as_flattened(),
                    sums: &mut sums.as_flattened_mut()[at..],
                };
                self.rows.multiply_few(part, room, &mut few);
            });
        }
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

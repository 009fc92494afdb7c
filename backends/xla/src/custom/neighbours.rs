//! Sorted rows beside their neighbours, which a convolution over a sequence multiplies, and back.
//!
//! Forward: out\[r\] = (x\[r−1\], x\[r\], x\[r+1\]), causal (x\[r−2\], x\[r−1\], x\[r\]), for the rows r that have an
//! expert; a neighbour of another expert or sequence is 0, and so are rows without an expert.
//! Backward: the sum of a row's places, f32, in their order. Shapes: x \[R,n\], out \[R,3n\], order \[S\],
//! offsets \[E+1\].

use super::rows::owned;
use super::{Lower, along, rows_where, words};
use crate::ElementType;
use crate::stablehlo::{Binary, Builder, Compare, Reduction, TensorType, Value};
use serde::{Deserialize, Serialize};

/// Rows side by side.
const PLACES: usize = 3;

/// Which sorted rows belong together: those of one expert and one sequence, which are neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sequences {
    /// Slots S.
    pub slots: usize,
    /// Experts E.
    pub experts: usize,
    /// The most sorted rows R that a routing has.
    pub row_bound: usize,
    /// Slots of a sequence, at least 1: its tokens × K.
    pub sequence_slots: usize,
}

/// A move of rows beside their neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Neighbours {
    /// Which rows may be neighbours.
    pub sequences: Sequences,
    /// Elements of a row n.
    pub width: usize,
    /// Whether no row sees one behind it.
    pub causal: bool,
    /// Operands dout \[R,3n\], order, offsets and result dx \[R,n\], instead of x, order, offsets and out.
    pub backward: bool,
}

impl Lower for Neighbours {
    fn name(&self) -> &'static str {
        match self.backward {
            true => "neighbours backward",
            false => "neighbours",
        }
    }

    fn operands(&self) -> Vec<Vec<usize>> {
        let places = if self.backward { PLACES } else { 1 };
        let s = &self.sequences;
        let rows = vec![s.row_bound, places * self.width];
        vec![rows, vec![s.slots], vec![s.experts + 1]]
    }

    fn lower(&self, b: &mut Builder, inputs: &[Value]) -> Vec<Value> {
        let keys = self.sequences.keys(b, inputs[1], inputs[2]);
        match self.backward {
            true => vec![self.sum(b, inputs[0], &keys)],
            false => vec![self.spread(b, inputs[0], &keys)],
        }
    }
}

/// What tells the sequences of sorted rows apart: i32 \[R\] each.
pub(super) struct Keys {
    /// The expert of a row; E for none.
    expert: Value,
    /// Its sequence.
    sequence: Value,
    /// \[R\]: whether a row has an expert.
    pub(super) owned: Value,
}

impl Sequences {
    /// The keys of the sorted rows.
    pub(super) fn keys(&self, b: &mut Builder, order: Value, offsets: Value) -> Keys {
        let rows = self.row_bound;
        let owned = owned(b, offsets, rows);
        let order = words(b, order);
        let slots = b.slice_dim(order, 0, 0..rows);
        let sequence = b.binary_scalar(Binary::Divide, slots, self.sequence_slots as f64);
        let ends = words(b, offsets);
        let ends = b.slice_dim(ends, 0, 1..self.experts + 1);
        let square = TensorType::new([rows, self.experts], ElementType::U32);
        let ends = along(b, ends, &square.shape, 1);
        let row = b.iota(square, 0);
        let before = b.compare(Compare::Le, ends, row);
        let before = b.convert(before, ElementType::S32);
        Keys {
            expert: b.reduce(Reduction::Sum, before, &[1]),
            sequence: b.convert(sequence, ElementType::S32),
            owned,
        }
    }
}

impl Keys {
    /// \[R\]: whether row r − `shift` belongs to the sequence of row r.
    pub(super) fn beside(&self, b: &mut Builder, shift: i64) -> Value {
        let mut same = self.owned;
        for key in [self.expert, self.sequence] {
            let none = b.scalar(-1.0, ElementType::S32);
            let other = shifted(b, key, none, shift);
            let equal = b.compare(Compare::Eq, key, other);
            same = b.and(same, equal);
        }
        same
    }
}

/// Row r − `shift` of x in place of row r, `outside` where there is none.
fn shifted(b: &mut Builder, x: Value, outside: Value, shift: i64) -> Value {
    let (rows, rank) = (b.shape(x)[0] as i64, b.ty(x).rank());
    if shift == 0 {
        return x;
    }
    if shift.abs() >= rows {
        let shape = b.shape(x);
        return b.broadcast(outside, &shape, &[]);
    }
    let (mut low, mut high) = (vec![0; rank], vec![0; rank]);
    (low[0], high[0]) = (shift, -shift);
    b.pad(x, outside, &low, &high, &vec![0; rank])
}

impl Neighbours {
    /// Rows before a row that it sees.
    fn back(&self) -> i64 {
        let back = if self.causal { PLACES - 1 } else { PLACES / 2 };
        back as i64
    }

    fn spread(&self, b: &mut Builder, x: Value, keys: &Keys) -> Value {
        let element = b.element(x);
        let places = (0..PLACES as i64).map(|place| {
            let shift = self.back() - place;
            let same = keys.beside(b, shift);
            let zero = b.scalar(0.0, element);
            let rows = shifted(b, x, zero, shift);
            rows_where(b, same, rows)
        });
        let places: Vec<Value> = places.collect();
        b.concatenate(&places, 1)
    }

    fn sum(&self, b: &mut Builder, dout: Value, keys: &Keys) -> Value {
        let (rows, element) = (self.sequences.row_bound, b.element(dout));
        let ty = TensorType::new([rows, self.width], ElementType::F32);
        let mut sum = b.splat(0.0, ty);
        for place in 0..PLACES {
            let shift = place as i64 - self.back();
            let same = keys.beside(b, shift);
            let columns = place * self.width..(place + 1) * self.width;
            let part = b.slice_dim(dout, 1, columns);
            let zero = b.scalar(0.0, element);
            let part = shifted(b, part, zero, shift);
            let part = rows_where(b, same, part);
            let part = b.convert(part, ElementType::F32);
            sum = b.add(sum, part);
        }
        b.convert(sum, element)
    }
}

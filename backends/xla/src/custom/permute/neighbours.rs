//! Sorted rows beside their neighbours in a sequence, and back: [`moebius_ops::permute::neighbours`].

use crate::ElementType::{self, F32, S32};
use crate::custom::permute::rows::owned;
use crate::custom::{along, rows_where, words};
use crate::stablehlo::{Builder, TensorType, Value};
use moebius_ops::permute::neighbours::{PLACES, Problem};

/// Rows beside their neighbours, or the gradient, of rows, order and offsets.
pub(in crate::custom) fn neighbours(
    b: &Builder,
    p: &Problem,
    backward: bool,
    inputs: &[Value],
) -> Value {
    let sequence_slots = p.sequence() * p.top_k();
    let sort = (inputs[1], inputs[2]);
    let keys = Keys::new(b, p.row_bound(), sequence_slots, sort);
    if backward {
        sum(b, p, inputs[0], &keys)
    } else {
        spread(b, p, inputs[0], &keys)
    }
}

/// What tells the sequences of sorted rows apart: i32 \[R\] each.
pub(in crate::custom) struct Keys {
    /// The expert of a row; E for none.
    expert: Value,
    /// Its sequence.
    sequence: Value,
    /// \[R\]: whether a row has an expert.
    pub(in crate::custom) owned: Value,
}

impl Keys {
    /// Of `rows` sorted rows of sequences of so many slots.
    pub(in crate::custom) fn new(
        b: &Builder,
        rows: usize,
        sequence_slots: usize,
        (order, offsets): (Value, Value),
    ) -> Self {
        let experts = b.shape(offsets)[0] - 1;
        let owned = owned(b, offsets, rows);
        let slots = b.slice_dim(words(b, order), 0, 0..rows);
        let sequence = b.div(slots, sequence_slots as f64);
        let ends = b.slice_dim(words(b, offsets), 0, 1..experts + 1);
        let square = TensorType::new([rows, experts], ElementType::U32);
        let before = b.le(along(b, ends, &square.shape, 1), b.iota(square, 0));
        Self {
            expert: b.sum(b.convert(before, S32), &[1]),
            sequence: b.convert(sequence, S32),
            owned,
        }
    }

    /// \[R\]: whether row r − `shift` belongs to the sequence of row r.
    pub(in crate::custom) fn beside(&self, b: &Builder, shift: i64) -> Value {
        let mut same = self.owned;
        for key in [self.expert, self.sequence] {
            same = b.and(same, b.eq(key, shifted(b, key, b.scalar(-1.0, S32), shift)));
        }
        same
    }
}

/// Row r − `shift` of x in place of row r, `outside` where there is none.
fn shifted(b: &Builder, x: Value, outside: Value, shift: i64) -> Value {
    let (rows, rank) = (b.shape(x)[0] as i64, b.ty(x).rank());
    if shift == 0 {
        return x;
    }
    if shift.abs() >= rows {
        return b.broadcast(outside, &b.shape(x), &[]);
    }
    let (mut low, mut high) = (vec![0; rank], vec![0; rank]);
    (low[0], high[0]) = (shift, -shift);
    b.pad(x, outside, &low, &high, &vec![0; rank])
}

fn spread(b: &Builder, p: &Problem, x: Value, keys: &Keys) -> Value {
    let element = b.element(x);
    let places = (0..PLACES as i64).map(|place| {
        let shift = p.back() as i64 - place;
        let same = keys.beside(b, shift);
        rows_where(b, same, shifted(b, x, b.scalar(0.0, element), shift))
    });
    let places: Vec<Value> = places.collect();
    b.concatenate(&places, 1)
}

fn sum(b: &Builder, p: &Problem, dout: Value, keys: &Keys) -> Value {
    let (rows, element) = (p.row_bound(), b.element(dout));
    let mut sum = b.splat(0.0, TensorType::new([rows, p.width()], F32));
    for place in 0..PLACES {
        let shift = place as i64 - p.back() as i64;
        let same = keys.beside(b, shift);
        let columns = place * p.width()..(place + 1) * p.width();
        let part = b.slice_dim(dout, 1, columns);
        let part = rows_where(b, same, shifted(b, part, b.scalar(0.0, element), shift));
        sum = b.add(sum, b.convert(part, F32));
    }
    b.convert(sum, element)
}

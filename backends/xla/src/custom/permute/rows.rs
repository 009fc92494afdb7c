//! Rows of tokens in and out of the order of their experts: [`moebius_ops::permute`].
//!
//! Sorted rows past offsets\[E\] belong to no expert: they are 0 in results, and hold anything in operands.

use crate::custom::grouped_gemm::{combine, row_of};
use crate::custom::{rows_where, words};
use crate::stablehlo::{Along, Builder, Value};
use moebius_ops::permute::RowsProblem;
use moebius_pjrt::ElementType::{self, F32};
use moebius_pjrt::TensorType;

/// Which of the first `rows` sorted rows have an expert.
pub(in crate::custom) fn owned(b: &Builder, offsets: Value, rows: usize) -> Value {
    let experts = b.shape(offsets)[0] - 1;
    let last = b.slice_dim(words(b, offsets), 0, experts..experts + 1);
    let last = b.broadcast(last, &[rows], &[0]);
    b.lt(b.iota(TensorType::new([rows], ElementType::U32), 0), last)
}

/// Rows \[R,n\] of x \[T,n\], and the slots of the rows; a row without an expert is 0.
pub(in crate::custom) fn gathered(
    b: &Builder,
    p: &RowsProblem,
    x: Value,
    (order, offsets): (Value, Value),
) -> (Value, Value) {
    let slots = b.slice_dim(words(b, order), 0, 0..p.row_bound());
    if p.row_bound() == 0 {
        return (b.splat(0.0, b.ty(x).with_shape([0, p.width()])), slots);
    }
    let tokens = b.div(slots, p.top_k() as f64);
    let rows = b.take(x, tokens);
    (rows_where(b, owned(b, offsets, p.row_bound()), rows), slots)
}

/// The sum of a token's rows: of rows, positions, and weights if there are any.
pub(in crate::custom) fn combined(b: &Builder, p: &RowsProblem, inputs: &[Value]) -> Value {
    let element = b.element(inputs[0]);
    let weights = inputs.get(2).map(|w| b.convert(*w, F32));
    let y = combine(b, inputs[0], inputs[1], weights, [p.tokens(), p.top_k()]);
    b.convert(y, element)
}

/// Gradients of rows and weights, of dy, rows, weights, order, offsets and positions.
pub(in crate::custom) fn combine_backward(
    b: &Builder,
    p: &RowsProblem,
    inputs: &[Value],
) -> Vec<Value> {
    let [dy, rows, weights, positions] = [inputs[0], inputs[1], inputs[2], inputs[5]];
    let element = b.element(rows);
    let (dy, slots) = gathered(b, p, dy, (inputs[3], inputs[4]));
    let dy = b.convert(dy, F32);
    if p.row_bound() == 0 {
        let ty = TensorType::new([p.tokens(), p.top_k()], F32);
        return vec![b.convert(dy, element), b.splat(0.0, ty)];
    }
    let weights = b.reshape(b.convert(weights, F32), &[p.slots()]);
    // Rows without an expert stay 0, whatever weight their slot has.
    let drows = b.mul(dy, Along(b.take(weights, slots), [0]));
    let drows = rows_where(b, owned(b, inputs[4], p.row_bound()), drows);
    let (found, dweights) = row_of(b, b.sum(b.mul(b.convert(rows, F32), dy), &[1]), positions);
    let dweights = b.reshape(rows_where(b, found, dweights), &[p.tokens(), p.top_k()]);
    vec![b.convert(drows, element), dweights]
}

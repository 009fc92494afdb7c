//! Rows of tokens in and out of the order of their experts: [`moebius_ops::permute`].
//!
//! Sorted rows past offsets\[E\] belong to no expert: they are 0 in results, and hold anything in operands.

use crate::custom::values::{along, rows_where, words};
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

/// y \[T, …\] f32: Σ_k w_tk · rows\[positions(t,k)\], in slot order; weights \[T,K\] are 1 if `None`. Slots
/// without a row add nothing, whatever their weight.
pub(in crate::custom) fn combine(
    b: &Builder,
    rows: Value,
    positions: Value,
    weights: Option<Value>,
    [tokens, top_k]: [usize; 2],
) -> Value {
    let mut shape = b.shape(rows);
    let bound = shape[0];
    shape[0] = tokens;
    if bound == 0 || tokens == 0 {
        return b.splat(0.0, TensorType::new(shape, F32));
    }
    let positions = b.reshape(positions, &[tokens, top_k]);
    let weights = weights.map(|weights| b.convert(weights, F32));
    let column = |x, k| b.reshape(b.slice_dim(x, 1, k..k + 1), &[tokens]);
    let mut sum = None;
    for k in 0..top_k {
        let (found, taken) = row_of(b, rows, column(positions, k));
        let mut taken = b.convert(taken, F32);
        if let Some(weights) = weights {
            taken = b.mul(along(b, column(weights, k), &shape, 0), taken);
        }
        let taken = rows_where(b, found, taken);
        sum = Some(sum.map_or(taken, |sum| b.add(sum, taken)));
    }
    sum.unwrap_or_else(|| unreachable!("a token has a slot"))
}

/// Whether slots have a row, and the row, at `positions` \[n\]; any row where there is none.
pub(in crate::custom) fn row_of(b: &Builder, rows: Value, positions: Value) -> (Value, Value) {
    let bound = b.shape(rows)[0];
    let words = words(b, positions);
    let found = b.lt(words, bound as f64);
    (found, b.take(rows, b.select(found, words, 0.0)))
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

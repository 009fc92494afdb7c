//! Rows of tokens in and out of the order of their experts: [`moebius_ops::permute`].
//!
//! Sorted rows past offsets\[E\] belong to no expert: they are 0 in results, and hold anything in operands.

use super::grouped::{combine, row_of};
use super::{along, rows_where, words};
use crate::ElementType;
use crate::stablehlo::{Binary, Builder, Compare, Reduction, TensorType, Value};
use moebius_ops::permute::RowsProblem;

/// Which of the first `rows` sorted rows have an expert.
pub(super) fn owned(b: &mut Builder, offsets: Value, rows: usize) -> Value {
    let experts = b.shape(offsets)[0] - 1;
    let offsets = words(b, offsets);
    let last = b.slice_dim(offsets, 0, experts..experts + 1);
    let last = b.broadcast(last, &[rows], &[0]);
    let row = b.iota(TensorType::new([rows], ElementType::U32), 0);
    b.compare(Compare::Lt, row, last)
}

/// Rows \[R,n\] of x \[T,n\], and the slots of the rows; a row without an expert is 0.
pub(super) fn gathered(
    b: &mut Builder,
    p: &RowsProblem,
    x: Value,
    (order, offsets): (Value, Value),
) -> (Value, Value) {
    let order = words(b, order);
    let slots = b.slice_dim(order, 0, 0..p.row_bound());
    if p.row_bound() == 0 {
        let ty = b.ty(x).with_shape([0, p.width()]);
        return (b.splat(0.0, ty), slots);
    }
    let tokens = b.binary_scalar(Binary::Divide, slots, p.top_k() as f64);
    let rows = b.take(x, tokens);
    let owned = owned(b, offsets, p.row_bound());
    (rows_where(b, owned, rows), slots)
}

/// The sum of a token's rows: of rows, positions, and weights if there are any.
pub(super) fn combined(b: &mut Builder, p: &RowsProblem, inputs: &[Value]) -> Value {
    let element = b.element(inputs[0]);
    let weights = inputs.get(2).map(|w| b.convert(*w, ElementType::F32));
    let y = combine(b, inputs[0], inputs[1], weights, [p.tokens(), p.top_k()]);
    b.convert(y, element)
}

/// Gradients of rows and weights, of dy, rows, weights, order, offsets and positions.
pub(super) fn combine_backward(b: &mut Builder, p: &RowsProblem, inputs: &[Value]) -> Vec<Value> {
    let [dy, rows, weights, positions] = [inputs[0], inputs[1], inputs[2], inputs[5]];
    let (element, shape) = (b.element(rows), [p.row_bound(), p.width()]);
    let (dy, slots) = gathered(b, p, dy, (inputs[3], inputs[4]));
    let dy = b.convert(dy, ElementType::F32);
    if p.row_bound() == 0 {
        let ty = TensorType::new([p.tokens(), p.top_k()], ElementType::F32);
        return vec![b.convert(dy, element), b.splat(0.0, ty)];
    }
    let weights = b.convert(weights, ElementType::F32);
    let weights = b.reshape(weights, &[p.slots()]);
    let weights = b.take(weights, slots);
    let weights = along(b, weights, &shape, 0);
    // Rows without an expert stay 0, whatever weight their slot has.
    let drows = b.mul(dy, weights);
    let owned = owned(b, inputs[4], p.row_bound());
    let drows = rows_where(b, owned, drows);
    let rows = b.convert(rows, ElementType::F32);
    let products = b.mul(rows, dy);
    let dots = b.reduce(Reduction::Sum, products, &[1]);
    let (found, dweights) = row_of(b, dots, positions);
    let dweights = rows_where(b, found, dweights);
    let dweights = b.reshape(dweights, &[p.tokens(), p.top_k()]);
    vec![b.convert(drows, element), dweights]
}

//! Helpers for values that several lowerings share.

use crate::stablehlo::{Builder, Value};
use moebius_ops::Element;
use moebius_pjrt::ElementType::{self, S32, U32};

/// The element type of a float type of operations.
pub(crate) fn float(element: Element) -> ElementType {
    match element {
        Element::F32 => ElementType::F32,
        Element::F16 => ElementType::F16,
        Element::Bf16 => ElementType::BF16,
    }
}

/// The values of an integer tensor as ui32.
pub(crate) fn words(b: &Builder, x: Value) -> Value {
    match b.element(x) {
        S32 => b.bitcast(x, U32),
        _ => b.convert(x, U32),
    }
}

/// A vector laid along dimension `dim` of `shape` and repeated along the others.
pub(crate) fn along(b: &Builder, x: Value, shape: &[usize], dim: usize) -> Value {
    b.broadcast(x, shape, &[dim])
}

/// `yes` where `condition` holds, and 0 elsewhere; the condition is a vector along dimension 0.
pub(crate) fn rows_where(b: &Builder, condition: Value, yes: Value) -> Value {
    b.select(along(b, condition, &b.shape(yes), 0), yes, 0.0)
}

/// `x` with `count` copies of the scalar `value` after the end of dimension `dim`.
pub(crate) fn pad_end(b: &Builder, x: Value, value: Value, dim: usize, count: usize) -> Value {
    if count == 0 {
        return x;
    }
    let rank = b.ty(x).rank();
    let mut high = vec![0; rank];
    high[dim] = count as i64;
    b.pad(x, value, &vec![0; rank], &high, &vec![0; rank])
}

/// The starts of a slice in a tensor of `rank` dimensions: `start` in dimension `dim`, 0 in the others.
pub(crate) fn starts(b: &Builder, start: Value, dim: usize, rank: usize) -> Vec<Value> {
    let mut starts = vec![b.scalar(0.0, S32); rank];
    starts[dim] = start;
    starts
}

/// Element `at` of a vector, as a scalar.
pub(crate) fn element_at(b: &Builder, x: Value, at: Value) -> Value {
    b.reshape(b.dynamic_slice(x, &[at], &[1]), &[])
}

//! Hidden rows, and gradients through their activation.

use crate::custom::grouped_gemm::activation::{gated, slope, through_gated, value};
use crate::stablehlo::{Builder, Value};
use moebius_ops::experts::Problem;

/// Gate and up columns of the first product; the gate alone without gating.
fn parts(b: &Builder, p: &Problem, pre: Value) -> (Value, Option<Value>) {
    if !p.gated {
        return (pre, None);
    }
    let gate = b.slice_dim(pre, 1, 0..p.inter);
    (gate, Some(b.slice_dim(pre, 1, p.inter..2 * p.inter)))
}

/// The hidden rows \[B,F\] of the first product: act(pre), or act(gate) ∘ up.
pub(super) fn hidden(b: &Builder, p: &Problem, pre: Value) -> Value {
    let (gate, up) = parts(b, p, pre);
    let act = value(b, p.activation, gate);
    match up {
        Some(up) => b.mul(act, gated(b, p.activation, up)),
        None => act,
    }
}

/// The first product's gradient from the hidden rows'.
pub(super) fn through(b: &Builder, p: &Problem, pre: Value, dhidden: Value) -> Value {
    let (gate, up) = parts(b, p, pre);
    let slope = slope(b, p.activation, gate);
    let Some(up) = up else {
        return b.mul(dhidden, slope);
    };
    let dup = b.mul(dhidden, value(b, p.activation, gate));
    let dup = through_gated(b, p.activation, up, dup);
    let up = gated(b, p.activation, up);
    b.concatenate(&[b.mul(b.mul(dhidden, up), slope), dup], 1)
}

//! Activations in f32, and their slopes.

use crate::stablehlo::{Binary, Builder, Compare, Unary, Value};
use moebius_ops::grouped_gemm::Activation;
use moebius_ops::moe::Problem;
use std::f64::consts;

/// exp(−x) + 1.
fn exp_below(b: &mut Builder, x: Value) -> Value {
    let negative = b.unary(Unary::Negate, x);
    let exp = b.unary(Unary::Exponential, negative);
    b.binary_scalar(Binary::Add, exp, 1.0)
}

/// 1 + erf(x/√2).
fn erf_above(b: &mut Builder, x: Value) -> Value {
    let x = b.binary_scalar(Binary::Multiply, x, consts::FRAC_1_SQRT_2);
    let erf = b.chlo("erf", x);
    b.binary_scalar(Binary::Add, erf, 1.0)
}

/// Where mish is x in f32; exp(20)⁴ is finite.
const MISH_MOST: f64 = 20.0;

/// e = exp(x) and e² + 2e, with which tanh(ln(1 + e)) = (e² + 2e) / (e² + 2e + 2); no subtraction
/// loses digits.
fn mish_terms(b: &mut Builder, x: Value) -> [Value; 2] {
    let x = at_most(b, x, MISH_MOST);
    let e = b.unary(Unary::Exponential, x);
    let more = b.binary_scalar(Binary::Add, e, 2.0);
    [e, b.mul(e, more)]
}

/// x where it is below `most`, and NaN where x is; `most` elsewhere.
fn at_most(b: &mut Builder, x: Value, most: f64) -> Value {
    let above = b.compare_scalar(Compare::Gt, x, most);
    let most = b.splat_like(most, x);
    b.select(above, most, x)
}

/// act(x).
pub(in crate::custom) fn value(b: &mut Builder, activation: Activation, x: Value) -> Value {
    match activation {
        Activation::Relu => {
            let below = b.compare_scalar(Compare::Lt, x, 0.0);
            let zero = b.splat_like(0.0, x);
            b.select(below, zero, x)
        }
        Activation::Gelu => {
            let erf = erf_above(b, x);
            let half = b.binary_scalar(Binary::Multiply, x, 0.5);
            b.mul(half, erf)
        }
        Activation::Silu => {
            let below = exp_below(b, x);
            b.div(x, below)
        }
        Activation::Mish => {
            let [_, squares] = mish_terms(b, x);
            let above = b.mul(x, squares);
            let below = b.binary_scalar(Binary::Add, squares, 2.0);
            b.div(above, below)
        }
    }
}

/// d act(x) / dx; relu's is 0 at 0.
fn slope(b: &mut Builder, activation: Activation, x: Value) -> Value {
    match activation {
        Activation::Relu => {
            let above = b.compare_scalar(Compare::Gt, x, 0.0);
            let element = b.element(x);
            b.convert(above, element)
        }
        Activation::Gelu => {
            let erf = erf_above(b, x);
            let share = b.binary_scalar(Binary::Multiply, erf, 0.5);
            let square = b.mul(x, x);
            let square = b.binary_scalar(Binary::Multiply, square, -0.5);
            let exp = b.unary(Unary::Exponential, square);
            let height = consts::FRAC_1_SQRT_2 / consts::PI.sqrt();
            let density = b.binary_scalar(Binary::Multiply, exp, height);
            let rest = b.mul(x, density);
            b.add(share, rest)
        }
        Activation::Silu => {
            // s · (1 + x · (1 − s)), where 1 − s = s · exp(−x) may be 0 · ∞.
            let below = exp_below(b, x);
            let one = b.splat_like(1.0, x);
            let s = b.div(one, below);
            let rest = b.sub(one, s);
            let rest = b.mul(x, rest);
            let rest = b.add(one, rest);
            b.mul(s, rest)
        }
        Activation::Mish => mish_slope(b, x),
    }
}

/// tanh + x · e/(1+e) · (1 − tanh²), over one denominator; e = exp(x), tanh = tanh(ln(1 + e)).
fn mish_slope(b: &mut Builder, x: Value) -> Value {
    let [e, squares] = mish_terms(b, x);
    // Above it the second term is 0, which a large x must not undo.
    let x = at_most(b, x, MISH_MOST);
    let below = b.binary_scalar(Binary::Add, squares, 2.0);
    let more = b.binary_scalar(Binary::Add, e, 1.0);
    let term = b.mul(e, more);
    let term = b.binary_scalar(Binary::Multiply, term, 4.0);
    let term = b.div(term, below);
    let term = b.mul(x, term);
    let sum = b.add(squares, term);
    b.div(sum, below)
}

/// Gate and up columns of the first product; the gate alone without gating.
fn parts(b: &mut Builder, p: &Problem, pre: Value) -> (Value, Option<Value>) {
    if !p.gated {
        return (pre, None);
    }
    let gate = b.slice_dim(pre, 1, 0..p.inter);
    (gate, Some(b.slice_dim(pre, 1, p.inter..2 * p.inter)))
}

/// The hidden rows \[B,F\] of the first product: act(pre), or act(gate) ∘ up.
pub(super) fn hidden(b: &mut Builder, p: &Problem, pre: Value) -> Value {
    let (gate, up) = parts(b, p, pre);
    let act = value(b, p.activation, gate);
    match up {
        Some(up) => b.mul(act, up),
        None => act,
    }
}

/// The first product's gradient from the hidden rows'.
pub(super) fn through(b: &mut Builder, p: &Problem, pre: Value, dhidden: Value) -> Value {
    let (gate, up) = parts(b, p, pre);
    let slope = slope(b, p.activation, gate);
    let Some(up) = up else {
        return b.mul(dhidden, slope);
    };
    let act = value(b, p.activation, gate);
    let dup = b.mul(dhidden, act);
    let dgate = b.mul(dhidden, up);
    let dgate = b.mul(dgate, slope);
    b.concatenate(&[dgate, dup], 1)
}

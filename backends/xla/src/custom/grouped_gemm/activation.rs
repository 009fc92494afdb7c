//! Activation functions in f32, and their derivatives.

use crate::stablehlo::{Builder, Value};
use moebius_ops::grouped_gemm::{
    Activation, CLAMPED_LIMIT, CLAMPED_SLOPE, TANH_CUBE, TANH_LIMIT, TANH_SLOPE,
};
use std::f64::consts;

/// exp(−x) + 1.
fn exp_below(b: &Builder, x: Value) -> Value {
    b.add(b.exp(b.neg(x)), 1.0)
}

/// Φ(x) = ½ · erfc(−x/√2), which keeps its digits far below 0.
fn normal(b: &Builder, x: Value) -> Value {
    b.mul(b.chlo("erfc", b.mul(x, -consts::FRAC_1_SQRT_2)), 0.5)
}

/// The x from which on mish(x) = x in f32; exp(20)⁴ is still finite.
const MISH_MOST: f64 = 20.0;

/// e = exp(x) and e² + 2e. tanh(ln(1 + e)) = (e² + 2e) / (e² + 2e + 2), in which no subtraction loses digits.
fn mish_terms(b: &Builder, x: Value) -> [Value; 2] {
    let e = b.exp(at_most(b, x, MISH_MOST));
    [e, b.mul(e, b.add(e, 2.0))]
}

/// min(x, `most`), but NaN where x is NaN.
fn at_most(b: &Builder, x: Value, most: f64) -> Value {
    b.select_number(b.gt(x, most), most, x)
}

/// u = 2 · √(2/π) · (x + 0.044715 · x³), the argument of the logistic function in the older form of gelu.
fn tanh_argument(b: &Builder, x: Value) -> Value {
    let bend = b.mul(b.mul(x, x), TANH_CUBE);
    b.mul(b.mul(x, TANH_SLOPE), b.add(bend, 1.0))
}

/// The activation function, act(x).
pub(in crate::custom) fn value(b: &Builder, activation: Activation, x: Value) -> Value {
    match activation {
        Activation::Relu => b.select_number(b.lt(x, 0.0), 0.0, x),
        Activation::Gelu => b.mul(x, normal(b, x)),
        Activation::Silu => b.div(x, exp_below(b, x)),
        Activation::Mish => {
            let [_, squares] = mish_terms(b, x);
            b.div(b.mul(x, squares), b.add(squares, 2.0))
        }
        Activation::Clamped => {
            let m = at_most(b, x, f64::from(CLAMPED_LIMIT));
            b.div(m, exp_below(b, b.mul(m, f64::from(CLAMPED_SLOPE))))
        }
        Activation::GeluTanh => b.div(x, exp_below(b, tanh_argument(b, x))),
    }
}

/// The factor that the gate's activation multiplies: `up` itself, except for the clamped activation.
pub(in crate::custom) fn gated(b: &Builder, activation: Activation, up: Value) -> Value {
    let limit = f64::from(CLAMPED_LIMIT);
    match activation {
        Activation::Clamped => {
            let cut = at_most(b, up, limit);
            b.add(b.select_number(b.lt(cut, -limit), -limit, cut), 1.0)
        }
        _ => up,
    }
}

/// `d` times the derivative of [`gated`].
pub(in crate::custom) fn through_gated(
    b: &Builder,
    activation: Activation,
    up: Value,
    d: Value,
) -> Value {
    let limit = f64::from(CLAMPED_LIMIT);
    match activation {
        Activation::Clamped => {
            let d = b.select_number(b.gt(up, limit), 0.0, d);
            b.select_number(b.lt(up, -limit), 0.0, d)
        }
        _ => d,
    }
}

/// The derivative of act at x; relu's is 0 at 0.
pub(in crate::custom) fn slope(b: &Builder, activation: Activation, x: Value) -> Value {
    match activation {
        Activation::Relu => b.convert(b.gt(x, 0.0), b.element(x)),
        Activation::Gelu => {
            let share = normal(b, x);
            let exp = b.exp(b.mul(b.mul(x, x), -0.5));
            let height = consts::FRAC_1_SQRT_2 / consts::PI.sqrt();
            b.add(share, b.mul(x, b.mul(exp, height)))
        }
        Activation::Silu => {
            // s · (1 + x · (1 − s)) with s = 1 / `below`; 1 − s isn't computed as s · exp(−x), which may be 0 · ∞.
            let below = exp_below(b, x);
            let one = b.splat_like(1.0, x);
            let s = b.div(one, below);
            b.mul(s, b.add(one, b.mul(x, b.sub(one, s))))
        }
        Activation::Mish => mish_slope(b, x),
        Activation::GeluTanh => tanh_slope(b, x),
        Activation::Clamped => {
            let steep = f64::from(CLAMPED_SLOPE);
            let one = b.splat_like(1.0, x);
            let s = b.div(one, exp_below(b, b.mul(x, steep)));
            let term = b.mul(b.mul(x, steep), b.sub(one, s));
            let rise = b.mul(s, b.add(one, term));
            b.select_number(b.gt(x, f64::from(CLAMPED_LIMIT)), 0.0, rise)
        }
    }
}

/// The derivative of the older form of gelu, s · (1 + x · (1 − s) · u') with s the logistic function of u. x is cut where s is 0 or 1, so
/// that the factors stay finite.
fn tanh_slope(b: &Builder, x: Value) -> Value {
    let x = at_most(b, x, TANH_LIMIT);
    let x = b.select_number(b.lt(x, -TANH_LIMIT), -TANH_LIMIT, x);
    let bend = b.mul(b.mul(x, x), 3.0 * TANH_CUBE);
    let rise = b.mul(b.add(bend, 1.0), TANH_SLOPE);
    let one = b.splat_like(1.0, x);
    let s = b.div(one, exp_below(b, tanh_argument(b, x)));
    let term = b.mul(b.mul(x, rise), b.sub(one, s));
    b.mul(s, b.add(one, term))
}

/// The derivative of mish, tanh + x · e/(1+e) · (1 − tanh²), over one denominator; e = exp(x), tanh = tanh(ln(1 + e)).
fn mish_slope(b: &Builder, x: Value) -> Value {
    let [e, squares] = mish_terms(b, x);
    // Above `MISH_MOST` the second term is 0; clamping keeps a large x from changing that.
    let x = at_most(b, x, MISH_MOST);
    let below = b.add(squares, 2.0);
    let term = b.mul(x, b.div(b.mul(b.mul(e, b.add(e, 1.0)), 4.0), below));
    b.div(b.add(squares, term), below)
}

//! Activations of f32 sums before the store, and their derivatives, on vectors.

use cubecl::prelude::*;
use moebius_ops::grouped_gemm::{self as ops, Activation, CLAMPED_LIMIT, CLAMPED_SLOPE};

const TANH_SLOPE: f32 = ops::TANH_SLOPE as f32;
const TANH_CUBE: f32 = ops::TANH_CUBE as f32;
const TANH_LIMIT: f32 = ops::TANH_LIMIT as f32;

/// Applies `activation` to every lane; `None` is the identity.
#[cube]
pub(crate) fn activate<N: Size>(
    x: Vector<f32, N>,
    #[comptime] activation: Option<Activation>,
) -> Vector<f32, N> {
    let zero = Vector::<f32, N>::new(0.0f32);
    let one = Vector::<f32, N>::new(1.0f32);
    match comptime!(activation) {
        Some(Activation::Relu) => select_many(x.less_than(&zero), zero, x),
        Some(Activation::Gelu) => x * normal::<N>(x),
        Some(Activation::Silu) => x / (one + (-x).exp()),
        Some(Activation::Mish) => {
            let (_, squares) = mish_terms::<N>(x);
            x * squares / (squares + Vector::<f32, N>::new(2.0f32))
        }
        Some(Activation::Clamped) => {
            let m = at_most::<N>(x);
            let slope = Vector::<f32, N>::new(CLAMPED_SLOPE);
            m / (one + (-(m * slope)).exp())
        }
        Some(Activation::GeluTanh) => {
            let (u, _) = tanh_terms::<N>(x);
            x / (one + (-u).exp())
        }
        None => x,
    }
}

/// The factor that a gate with `activation` multiplies: `up`, or for the clamped activation clamp(up) + 1.
#[cube]
pub(crate) fn gated<N: Size>(
    up: Vector<f32, N>,
    #[comptime] activation: Option<Activation>,
) -> Vector<f32, N> {
    match comptime!(activation) {
        Some(Activation::Clamped) => {
            let least = Vector::<f32, N>::new(-CLAMPED_LIMIT);
            let cut = at_most::<N>(up);
            let cut = select_many(cut.less_than(&least), least, cut);
            cut + Vector::<f32, N>::new(1.0f32)
        }
        _ => up,
    }
}

/// `d` times the derivative of [`gated`] at every lane.
#[cube]
pub(crate) fn gated_gradient<N: Size>(
    up: Vector<f32, N>,
    d: Vector<f32, N>,
    #[comptime] activation: Option<Activation>,
) -> Vector<f32, N> {
    match comptime!(activation) {
        Some(Activation::Clamped) => {
            let zero = Vector::<f32, N>::new(0.0f32);
            let most = Vector::<f32, N>::new(CLAMPED_LIMIT);
            let least = Vector::<f32, N>::new(-CLAMPED_LIMIT);
            let d = select_many(most.less_than(&up), zero, d);
            select_many(up.less_than(&least), zero, d)
        }
        _ => d,
    }
}

/// Φ(x) = ½ · erfc(−x/√2), the share of a normal distribution below x. The relative error is some units of the last place wherever Φ is
/// no subnormal number, also far below 0, where ½ · (1 + erf(x/√2)) has lost all digits.
///
/// erfc(z) = t · exp(P(t) − z²) with t = 2 / (2 + z) for z ≥ 0, and a polynomial P of degree 9 (Press et al., "Numerical Recipes", 6.2).
#[cube]
fn normal<N: Size>(x: Vector<f32, N>) -> Vector<f32, N> {
    let zero = Vector::<f32, N>::new(0.0f32);
    let half = Vector::<f32, N>::new(0.5f32);
    let two = Vector::<f32, N>::new(2.0f32);
    let below = x.less_than(&zero);
    let z = select_many(below, -x, x) * Vector::<f32, N>::new(std::f32::consts::FRAC_1_SQRT_2);
    let t = two / (two + z);
    let p = t * Vector::<f32, N>::new(0.170_872_77f32) + Vector::<f32, N>::new(-0.822_152_23f32);
    let p = p * t + Vector::<f32, N>::new(1.488_515_9f32);
    let p = p * t + Vector::<f32, N>::new(-1.135_204f32);
    let p = p * t + Vector::<f32, N>::new(0.278_868_07f32);
    let p = p * t + Vector::<f32, N>::new(-0.186_288_06f32);
    let p = p * t + Vector::<f32, N>::new(0.096_784_18f32);
    let p = p * t + Vector::<f32, N>::new(0.374_091_96f32);
    let p = p * t + Vector::<f32, N>::new(1.000_023_7f32);
    let p = p * t + Vector::<f32, N>::new(-1.265_512_2f32);
    let tail = half * t * (p - half * x * x).exp();
    select_many(below, tail, Vector::<f32, N>::new(1.0f32) - tail)
}

/// min(x, limit) that keeps NaN.
#[cube]
fn at_most<N: Size>(x: Vector<f32, N>) -> Vector<f32, N> {
    let most = Vector::<f32, N>::new(CLAMPED_LIMIT);
    select_many(most.less_than(&x), most, x)
}

/// e = exp(x), and e² + 2e, with which tanh(ln(1 + e)) = (e² + 2e) / (e² + 2e + 2) without cancellation. x is cut at 20, where
/// the fraction has long been 1 in f32 and e⁴ is still finite.
#[cube]
fn mish_terms<N: Size>(x: Vector<f32, N>) -> (Vector<f32, N>, Vector<f32, N>) {
    let most = Vector::<f32, N>::new(20.0f32);
    let e = select_many(x.less_than(&most), x, most).exp();
    (e, e * (e + Vector::<f32, N>::new(2.0f32)))
}

/// u = 2 · √(2/π) · (x + 0.044715 · x³), the argument of the logistic function in the older form of gelu, and its slope.
#[cube]
fn tanh_terms<N: Size>(x: Vector<f32, N>) -> (Vector<f32, N>, Vector<f32, N>) {
    let one = Vector::<f32, N>::new(1.0f32);
    let slope = Vector::<f32, N>::new(TANH_SLOPE);
    let bend = x * x * Vector::<f32, N>::new(TANH_CUBE);
    let rise = one + bend * Vector::<f32, N>::new(3.0f32);
    (x * slope * (one + bend), slope * rise)
}

/// The derivative of `activation` at every lane, 1 for `None`; relu's is 0 at 0.
#[cube]
pub(crate) fn activation_gradient<N: Size>(
    x: Vector<f32, N>,
    #[comptime] activation: Option<Activation>,
) -> Vector<f32, N> {
    let zero = Vector::<f32, N>::new(0.0f32);
    let half = Vector::<f32, N>::new(0.5f32);
    let one = Vector::<f32, N>::new(1.0f32);
    match comptime!(activation) {
        Some(Activation::Relu) => select_many(zero.less_than(&x), one, zero),
        Some(Activation::Gelu) => {
            // 1 / √(2π)
            let height = Vector::<f32, N>::new(0.398_942_3f32);
            normal::<N>(x) + x * height * (-(half * x * x)).exp()
        }
        Some(Activation::Silu) => {
            let logistic = one / (one + (-x).exp());
            logistic + x * logistic * (one - logistic)
        }
        Some(Activation::Mish) => {
            // tanh + x · e/(1+e) · (1 − tanh²), over one denominator.
            let (e, squares) = mish_terms::<N>(x);
            // Above 20 the second term is 0; x is cut so that a large one can't change that.
            let most = Vector::<f32, N>::new(20.0f32);
            let x = select_many(most.less_than(&x), most, x);
            let four = Vector::<f32, N>::new(4.0f32);
            let below = squares + Vector::<f32, N>::new(2.0f32);
            (squares + x * (four * e * (one + e) / below)) / below
        }
        Some(Activation::Clamped) => {
            let most = Vector::<f32, N>::new(CLAMPED_LIMIT);
            let slope = Vector::<f32, N>::new(CLAMPED_SLOPE);
            let logistic = one / (one + (-(x * slope)).exp());
            let rise = logistic + x * slope * logistic * (one - logistic);
            select_many(most.less_than(&x), zero, rise)
        }
        Some(Activation::GeluTanh) => {
            // x is cut where the logistic function is 0 or 1, so that its slope's factors stay finite.
            let most = Vector::<f32, N>::new(TANH_LIMIT);
            let least = Vector::<f32, N>::new(-TANH_LIMIT);
            let x = select_many(most.less_than(&x), most, x);
            let x = select_many(x.less_than(&least), least, x);
            let (u, rise) = tanh_terms::<N>(x);
            let logistic = one / (one + (-u).exp());
            logistic + x * logistic * (one - logistic) * rise
        }
        None => one,
    }
}

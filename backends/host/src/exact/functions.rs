//! The functions of [`moebius_ops::exact`], step by step as in `shaders/kernels/src/exact/functions.rs`: a change of one is a change of both.
//! The compiler of this code neither contracts nor reorders operations of f32.

use moebius_ops::exact::series::{
    ERF, ERFC, EXP, LN, LN_2_HIGH, LN_2_LOW, LOG2_E, RECIPROCAL, RECIPROCAL_ROOT, ROOT_OF_HALF,
    Series, TANH,
};
use moebius_ops::exact::{Function, SMALLEST};
use moebius_ops::grouped_gemm::{Activation, CLAMPED_LIMIT, CLAMPED_SLOPE, TANH_CUBE, TANH_SLOPE};

const SIGN: u32 = 1 << 31;

/// A number, or +0 for one that doesn't count.
pub(super) fn settled(x: f32) -> f32 {
    if x.to_bits() & !SIGN < SMALLEST {
        0.0
    } else {
        x
    }
}

/// Computes a function of one number.
pub fn apply(function: Function, x: f32) -> f32 {
    let x = settled(x);
    settled(match function {
        Function::Exp => exp(x),
        Function::Ln => ln(x),
        Function::Reciprocal => reciprocal(x),
        Function::ReciprocalRoot => reciprocal_root(x),
        Function::Sigmoid => sigmoid(x),
        Function::Tanh => tanh(x),
        Function::Erf => erf(x),
    })
}

fn series(x: f32, of: Series) -> f32 {
    let (first, rest) = of.0.split_first().unwrap_or((&0.0, &[]));
    rest.iter().fold(*first, |sum, term| sum * x + term)
}

/// eˣ = 2ⁿ · eʳ, where n is x · log₂ e rounded by adding a half away from 0 and cutting the rest.
pub(super) fn exp(x: f32) -> f32 {
    let x = settled(x);
    if x < -80.0 {
        return 0.0;
    }
    let cut = x.min(88.0);
    let half = if cut < 0.0 { -0.5 } else { 0.5 };
    let power = (cut * LOG2_E + half) as i32;
    let whole = power as f32;
    let rest = settled((cut - whole * LN_2_HIGH) - whole * LN_2_LOW);
    let near = (series(rest, EXP) * (rest * rest) + rest) + 1.0;
    f32::from_bits(near.to_bits() + (((power + 127) as u32) << 23) - 0x3F80_0000)
}

pub(super) fn ln(x: f32) -> f32 {
    // The exponent plus 128, and a mantissa from √½ on.
    let raised = x.to_bits().wrapping_add(0x4000_0000 - ROOT_OF_HALF);
    let exponent = (raised >> 23) as f32 - 128.0;
    let t = f32::from_bits((raised & 0x007F_FFFF) + ROOT_OF_HALF) - 1.0;
    let square = t * t;
    let tail = (square * t) * series(t, LN) + exponent * LN_2_LOW;
    let tail = tail - 0.5 * square;
    (t + tail) + exponent * LN_2_HIGH
}

pub(super) fn reciprocal(x: f32) -> f32 {
    let (magnitude, sign) = (x.abs(), x.to_bits() & SIGN);
    let mut guess = f32::from_bits(RECIPROCAL.wrapping_sub(magnitude.to_bits()));
    for _ in 0..3 {
        let error = 1.0 - magnitude * guess;
        guess += guess * error;
    }
    f32::from_bits(guess.to_bits() | sign)
}

pub(super) fn reciprocal_root(x: f32) -> f32 {
    let mut guess = f32::from_bits(RECIPROCAL_ROOT.wrapping_sub(x.to_bits() >> 1));
    for _ in 0..3 {
        let error = 1.0 - (x * guess) * guess;
        guess += (0.5 * guess) * error;
    }
    guess
}

pub(super) fn sigmoid(x: f32) -> f32 {
    let small = exp(-x.abs());
    let share = reciprocal(1.0 + small);
    if x < 0.0 { small * share } else { share }
}

pub(super) fn tanh(x: f32) -> f32 {
    let magnitude = x.abs();
    if magnitude < 1.0 / 4096.0 {
        return x;
    }
    if magnitude < 0.625 {
        let square = x * x;
        return x + x * (square * series(square, TANH));
    }
    let small = exp(-2.0 * magnitude);
    let found = (1.0 - small) * reciprocal(1.0 + small);
    f32::from_bits(found.to_bits() | (x.to_bits() & SIGN))
}

pub(super) fn erf(x: f32) -> f32 {
    let magnitude = x.abs();
    if magnitude < 1.0 {
        return x * series(x * x, ERF);
    }
    let cut = magnitude.min(10.0);
    let found = 1.0 - erfc(cut, cut * cut);
    f32::from_bits(found.to_bits() | (x.to_bits() & SIGN))
}

/// erfc z for z ≥ 0 and its square.
fn erfc(z: f32, square: f32) -> f32 {
    let t = 2.0 * reciprocal(2.0 + z);
    t * exp(series(t, ERFC) - square)
}

/// The share of a normal distribution below x.
fn normal(x: f32) -> f32 {
    let magnitude = x.abs();
    let cut = magnitude.min(20.0);
    let z = cut * std::f32::consts::FRAC_1_SQRT_2;
    let tail = 0.5 * erfc(z, (0.5 * cut) * cut);
    if x < 0.0 { tail } else { 1.0 - tail }
}

pub(super) fn activate(activation: Activation, x: f32) -> f32 {
    match activation {
        Activation::Relu => x.max(0.0),
        Activation::Gelu => x * normal(x),
        Activation::Silu => x * sigmoid(x),
        Activation::Mish => {
            let small = exp(x.min(20.0));
            let squares = small * (small + 2.0);
            (x * squares) * reciprocal(squares + 2.0)
        }
        Activation::Clamped => {
            let cut = x.min(CLAMPED_LIMIT);
            cut * sigmoid(cut * CLAMPED_SLOPE)
        }
        Activation::GeluTanh => {
            let bend = (x * x) * TANH_CUBE as f32;
            x * sigmoid((x * TANH_SLOPE as f32) * (1.0 + bend))
        }
    }
}

/// The factor that a gate multiplies.
pub(super) fn gated(activation: Activation, up: f32) -> f32 {
    match activation {
        Activation::Clamped => up.clamp(-CLAMPED_LIMIT, CLAMPED_LIMIT) + 1.0,
        _ => up,
    }
}

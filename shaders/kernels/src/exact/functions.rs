//! The functions of [`moebius_ops::exact`], step by step as in `backends/host/src/exact/functions.rs`: a change of one is a change of both.
//!
//! `zero` is 0 in every launch, and no compiler knows that: the bits of a product or a sum that went through ⊕ `zero` can't be contracted
//! with what follows, nor reordered, whatever a compiler may do with floats.

use cubecl::prelude::*;
use moebius_ops::exact::series::{
    ERF, ERFC, EXP, LN, LN_2_HIGH, LN_2_LOW, LOG2_E, RECIPROCAL, RECIPROCAL_ROOT, ROOT_OF_HALF,
    Series, TANH,
};
use moebius_ops::exact::{Function, SMALLEST};
use moebius_ops::grouped_gemm::{self as ops, Activation, CLAMPED_LIMIT, CLAMPED_SLOPE};

const SIGN: u32 = 0x8000_0000;
const TANH_SLOPE: f32 = ops::TANH_SLOPE as f32;
const TANH_CUBE: f32 = ops::TANH_CUBE as f32;

/// A float that a compiler can't take apart.
#[cube]
fn own(x: f32, zero: u32) -> f32 {
    f32::reinterpret(u32::reinterpret(x) ^ zero)
}

/// a · b.
#[cube]
pub(super) fn mul(a: f32, b: f32, zero: u32) -> f32 {
    own(a * b, zero)
}

/// a + b.
#[cube]
pub(super) fn add(a: f32, b: f32, zero: u32) -> f32 {
    own(a + b, zero)
}

/// a − b.
#[cube]
pub(super) fn sub(a: f32, b: f32, zero: u32) -> f32 {
    own(a - b, zero)
}

/// A number, or +0 for one that doesn't count.
#[cube]
pub(super) fn settled(x: f32) -> f32 {
    let bits = u32::reinterpret(x);
    let magnitude = bits & comptime!(SIGN - 1);
    f32::reinterpret(select(magnitude < comptime!(SMALLEST), 0u32, bits))
}

/// |x|.
#[cube]
fn magnitude(x: f32) -> f32 {
    f32::reinterpret(u32::reinterpret(x) & comptime!(SIGN - 1))
}

/// −|x|.
#[cube]
fn negative(x: f32) -> f32 {
    f32::reinterpret(u32::reinterpret(x) | comptime!(SIGN))
}

/// A magnitude with the sign of `x`.
#[cube]
fn signed(of: f32, x: f32) -> f32 {
    f32::reinterpret(u32::reinterpret(of) | (u32::reinterpret(x) & comptime!(SIGN)))
}

/// The smaller of two numbers.
#[cube]
fn least(a: f32, b: f32) -> f32 {
    select(b < a, b, a)
}

/// The larger of two numbers.
#[cube]
pub(super) fn most(a: f32, b: f32) -> f32 {
    select(b > a, b, a)
}

/// A function of a settled number.
#[cube]
pub(super) fn apply(x: f32, zero: u32, #[comptime] function: Function) -> f32 {
    match comptime!(function) {
        Function::Exp => exp(x, zero),
        Function::Ln => ln(x, zero),
        Function::Reciprocal => reciprocal(x, zero),
        Function::ReciprocalRoot => reciprocal_root(x, zero),
        Function::Sigmoid => sigmoid(x, zero),
        Function::Tanh => tanh(x, zero),
        Function::Erf => erf(x, zero),
    }
}

#[cube]
fn series(x: f32, zero: u32, #[comptime] of: Series) -> f32 {
    let mut sum = comptime!(of.0[0]).runtime();
    #[unroll]
    for i in 1..comptime!(of.0.len()) {
        sum = add(mul(sum, x, zero), comptime!(of.0[i]), zero);
    }
    sum
}

/// eˣ = 2ⁿ · eʳ, where n is x · log₂ e rounded by adding a half away from 0 and cutting the rest.
#[cube]
pub(super) fn exp(x: f32, zero: u32) -> f32 {
    let x = settled(x);
    let lowest = comptime!(-80.0f32);
    let cut = most(least(x, 88.0f32), lowest);
    let half = select(cut < 0.0f32, comptime!(-0.5f32), 0.5f32);
    let power = i32::cast_from(add(mul(cut, comptime!(LOG2_E), zero), half, zero));
    let whole = f32::cast_from(power);
    let high = mul(whole, comptime!(LN_2_HIGH), zero);
    let low = mul(whole, comptime!(LN_2_LOW), zero);
    let rest = settled(sub(sub(cut, high, zero), low, zero));
    let curve = mul(series(rest, zero, EXP), mul(rest, rest, zero), zero);
    let near = add(add(curve, rest, zero), 1.0f32, zero);
    let up = u32::cast_from(power + 127i32) << 23u32;
    let found = f32::reinterpret(u32::reinterpret(near) + up - 0x3F80_0000u32);
    select(x < lowest, 0.0f32, found)
}

#[cube]
pub(super) fn ln(x: f32, zero: u32) -> f32 {
    // The exponent plus 128, and a mantissa from √½ on.
    let raised = u32::reinterpret(x) + comptime!(0x4000_0000 - ROOT_OF_HALF);
    let exponent = sub(f32::cast_from(raised >> 23u32), 128.0f32, zero);
    let mantissa = f32::reinterpret((raised & 0x007F_FFFFu32) + comptime!(ROOT_OF_HALF));
    let t = sub(mantissa, 1.0f32, zero);
    let square = mul(t, t, zero);
    let tail = mul(mul(square, t, zero), series(t, zero, LN), zero);
    let tail = add(tail, mul(exponent, comptime!(LN_2_LOW), zero), zero);
    let tail = sub(tail, mul(0.5f32, square, zero), zero);
    let high = mul(exponent, comptime!(LN_2_HIGH), zero);
    add(add(t, tail, zero), high, zero)
}

#[cube]
pub(super) fn reciprocal(x: f32, zero: u32) -> f32 {
    let of = magnitude(x);
    let first = comptime!(RECIPROCAL);
    let mut guess = f32::reinterpret(first - u32::reinterpret(of));
    #[unroll]
    for _ in 0..comptime!(3usize) {
        let error = sub(1.0f32, mul(of, guess, zero), zero);
        guess = add(guess, mul(guess, error, zero), zero);
    }
    signed(guess, x)
}

#[cube]
pub(super) fn reciprocal_root(x: f32, zero: u32) -> f32 {
    let first = comptime!(RECIPROCAL_ROOT);
    let mut guess = f32::reinterpret(first - (u32::reinterpret(x) >> 1u32));
    #[unroll]
    for _ in 0..comptime!(3usize) {
        let square = mul(mul(x, guess, zero), guess, zero);
        let error = sub(1.0f32, square, zero);
        let step = mul(mul(0.5f32, guess, zero), error, zero);
        guess = add(guess, step, zero);
    }
    guess
}

#[cube]
pub(super) fn sigmoid(x: f32, zero: u32) -> f32 {
    let small = exp(negative(x), zero);
    let share = reciprocal(add(1.0f32, small, zero), zero);
    select(x < 0.0f32, mul(small, share, zero), share)
}

#[cube]
pub(super) fn tanh(x: f32, zero: u32) -> f32 {
    let of = magnitude(x);
    let is_near = of < 0.625f32;
    // A number that overflows in the branch that isn't taken must not come into being.
    let near = select(is_near, x, 0.0f32);
    let square = mul(near, near, zero);
    let curve = mul(square, series(square, zero, TANH), zero);
    let curve = add(near, mul(near, curve, zero), zero);
    let small = exp(negative(mul(2.0f32, of, zero)), zero);
    let share = reciprocal(add(1.0f32, small, zero), zero);
    let far = mul(sub(1.0f32, small, zero), share, zero);
    let bent = select(is_near, curve, signed(far, x));
    select(of < comptime!(1.0f32 / 4096.0f32), x, bent)
}

#[cube]
pub(super) fn erf(x: f32, zero: u32) -> f32 {
    let of = magnitude(x);
    let is_near = of < 1.0f32;
    let near = select(is_near, x, 0.0f32);
    let curve = mul(near, series(mul(near, near, zero), zero, ERF), zero);
    let cut = least(of, 10.0f32);
    let far = sub(1.0f32, erfc(cut, mul(cut, cut, zero), zero), zero);
    select(is_near, curve, signed(far, x))
}

/// erfc z for z ≥ 0 and its square.
#[cube]
fn erfc(z: f32, square: f32, zero: u32) -> f32 {
    let t = reciprocal(add(2.0f32, z, zero), zero);
    let t = mul(2.0f32, t, zero);
    let power = sub(series(t, zero, ERFC), square, zero);
    mul(t, exp(power, zero), zero)
}

/// The share of a normal distribution below x.
#[cube]
fn normal(x: f32, zero: u32) -> f32 {
    let cut = least(magnitude(x), 20.0f32);
    let z = mul(cut, comptime!(std::f32::consts::FRAC_1_SQRT_2), zero);
    let square = mul(mul(0.5f32, cut, zero), cut, zero);
    let tail = mul(0.5f32, erfc(z, square, zero), zero);
    select(x < 0.0f32, tail, sub(1.0f32, tail, zero))
}

/// The activation of a settled number.
#[cube]
pub(super) fn activate(x: f32, zero: u32, #[comptime] activation: Activation) -> f32 {
    match comptime!(activation) {
        Activation::Relu => most(x, 0.0f32),
        Activation::Gelu => mul(x, normal(x, zero), zero),
        Activation::Silu => mul(x, sigmoid(x, zero), zero),
        Activation::Mish => {
            let small = exp(least(x, 20.0f32), zero);
            let squares = mul(small, add(small, 2.0f32, zero), zero);
            let share = reciprocal(add(squares, 2.0f32, zero), zero);
            mul(mul(x, squares, zero), share, zero)
        }
        Activation::Clamped => {
            let cut = least(x, comptime!(CLAMPED_LIMIT));
            let slope = mul(cut, comptime!(CLAMPED_SLOPE), zero);
            mul(cut, sigmoid(slope, zero), zero)
        }
        Activation::GeluTanh => {
            let bend = mul(mul(x, x, zero), comptime!(TANH_CUBE), zero);
            let rise = mul(x, comptime!(TANH_SLOPE), zero);
            let u = mul(rise, add(1.0f32, bend, zero), zero);
            mul(x, sigmoid(u, zero), zero)
        }
    }
}

/// The factor that a gate multiplies.
#[cube]
pub(super) fn gated(up: f32, zero: u32, #[comptime] activation: Activation) -> f32 {
    if comptime!(activation == Activation::Clamped) {
        let limit = comptime!(CLAMPED_LIMIT);
        let cut = most(least(up, limit), comptime!(-CLAMPED_LIMIT));
        add(cut, 1.0f32, zero)
    } else {
        up
    }
}

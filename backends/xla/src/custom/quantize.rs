//! FP8 casts, codes and scales of a stack of matrices, and back: [`moebius_ops::quantize`].
//!
//! A scale follows from the largest finite magnitude of its block by integer arithmetic, so it has the same bits
//! everywhere; quotients are divisions, as exact as the device's.

use super::float;
use super::fp8::{element, encode, pack, pad_end, unpack};
use crate::ElementType;
use crate::stablehlo::{Binary, Builder, Compare, Reduction, Unary, Value};
use moebius_ops::Quantization;
use moebius_ops::quantize::Problem;
use moebius_ops::scaling::{E8M0_ONE, ScaleType};

/// Appends the operation and returns its results.
pub(super) fn lower(b: &mut Builder, operation: &Quantization, inputs: &[Value]) -> Vec<Value> {
    let x = |b: &mut Builder| b.convert(inputs[0], ElementType::F32);
    match operation {
        Quantization::Encode { problem, overflow } => {
            let x = x(b);
            let codes = encode(b, x, problem.format(), *overflow);
            vec![pack(b, codes)]
        }
        Quantization::Decode(p) => {
            let codes = unpack(b, inputs[0], p.len(), element(p.format()));
            vec![b.convert(codes, ElementType::F32)]
        }
        Quantization::Quantize(p) => {
            let x = x(b);
            let scales = dynamic(b, p, x);
            let codes = codes(b, p, x, scales);
            vec![pack(b, codes), stored(b, p, scales)]
        }
        Quantization::QuantizeBy(p) => {
            let x = x(b);
            let scales = given(b, p, inputs[1]);
            let codes = codes(b, p, x, scales);
            vec![pack(b, codes)]
        }
        Quantization::Dequantize(p) => {
            let codes = unpack(b, inputs[0], p.shape()[2], element(p.format()));
            let scales = given(b, p, inputs[1]);
            let values = decode(b, p, codes, scales);
            vec![b.convert(values, float(p.element()))]
        }
        Quantization::FakeQuantize(p) => {
            let x = x(b);
            let scales = dynamic(b, p, x);
            vec![rounded(b, p, [inputs[0], x, scales])]
        }
        Quantization::FakeQuantizeBy(p) => {
            let x = x(b);
            let scales = given(b, p, inputs[1]);
            vec![rounded(b, p, [inputs[0], x, scales])]
        }
        Quantization::Amax { shape, .. } => {
            let x = x(b);
            let magnitude = magnitude(b, x);
            let dims: Vec<usize> = (0..shape.len()).collect();
            let amax = b.reduce(Reduction::Max, magnitude, &dims);
            let amax = b.bitcast(amax, ElementType::F32);
            vec![b.reshape(amax, &[1])]
        }
    }
}

fn is_mx(p: &Problem) -> bool {
    p.granularity().scale_type() == ScaleType::E8M0
}

/// The bits of |x|, 0 where x isn't finite: integers are ordered like the magnitudes, and no device
/// flushes one.
fn magnitude(b: &mut Builder, x: Value) -> Value {
    let bits = b.bitcast(x, ElementType::U32);
    let magnitude = b.binary_scalar(Binary::And, bits, f64::from(0x7FFF_FFFFu32));
    let finite = b.compare_scalar(Compare::Lt, magnitude, f64::from(0x7F80_0000u32));
    let zero = b.splat_like(0.0, magnitude);
    b.select(finite, magnitude, zero)
}

/// f32 bits or E8M0 bytes, ui32 \[M, down, across\], that follow from x.
fn dynamic(b: &mut Builder, p: &Problem, x: Value) -> Value {
    let [matrices, rows, columns] = p.shape();
    let ([r, c], [down, across]) = (p.block(), p.blocks());
    let values = magnitude(b, x);
    let zero = b.scalar(0.0, ElementType::U32);
    let values = pad_end(b, values, zero, 1, down * r - rows);
    let values = pad_end(b, values, zero, 2, across * c - columns);
    let values = b.reshape(values, &[matrices, down, r, across, c]);
    let amax = b.reduce(Reduction::Max, values, &[2, 4]);
    match is_mx(p) {
        true => e8m0_scales(b, p, amax),
        false => f32_scales(b, p, amax),
    }
}

/// Bits of amax · 2^margin / MAX, between the smallest normal number and the largest; 1 of 0.
///
/// MAX is 1.75 · 2^e, so the mantissa of the quotient is 4/7 of amax's: a division of integers,
/// whose remainder says how to round, and never a tie because 7 is odd.
fn f32_scales(b: &mut Builder, p: &Problem, amax: Value) -> Value {
    let (mantissa, exponent) = normalised(b, amax);
    let below = b.compare_scalar(Compare::Lt, mantissa, f64::from(7u32 << 21));
    let (two, three) = (b.splat_like(2.0, mantissa), b.splat_like(3.0, mantissa));
    let shift = b.select(below, three, two);
    let dividend = b.binary(Binary::ShiftLeft, mantissa, shift);
    let up = b.binary_scalar(Binary::Add, dividend, 3.0);
    let quotient = b.binary_scalar(Binary::Divide, up, 7.0);
    let top = (p.format().max().to_bits() >> 23) as i32;
    let exponent = b.binary_scalar(Binary::Add, exponent, f64::from(p.margin() + 127 - top));
    let below = b.convert(below, ElementType::S32);
    let exponent = b.sub(exponent, below);
    let clamped = b.clamp(1.0, exponent, 254.0);
    let clamped = b.convert(clamped, ElementType::U32);
    let high = b.binary_scalar(Binary::ShiftLeft, clamped, 23.0);
    let low = b.binary_scalar(Binary::And, quotient, f64::from(0x7F_FFFFu32));
    let scale = b.or(high, low);
    let scale = choose(b, (Compare::Lt, exponent, 1.0), 0x80_0000, scale);
    let scale = choose(b, (Compare::Gt, exponent, 254.0), 0x7F7F_FFFF, scale);
    choose(b, (Compare::Eq, amax, 0.0), 0x3F80_0000, scale)
}

/// The bytes of the powers of two at or above amax · 2^margin / MAX; 1 of 0.
fn e8m0_scales(b: &mut Builder, p: &Problem, amax: Value) -> Value {
    let top = p.format().max().to_bits();
    let mantissa = b.binary_scalar(Binary::And, amax, f64::from(0x7F_FFFFu32));
    let above = b.compare_scalar(Compare::Gt, mantissa, f64::from(top & 0x7F_FFFF));
    let above = b.convert(above, ElementType::S32);
    let exponent = b.binary_scalar(Binary::ShiftRightLogical, amax, 23.0);
    let exponent = b.convert(exponent, ElementType::S32);
    let exponent = b.add(exponent, above);
    let offset = f64::from(E8M0_ONE) - f64::from(top >> 23) + f64::from(p.margin());
    let byte = b.binary_scalar(Binary::Add, exponent, offset);
    let byte = b.clamp(1.0, byte, 254.0);
    let byte = b.convert(byte, ElementType::U32);
    choose(b, (Compare::Eq, amax, 0.0), E8M0_ONE.into(), byte)
}

/// Scales as they came, in the form of [`dynamic`].
pub(super) fn given(b: &mut Builder, p: &Problem, scales: Value) -> Value {
    let [_, across] = p.blocks();
    if is_mx(p) {
        let bytes = unpack(b, scales, across, ElementType::U8);
        return b.convert(bytes, ElementType::U32);
    }
    let scales = b.convert(scales, ElementType::F32);
    b.bitcast(scales, ElementType::U32)
}

/// Scales as they leave.
fn stored(b: &mut Builder, p: &Problem, scales: Value) -> Value {
    if is_mx(p) {
        let bytes = b.convert(scales, ElementType::U8);
        return pack(b, bytes);
    }
    b.bitcast(scales, ElementType::F32)
}

/// The scale of every value \[M, rows, columns\].
fn spread(b: &mut Builder, p: &Problem, scales: Value) -> Value {
    let [matrices, rows, columns] = p.shape();
    let ([r, c], [down, across]) = (p.block(), p.blocks());
    let spread = b.broadcast(scales, &[matrices, down, r, across, c], &[0, 1, 3]);
    let spread = b.reshape(spread, &[matrices, down * r, across * c]);
    let spread = b.slice_dim(spread, 1, 0..rows);
    b.slice_dim(spread, 2, 0..columns)
}

/// x / scale as codes. Infinities and NaN divide to themselves: a scale is positive and finite.
fn codes(b: &mut Builder, p: &Problem, x: Value, scales: Value) -> Value {
    let quotient = if is_mx(p) {
        // 2^(127 − byte) in two factors: one would be subnormal for byte 254.
        let half = power(b, (Compare::Ge, scales, 254.0), 0.5);
        let byte = b.clamp(0.0, scales, 253.0);
        let (top, ty) = (b.splat_like(254.0, byte), ElementType::F32);
        let inverse = b.sub(top, byte);
        let inverse = b.binary_scalar(Binary::ShiftLeft, inverse, 23.0);
        let inverse = b.bitcast(inverse, ty);
        let (half, inverse) = (spread(b, p, half), spread(b, p, inverse));
        let x = b.mul(x, half);
        b.mul(x, inverse)
    } else {
        let scales = b.bitcast(scales, ElementType::F32);
        let scales = spread(b, p, scales);
        b.div(x, scales)
    };
    encode(b, quotient, p.format(), p.overflow())
}

/// f32: the values of codes.
pub(super) fn decode(b: &mut Builder, p: &Problem, codes: Value, scales: Value) -> Value {
    let values = b.convert(codes, ElementType::F32);
    if !is_mx(p) {
        let scales = b.bitcast(scales, ElementType::F32);
        let scales = spread(b, p, scales);
        return b.mul(values, scales);
    }
    // Byte 0 is 2⁻¹²⁷, which is subnormal: half of 2⁻¹²⁶. Byte 255 is NaN.
    let half = power(b, (Compare::Eq, scales, 0.0), 0.5);
    let byte = b.clamp(1.0, scales, 255.0);
    let bits = b.binary_scalar(Binary::ShiftLeft, byte, 23.0);
    let bits = choose(b, (Compare::Eq, scales, 255.0), 0x7FC0_0000, bits);
    let power = b.bitcast(bits, ElementType::F32);
    let (half, power) = (spread(b, p, half), spread(b, p, power));
    let values = b.mul(values, half);
    b.mul(values, power)
}

/// `x`, the f32s of `like`, as its codes have it, in the type of `like`.
fn rounded(b: &mut Builder, p: &Problem, [like, x, scales]: [Value; 3]) -> Value {
    let codes = codes(b, p, x, scales);
    // XLA drops a conversion and its inverse for the sake of precision, but not with NaN's bytes
    // chosen in between.
    let y = decode(b, p, codes, scales);
    let element = b.element(like);
    b.convert(y, element)
}

/// Mantissa with its implicit bit, ui32, and biased exponent, i32, of the bits of positive f32s;
/// below 1 of subnormal ones.
fn normalised(b: &mut Builder, bits: Value) -> (Value, Value) {
    let zeros = b.unary(Unary::CountLeadingZeros, bits);
    // Sign and exponent are nine bits, the last of which a normal number's implicit bit takes.
    let shift = b.clamp(8.0, zeros, 31.0);
    let shift = b.binary_scalar(Binary::Subtract, shift, 8.0);
    let moved = b.binary(Binary::ShiftLeft, bits, shift);
    let exponent = b.binary_scalar(Binary::ShiftRightLogical, bits, 23.0);
    let normal = b.compare_scalar(Compare::Gt, exponent, 0.0);
    let mantissa = b.select(normal, bits, moved);
    let mantissa = b.binary_scalar(Binary::And, mantissa, f64::from(0x7F_FFFFu32));
    let mantissa = b.binary_scalar(Binary::Or, mantissa, f64::from(0x80_0000u32));
    let shift = b.convert(shift, ElementType::S32);
    let one = b.splat_like(1.0, shift);
    let below = b.sub(one, shift);
    let exponent = b.convert(exponent, ElementType::S32);
    (mantissa, b.select(normal, exponent, below))
}

/// `bits` where a comparison with a number holds, and `other` elsewhere.
fn choose(
    b: &mut Builder,
    (direction, x, number): (Compare, Value, f64),
    bits: u32,
    other: Value,
) -> Value {
    let condition = b.compare_scalar(direction, x, number);
    let bits = b.splat_like(f64::from(bits), other);
    b.select(condition, bits, other)
}

/// An f32 where a comparison with a number holds, and 1 elsewhere.
fn power(b: &mut Builder, (direction, x, number): (Compare, Value, f64), factor: f64) -> Value {
    let condition = b.compare_scalar(direction, x, number);
    let ty = b.ty(x).with_element(ElementType::F32);
    let (yes, no) = (b.splat(factor, ty.clone()), b.splat(1.0, ty));
    b.select(condition, yes, no)
}

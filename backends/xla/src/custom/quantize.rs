//! FP8 casts, and quantisation of a stack of matrices to codes and scales and back: [`moebius_ops::quantize`]. Other
//! operations on FP8 codes ([`moebius_ops::fp8`]) share its functions.
//!
//! A scale follows from the largest finite magnitude of its block by integer arithmetic, so it has the same bits
//! everywhere; quotients are divisions, as accurate as the device's.
//!
//! XLA's own conversions to FP8 round to nearest even and keep NaN. A value beyond the largest becomes NaN in E4M3 and
//! infinity in E5M2, as [`Overflow::Ieee`] asks; a clamp before the conversion gives [`Overflow::Saturate`]. The CPU
//! plugin's conversions are right for every one of the 2³² f32 values. Codes lie four to a word, lane 0 in the low
//! byte.

use super::values::{float, pad_end, words};
use crate::stablehlo::{Builder, Reduction, Unary, Value};
use moebius_ops::Quantize;
use moebius_ops::fp8::{Fp8Format, LANES_PER_WORD as LANES, Overflow};
use moebius_ops::quantize::Problem;
use moebius_ops::scaling::{E8M0_ONE, ScaleType};
use moebius_pjrt::ElementType::{self, F32, S32, U32};

/// Appends the operation and returns its results.
pub(super) fn lower(b: &Builder, operation: &Quantize, inputs: &[Value]) -> Vec<Value> {
    let x = |b: &Builder| b.convert(inputs[0], F32);
    match operation {
        Quantize::Encode { problem, overflow } => {
            vec![pack(b, encode(b, x(b), problem.format(), *overflow))]
        }
        Quantize::Decode(p) => {
            vec![b.convert(unpack(b, inputs[0], p.len(), element(p.format())), F32)]
        }
        Quantize::Quantize(p) => {
            let x = x(b);
            let scales = dynamic(b, p, x);
            vec![pack(b, codes(b, p, x, scales)), stored(b, p, scales)]
        }
        Quantize::QuantizeBy(p) => {
            vec![pack(b, codes(b, p, x(b), given(b, p, inputs[1])))]
        }
        Quantize::Dequantize(p) => {
            let codes = unpack(b, inputs[0], p.shape()[2], element(p.format()));
            let values = decode(b, p, codes, given(b, p, inputs[1]));
            vec![b.convert(values, float(p.element()))]
        }
        Quantize::FakeQuantize(p) => {
            let x = x(b);
            vec![rounded(b, p, [inputs[0], x, dynamic(b, p, x)])]
        }
        Quantize::FakeQuantizeBy(p) => {
            vec![rounded(b, p, [inputs[0], x(b), given(b, p, inputs[1])])]
        }
        Quantize::Amax { shape, .. } => {
            let magnitude = magnitude(b, x(b));
            let dims: Vec<usize> = (0..shape.len()).collect();
            let amax = b.bitcast(b.reduce(Reduction::Max, magnitude, &dims), F32);
            vec![b.reshape(amax, &[1])]
        }
    }
}

fn is_mx(p: &Problem) -> bool {
    p.granularity().scale_type() == ScaleType::E8M0
}

/// The bits of |x|, 0 where x isn't finite. As integers they are ordered like the magnitudes, and no device flushes
/// subnormal ones.
pub(super) fn magnitude(b: &Builder, x: Value) -> Value {
    let magnitude = b.and(b.bitcast(x, U32), f64::from(0x7FFF_FFFFu32));
    b.select(b.lt(magnitude, f64::from(0x7F80_0000u32)), magnitude, 0.0)
}

/// The scales that follow from x, as f32 bits or E8M0 bytes, ui32 \[M, down, across\].
fn dynamic(b: &Builder, p: &Problem, x: Value) -> Value {
    let [matrices, rows, columns] = p.shape();
    let ([r, c], [down, across]) = (p.block(), p.blocks());
    let values = magnitude(b, x);
    let zero = b.scalar(0.0, U32);
    let values = pad_end(b, values, zero, 1, down * r - rows);
    let values = pad_end(b, values, zero, 2, across * c - columns);
    let values = b.reshape(values, &[matrices, down, r, across, c]);
    let amax = b.reduce(Reduction::Max, values, &[2, 4]);
    if is_mx(p) {
        e8m0_scales(b, (p.format(), p.margin()), amax)
    } else {
        f32_scales(b, p, amax)
    }
}

/// The f32 bits of the scales amax · 2^margin / MAX, clamped to the normal numbers; 1 where amax is 0.
///
/// MAX is 1.75 · 2^e, so the quotient's mantissa is 4/7 of amax's: an integer division, rounded to nearest without
/// ties, because 7 is odd.
fn f32_scales(b: &Builder, p: &Problem, amax: Value) -> Value {
    let (mantissa, exponent) = normalised(b, amax);
    let below = b.lt(mantissa, f64::from(7u32 << 21));
    let (two, three) = (b.splat_like(2.0, mantissa), b.splat_like(3.0, mantissa));
    let up = b.add(b.shift_left(mantissa, b.select(below, three, two)), 3.0);
    let quotient = b.div(up, 7.0);
    let top = (p.format().max().to_bits() >> 23) as i32;
    let exponent = b.add(exponent, f64::from(p.margin() + 127 - top));
    let exponent = b.sub(exponent, b.convert(below, S32));
    let high = b.shift_left(b.convert(b.clamp(1.0, exponent, 254.0), U32), 23.0);
    let scale = b.or(high, b.and(quotient, f64::from(0x7F_FFFFu32)));
    let scale = b.select_number(b.lt(exponent, 1.0), f64::from(0x80_0000u32), scale);
    let scale = b.select_number(b.gt(exponent, 254.0), f64::from(0x7F7F_FFFFu32), scale);
    b.select_number(b.eq(amax, 0.0), f64::from(0x3F80_0000u32), scale)
}

/// The E8M0 bytes of the smallest powers of two that are at least amax · 2^margin / MAX; 1 where amax is 0.
pub(super) fn e8m0_scales(b: &Builder, of: (Fp8Format, i32), amax: Value) -> Value {
    let (format, margin) = of;
    let top = format.max().to_bits();
    let mantissa = b.and(amax, f64::from(0x7F_FFFFu32));
    let above = b.convert(b.gt(mantissa, f64::from(top & 0x7F_FFFF)), S32);
    let exponent = b.add(b.convert(b.shift_right(amax, 23.0), S32), above);
    let offset = f64::from(E8M0_ONE) - f64::from(top >> 23) + f64::from(margin);
    let byte = b.convert(b.clamp(1.0, b.add(exponent, offset), 254.0), U32);
    b.select_number(b.eq(amax, 0.0), f64::from(E8M0_ONE), byte)
}

/// Given scales in the form that [`dynamic`] returns.
pub(super) fn given(b: &Builder, p: &Problem, scales: Value) -> Value {
    let [_, across] = p.blocks();
    if is_mx(p) {
        return b.convert(unpack(b, scales, across, ElementType::U8), U32);
    }
    b.bitcast(b.convert(scales, F32), U32)
}

/// Scales in the form that operations return.
fn stored(b: &Builder, p: &Problem, scales: Value) -> Value {
    if is_mx(p) {
        return pack(b, b.convert(scales, ElementType::U8));
    }
    b.bitcast(scales, F32)
}

/// Repeats the scales of blocks for every value, \[M, rows, columns\].
fn spread(b: &Builder, p: &Problem, scales: Value) -> Value {
    let [matrices, rows, columns] = p.shape();
    let ([r, c], [down, across]) = (p.block(), p.blocks());
    let spread = b.broadcast(scales, &[matrices, down, r, across, c], &[0, 1, 3]);
    let spread = b.reshape(spread, &[matrices, down * r, across * c]);
    b.slice_dim(b.slice_dim(spread, 1, 0..rows), 2, 0..columns)
}

/// The codes of x / scale. Infinities and NaN stay what they are: a scale is positive and finite.
fn codes(b: &Builder, p: &Problem, x: Value, scales: Value) -> Value {
    let quotient = if is_mx(p) {
        // 2^(127 − byte) as two factors: as one it would be subnormal for byte 254.
        let half = power(b, b.ge(scales, 254.0), 0.5);
        let byte = b.clamp(0.0, scales, 253.0);
        let inverse = b.sub(b.splat_like(254.0, byte), byte);
        let inverse = b.bitcast(b.shift_left(inverse, 23.0), F32);
        let (half, inverse) = (spread(b, p, half), spread(b, p, inverse));
        b.mul(b.mul(x, half), inverse)
    } else {
        b.div(x, spread(b, p, b.bitcast(scales, F32)))
    };
    encode(b, quotient, p.format(), p.overflow())
}

/// The values of codes, code · scale in f32.
pub(super) fn decode(b: &Builder, p: &Problem, codes: Value, scales: Value) -> Value {
    let values = b.convert(codes, F32);
    if !is_mx(p) {
        return b.mul(values, spread(b, p, b.bitcast(scales, F32)));
    }
    // Byte 0 stands for 2⁻¹²⁷, which is subnormal: half of 2⁻¹²⁶. Byte 255 stands for NaN.
    let half = power(b, b.eq(scales, 0.0), 0.5);
    let bits = b.shift_left(b.clamp(1.0, scales, 255.0), 23.0);
    let bits = b.select_number(b.eq(scales, 255.0), f64::from(0x7FC0_0000u32), bits);
    let power = b.bitcast(bits, F32);
    let (half, power) = (spread(b, p, half), spread(b, p, power));
    b.mul(b.mul(values, half), power)
}

/// Quantises `x`, the f32 values of `like`, and decodes the codes, in the type of `like`.
fn rounded(b: &Builder, p: &Problem, [like, x, scales]: [Value; 3]) -> Value {
    let codes = codes(b, p, x, scales);
    // XLA removes a conversion followed by its inverse, to keep precision; it doesn't here, because the bytes of NaN
    // are selected in between.
    b.convert(decode(b, p, codes, scales), b.element(like))
}

/// The mantissa with its implicit bit (ui32) and the biased exponent (i32) of positive f32s, given by their bits. The
/// exponent of a subnormal is below 1.
fn normalised(b: &Builder, bits: Value) -> (Value, Value) {
    let zeros = b.unary(Unary::CountLeadingZeros, bits);
    // Sign and exponent are nine bits, of which the implicit bit of a normal number takes the last.
    let shift = b.sub(b.clamp(8.0, zeros, 31.0), 8.0);
    let moved = b.shift_left(bits, shift);
    let exponent = b.shift_right(bits, 23.0);
    let normal = b.gt(exponent, 0.0);
    let mantissa = b.and(b.select(normal, bits, moved), f64::from(0x7F_FFFFu32));
    let mantissa = b.or(mantissa, f64::from(0x80_0000u32));
    let shift = b.convert(shift, S32);
    let below = b.sub(b.splat_like(1.0, shift), shift);
    (mantissa, b.select(normal, b.convert(exponent, S32), below))
}

/// `factor` where the condition holds, and 1 elsewhere, in f32.
fn power(b: &Builder, condition: Value, factor: f64) -> Value {
    let ty = b.ty(condition).with_element(F32);
    let (yes, no) = (b.splat(factor, ty.clone()), b.splat(1.0, ty));
    b.select(condition, yes, no)
}

/// The element type of the codes of a format.
pub(super) const fn element(format: Fp8Format) -> ElementType {
    match format {
        Fp8Format::E4M3 => ElementType::F8E4M3FN,
        Fp8Format::E5M2 => ElementType::F8E5M2,
    }
}

/// Rounds f32s to FP8 codes.
///
/// The code of NaN is made from the sign of x: which of E5M2's NaNs a conversion gives, and with which sign, depends on
/// the type that XLA converts from in the end.
pub(super) fn encode(b: &Builder, x: Value, format: Fp8Format, overflow: Overflow) -> Value {
    let max = f64::from(format.max());
    let clamped = match overflow {
        Overflow::Saturate => b.clamp(-max, x, max),
        Overflow::Ieee => x,
    };
    let codes = b.bitcast(b.convert(clamped, element(format)), ElementType::U8);
    let sign = b.and(b.shift_right(b.bitcast(x, ElementType::U32), 24.0), 128.0);
    let nan = b.convert(b.or(sign, f64::from(format.nan_code())), ElementType::U8);
    b.bitcast(b.select(b.eq(x, x), codes, nan), element(format))
}

/// Packs bytes \[.., n\] into i32 words \[.., ⌈n/4⌉\]; the last word is filled up with zeros.
fn pack(b: &Builder, bytes: Value) -> Value {
    let bytes = match b.element(bytes) {
        ElementType::U8 => bytes,
        _ => b.bitcast(bytes, ElementType::U8),
    };
    let mut shape = b.shape(bytes);
    let rank = shape.len();
    let n = shape[rank - 1];
    let padded = n.next_multiple_of(LANES);
    let zero = b.scalar(0.0, ElementType::U8);
    let bytes = pad_end(b, bytes, zero, rank - 1, padded - n);
    shape[rank - 1] = padded / LANES;
    shape.push(LANES);
    b.bitcast(b.reshape(bytes, &shape), ElementType::S32)
}

/// Unpacks words \[.., ⌈n/4⌉\] to `n` bytes of type `element`, \[.., n\].
fn unpack(b: &Builder, packed: Value, n: usize, element: ElementType) -> Value {
    let packed = words(b, packed);
    let mut shape = b.shape(packed);
    let last = shape.len() - 1;
    let lanes = b.bitcast(packed, element);
    shape[last] *= LANES;
    b.slice_dim(b.reshape(lanes, &shape), last, 0..n)
}

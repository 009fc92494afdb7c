//! FP8 codes ([`moebius_ops::fp8`]): what every operation on them shares.
//!
//! XLA's own conversions round to nearest even and keep NaN. A value beyond the largest becomes NaN
//! in E4M3 and infinity in E5M2, which is [`Overflow::Ieee`]; a clamp before makes it
//! [`Overflow::Saturate`]. Those of the CPU plugin are right for every one of the 2³² f32 values.
//! Codes lie four to a word, lane 0 in the low byte.

use super::values::{pad_end, words};
use crate::stablehlo::{Builder, Value};
use moebius_ops::fp8::{Fp8Format, LANES_PER_WORD as LANES, Overflow};
use moebius_pjrt::ElementType;

/// The element type of a format's codes.
pub(super) const fn element(format: Fp8Format) -> ElementType {
    match format {
        Fp8Format::E4M3 => ElementType::F8E4M3FN,
        Fp8Format::E5M2 => ElementType::F8E5M2,
    }
}

/// f32s as codes.
///
/// NaN is made of x's sign: which of E5M2's comes out of a conversion, and with which sign, depends on
/// the type that XLA in the end converts from.
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

/// i32 words \[.., ⌈n/4⌉\] of bytes \[.., n\], with zeros where a word isn't full.
pub(super) fn pack(b: &Builder, bytes: Value) -> Value {
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

/// Bytes \[.., `n`\] of type `element` from words \[.., ⌈n/4⌉\].
pub(super) fn unpack(b: &Builder, packed: Value, n: usize, element: ElementType) -> Value {
    let packed = words(b, packed);
    let mut shape = b.shape(packed);
    let last = shape.len() - 1;
    let lanes = b.bitcast(packed, element);
    shape[last] *= LANES;
    b.slice_dim(b.reshape(lanes, &shape), last, 0..n)
}

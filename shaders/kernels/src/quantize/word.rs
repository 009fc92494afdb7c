//! Operations on a word: load four values, scale and encode them, and the reverse.

use super::Sizes;
use crate::fp8::{Conversion, decode_bits, decode_four, encode_bits, encode_four};
use cubecl::prelude::*;
use moebius_ops::fp8::{Fp8Format, Overflow};
use moebius_ops::scaling::{E8M0_ONE, ScaleType};

/// Four values, or the bits of four f32.
pub(super) type Four<T> = Vector<T, Const<4>>;

/// Compile-time parameters of the encoding of words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Coding {
    pub(super) format: Fp8Format,
    pub(super) overflow: Overflow,
    pub(super) scale_type: ScaleType,
    pub(super) conversion: Conversion,
}

/// The bits of a value as f32.
#[cube]
pub(super) fn bits_of<F: Float>(value: F) -> u32 {
    u32::reinterpret(f32::cast_from(value))
}

/// The f32 bits of a word's values, 0 past the end of the row; x has vectors of 4 or 1.
#[cube]
pub(super) fn load<F: Float, N: Size>(
    x: &[Vector<F, N>],
    row: usize,
    word: usize,
    sizes: &Sizes,
) -> Four<u32> {
    let lanes = N::value();
    let mut bits = Four::<u32>::new(0u32);
    if comptime!(lanes == 4) {
        let values = x[row * sizes.row_words + word];
        #[unroll]
        for lane in 0..4usize {
            bits.insert(lane, bits_of::<F>(values.extract(lane)));
        }
    } else {
        #[unroll]
        for lane in 0..4usize {
            let column = word * 4 + lane;
            if column < sizes.columns {
                let value = x[row * sizes.columns + column];
                bits.insert(lane, bits_of::<F>(value.extract(0usize)));
            }
        }
    }
    bits
}

/// Writes a word's values, except those past the end of the row.
#[cube]
pub(super) fn store<F: Float, N: Size>(
    y: &mut [Vector<F, N>],
    row: usize,
    word: usize,
    values: Four<f32>,
    sizes: &Sizes,
) {
    let lanes = N::value();
    if comptime!(lanes == 4) {
        let mut out = Vector::<F, N>::new(F::cast_from(0.0f32));
        #[unroll]
        for lane in 0..4usize {
            out.insert(lane, F::cast_from(values.extract(lane)));
        }
        y[row * sizes.row_words + word] = out;
    } else {
        #[unroll]
        for lane in 0..4usize {
            let column = word * 4 + lane;
            if column < sizes.columns {
                y[row * sizes.columns + column] = Vector::new(F::cast_from(values.extract(lane)));
            }
        }
    }
}

/// The bits of |x|, or 0 if x isn't finite. As integers they are ordered like the magnitudes, and no driver drops a NaN from
/// them.
#[cube]
pub(crate) fn magnitude(bits: u32) -> u32 {
    let magnitude = bits & 0x7FFF_FFFF;
    select(magnitude < 0x7F80_0000, magnitude, 0u32)
}

/// The largest magnitude of a word's values.
#[cube]
pub(super) fn word_amax(bits: Four<u32>) -> u32 {
    let left = max(
        magnitude(bits.extract(0usize)),
        magnitude(bits.extract(1usize)),
    );
    let right = max(
        magnitude(bits.extract(2usize)),
        magnitude(bits.extract(3usize)),
    );
    max(left, right)
}

/// The scale of a block whose largest magnitude is `amax`: the bits of an f32, or an E8M0 byte.
#[cube]
pub(super) fn scale_of(
    amax: u32,
    margin: i32,
    #[comptime] format: Fp8Format,
    #[comptime] scale_type: ScaleType,
) -> u32 {
    if comptime!(scale_type == ScaleType::F32) {
        f32_scale(amax, margin, format)
    } else {
        e8m0_scale(amax, margin, format)
    }
}

/// Computes [`moebius_ops::scaling::scale_host`]: mantissas are divided and exponents subtracted, so that no product over- or
/// underflows and no device flushes one.
#[cube]
fn f32_scale(amax: u32, margin: i32, #[comptime] format: Fp8Format) -> u32 {
    let top = comptime!((format.max().to_bits() >> 23) as i32);
    // The mantissas of both formats' largest values: 448 = 1.75 · 2⁸, 57344 = 1.75 · 2¹⁵.
    let mantissa_of_max = comptime!(f32::from_bits(
        (format.max().to_bits() & 0x7F_FFFF) | 0x3F80_0000
    ));
    // A subnormal is a whole multiple of 2⁻¹⁴⁹.
    let whole = u32::reinterpret(f32::cast_from(amax));
    let normal = amax >= 0x80_0000;
    let bits = select(normal, amax, whole);
    let exponent = (bits >> 23) as i32 - select(normal, 0i32, 149i32);
    let mantissa = f32::reinterpret((bits & 0x7F_FFFF) | 0x3F80_0000);
    let quotient = u32::reinterpret(mantissa / mantissa_of_max);
    let biased = (quotient >> 23) as i32 + exponent - top + margin;
    let scale = (clamp(biased, 1i32, 254i32) as u32) << 23 | (quotient & 0x7F_FFFF);
    let scale = select(biased < 1, 0x80_0000u32, scale);
    let scale = select(biased > 254, 0x7F7F_FFFFu32, scale);
    select(amax == 0, 0x3F80_0000u32, scale)
}

/// Computes [`moebius_ops::scaling::e8m0_host`].
#[cube]
pub(crate) fn e8m0_scale(amax: u32, margin: i32, #[comptime] format: Fp8Format) -> u32 {
    let top = comptime!(format.max().to_bits());
    let above = select((amax & 0x7F_FFFF) > comptime!(top & 0x7F_FFFF), 1i32, 0i32);
    let offset = comptime!(i32::from(E8M0_ONE) - (top >> 23) as i32);
    let exponent = (amax >> 23) as i32 + above + offset + margin;
    let byte = clamp(exponent, 1i32, 254i32) as u32;
    select(amax == 0, comptime!(u32::from(E8M0_ONE)).runtime(), byte)
}

/// Encodes a word's values under one scale.
#[cube]
pub(super) fn encode_word(bits: Four<u32>, scale: u32, #[comptime] coding: Coding) -> u32 {
    let mut scaled = Four::<u32>::new(0u32);
    #[unroll]
    for lane in 0..4usize {
        scaled.insert(lane, scaled_bits(bits.extract(lane), scale, coding));
    }
    encode_four(
        scaled,
        comptime!(coding.format),
        comptime!(coding.overflow),
        comptime!(coding.conversion),
    )
}

/// Encodes x / scale, with x given by its bits; infinities and NaN aren't scaled.
#[cube]
pub(super) fn encode_scaled(bits: u32, scale: u32, #[comptime] coding: Coding) -> u32 {
    encode_bits(
        scaled_bits(bits, scale, coding),
        comptime!(coding.format),
        comptime!(coding.overflow),
    )
}

/// The bits of x / scale, with x given by its bits; infinities and NaN keep their bits.
#[cube]
fn scaled_bits(bits: u32, scale: u32, #[comptime] coding: Coding) -> u32 {
    let magnitude = bits & 0x7FFF_FFFF;
    let quotient = u32::reinterpret(divided(magnitude, scale, coding));
    let scaled = select(magnitude < 0x7F80_0000, quotient & 0x7FFF_FFFF, magnitude);
    scaled | (bits & 0x8000_0000)
}

/// |x| / scale, with x given by the bits of its magnitude; exact for a scale that is a power of two. A quotient below 2⁻¹²⁶ has the code 0, and may
/// be 0 itself.
///
/// Devices may take a subnormal number for 0, and so may the inverse of a large scale be 0 by which they multiply. So a subnormal x is divided as
/// a whole multiple of 2⁻¹⁴⁹, and a large scale is made smaller together with x.
#[cube]
fn divided(x: u32, scale: u32, #[comptime] coding: Coding) -> f32 {
    let subnormal = x < 0x80_0000;
    let whole = f32::cast_from(x);
    let x = f32::reinterpret(x);
    if comptime!(coding.scale_type == ScaleType::F32) {
        // From 2¹²⁵ on.
        let factor = select(scale >= 0x7E00_0000, comptime!(LESS).runtime(), 1.0f32);
        let scale = f32::reinterpret(scale);
        let x = select(subnormal, whole * comptime!(OF_WHOLE), x * factor);
        x / select(
            subnormal,
            scale * comptime!(OF_WHOLES_SCALE),
            scale * factor,
        )
    } else {
        // 2⁻¹²⁷, the inverse of byte 254, would be subnormal, so x is halved first and multiplied by 2⁻¹²⁶.
        let half = select(scale >= 254, 0.5f32, 1.0f32);
        let inverse = max(254 - min(scale, 254), 1);
        // 2⁻¹⁴⁹ · 2^(127 − byte) has the biased exponent 105 − byte.
        let inverse = select(subnormal, 105 - min(scale, 105), inverse);
        select(subnormal, whole, x * half) * f32::reinterpret(inverse << 23)
    }
}

/// 2⁻³², a factor on large scales.
const LESS: f32 = 1.0 / (1u64 << 32) as f32;
/// 2⁻²⁴, a factor on whole multiples of 2⁻¹⁴⁹, all of which are below 2²³.
const OF_WHOLE: f32 = 1.0 / (1u32 << 24) as f32;
/// 2¹²⁵, the factor that goes with it on their scale; with it scales from 2³ on are infinite.
const OF_WHOLES_SCALE: f32 = f32::from_bits(0x7E00_0000);

/// Decodes a word's codes under one scale.
#[cube]
pub(super) fn decode_word(word: u32, scale: u32, #[comptime] coding: Coding) -> Four<f32> {
    let codes = decode_four(word, comptime!(coding.format), comptime!(coding.conversion));
    let mut values = Four::<f32>::new(0.0f32);
    #[unroll]
    for lane in 0..4usize {
        values.insert(lane, times_scale(codes.extract(lane), scale, coding));
    }
    values
}

/// Decodes a code and multiplies it by its scale.
#[cube]
pub(super) fn decode_scaled(code: u32, scale: u32, #[comptime] coding: Coding) -> f32 {
    let value = f32::reinterpret(decode_bits(code, comptime!(coding.format)));
    times_scale(value, scale, coding)
}

#[cube]
fn times_scale(value: f32, scale: u32, #[comptime] coding: Coding) -> f32 {
    if comptime!(coding.scale_type == ScaleType::F32) {
        value * f32::reinterpret(scale)
    } else {
        // Byte 0 means 2⁻¹²⁷, which is subnormal, so it is computed as half of 2⁻¹²⁶. Byte 255 is NaN.
        let half = select(scale == 0, 0.5f32, 1.0f32);
        let bits = select(scale == 255, 0x7FC0_0000u32, max(scale, 1) << 23);
        value * half * f32::reinterpret(bits)
    }
}

//! Conversions between float types, on bit patterns: round to nearest, ties to even; NaNs become quiet.

/// The bf16 nearest to an f32.
pub(crate) fn bf16_from_f32(bits: u32) -> u16 {
    if bits & 0x7FFF_FFFF > 0x7F80_0000 {
        return (bits >> 16) as u16 | 0x40;
    }
    // The carry may move into the exponent, and past the largest value to infinity: both are correct rounding.
    ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16) as u16
}

/// The bf16 nearest to an f64.
pub(crate) fn bf16_from_f64(bits: u64) -> u16 {
    narrow(bits, 7, 127)
}

/// The f16 nearest to an f64. It serves f32s too, since each is exactly an f64.
pub(crate) fn f16_from_f64(bits: u64) -> u16 {
    narrow(bits, 10, 15)
}

/// The nearest 16-bit float to an f64, in a format with `mantissa` fraction bits and the exponent bias `bias`.
fn narrow(bits: u64, mantissa: u32, bias: i32) -> u16 {
    let sign = (bits >> 48) as u16 & 0x8000;
    let infinity = (2 * bias as u16 + 1) << mantissa;
    let fraction = bits & ((1 << 52) - 1);
    let exponent = (bits >> 52) as i32 & 0x7FF;
    if exponent == 0x7FF && fraction != 0 {
        let payload = (fraction >> (52 - mantissa)) as u16;
        return sign | infinity | 1 << (mantissa - 1) | payload;
    }
    // A subnormal f64 has no implicit bit, but rounds to 0 all the same.
    let significand = 1 << 52 | fraction;
    let target = exponent - 1023 + bias;
    if target > 2 * bias {
        return sign | infinity;
    }
    // Below the smallest normal value, each step of the exponent costs one more bit.
    let drop = 52 - mantissa + (1 - target).clamp(0, 32) as u32;
    if drop > 53 {
        return sign;
    }
    let kept = (significand >> drop) as u16;
    let rest = significand & ((1 << drop) - 1);
    let half = 1 << (drop - 1);
    let up = rest > half || (rest == half && kept & 1 == 1);
    // The implicit bit of a normal value adds the last step of the exponent.
    let steps = (target - 1).max(0) as u16;
    sign | ((steps << mantissa) + kept + u16::from(up))
}

/// The f32 equal to an f16.
pub(crate) fn f32_from_f16(bits: u16) -> u32 {
    let sign = u32::from(bits & 0x8000) << 16;
    let exponent = u32::from(bits >> 10) & 0x1F;
    let fraction = u32::from(bits & 0x3FF);
    let magnitude = match (exponent, fraction) {
        (0, 0) => 0,
        (0, _) => {
            // The leading bit of a subnormal's fraction becomes the implicit bit.
            let steps = fraction.leading_zeros() - 21;
            ((113 - steps) << 23) | ((fraction << (13 + steps)) & 0x7F_FFFF)
        }
        (0x1F, 0) => 0x7F80_0000,
        (0x1F, _) => 0x7FC0_0000 | fraction << 13,
        _ => ((exponent + 112) << 23) | fraction << 13,
    };
    sign | magnitude
}

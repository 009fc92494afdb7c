//! Conversions between floats by their bits: to the nearest, ties to even, NaNs quiet.

/// A bf16 nearest to an f32.
pub(crate) fn bf16_from_f32(bits: u32) -> u16 {
    if bits & 0x7FFF_FFFF > 0x7F80_0000 {
        return (bits >> 16) as u16 | 0x40;
    }
    // Carries into the exponent, and from the largest values to infinity, as it should.
    ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16) as u16
}

/// A bf16 nearest to an f64.
pub(crate) fn bf16_from_f64(bits: u64) -> u16 {
    narrow(bits, 7, 127)
}

/// An f16 nearest to an f64. Every f32 is an f64.
pub(crate) fn f16_from_f64(bits: u64) -> u16 {
    narrow(bits, 10, 15)
}

/// A 16-bit float with `mantissa` bits of fraction and an exponent of `bias`, nearest to an f64.
fn narrow(bits: u64, mantissa: u32, bias: i32) -> u16 {
    let sign = (bits >> 48) as u16 & 0x8000;
    let infinity = (2 * bias as u16 + 1) << mantissa;
    let fraction = bits & ((1 << 52) - 1);
    let exponent = (bits >> 52) as i32 & 0x7FF;
    if exponent == 0x7FF && fraction != 0 {
        let payload = (fraction >> (52 - mantissa)) as u16;
        return sign | infinity | 1 << (mantissa - 1) | payload;
    }
    // An f64 too small to be normal is far too small here: its missing leading bit does not matter.
    let significand = 1 << 52 | fraction;
    let target = exponent - 1023 + bias;
    if target > 2 * bias {
        return sign | infinity;
    }
    // Values below the smallest normal one lose a bit more for every step of the exponent.
    let drop = 52 - mantissa + (1 - target).clamp(0, 32) as u32;
    if drop > 53 {
        return sign;
    }
    let kept = (significand >> drop) as u16;
    let rest = significand & ((1 << drop) - 1);
    let half = 1 << (drop - 1);
    let up = rest > half || (rest == half && kept & 1 == 1);
    // The leading bit of a normal value adds the last step of the exponent.
    let steps = (target - 1).max(0) as u16;
    sign | ((steps << mantissa) + kept + u16::from(up))
}

/// The f32 of an f16.
pub(crate) fn f32_from_f16(bits: u16) -> u32 {
    let sign = u32::from(bits & 0x8000) << 16;
    let exponent = u32::from(bits >> 10) & 0x1F;
    let fraction = u32::from(bits & 0x3FF);
    let magnitude = match (exponent, fraction) {
        (0, 0) => 0,
        (0, _) => {
            // The leading bit of the fraction becomes the one that isn't stored.
            let steps = fraction.leading_zeros() - 21;
            ((113 - steps) << 23) | ((fraction << (13 + steps)) & 0x7F_FFFF)
        }
        (0x1F, 0) => 0x7F80_0000,
        (0x1F, _) => 0x7FC0_0000 | fraction << 13,
        _ => ((exponent + 112) << 23) | fraction << 13,
    };
    sign | magnitude
}

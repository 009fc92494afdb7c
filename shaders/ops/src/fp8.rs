//! FP8 codec: E4M3 (fn) and E5M2, four codes in a u32 word, lane 0 in the low byte.
//!
//! A code is sign · exponent · mantissa; E4M3 has bias 7, no infinity and NaN at 0x7F, E5M2 has
//! bias 15 and IEEE infinities. Encoding rounds to nearest even. Host and device do the same
//! integer arithmetic on the bits of the f32, so no backend's rounding mode, flush of subnormals
//! or fast-math setting can change a code. Source: OCP OFP8, ONNX float8 specification.
//!
//! Bytes moved per 4 values: encode 16 read + 4 written, decode 4 read + 16 written. No FLOPs.

use crate::error::Mismatch;
use serde::{Deserialize, Serialize};

/// Codes per u32 word.
pub const LANES_PER_WORD: usize = 4;

/// An 8-bit floating-point format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fp8Format {
    /// 4 exponent bits, 3 mantissa bits, largest value 448, no infinity.
    E4M3,
    /// 5 exponent bits, 2 mantissa bits, largest value 57344.
    E5M2,
}

/// How encoding treats a magnitude beyond the format's largest value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Overflow {
    /// Encode it as the largest value, ±inf included; NaN stays NaN.
    Saturate,
    /// Encode it as NaN in E4M3 and as infinity in E5M2.
    Ieee,
}

impl Fp8Format {
    /// `e4m3` or `e5m2`, by the format.
    const fn of<T: Copy>(self, e4m3: T, e5m2: T) -> T {
        match self {
            Self::E4M3 => e4m3,
            Self::E5M2 => e5m2,
        }
    }

    /// The format's name in kernel names.
    pub fn name(self) -> &'static str {
        self.of("e4m3", "e5m2")
    }

    /// The number of mantissa bits.
    pub const fn mantissa_bits(self) -> u32 {
        self.of(3, 2)
    }

    /// The exponent bias.
    pub const fn bias(self) -> u32 {
        self.of(7, 15)
    }

    /// The code of the largest finite value.
    pub const fn max_code(self) -> u8 {
        self.of(0x7E, 0x7B)
    }

    /// The code of NaN, without the sign bit.
    pub const fn nan_code(self) -> u8 {
        self.of(0x7F, 0x7E)
    }

    /// The largest finite value.
    pub const fn max(self) -> f32 {
        self.of(448.0, 57344.0)
    }
}

/// Encodes `value` on the host.
pub fn encode_host(value: f32, format: Fp8Format, overflow: Overflow) -> u8 {
    let bits = value.to_bits();
    let sign = ((bits >> 24) & 0x80) as u8;
    let magnitude = bits & 0x7FFF_FFFF;
    if magnitude > 0x7F80_0000 {
        return sign | format.nan_code();
    }
    let (mantissa, bias) = (format.mantissa_bits(), format.bias());
    let exponent = magnitude >> 23;
    let code = if exponent + bias > 127 {
        let shift = 23 - mantissa;
        round_to_even(magnitude, shift) - ((127 - bias) << mantissa)
    } else {
        // Below the smallest normal number, the code counts smallest subnormals. A shift by 25 leaves 0.
        let shift = (23 - mantissa + 128 - bias)
            .saturating_sub(exponent)
            .min(25);
        round_to_even((magnitude & 0x7F_FFFF) | 0x80_0000, shift)
    };
    let limit = u32::from(format.max_code());
    let code = match overflow {
        Overflow::Saturate => code.min(limit),
        Overflow::Ieee => code.min(limit + 1),
    };
    sign | code as u8
}

/// Decodes `code` on the host, exactly.
pub fn decode_host(code: u8, format: Fp8Format) -> f32 {
    let sign = u32::from(code & 0x80) << 24;
    let magnitude = u32::from(code & 0x7F);
    let (mantissa, bias) = (format.mantissa_bits(), format.bias());
    let exponent = magnitude >> mantissa;
    let first_nan = format.of(0x7F, 0x7D);
    let bits = if magnitude >= first_nan {
        0x7FC0_0000
    } else if format == Fp8Format::E5M2 && exponent == 31 {
        0x7F80_0000
    } else if exponent == 0 {
        // The smallest subnormal, 2^(1 - bias - mantissa), is a power of two, so the product is exact.
        (magnitude as f32 * format.of(1.0 / 512.0, 1.0 / 65536.0)).to_bits()
    } else {
        (magnitude << (23 - mantissa)) + ((127 - bias) << 23)
    };
    f32::from_bits(sign | bits)
}

/// Packs codes four to a word, lane 0 in the low byte; the last word is padded with zero codes.
pub fn pack(codes: &[u8]) -> Vec<u32> {
    codes
        .chunks(LANES_PER_WORD)
        .map(|lanes| {
            let mut bytes = [0; LANES_PER_WORD];
            bytes[..lanes.len()].copy_from_slice(lanes);
            u32::from_le_bytes(bytes)
        })
        .collect()
}

/// The first `len` codes of packed `words`.
pub fn unpack(words: &[u32], len: usize) -> Vec<u8> {
    let codes = words.iter().flat_map(|word| word.to_le_bytes());
    codes.take(len).collect()
}

/// Divides `value` by 2^`shift`, rounding ties to even; `shift` is 1 to 25.
fn round_to_even(value: u32, shift: u32) -> u32 {
    (value + (1 << (shift - 1)) - 1 + ((value >> shift) & 1)) >> shift
}

getters! {
    /// A cast of `len` values between f32 and FP8.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Problem {
        /// The number of values.
        len: usize,
        /// Format of the codes.
        format: Fp8Format,
    }
}

impl Problem {
    /// A cast of `len` values whose codes are in a buffer of `words` packed words.
    ///
    /// # Errors
    /// [`Mismatch`] when `words` isn't ⌈`len` / 4⌉.
    pub fn new(len: usize, words: usize, format: Fp8Format) -> Result<Self, Mismatch> {
        Mismatch::check("fp8 words", len.div_ceil(LANES_PER_WORD), words)?;
        Ok(Self { len, format })
    }

    /// The number of words of the codes.
    pub fn words(&self) -> usize {
        self.len.div_ceil(LANES_PER_WORD)
    }

    /// Whether there are no values, so that nothing is launched.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

#[cfg(test)]
#[path = "fp8_tests.rs"]
mod tests;

//! How a kept value is stored.

use crate::fp8::{Fp8Format, Overflow, decode_host, encode_host};
use crate::scaling::{e8m0_host, e8m0_value};
use serde::{Deserialize, Serialize};

/// The type of kept keys and values, whatever the device computes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum CacheFormat {
    /// f32.
    F32,
    /// IEEE half precision.
    F16,
    /// bfloat16.
    Bf16,
    /// FP8 with 4 bits of exponent, and for each token and head a scale that is a power of two: the smallest with which the
    /// largest magnitude is at most 448. A sum of products scales exactly with it.
    E4m3,
}

impl CacheFormat {
    /// Every format.
    pub const ALL: [Self; 4] = [Self::F32, Self::F16, Self::Bf16, Self::E4m3];

    /// Its name in kernels and errors.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::E4m3 => "e4m3",
        }
    }

    /// Values in a 32-bit word.
    pub const fn per_word(self) -> usize {
        match self {
            Self::F32 => 1,
            Self::F16 | Self::Bf16 => 2,
            Self::E4m3 => 4,
        }
    }

    /// Whether tokens have a scale.
    pub const fn scaled(self) -> bool {
        matches!(self, Self::E4m3)
    }

    /// The scale of values with this largest finite magnitude.
    pub fn scale(self, amax: f32) -> f32 {
        if self.scaled() {
            e8m0_value(e8m0_host(amax, Fp8Format::E4M3, 0))
        } else {
            1.0
        }
    }

    /// The scale of a token's key or value: that of its largest finite magnitude.
    pub fn scale_of(self, row: &[f32]) -> f32 {
        if !self.scaled() {
            return 1.0;
        }
        let finite = row.iter().map(|x| x.abs()).filter(|x| x.is_finite());
        self.scale(finite.fold(0.0, f32::max))
    }

    /// What is kept of a token's key or value.
    pub fn kept(self, row: &[f32]) -> impl Iterator<Item = f32> {
        let scale = self.scale_of(row);
        row.iter()
            .map(move |x| self.decode(self.encode(x / scale), 0) * scale)
    }

    /// The code of a value that was divided by its scale.
    pub fn encode(self, value: f32) -> u32 {
        match self {
            Self::F32 => value.to_bits(),
            Self::F16 => u32::from(half::f16::from_f32(value).to_bits()),
            Self::Bf16 => u32::from(half::bf16::from_f32(value).to_bits()),
            Self::E4m3 => u32::from(encode_host(value, Fp8Format::E4M3, Overflow::Saturate)),
        }
    }

    /// The value of code `place` of a word, without its scale.
    pub fn decode(self, word: u32, place: usize) -> f32 {
        let code = word >> (32 / self.per_word() * place);
        match self {
            Self::F32 => f32::from_bits(code),
            Self::F16 => half::f16::from_bits(code as u16).to_f32(),
            Self::Bf16 => half::bf16::from_bits(code as u16).to_f32(),
            Self::E4m3 => decode_host(code as u8, Fp8Format::E4M3),
        }
    }
}

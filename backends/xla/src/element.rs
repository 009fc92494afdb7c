//! Element types, as StableHLO writes them and PJRT buffers hold them.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The type of a tensor's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ElementType {
    /// Booleans; a byte each in a buffer.
    Pred,
    /// Signed, 8 bits.
    S8,
    /// Signed, 16 bits.
    S16,
    /// Signed, 32 bits.
    S32,
    /// Signed, 64 bits.
    S64,
    /// Unsigned, 8 bits.
    U8,
    /// Unsigned, 16 bits.
    U16,
    /// Unsigned, 32 bits.
    U32,
    /// Unsigned, 64 bits.
    U64,
    /// IEEE half precision.
    F16,
    /// The upper half of an f32.
    BF16,
    /// IEEE single precision.
    F32,
    /// IEEE double precision.
    F64,
    /// FP8 with 4 exponent bits, no infinities, largest 448 (OCP OFP8).
    F8E4M3FN,
    /// FP8 with 5 exponent bits, largest finite 57344 (OCP OFP8).
    F8E5M2,
}

impl ElementType {
    /// Every element type.
    pub const ALL: [Self; 15] = [
        Self::Pred,
        Self::S8,
        Self::S16,
        Self::S32,
        Self::S64,
        Self::U8,
        Self::U16,
        Self::U32,
        Self::U64,
        Self::F16,
        Self::BF16,
        Self::F32,
        Self::F64,
        Self::F8E4M3FN,
        Self::F8E5M2,
    ];

    /// Bytes of one element in a buffer.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Pred | Self::S8 | Self::U8 | Self::F8E4M3FN | Self::F8E5M2 => 1,
            Self::S16 | Self::U16 | Self::F16 | Self::BF16 => 2,
            Self::S32 | Self::U32 | Self::F32 => 4,
            Self::S64 | Self::U64 | Self::F64 => 8,
        }
    }

    /// Whether it is a floating-point type.
    pub const fn is_float(self) -> bool {
        matches!(
            self,
            Self::F16 | Self::BF16 | Self::F32 | Self::F64 | Self::F8E4M3FN | Self::F8E5M2
        )
    }

    /// Whether it is an integer type without a sign.
    pub const fn is_unsigned(self) -> bool {
        matches!(self, Self::U8 | Self::U16 | Self::U32 | Self::U64)
    }

    /// The largest value of an integer type; 1 of booleans and floats.
    pub const fn largest(self) -> i128 {
        let bits = 8 * self.bytes() as u32;
        match self {
            Self::Pred => 1,
            element if element.is_float() => 1,
            element if element.is_unsigned() => (1 << bits) - 1,
            _ => (1 << (bits - 1)) - 1,
        }
    }

    /// The smallest value of an integer type; 0 of booleans and floats.
    pub const fn smallest(self) -> i128 {
        match self {
            Self::S8 | Self::S16 | Self::S32 | Self::S64 => -self.largest() - 1,
            _ => 0,
        }
    }

    /// Its name in StableHLO.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pred => "i1",
            Self::S8 => "i8",
            Self::S16 => "i16",
            Self::S32 => "i32",
            Self::S64 => "i64",
            Self::U8 => "ui8",
            Self::U16 => "ui16",
            Self::U32 => "ui32",
            Self::U64 => "ui64",
            Self::F16 => "f16",
            Self::BF16 => "bf16",
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::F8E4M3FN => "f8E4M3FN",
            Self::F8E5M2 => "f8E5M2",
        }
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

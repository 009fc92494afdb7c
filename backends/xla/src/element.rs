//! Element types, as StableHLO writes them and PJRT buffers hold them.

use serde::{Deserialize, Serialize};
use std::fmt;

/// For each type its name in StableHLO, the bytes of an element, and the value of `PJRT_Buffer_Type`.
macro_rules! elements {
    ($($(#[$doc:meta])* $variant:ident $name:literal $bytes:literal $pjrt:literal)*) => {
        /// The type of a tensor's elements.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum ElementType { $($(#[$doc])* $variant),* }

        impl ElementType {
            /// Every element type.
            pub const ALL: [Self; 15] = [$(Self::$variant),*];

            /// Bytes of one element in a buffer.
            pub const fn bytes(self) -> usize {
                match self { $(Self::$variant => $bytes),* }
            }

            /// The number that PJRT's C API gives it.
            pub(crate) const fn pjrt(self) -> i32 {
                match self { $(Self::$variant => $pjrt),* }
            }
        }

        /// As StableHLO writes it.
        impl fmt::Display for ElementType {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Self::$variant => $name),* })
            }
        }
    };
}

elements! {
    /// Booleans; a byte each in a buffer.
    Pred "i1" 1 1
    /// Signed, 8 bits.
    S8 "i8" 1 2
    /// Signed, 16 bits.
    S16 "i16" 2 3
    /// Signed, 32 bits.
    S32 "i32" 4 4
    /// Signed, 64 bits.
    S64 "i64" 8 5
    /// Unsigned, 8 bits.
    U8 "ui8" 1 6
    /// Unsigned, 16 bits.
    U16 "ui16" 2 7
    /// Unsigned, 32 bits.
    U32 "ui32" 4 8
    /// Unsigned, 64 bits.
    U64 "ui64" 8 9
    /// IEEE half precision.
    F16 "f16" 2 10
    /// The upper half of an f32.
    BF16 "bf16" 2 13
    /// IEEE single precision.
    F32 "f32" 4 11
    /// IEEE double precision.
    F64 "f64" 8 12
    /// FP8 with 4 exponent bits, no infinities, largest 448 (OCP OFP8).
    F8E4M3FN "f8E4M3FN" 1 17
    /// FP8 with 5 exponent bits, largest finite 57344 (OCP OFP8).
    F8E5M2 "f8E5M2" 1 16
}

impl ElementType {
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
}

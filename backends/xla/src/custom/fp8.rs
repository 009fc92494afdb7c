//! FP8 casts of flat tensors, and what every operation on codes shares.
//!
//! XLA's own conversions round to nearest even and keep NaN. A value beyond the largest becomes NaN
//! in E4M3 and infinity in E5M2, which is [`Overflow::Ieee`]; a clamp before makes it
//! [`Overflow::Saturate`]. Those of the CPU plugin are right for every one of the 2³² f32 values.
//! Codes lie four to a word, lane 0 in the low byte.

use super::{Lower, words};
use crate::ElementType;
use crate::stablehlo::{Binary, Builder, Compare, Value};
use serde::{Deserialize, Serialize};

/// Codes in a word.
pub const LANES: usize = 4;

/// An 8-bit floating-point format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Format {
    /// 4 exponent bits, 3 mantissa bits, largest value 448, no infinity.
    E4M3,
    /// 5 exponent bits, 2 mantissa bits, largest value 57344.
    E5M2,
}

impl Format {
    /// The element type of its codes.
    pub const fn element(self) -> ElementType {
        match self {
            Self::E4M3 => ElementType::F8E4M3FN,
            Self::E5M2 => ElementType::F8E5M2,
        }
    }

    /// The code of NaN, sign aside.
    const fn nan_code(self) -> u8 {
        match self {
            Self::E4M3 => 0x7F,
            Self::E5M2 => 0x7E,
        }
    }

    /// Largest finite value.
    pub const fn max(self) -> f32 {
        match self {
            Self::E4M3 => 448.0,
            Self::E5M2 => 57344.0,
        }
    }
}

/// What encoding does with a magnitude beyond the largest value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Overflow {
    /// The largest value, for ±inf too; NaN stays NaN.
    Saturate,
    /// NaN in E4M3, infinity in E5M2.
    Ieee,
}

/// A cast.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Cast {
    /// i32 \[⌈`len`/4⌉\] of floats \[`len`\]; the last word is padded with zero codes.
    Encode {
        /// Values.
        len: usize,
        /// Format of the codes.
        format: Format,
        /// What becomes of magnitudes beyond its largest value.
        overflow: Overflow,
    },
    /// f32 \[`len`\] of words \[⌈`len`/4⌉\].
    Decode {
        /// Values.
        len: usize,
        /// Format of the codes.
        format: Format,
    },
}

impl Lower for Cast {
    fn name(&self) -> &'static str {
        match self {
            Self::Encode { .. } => "fp8 encode",
            Self::Decode { .. } => "fp8 decode",
        }
    }

    fn operands(&self) -> Vec<Vec<usize>> {
        match self {
            Self::Encode { len, .. } => vec![vec![*len]],
            Self::Decode { len, .. } => vec![vec![len.div_ceil(LANES)]],
        }
    }

    fn lower(&self, b: &mut Builder, inputs: &[Value]) -> Vec<Value> {
        let y = match *self {
            Self::Encode {
                format, overflow, ..
            } => {
                let x = b.convert(inputs[0], ElementType::F32);
                let codes = encode(b, x, format, overflow);
                pack(b, codes)
            }
            Self::Decode { format, len } => {
                let codes = unpack(b, inputs[0], len, format.element());
                b.convert(codes, ElementType::F32)
            }
        };
        vec![y]
    }
}

/// f32s as codes.
///
/// NaN is made of x's sign: which of E5M2's comes out of a conversion, and with which sign, depends on
/// the type that XLA in the end converts from.
pub(super) fn encode(b: &mut Builder, x: Value, format: Format, overflow: Overflow) -> Value {
    let max = f64::from(format.max());
    let clamped = match overflow {
        Overflow::Saturate => b.clamp(-max, x, max),
        Overflow::Ieee => x,
    };
    let codes = b.convert(clamped, format.element());
    let codes = b.bitcast(codes, ElementType::U8);
    let bits = b.bitcast(x, ElementType::U32);
    let top = b.binary_scalar(Binary::ShiftRightLogical, bits, 24.0);
    let sign = b.binary_scalar(Binary::And, top, 128.0);
    let nan = b.binary_scalar(Binary::Or, sign, f64::from(format.nan_code()));
    let nan = b.convert(nan, ElementType::U8);
    let number = b.compare(Compare::Eq, x, x);
    let codes = b.select(number, codes, nan);
    b.bitcast(codes, format.element())
}

/// i32 words \[.., ⌈n/4⌉\] of bytes \[.., n\], with zeros where a word isn't full.
pub(super) fn pack(b: &mut Builder, bytes: Value) -> Value {
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
    let lanes = b.reshape(bytes, &shape);
    b.bitcast(lanes, ElementType::S32)
}

/// Bytes \[.., `n`\] of type `element` from words \[.., ⌈n/4⌉\].
pub(super) fn unpack(b: &mut Builder, packed: Value, n: usize, element: ElementType) -> Value {
    let packed = words(b, packed);
    let mut shape = b.shape(packed);
    let last = shape.len() - 1;
    let lanes = b.bitcast(packed, element);
    shape[last] *= LANES;
    let bytes = b.reshape(lanes, &shape);
    b.slice_dim(bytes, last, 0..n)
}

/// x with `count` times the scalar `value` after the end of dimension `dim`.
pub(super) fn pad_end(b: &mut Builder, x: Value, value: Value, dim: usize, count: usize) -> Value {
    if count == 0 {
        return x;
    }
    let none = vec![0; b.ty(x).rank()];
    let (low, interior) = (vec![0; none.len()], none);
    let mut high = low.clone();
    high[dim] = count as i64;
    b.pad(x, value, &low, &high, &interior)
}

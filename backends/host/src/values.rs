//! Numbers in their stored types.

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use pulp::Simd;
use pulp::bytemuck::cast_slice;

/// Numbers of one of the float types of tensors.
#[derive(Clone, Copy, Debug)]
pub enum Values<'a> {
    /// f32 numbers.
    F32(&'a [f32]),
    /// f16 numbers.
    F16(&'a [f16]),
    /// bf16 numbers.
    Bf16(&'a [bf16]),
}

/// Matrices of one size, one after the other, each row by row.
#[derive(Clone, Copy, Debug)]
pub struct Matrices<'a> {
    /// The values of all matrices.
    pub values: Values<'a>,
    /// The number of rows in a matrix.
    pub rows: usize,
    /// The number of values in a row.
    pub columns: usize,
}

impl<'a> Matrices<'a> {
    /// One matrix of f32 values with rows of `columns` values.
    pub(crate) fn of_slice(values: &'a [f32], columns: usize) -> Self {
        Self {
            values: Values::F32(values),
            rows: values.len() / columns.max(1),
            columns,
        }
    }
}

impl Values<'_> {
    /// Converts `to.len()` numbers from `at` on to f32.
    #[inline(always)]
    pub(crate) fn convert(self, at: usize, to: &mut [f32]) {
        let len = to.len();
        match self {
            Self::F32(values) => to.copy_from_slice(&values[at..][..len]),
            Self::F16(values) => values[at..][..len].convert_to_f32_slice(to),
            Self::Bf16(values) => {
                for (to, value) in to.iter_mut().zip(&values[at..][..len]) {
                    *to = f32::from_bits(u32::from(value.to_bits()) << 16);
                }
            }
        }
    }
}

/// A stored float type.
pub(crate) trait Stored: Copy {
    /// Converts the number to f32, which holds it exactly.
    fn f32(self) -> f32;
}

/// A stored float type whose numbers lie in words, one or two neighbours in each.
pub(crate) trait InWords: Stored {
    /// Numbers in a word; the first is in its low bits.
    const IN_WORD: usize = 1;

    /// The bytes of numbers.
    fn bytes(values: &[Self]) -> &[u8];

    /// Converts a number of each word to f32: the first, or, where there are two, the one of that number. A word with one is its bits.
    #[inline(always)]
    fn of_words<S: Simd>(simd: S, words: S::u32s, _: usize) -> S::f32s {
        simd.transmute_f32s_u32s(words)
    }
}

impl Stored for f32 {
    #[inline(always)]
    fn f32(self) -> f32 {
        self
    }
}

impl Stored for bf16 {
    #[inline(always)]
    fn f32(self) -> f32 {
        f32::from_bits(u32::from(self.to_bits()) << 16)
    }
}

/// Two neighbouring bf16 numbers, as the bits of an f32.
impl Stored for [u16; 2] {
    #[inline(always)]
    fn f32(self) -> f32 {
        pulp::cast(self)
    }
}

impl Stored for f16 {
    /// Moves the bits to where an f32 has its exponent and mantissa, which gives a number too small by the factor 2^112; NaN and infinities
    /// then still lack ones in the exponent.
    #[inline(always)]
    fn f32(self) -> f32 {
        let bits = u32::from(self.to_bits());
        let magnitude = (bits & 0x7FFF) << 13;
        let number = (f32::from_bits(magnitude) * f32::from_bits(0x7780_0000)).to_bits();
        let special = if magnitude >= 0x0F80_0000 {
            0x7F80_0000
        } else {
            0
        };
        f32::from_bits(number | special | (bits & 0x8000) << 16)
    }
}

impl InWords for f32 {
    #[inline(always)]
    fn bytes(values: &[Self]) -> &[u8] {
        cast_slice(values)
    }
}

/// A pair is a word, and moves as an f32 does.
impl InWords for [u16; 2] {
    #[inline(always)]
    fn bytes(values: &[Self]) -> &[u8] {
        cast_slice(values)
    }
}

impl InWords for bf16 {
    const IN_WORD: usize = 2;

    #[inline(always)]
    fn bytes(values: &[Self]) -> &[u8] {
        cast_slice::<u16, _>(values.reinterpret_cast())
    }

    #[inline(always)]
    fn of_words<S: Simd>(simd: S, words: S::u32s, number: usize) -> S::f32s {
        simd.transmute_f32s_u32s(match number {
            0 => simd.wrapping_dyn_shl_u32s(words, simd.splat_u32s(16)),
            _ => simd.and_u32s(words, simd.splat_u32s(0xFFFF_0000)),
        })
    }
}

impl InWords for f16 {
    const IN_WORD: usize = 2;

    #[inline(always)]
    fn bytes(values: &[Self]) -> &[u8] {
        cast_slice::<u16, _>(values.reinterpret_cast())
    }

    /// Does what [`Stored::f32`] does.
    #[inline(always)]
    fn of_words<S: Simd>(simd: S, words: S::u32s, number: usize) -> S::f32s {
        half(simd, words, 16 * number as u32)
    }
}

/// Converts the f16 number in some bits of each word, `down` above the lowest, as [`f16`] is converted by [`Stored::f32`].
#[inline(always)]
pub(crate) fn half<S: Simd>(simd: S, words: S::u32s, down: u32) -> S::f32s {
    let bits = simd.wrapping_dyn_shr_u32s(words, simd.splat_u32s(down));
    let magnitude = simd.and_u32s(bits, simd.splat_u32s(0x7FFF));
    let magnitude = simd.wrapping_dyn_shl_u32s(magnitude, simd.splat_u32s(13));
    let sign = simd.and_u32s(bits, simd.splat_u32s(0x8000));
    let sign = simd.wrapping_dyn_shl_u32s(sign, simd.splat_u32s(16));
    let small = simd.transmute_f32s_u32s(magnitude);
    let number = simd.mul_f32s(small, simd.splat_f32s(f32::from_bits(0x7780_0000)));
    let least = simd.splat_f32s(f32::from_bits(0x0F80_0000));
    let special = simd.less_than_or_equal_f32s(least, small);
    let ones = simd.splat_u32s(0x7F80_0000);
    let special = simd.select_u32s(special, ones, simd.splat_u32s(0));
    let number = simd.or_u32s(simd.transmute_u32s_f32s(number), special);
    simd.transmute_f32s_u32s(simd.or_u32s(number, sign))
}

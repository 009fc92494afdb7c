//! Numbers in their stored types.

use crate::fp8_codes::{CODES, Format, decoded};
use crate::vector::Transpose;
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use moebius_ops::fp8::Fp8Format;
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
    /// How many numbers there are.
    pub(crate) fn len(self) -> usize {
        match self {
            Self::F32(values) => values.len(),
            Self::F16(values) => values.len(),
            Self::Bf16(values) => values.len(),
        }
    }

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

/// Numbers that lie in words, one or several in each.
pub(crate) trait Words {
    /// Numbers in a word; the first is in its lowest bits.
    const IN_WORD: usize = 1;

    /// What numbers are multiplied by once more, with a scale that lies elsewhere; `None` where they have no scale.
    const SCALED: Option<f32> = None;

    /// The same numbers where all are [plain](Self::are_plain), which take fewer instructions.
    type Plain: Words;

    /// Whether no number in these words, with these scales, needs more than [`Self::Plain`] does.
    fn are_plain(_words: &[u32], _scales: &[f32]) -> bool {
        true
    }

    /// Converts the number of each word that has this place to f32. A word with one number is its bits.
    #[inline(always)]
    fn of_words<S: Simd, T: Transpose>((simd, _): (S, T), words: S::u32s, _: usize) -> S::f32s {
        simd.transmute_f32s_u32s(words)
    }
}

/// A stored float type whose numbers lie in words, one or two neighbours in each.
pub(crate) trait InWords: Stored + Words {
    /// The bytes of numbers.
    fn bytes(values: &[Self]) -> &[u8];
}

impl Words for f32 {
    type Plain = Self;
}

impl Words for [u16; 2] {
    type Plain = Self;
}

impl Words for bf16 {
    const IN_WORD: usize = 2;
    type Plain = Self;

    #[inline(always)]
    fn of_words<S: Simd, T: Transpose>(
        (simd, _): (S, T),
        words: S::u32s,
        number: usize,
    ) -> S::f32s {
        simd.transmute_f32s_u32s(match number {
            0 => simd.wrapping_dyn_shl_u32s(words, simd.splat_u32s(16)),
            _ => simd.and_u32s(words, simd.splat_u32s(0xFFFF_0000)),
        })
    }
}

impl Words for f16 {
    const IN_WORD: usize = 2;
    type Plain = Self;

    #[inline(always)]
    fn of_words<S: Simd, T: Transpose>(
        (simd, transpose): (S, T),
        words: S::u32s,
        number: usize,
    ) -> S::f32s {
        transpose.halves(simd, words, 16 * number as u32)
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
    #[inline(always)]
    fn bytes(values: &[Self]) -> &[u8] {
        cast_slice::<u16, _>(values.reinterpret_cast())
    }
}

impl InWords for f16 {
    #[inline(always)]
    fn bytes(values: &[Self]) -> &[u8] {
        cast_slice::<u16, _>(values.reinterpret_cast())
    }
}

/// Four codes in E4M3 in each word, and a scale for each number or row of them.
pub(crate) struct E4m3;

const E4M3: Format = Format::of(Fp8Format::E4M3);

impl Words for E4m3 {
    const IN_WORD: usize = CODES;
    const SCALED: Option<f32> = Some(1.0);
    type Plain = PlainE4m3;

    /// Says whether no code is NaN, and the product of each scale and the factor that codes lack is finite.
    #[inline(always)]
    fn are_plain(words: &[u32], scales: &[f32]) -> bool {
        let fits = |scale: &f32| (scale * E4M3.rebias).is_finite();
        E4M3.are_plain(words) && scales.iter().fold(true, |all, scale| all & fits(scale))
    }

    #[inline(always)]
    fn of_words<S: Simd, T: Transpose>(
        (simd, transpose): (S, T),
        words: S::u32s,
        number: usize,
    ) -> S::f32s {
        let small = PlainE4m3::of_words((simd, transpose), words, number);
        let number = simd.mul_f32s(small, simd.splat_f32s(E4M3.rebias));
        let nan = simd.splat_f32s(f32::from_bits(E4M3.special));
        let is_nan = simd.less_than_or_equal_f32s(nan, simd.abs_f32s(small));
        simd.select_f32s(is_nan, simd.splat_f32s(f32::NAN), number)
    }
}

/// Four codes in E4M3 in each word, none of them NaN, without the factor that they [lack](crate::fp8_codes).
pub(crate) struct PlainE4m3;

impl Words for PlainE4m3 {
    const IN_WORD: usize = CODES;
    const SCALED: Option<f32> = Some(E4M3.rebias);
    type Plain = Self;

    #[inline(always)]
    fn of_words<S: Simd, T: Transpose>(vectors: (S, T), words: S::u32s, number: usize) -> S::f32s {
        decoded(vectors, E4M3, words, number)
    }
}

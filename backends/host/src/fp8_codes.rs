//! FP8 codes, four in a word, as numbers in f32.
//!
//! If the bits of a code are moved to where an f32 has its exponent and mantissa, they are a number too small by the factor 2^(127 − bias). NaN and
//! infinities aren't decoded correctly in this way.

use crate::vector::Transpose;
use moebius_ops::fp8::Fp8Format;
use pulp::Simd;

/// The number of codes in a word.
pub(crate) const CODES: usize = 4;

/// The constants for decoding the codes of a format.
#[derive(Clone, Copy)]
pub(crate) struct Format {
    /// The right shift that moves a code from the top byte of a word to an f32's exponent and mantissa.
    down: u32,
    /// The bits of exponent and mantissa after this shift.
    magnitude: u32,
    /// The bits of the least code that is NaN or infinite after this shift, and the bits that make such a code NaN or infinite as an f32.
    pub(crate) special: u32,
    rest: u32,
    /// The missing factor of the exponent, 2^(127 − bias).
    pub(crate) rebias: f32,
    /// The bits of each byte that are all ones in a special code (NaN or infinite), and the lowest of these bits.
    ones: u32,
    one: u32,
}

impl Format {
    #[inline(always)]
    pub(crate) const fn of(format: Fp8Format) -> Self {
        let down = format.mantissa_bits() + 1;
        // `special` is the least code that is NaN or infinite; `rest` is the bits that its f32 needs.
        let (special, rest) = match format {
            Fp8Format::E4M3 => (0x7F_u32, 0x7FC0_0000),
            Fp8Format::E5M2 => (0x7C, 0x7F80_0000),
        };
        Self {
            down,
            magnitude: 0x7F << (24 - down),
            special: special << (24 - down),
            rest,
            rebias: f32::from_bits((254 - format.bias()) << 23),
            ones: special * 0x0101_0101,
            one: (special & special.wrapping_neg()) * 0x0101_0101,
        }
    }

    /// Multiplies scales by the missing factor of the exponent; sets the top bit of the result where such a product isn't finite.
    #[inline(always)]
    pub(crate) fn factors<S: Simd>(
        self,
        simd: S,
        scales: &[S::f32s],
        factors: &mut [S::f32s],
    ) -> S::u32s {
        // The factor and the least scale that is too large are powers of two whose exponents add up to 128.
        let least = ((255 + 127) << 23) - self.rebias.to_bits();
        let mut any = simd.splat_u32s(0);
        for (factor, scale) in factors.iter_mut().zip(scales) {
            *factor = simd.mul_f32s(*scale, simd.splat_f32s(self.rebias));
            let magnitude = simd.transmute_u32s_f32s(*scale);
            let magnitude = simd.and_u32s(magnitude, simd.splat_u32s(0x7FFF_FFFF));
            let above = simd.add_u32s(magnitude, simd.splat_u32s(0x8000_0000 - least));
            any = simd.or_u32s(any, above);
        }
        simd.and_u32s(any, simd.splat_u32s(0x8000_0000))
    }

    /// Whether no code of these words is NaN or infinite.
    #[inline(always)]
    pub(crate) fn are_plain(self, words: &[u32]) -> bool {
        let any = words
            .iter()
            .fold(0, |any, word| any | ((word & self.ones) + self.one));
        any & 0x8080_8080 == 0
    }

    /// Decodes code number `lane` of a word.
    pub(crate) fn value(self, word: i32, lane: usize) -> f32 {
        let top = (word as u32) << (8 * (CODES - 1 - lane));
        let magnitude = (top >> self.down) & self.magnitude;
        let bits = (top & 0x8000_0000) | magnitude;
        if magnitude >= self.special {
            return f32::from_bits(bits | self.rest);
        }
        f32::from_bits(bits) * self.rebias
    }
}

/// Decodes code number `lane` of words, without the missing factor of the exponent.
#[inline(always)]
pub(crate) fn decoded<S: Simd, T: Transpose>(
    (simd, shifts): (S, T),
    format: Format,
    words: S::u32s,
    lane: usize,
) -> S::f32s {
    let up = simd.splat_u32s(8 * (CODES - 1 - lane) as u32);
    let top = simd.wrapping_dyn_shl_u32s(words, up);
    let bits = shifts.down(simd, top, simd.splat_u32s(format.down));
    let kept = simd.splat_u32s(format.magnitude | 0x8000_0000);
    simd.transmute_f32s_u32s(simd.and_u32s(bits, kept))
}

/// Sets the top bit of each byte of the result whose code is special: if all bits of `ones` are set, adding the lowest of them carries into
/// the top bit.
#[inline(always)]
pub(crate) fn special<S: Simd>(simd: S, format: Format, words: S::u32s) -> S::u32s {
    let ones = simd.and_u32s(words, simd.splat_u32s(format.ones));
    simd.add_u32s(ones, simd.splat_u32s(format.one))
}

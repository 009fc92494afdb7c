//! Decoding of words of four FP8 codes to f32 in registers, for panels of products, and for products with few rows.
//!
//! If the bits of a code are moved to where an f32 has its exponent and mantissa, they are a number too small by the factor 2^(127 − bias).
//! The scale includes this factor, so that code · scale is rounded once. NaN and infinities aren't decoded correctly in this way: words
//! with such a code are decoded again, value by value.

use crate::product::prefetch;
use crate::vector::Transpose;
use moebius_ops::fp8::Fp8Format;
use moebius_ops::grouped_gemm::fp8::PANEL;
use pulp::Simd;
use std::ops::Range;

/// The number of codes in a word.
pub(super) const CODES: usize = 4;
/// The largest number of columns that are decoded together.
pub(super) const MOST: usize = 64;
/// Rows of words of a panel, 8 KiB, by which prefetches are ahead of a product with few rows.
const AHEAD: usize = 32;

/// The constants for decoding the codes of a format.
#[derive(Clone, Copy)]
pub(super) struct Format {
    /// The right shift that moves a code from the top byte of a word to an f32's exponent and mantissa.
    down: u32,
    /// The bits of exponent and mantissa after this shift.
    magnitude: u32,
    /// The bits of the least code that is NaN or infinite after this shift, and the bits that make such a code NaN or infinite as an f32.
    special: u32,
    rest: u32,
    /// The missing factor of the exponent, 2^(127 − bias).
    rebias: f32,
    /// The bits of each byte that are all ones in a special code (NaN or infinite), and the lowest of these bits.
    ones: u32,
    one: u32,
}

impl Format {
    #[inline(always)]
    pub(super) const fn of(format: Fp8Format) -> Self {
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
    fn factors<S: Simd>(self, simd: S, scales: &[S::f32s], factors: &mut [S::f32s]) -> S::u32s {
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

    /// Decodes code number `lane` of a word.
    pub(super) fn value(self, word: i32, lane: usize) -> f32 {
        let top = (word as u32) << (8 * (CODES - 1 - lane));
        let magnitude = (top >> self.down) & self.magnitude;
        let bits = (top & 0x8000_0000) | magnitude;
        if magnitude >= self.special {
            return f32::from_bits(bits | self.rest);
        }
        f32::from_bits(bits) * self.rebias
    }
}

/// Decodes rows of words, `across` words apart, with one column per scale, into panels two registers wide: \[codes\]\[columns\], each panel
/// `panel` values after the one before.
#[inline(always)]
pub(super) fn decode<S: Simd, T: Transpose>(
    (simd, shifts): (S, T),
    format: Format,
    (words, across): (&[i32], usize),
    scales: &[f32],
    (to, panel): (&mut [f32], usize),
) {
    let width = 2 * S::F32_LANES;
    let mut factors = [0.0; MOST];
    let own = S::as_mut_simd_f32s(&mut factors[..scales.len()]).0;
    let mut any = format.factors(simd, S::as_simd_f32s(scales).0, own);
    let factors = own.as_chunks::<2>().0;
    for (at, words) in words.chunks(across).enumerate() {
        let codes = S::as_simd_i32s(&words[..scales.len()]).0.as_chunks::<2>().0;
        for (i, (codes, factors)) in codes.iter().zip(factors).enumerate() {
            let to = &mut to[i * panel + at * CODES * width..][..CODES * width];
            let codes = [
                simd.transmute_u32s_i32s(codes[0]),
                simd.transmute_u32s_i32s(codes[1]),
            ];
            any = simd.or_u32s(
                any,
                decode_pair((simd, shifts), format, codes, *factors, to),
            );
        }
    }
    let mut bits = [0; 16];
    S::as_mut_simd_u32s(&mut bits).0[0] = any;
    let special = bits.iter().fold(0, |all, bits| all | bits) & 0x8080_8080 != 0;
    if special {
        decode_each(format, (words, across), scales, (to, panel), width);
    }
}

/// Decodes two registers of words; sets the top bit of each byte of the result whose code is special and therefore decoded incorrectly.
#[inline(always)]
fn decode_pair<S: Simd, T: Transpose>(
    (simd, shifts): (S, T),
    format: Format,
    codes: [S::u32s; 2],
    factors: [S::f32s; 2],
    to: &mut [f32],
) -> S::u32s {
    let to = S::as_mut_simd_f32s(to).0.as_chunks_mut::<2>().0;
    for (lane, to) in to.iter_mut().enumerate() {
        for i in 0..2 {
            to[i] = simd.mul_f32s(decoded((simd, shifts), format, codes[i], lane), factors[i]);
        }
    }
    let [left, right] = codes;
    simd.or_u32s(special(simd, format, left), special(simd, format, right))
}

/// Decodes code number `lane` of words, without the missing factor of the exponent.
#[inline(always)]
pub(super) fn decoded<S: Simd, T: Transpose>(
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
pub(super) fn special<S: Simd>(simd: S, format: Format, words: S::u32s) -> S::u32s {
    let ones = simd.and_u32s(words, simd.splat_u32s(format.ones));
    simd.add_u32s(ones, simd.splat_u32s(format.one))
}

/// Decodes the same words as [`decode`], value by value.
#[cold]
fn decode_each(
    format: Format,
    (words, across): (&[i32], usize),
    scales: &[f32],
    (to, panel): (&mut [f32], usize),
    width: usize,
) {
    for (at, words) in words.chunks(across).enumerate() {
        for (column, (word, scale)) in words.iter().zip(scales).enumerate() {
            let first = column / width * panel + column % width;
            for lane in 0..CODES {
                to[first + (at * CODES + lane) * width] = format.value(*word, lane) * scale;
            }
        }
    }
}

/// Some inner values of a panel of columns, in blocks that share a scale.
pub(super) struct OfPanel<'a> {
    pub(super) format: Format,
    /// The words of the inner values, possibly followed by others.
    pub(super) words: &'a [[i32; PANEL]],
    /// The columns that have scales.
    pub(super) columns: Range<usize>,
    /// The scales of each block.
    pub(super) scales: &'a [[f32; PANEL]],
    /// The number of inner values in a block: whole words, but for a single block, which may end inside a word. The last block may have fewer.
    pub(super) block: usize,
}

/// Adds the products of N rows, \[inner\]\[N\], and weights to sums.
#[inline(always)]
pub(super) fn multiply_few<S: Simd, T: Transpose, const N: usize>(
    simd: (S, T),
    part: &OfPanel,
    left: &[[f32; N]],
    sums: &mut [[f32; PANEL]; N],
) {
    // The number of column registers leaves room for the decoded values.
    match const { registers(S::F32_LANES) / N } {
        4.. => columns::<S, T, N, 4>(simd, part, left, sums),
        2.. => columns::<S, T, N, 2>(simd, part, left, sums),
        _ => columns::<S, T, N, 1>(simd, part, left, sums),
    }
}

/// The number of registers that sums may take.
const fn registers(lanes: usize) -> usize {
    match lanes {
        16.. => 16,
        _ => 8,
    }
}

#[inline(always)]
fn columns<S: Simd, T: Transpose, const N: usize, const V: usize>(
    (simd, shifts): (S, T),
    part: &OfPanel,
    left: &[[f32; N]],
    sums: &mut [[f32; PANEL]; N],
) {
    let width = V * S::F32_LANES;
    let whole = left.as_chunks::<CODES>().0;
    let first = part.columns.start / width * width;
    for at in (first..part.columns.end).step_by(width) {
        let done = decoding::<S, T, N, V>((simd, shifts), part, whole, (sums, at));
        let from = if done { CODES * whole.len() } else { 0 };
        if from < left.len() {
            each::<S, N, V>(simd, (part, from), left, (sums, at));
        }
    }
}

/// Multiplies whole words; if a code is special or a scale too large, returns false and adds nothing.
#[inline(always)]
fn decoding<S: Simd, T: Transpose, const N: usize, const V: usize>(
    (simd, shifts): (S, T),
    part: &OfPanel,
    left: &[[[f32; N]; CODES]],
    (sums, at): (&mut [[f32; PANEL]; N], usize),
) -> bool {
    let width = V * S::F32_LANES;
    let format = part.format;
    let mut registers = [[simd.splat_f32s(0.0); V]; N];
    for (registers, sums) in registers.iter_mut().zip(&*sums) {
        registers.copy_from_slice(S::as_simd_f32s(&sums[at..][..width]).0);
    }
    let mut any = simd.splat_u32s(0);
    // The processor's own prefetches end with a page of 4 KiB.
    let mut ahead = part.words.get(AHEAD..).unwrap_or_default().iter();
    let words = part.block.div_ceil(CODES);
    let blocks = left.chunks(words).zip(part.words.chunks(words));
    for ((left, words), scales) in blocks.zip(part.scales) {
        let mut factors = [simd.splat_f32s(0.0); V];
        let scales = &S::as_simd_f32s(&scales[at..][..width]).0[..V];
        any = simd.or_u32s(any, format.factors(simd, scales, &mut factors));
        for (left, words) in left.iter().zip(words) {
            if let Some(words) = ahead.next() {
                prefetch(&words[at..][..width]);
            }
            let words = &S::as_simd_i32s(&words[at..][..width]).0[..V];
            for word in words {
                let word = simd.transmute_u32s_i32s(*word);
                any = simd.or_u32s(any, special(simd, format, word));
            }
            for (lane, left) in left.iter().enumerate() {
                for v in 0..V {
                    let word = simd.transmute_u32s_i32s(words[v]);
                    let value = decoded((simd, shifts), format, word, lane);
                    let value = simd.mul_f32s(value, factors[v]);
                    for (registers, left) in registers.iter_mut().zip(left) {
                        let left = simd.splat_f32s(*left);
                        registers[v] = simd.mul_add_e_f32s(left, value, registers[v]);
                    }
                }
            }
        }
    }
    let mut bits = [0; 16];
    S::as_mut_simd_u32s(&mut bits).0[0] = any;
    if bits.iter().fold(0, |all, bits| all | bits) & 0x8080_8080 != 0 {
        return false;
    }
    for (registers, sums) in registers.iter().zip(sums) {
        let sums = S::as_mut_simd_f32s(&mut sums[at..][..width]).0;
        sums.copy_from_slice(registers);
    }
    true
}

/// Multiplies inner values from `from` on, value by value.
#[inline(always)]
fn each<S: Simd, const N: usize, const V: usize>(
    simd: S,
    (part, from): (&OfPanel, usize),
    left: &[[f32; N]],
    (sums, at): (&mut [[f32; PANEL]; N], usize),
) {
    let width = V * S::F32_LANES;
    let mut line = [0.0; PANEL];
    for (kk, left) in left.iter().enumerate().skip(from) {
        let scales = &part.scales[kk / part.block];
        for column in part.columns.clone() {
            let value = part
                .format
                .value(part.words[kk / CODES][column], kk % CODES);
            line[column] = value * scales[column];
        }
        let values = S::as_simd_f32s(&line[at..][..width]).0;
        for (sums, left) in sums.iter_mut().zip(left) {
            let sums = S::as_mut_simd_f32s(&mut sums[at..][..width]).0;
            let left = simd.splat_f32s(*left);
            for (sum, value) in sums.iter_mut().zip(values) {
                *sum = simd.mul_add_e_f32s(left, *value, *sum);
            }
        }
    }
}

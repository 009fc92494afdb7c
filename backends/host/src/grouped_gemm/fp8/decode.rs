//! Decoding of words of four FP8 codes to f32 in registers, for panels of products, and for products with few rows.
//!
//! The scale includes the factor that codes [lack](crate::fp8_codes), so that code · scale is rounded once. Words with NaN or an infinity are decoded
//! again, value by value.

use crate::fp8_codes::{CODES, Format, decoded, special};
use crate::product::prefetch;
use crate::vector::Transpose;
use moebius_ops::grouped_gemm::fp8::PANEL;
use pulp::Simd;
use std::ops::Range;

/// The largest number of columns that are decoded together.
pub(super) const MOST: usize = 64;
/// Rows of words of a panel, 8 KiB, by which prefetches are ahead of a product with few rows.
const AHEAD: usize = 32;

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

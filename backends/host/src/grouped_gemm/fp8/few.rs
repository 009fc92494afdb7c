//! Few rows and FP8 weights: codes are decoded into registers and multiplied there.

use super::decode::{CODES, Format, decoded, special};
use crate::vector::Transpose;
use moebius_ops::grouped_gemm::fp8::PANEL;
use pulp::Simd;
use std::ops::Range;

/// Words of some inner values in a panel.
pub(super) struct OfPanel<'a> {
    pub(super) format: Format,
    /// Of the inner values, and maybe of more.
    pub(super) words: &'a [[i32; PANEL]],
    /// Those that have scales.
    pub(super) columns: Range<usize>,
    pub(super) scales: &'a [f32; PANEL],
}

/// Adds the products of N rows, \[inner\]\[N\], and weights to sums.
#[inline(always)]
pub(super) fn multiply<S: Simd, T: Transpose, const N: usize>(
    simd: (S, T),
    part: &OfPanel,
    left: &[[f32; N]],
    sums: &mut [[f32; PANEL]; N],
) {
    // As many registers of columns as leave room for what is decoded.
    match const { registers(S::F32_LANES) / N } {
        4.. => columns::<S, T, N, 4>(simd, part, left, sums),
        2.. => columns::<S, T, N, 2>(simd, part, left, sums),
        _ => columns::<S, T, N, 1>(simd, part, left, sums),
    }
}

/// Those that sums may take.
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
    let mut factors = [0.0; PANEL];
    let exact = part.format.factors(part.scales, &mut factors);
    let (whole, rest) = left.as_chunks::<CODES>();
    let first = part.columns.start / width * width;
    for at in (first..part.columns.end).step_by(width) {
        let factors = &factors[at..][..width];
        let done =
            exact && decoding::<S, T, N, V>((simd, shifts), part, (whole, factors), (sums, at));
        let rest = if done { rest } else { left };
        let words = &part.words[(left.len() - rest.len()) / CODES..];
        if !rest.is_empty() {
            each::<S, N, V>(simd, (part, words), rest, (sums, at));
        }
    }
}

/// Words of whole registers; false, and nothing added, where a code has another value than the registers'.
#[inline(always)]
fn decoding<S: Simd, T: Transpose, const N: usize, const V: usize>(
    (simd, shifts): (S, T),
    part: &OfPanel,
    (left, factors): (&[[[f32; N]; CODES]], &[f32]),
    (sums, at): (&mut [[f32; PANEL]; N], usize),
) -> bool {
    let width = V * S::F32_LANES;
    let factors = S::as_simd_f32s(factors).0;
    let mut registers = [[simd.splat_f32s(0.0); V]; N];
    for (registers, sums) in registers.iter_mut().zip(&*sums) {
        registers.copy_from_slice(S::as_simd_f32s(&sums[at..][..width]).0);
    }
    let mut any = simd.splat_u32s(0);
    for (left, words) in left.iter().zip(part.words) {
        let words = S::as_simd_i32s(&words[at..][..width]).0;
        for word in &words[..V] {
            let word = simd.transmute_u32s_i32s(*word);
            any = simd.or_u32s(any, special(simd, part.format, word));
        }
        for (lane, left) in left.iter().enumerate() {
            for v in 0..V {
                let word = simd.transmute_u32s_i32s(words[v]);
                let value =
                    simd.mul_f32s(decoded((simd, shifts), part.format, word, lane), factors[v]);
                for (registers, left) in registers.iter_mut().zip(left) {
                    let left = simd.splat_f32s(*left);
                    registers[v] = simd.mul_add_e_f32s(left, value, registers[v]);
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

/// The same, value by value.
#[inline(always)]
fn each<S: Simd, const N: usize, const V: usize>(
    simd: S,
    (part, words): (&OfPanel, &[[i32; PANEL]]),
    left: &[[f32; N]],
    (sums, at): (&mut [[f32; PANEL]; N], usize),
) {
    let width = V * S::F32_LANES;
    let mut line = [0.0; PANEL];
    for (kk, left) in left.iter().enumerate() {
        for column in part.columns.clone() {
            let value = part.format.value(words[kk / CODES][column], kk % CODES);
            line[column] = value * part.scales[column];
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

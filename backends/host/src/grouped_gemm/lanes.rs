//! Words of neighbouring columns in lanes: a register has a word of each column, which becomes numbers in registers and is multiplied there by a
//! few rows. All that is in lanes is multiplied before the next blocks are turned, so that the processor waits for these while it multiplies.

use super::turned::{ACROSS, Block, CODES, Form, Raw, WHOLE, share};
use crate::product::WIDEST;
use crate::vector::Transpose;
use moebius_ops::blocks::GROUP;
use pulp::Simd;

/// A few rows times the columns whose words they take.
pub(super) struct Few<'a> {
    /// The number of rows: 1, 2, 4 or 8.
    pub(super) rows: usize,
    /// The inner values that are turned, those of all rows side by side.
    pub(super) left: &'a [f32],
    /// The sums of [`ACROSS`] columns, each row's [`WIDEST`] after those of the row before. Products are added in the order of inner values.
    pub(super) sums: &'a mut [f32],
}

impl Few<'_> {
    /// Multiplies by the block of each column that is in lanes; its first inner value is value `at` of those that are turned.
    #[inline(always)]
    pub(super) fn take<S: Simd, T: Transpose>(
        &mut self,
        vectors: (S, T),
        form: Form<'_>,
        raw: &Raw,
        at: usize,
    ) {
        match self.rows {
            1 => self.take_rows::<S, T, 1>(vectors, form, raw, at),
            2 => self.take_rows::<S, T, 2>(vectors, form, raw, at),
            4 => self.take_rows::<S, T, 4>(vectors, form, raw, at),
            _ => self.take_rows::<S, T, 8>(vectors, form, raw, at),
        }
    }

    /// Does what [`Few::take`] does for N rows.
    #[inline(always)]
    fn take_rows<S: Simd, T: Transpose, const N: usize>(
        &mut self,
        vectors: (S, T),
        form: Form<'_>,
        raw: &Raw,
        at: usize,
    ) {
        let left = &self.left.as_chunks::<N>().0[at..];
        // Several registers of columns at a time hide how long a sum waits for the one before, if there are registers for them.
        match const { (S::F32_LANES, N) } {
            (16.., _) | (8, 2..=4) => self.columns::<S, T, N, 2>(vectors, form, raw, left),
            (8, 5..) => self.columns::<S, T, N, 1>(vectors, form, raw, left),
            (4.., 1) | (4, ..=4) => self.columns::<S, T, N, 4>(vectors, form, raw, left),
            (4, _) => self.columns::<S, T, N, 2>(vectors, form, raw, left),
            _ => self.columns::<S, T, N, 8>(vectors, form, raw, left),
        }
    }

    /// Does what [`Few::take`] does for N rows, with V registers of columns at a time.
    #[inline(always)]
    fn columns<S: Simd, T: Transpose, const N: usize, const V: usize>(
        &mut self,
        vectors: (S, T),
        form: Form<'_>,
        raw: &Raw,
        left: &[[f32; N]],
    ) {
        let (simd, columns) = (vectors.0, V * S::F32_LANES);
        for some in 0..ACROSS / columns {
            let mut blocks = [Block::of(simd, raw, V * some); V];
            for (v, block) in blocks.iter_mut().enumerate() {
                *block = Block::of(simd, raw, V * some + v);
            }
            let mut registers = [[simd.splat_f32s(0.0); V]; N];
            for (row, registers) in registers.iter_mut().enumerate() {
                let sums = &self.sums[WIDEST * row + columns * some..][..columns];
                registers.copy_from_slice(S::as_simd_f32s(sums).0);
            }
            add_block(vectors, form, blocks, left, &mut registers);
            for (row, registers) in registers.iter().enumerate() {
                let sums = &mut self.sums[WIDEST * row + columns * some..][..columns];
                S::as_mut_simd_f32s(sums).0.copy_from_slice(registers);
            }
        }
    }
}

/// Adds the products of N rows and the weights in a block of each column, of V registers of columns, in the order of inner values. `left` begins
/// with the rows' first inner value of the block, and may have others after its last.
#[inline(always)]
fn add_block<S: Simd, T: Transpose, const N: usize, const V: usize>(
    (simd, transpose): (S, T),
    form: Form<'_>,
    blocks: [Block<'_, S>; V],
    left: &[[f32; N]],
    registers: &mut [[S::f32s; V]; N],
) {
    let (layout, share) = (form.0, share(form.0));
    let left = &left[..layout.values];
    let none = simd.splat_f32s(0.0);
    let mut zeros = [none; V];
    for (zero, block) in zeros.iter_mut().zip(&blocks) {
        *zero = block.zero(layout.levels);
    }
    for first in (0..layout.values).step_by(share) {
        let (mut scales, mut offsets) = ([none; V], [none; V]);
        for v in 0..V {
            [scales[v], offsets[v]] = blocks[v].scale(layout.scales, first);
        }
        let offsets = layout.scales.has_offsets().then_some(&offsets);
        for value in (first..first + share).step_by(GROUP) {
            let left = left[value..][..GROUP].as_chunks::<CODES>().0;
            for (word, left) in left.iter().enumerate() {
                let mut words = [simd.splat_u32s(0); V];
                for (word_of, block) in words.iter_mut().zip(&blocks) {
                    *word_of = block.codes(transpose, form, [value, word]);
                }
                add_word(simd, &words, [&zeros, &scales], offsets, left, registers);
            }
        }
    }
}

/// Makes one multiply-add for every row and column at each of four inner values, in order. V registers of columns have words of their codes, zeros
/// with 2^23 added, scales, and offsets if weights have such: to add 0 would lose the sign of a zero, and take as long as a product.
#[inline(always)]
fn add_word<S: Simd, const N: usize, const V: usize>(
    simd: S,
    words: &[S::u32s; V],
    factors: [&[S::f32s; V]; 2],
    offsets: Option<&[S::f32s; V]>,
    left: &[[f32; N]; CODES],
    registers: &mut [[S::f32s; V]; N],
) {
    // With a loop, the compiler wouldn't know how far codes are shifted.
    add_codes::<S, N, V, 0>(simd, words, factors, offsets, left, registers);
    add_codes::<S, N, V, 1>(simd, words, factors, offsets, left, registers);
    add_codes::<S, N, V, 2>(simd, words, factors, offsets, left, registers);
    add_codes::<S, N, V, 3>(simd, words, factors, offsets, left, registers);
}

/// Does what [`add_word`] does for code CODE of each word.
#[inline(always)]
fn add_codes<S: Simd, const N: usize, const V: usize, const CODE: usize>(
    simd: S,
    words: &[S::u32s; V],
    [zeros, scales]: [&[S::f32s; V]; 2],
    offsets: Option<&[S::f32s; V]>,
    left: &[[f32; N]; CODES],
    registers: &mut [[S::f32s; V]; N],
) {
    let down = simd.splat_u32s(8 * CODE as u32);
    for v in 0..V {
        let code = simd.wrapping_dyn_shr_u32s(words[v], down);
        let code = simd.and_u32s(code, simd.splat_u32s(0xFF));
        let code = simd.or_u32s(code, simd.splat_u32s(WHOLE));
        let level = simd.sub_f32s(simd.transmute_f32s_u32s(code), zeros[v]);
        // A product of a scale and a level is exact where something is added, so that there is one rounding in any case.
        let value = match offsets {
            Some(offsets) => simd.mul_add_e_f32s(scales[v], level, offsets[v]),
            None => simd.mul_f32s(scales[v], level),
        };
        for (registers, left) in registers.iter_mut().zip(&left[CODE]) {
            let left = simd.splat_f32s(*left);
            registers[v] = simd.mul_add_e_f32s(left, value, registers[v]);
        }
    }
}

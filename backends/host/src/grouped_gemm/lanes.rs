//! Codes of neighbouring columns in lanes: a register has a word of four codes of each column, which become numbers in registers and are
//! multiplied there.

use crate::product::WIDEST;
use moebius_ops::blocks::GROUP;
use pulp::Simd;

/// Columns whose codes are put in lanes together; a part of a product has at most [`WIDEST`].
pub(super) const ACROSS: usize = 32;

/// Inner values that are put in lanes together, so that all of it stays in a first-level cache; a multiple of the values of every block.
pub(super) const DEPTH: usize = 256;

/// The number of codes in a word.
pub(super) const CODES: usize = 4;

/// 2^23 as an f32: a number below, in its lowest bits, is added to it.
pub(super) const WHOLE: u32 = 0x4B00_0000;

/// Weights in lanes: each is scale · (code − zero), or that plus an offset. Vectors as wide as a line of the caches begin with one.
#[repr(align(64))]
pub(super) struct Lanes {
    /// Four codes without signs of neighbouring inner values, the first in the lowest byte.
    pub(super) codes: [[u32; ACROSS]; DEPTH / CODES],
    /// What is the same for each [`GROUP`] of inner values. Zeros have 2^23 added.
    pub(super) zeros: [[f32; ACROSS]; DEPTH / GROUP],
    pub(super) scales: [[f32; ACROSS]; DEPTH / GROUP],
    pub(super) offsets: [[f32; ACROSS]; DEPTH / GROUP],
}

impl Default for Lanes {
    fn default() -> Self {
        Self {
            codes: [[0; ACROSS]; DEPTH / CODES],
            zeros: [[0.0; ACROSS]; DEPTH / GROUP],
            scales: [[0.0; ACROSS]; DEPTH / GROUP],
            offsets: [[0.0; ACROSS]; DEPTH / GROUP],
        }
    }
}

impl Lanes {
    /// Adds the products of N rows \[inner\]\[N\] and the weights to the sums from `at` on, in the order of inner values. `OFFSETS` says whether weights
    /// have offsets: to add 0 would lose the sign of a zero, and take as long as a product.
    #[inline(always)]
    pub(super) fn multiply<S: Simd, const N: usize, const OFFSETS: bool>(
        &self,
        simd: S,
        left: &[[f32; N]],
        sums: (&mut [[f32; WIDEST]; N], usize),
    ) {
        // Several registers of columns at a time hide how long a sum waits for the one before, if there are registers for them.
        match const { (S::F32_LANES, N) } {
            (16.., _) | (8, ..=4) => self.columns::<S, N, 2, OFFSETS>(simd, left, sums),
            (8, _) => self.columns::<S, N, 1, OFFSETS>(simd, left, sums),
            (4, ..=4) => self.columns::<S, N, 4, OFFSETS>(simd, left, sums),
            (4, _) => self.columns::<S, N, 2, OFFSETS>(simd, left, sums),
            _ => self.columns::<S, N, 8, OFFSETS>(simd, left, sums),
        }
    }

    /// Does what [`Lanes::multiply`] does, with V registers of columns at a time.
    #[inline(always)]
    fn columns<S: Simd, const N: usize, const V: usize, const OFFSETS: bool>(
        &self,
        simd: S,
        left: &[[f32; N]],
        (sums, at): (&mut [[f32; WIDEST]; N], usize),
    ) {
        let columns = V * S::F32_LANES;
        for first in (0..ACROSS).step_by(columns) {
            let mut registers = [[simd.splat_f32s(0.0); V]; N];
            for (registers, sums) in registers.iter_mut().zip(&*sums) {
                registers.copy_from_slice(S::as_simd_f32s(&sums[at + first..][..columns]).0);
            }
            for (group, left) in left.as_chunks::<GROUP>().0.iter().enumerate() {
                self.group::<S, N, V, OFFSETS>(simd, [group, first], left, &mut registers);
            }
            for (registers, sums) in registers.iter().zip(&mut *sums) {
                let sums = S::as_mut_simd_f32s(&mut sums[at + first..][..columns]).0;
                sums.copy_from_slice(registers);
            }
        }
    }

    /// Makes one multiply-add for every row and column at each inner value of a group, in order.
    #[inline(always)]
    fn group<S: Simd, const N: usize, const V: usize, const OFFSETS: bool>(
        &self,
        simd: S,
        [group, first]: [usize; 2],
        left: &[[f32; N]; GROUP],
        registers: &mut [[S::f32s; V]; N],
    ) {
        let zero = &S::as_simd_f32s(&self.zeros[group][first..]).0[..V];
        let scale = &S::as_simd_f32s(&self.scales[group][first..]).0[..V];
        let offset = &S::as_simd_f32s(&self.offsets[group][first..]).0[..V];
        let offset = OFFSETS.then_some(offset);
        let words = &self.codes[GROUP / CODES * group..][..GROUP / CODES];
        for (words, left) in words.iter().zip(left.as_chunks::<CODES>().0) {
            let words = &S::as_simd_u32s(&words[first..]).0[..V];
            add_word(simd, words, [zero, scale], offset, left, registers);
        }
    }
}

/// Makes one multiply-add for every row and column at each of four inner values, in order. V registers of columns have words of their codes, zeros
/// with 2^23 added, scales, and offsets if weights have such.
#[inline(always)]
pub(super) fn add_word<S: Simd, const N: usize, const V: usize>(
    simd: S,
    words: &[S::u32s],
    [zero, scale]: [&[S::f32s]; 2],
    offset: Option<&[S::f32s]>,
    left: &[[f32; N]; CODES],
    registers: &mut [[S::f32s; V]; N],
) {
    for (byte, left) in left.iter().enumerate() {
        let down = simd.splat_u32s(8 * byte as u32);
        for v in 0..V {
            let code = simd.wrapping_dyn_shr_u32s(words[v], down);
            let code = simd.and_u32s(code, simd.splat_u32s(0xFF));
            let code = simd.or_u32s(code, simd.splat_u32s(WHOLE));
            let level = simd.sub_f32s(simd.transmute_f32s_u32s(code), zero[v]);
            let mut value = simd.mul_f32s(scale[v], level);
            if let Some(offset) = offset {
                value = simd.add_f32s(value, offset[v]);
            }
            for (registers, left) in registers.iter_mut().zip(left) {
                let left = simd.splat_f32s(*left);
                registers[v] = simd.mul_add_e_f32s(left, value, registers[v]);
            }
        }
    }
}

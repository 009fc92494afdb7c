//! Weights of neighbouring columns in lanes: what a register has of each column is multiplied there by a few rows, or packed into panels.

use super::columns::{ACROSS, Blocks, Columns, Common, WORD, is_plain, share};
use crate::product::{WIDEST, prefetch};
use crate::vector::Transpose;
use moebius_ops::blocks::{GROUP, Layout};
use pulp::Simd;

/// What weights in lanes are for.
pub(super) trait Take {
    /// Takes the weights of a block of each column; its first inner value is value `at` of the part's.
    fn take<S: Simd, T: Transpose>(
        &mut self,
        vectors: (S, T),
        layout: &Layout,
        blocks: Blocks<'_>,
        at: usize,
    );
}

/// A few rows times the columns that they take.
pub(super) struct Few<'a> {
    /// The number of rows: 1, 2, 4 or 8.
    pub(super) rows: usize,
    /// The inner values of the part, those of all rows side by side.
    pub(super) left: &'a [f32],
    /// The sums of [`ACROSS`] columns, each row's [`WIDEST`] after those of the row before. Products are added in the order of inner values.
    pub(super) sums: &'a mut [f32],
}

/// Multiplies by the weights.
impl Take for Few<'_> {
    #[inline(always)]
    fn take<S: Simd, T: Transpose>(
        &mut self,
        vectors: (S, T),
        layout: &Layout,
        blocks: Blocks<'_>,
        at: usize,
    ) {
        match self.rows {
            1 => self.take_rows::<S, T, 1>(vectors, layout, blocks, at),
            2 => self.take_rows::<S, T, 2>(vectors, layout, blocks, at),
            4 => self.take_rows::<S, T, 4>(vectors, layout, blocks, at),
            _ => self.take_rows::<S, T, 8>(vectors, layout, blocks, at),
        }
    }
}

impl Few<'_> {
    /// Does what [`Take::take`] does for N rows.
    #[inline(always)]
    fn take_rows<S: Simd, T: Transpose, const N: usize>(
        &mut self,
        vectors: (S, T),
        layout: &Layout,
        blocks: Blocks<'_>,
        at: usize,
    ) {
        let left = &self.left.as_chunks::<N>().0[at..];
        // Several registers of columns at a time hide how long a sum waits for the one before, if there are registers for them.
        match const { (S::F32_LANES, N) } {
            (16.., _) | (8, 2..=4) => self.columns::<S, T, N, 2>(vectors, layout, blocks, left),
            (8, 5..) => self.columns::<S, T, N, 1>(vectors, layout, blocks, left),
            (4.., 1) | (4, ..=4) => self.columns::<S, T, N, 4>(vectors, layout, blocks, left),
            (4, _) => self.columns::<S, T, N, 2>(vectors, layout, blocks, left),
            _ => self.columns::<S, T, N, 8>(vectors, layout, blocks, left),
        }
    }

    /// Does what [`Take::take`] does for N rows, with V registers of columns at a time.
    #[inline(always)]
    fn columns<S: Simd, T: Transpose, const N: usize, const V: usize>(
        &mut self,
        vectors: (S, T),
        layout: &Layout,
        blocks: Blocks<'_>,
        left: &[[f32; N]],
    ) {
        let (simd, columns) = (vectors.0, V * S::F32_LANES);
        for some in 0..ACROSS / columns {
            let mut registers = [[simd.splat_f32s(0.0); V]; N];
            for (row, registers) in registers.iter_mut().enumerate() {
                let sums = &self.sums[WIDEST * row + columns * some..][..columns];
                registers.copy_from_slice(S::as_simd_f32s(sums).0);
            }
            let mut sums = Sums {
                left: left.as_chunks().0,
                group: &[[0.0; N]; GROUP],
                registers,
            };
            weights::<S, T, V>(vectors, layout, (blocks, V * some), &mut sums);
            for (row, registers) in sums.registers.iter().enumerate() {
                let sums = &mut self.sums[WIDEST * row + columns * some..][..columns];
                S::as_mut_simd_f32s(sums).0.copy_from_slice(registers);
            }
        }
    }
}

/// Panels of two registers of columns, one after the other: a line of each for every inner value.
pub(super) struct Packing<'a> {
    pub(super) to: &'a mut [f32],
    /// The number of inner values in a panel.
    pub(super) depth: usize,
}

/// Writes the weights to the panels.
impl Take for Packing<'_> {
    #[inline(always)]
    fn take<S: Simd, T: Transpose>(
        &mut self,
        vectors: (S, T),
        layout: &Layout,
        blocks: Blocks<'_>,
        at: usize,
    ) {
        let width = 2 * S::F32_LANES;
        let panels = self.to.chunks_exact_mut(self.depth * width);
        for (panel, to) in panels.take(ACROSS / width).enumerate() {
            let to = S::as_mut_simd_f32s(&mut to[at * width..]).0.as_chunks_mut();
            let mut lines = Lines::<S> {
                to: to.0.as_chunks_mut().0,
                group: 0,
            };
            weights::<S, T, 2>(vectors, layout, (blocks, 2 * panel), &mut lines);
        }
    }
}

/// What the weights of V registers of columns are for.
trait Sink<S: Simd, const V: usize> {
    /// Says which group of inner values of the block the next weights are of.
    fn begin(&mut self, group: usize);

    /// Takes the weights of register `v` at one inner value of the group.
    fn take(&mut self, simd: S, value: usize, v: usize, weights: S::f32s);
}

/// Products of N rows, which are added in the order of inner values.
struct Sums<'a, S: Simd, const N: usize, const V: usize> {
    /// The rows' inner values from the first of the block on, possibly followed by others.
    left: &'a [[[f32; N]; GROUP]],
    group: &'a [[f32; N]; GROUP],
    registers: [[S::f32s; V]; N],
}

impl<S: Simd, const N: usize, const V: usize> Sink<S, V> for Sums<'_, S, N, V> {
    #[inline(always)]
    fn begin(&mut self, group: usize) {
        self.group = &self.left[group];
    }

    #[inline(always)]
    fn take(&mut self, simd: S, value: usize, v: usize, weights: S::f32s) {
        for (registers, left) in self.registers.iter_mut().zip(&self.group[value]) {
            let left = simd.splat_f32s(*left);
            registers[v] = simd.mul_add_e_f32s(left, weights, registers[v]);
        }
    }
}

/// The lines of a panel from the block's first inner value on.
struct Lines<'a, S: Simd> {
    to: &'a mut [[[S::f32s; 2]; GROUP]],
    group: usize,
}

impl<S: Simd> Sink<S, 2> for Lines<'_, S> {
    #[inline(always)]
    fn begin(&mut self, group: usize) {
        self.group = group;
    }

    #[inline(always)]
    fn take(&mut self, _: S, value: usize, v: usize, weights: S::f32s) {
        self.to[self.group][value][v] = weights;
    }
}

/// Computes the weights in a block of each column, of V registers of columns from a given one on, in the order of inner values.
#[inline(always)]
fn weights<S: Simd, T: Transpose, const V: usize>(
    vectors: (S, T),
    layout: &Layout,
    (blocks, register): (Blocks<'_>, usize),
    sink: &mut impl Sink<S, V>,
) {
    let mut columns = [Columns::of(vectors, blocks, register); V];
    for (v, columns) in columns.iter_mut().enumerate() {
        *columns = Columns::of(vectors, blocks, register + v);
    }
    // Those of the first registers prefetch, a few lines at a time: what is read waits behind many.
    let ahead = if register == 0 { blocks.ahead } else { &[] };
    let mut ahead = ahead.chunks((ahead.len() * GROUP).div_ceil(layout.values).max(1));
    let mut begin = |sink: &mut _, group| {
        prefetch(ahead.next().unwrap_or_default());
        Sink::begin(sink, group);
    };
    if layout.levels.are_numbers() {
        begin(sink, 0);
        return numbers(vectors.0, layout, &columns, sink);
    }
    let (simd, share) = (vectors.0, share(layout));
    let none = simd.splat_f32s(0.0);
    let mut common = [Common::none(simd); V];
    for v in 0..V {
        common[v] = columns[v].common(layout.scales);
    }
    for first in (0..layout.values).step_by(share) {
        let (mut scales, mut offsets) = ([[none; V]; WORD], [none; V]);
        for v in 0..V {
            let [scale, offset] = columns[v].scale(layout, common[v], first);
            offsets[v] = offset;
            for (at, of_byte) in scales.iter_mut().enumerate() {
                of_byte[v] = columns[v].scale_of_byte(layout, scale, at);
            }
        }
        for group in (first..first + share).step_by(GROUP) {
            begin(sink, group / GROUP);
            for value in (0..GROUP).step_by(WORD) {
                let mut codes = [simd.splat_u32s(0); V];
                for (codes, columns) in codes.iter_mut().zip(&columns) {
                    *codes = columns.codes(layout, group + value);
                }
                for (at, scales) in scales.iter().enumerate() {
                    for v in 0..V {
                        let number = columns[v].number(layout, codes[v], at);
                        // The sum is exact, or rounded once. Elsewhere to add 0 would lose the sign of a zero, and take as long as a product.
                        let weights = if is_plain(layout) {
                            simd.mul_add_e_f32s(scales[v], number, offsets[v])
                        } else {
                            simd.mul_f32s(scales[v], number)
                        };
                        sink.take(simd, value + at, v, weights);
                    }
                }
            }
        }
    }
}

/// Takes the numbers of 16 bits in a block of each column, in the order of inner values.
#[inline(always)]
fn numbers<S: Simd, T: Transpose, const V: usize>(
    simd: S,
    layout: &Layout,
    columns: &[Columns<'_, S, T>; V],
    sink: &mut impl Sink<S, V>,
) {
    for two in (0..GROUP).step_by(2) {
        for at in 0..2 {
            for (v, columns) in columns.iter().enumerate() {
                sink.take(simd, two + at, v, columns.of_16_bits(layout, two, at));
            }
        }
    }
}

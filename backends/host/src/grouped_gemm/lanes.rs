//! Weights of neighbouring columns in lanes: what a register has of each column is multiplied there by a few rows, or packed into panels.

use super::columns::{ACROSS, Blocks, Codes, Columns, is_plain, share};
use crate::product::WIDEST;
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
    (blocks, first): (Blocks<'_>, usize),
    sink: &mut impl Sink<S, V>,
) {
    let ((simd, transpose), share) = (vectors, share(layout));
    let mut columns = [Columns::of(vectors, blocks, first); V];
    for (v, columns) in columns.iter_mut().enumerate() {
        *columns = Columns::of(vectors, blocks, first + v);
    }
    if layout.levels.are_numbers() {
        sink.begin(0);
        for value in 0..GROUP {
            for (v, columns) in columns.iter().enumerate() {
                sink.take(simd, value, v, columns.of_16_bits(layout, value));
            }
        }
        return;
    }
    let none = simd.splat_f32s(0.0);
    for first in (0..layout.values).step_by(share) {
        let (mut scales, mut offsets) = ([none; V], [none; V]);
        for v in 0..V {
            [scales[v], offsets[v]] = columns[v].scale(layout.scales, first);
        }
        for group in (first..first + share).step_by(GROUP) {
            sink.begin(group / GROUP);
            let codes = Codes::of(blocks, layout, group);
            for value in 0..GROUP {
                let levels = if is_plain(layout) {
                    [0; ACROSS]
                } else {
                    codes.levels(transpose, layout, value)
                };
                for v in 0..V {
                    let level = if is_plain(layout) {
                        columns[v].plain(codes, layout, value)
                    } else {
                        columns[v].numbers(&levels)
                    };
                    // Where something is added, the product is exact, so that there is one rounding in any case. Elsewhere to add 0 would lose the
                    // sign of a zero, and take as long as a product.
                    let weights = if layout.scales.has_offsets() {
                        simd.mul_add_e_f32s(scales[v], level, offsets[v])
                    } else {
                        simd.mul_f32s(scales[v], level)
                    };
                    sink.take(simd, value, v, weights);
                }
            }
        }
    }
}

//! A part of a product on one thread.

use super::factor::{DEEPEST, Part, SLACK, WIDEST};
use super::few::{self, FEW};
use super::right::Right;
use super::task::{Memory, Product, Task, room};
use crate::vector::{Kernel, Transpose};
use pulp::Simd;
use std::cell::Cell;

/// Rows of a register tile: with two registers of columns, 12 sums and 3 operands fit AVX2's 16 registers.
pub(super) const ROWS: usize = 6;

thread_local! {
    /// Kept from task to task: memory that is new costs a fault for each page, and zeros.
    static MEMORY: Cell<Option<Box<Memory>>> = const { Cell::new(None) };
}

/// What is added to sums besides a product.
#[derive(Clone, Copy)]
struct Ends<'a> {
    /// Nothing before: what is in memory means nothing.
    new: bool,
    /// After the last inner value.
    bias: Option<&'a [f32]>,
}

impl<R: Right> Kernel for Task<'_, '_, R> {
    #[inline(always)]
    fn run<S: Simd, T: Transpose>(self, simd: S, transpose: T) {
        let mut memory = MEMORY.take().unwrap_or_default();
        let (vectors, rows) = ((simd, transpose), self.rows.len());
        let tile = match rows {
            ..=FEW => rows.next_power_of_two().min(self.product.right.tile()),
            _ => 0,
        };
        match tile {
            1 => few::run::<S, T, R, 1>(self, vectors, &mut memory),
            2 => few::run::<S, T, R, 2>(self, vectors, &mut memory),
            4 => few::run::<S, T, R, 4>(self, vectors, &mut memory),
            8 => few::run::<S, T, R, 8>(self, vectors, &mut memory),
            _ => self.of_panels(vectors, &mut memory),
        }
        MEMORY.set(Some(memory));
    }
}

impl<R: Right> Task<'_, '_, R> {
    /// Both factors packed into panels.
    #[inline(always)]
    fn of_panels<S: Simd, T: Transpose>(self, (simd, transpose): (S, T), memory: &mut Memory) {
        let Product { inner, bias, .. } = *self.product;
        let width = 2 * S::F32_LANES;
        let together = self.product.right.together(width);
        let deepest = DEEPEST.min(inner);
        let Memory {
            left,
            right,
            scratch,
        } = memory;
        let rows = self.rows.len().next_multiple_of(ROWS);
        let left = room(left, rows * deepest + SLACK);
        let right = room(right, WIDEST * deepest + SLACK);
        let mut of_columns = [0.0; WIDEST];
        let to = self.to;
        for first in (0..inner).step_by(deepest) {
            let block = first..(first + deepest).min(inner);
            let part = Part {
                inner: block.clone(),
                across: self.rows.clone(),
            };
            let panels = (&mut *left, ROWS);
            self.product.left.pack(transpose, &part, panels, scratch);
            for first in self.columns.clone().step_by(together) {
                let part = Part {
                    inner: block.clone(),
                    across: first..(first + together).min(self.columns.end),
                };
                let panels = (&mut *right, width);
                let vectors = (simd, transpose);
                self.product.right.pack(vectors, &part, panels, scratch);
                let panels = right.chunks_exact(block.len() * width);
                for (column, right) in part.across.clone().step_by(width).zip(panels) {
                    let columns = column..(column + width).min(part.across.end);
                    let len = columns.len();
                    let bias = bias.filter(|_| block.end == inner).map(|bias| {
                        of_columns[..len].copy_from_slice(&bias[columns]);
                        &of_columns[..width]
                    });
                    let ends = Ends {
                        new: block.start == 0,
                        bias,
                    };
                    let place = (&mut to[column - self.columns.start..], self.step, len);
                    multiply_rows(simd, self.rows.len(), (&*left, right), place, ends);
                }
            }
        }
    }
}

/// The products of all rows and a panel of columns, of which `place` has `len`, its rows `step` apart.
#[inline(always)]
fn multiply_rows<S: Simd>(
    simd: S,
    rows: usize,
    (left, right): (&[f32], &[f32]),
    (to, step, len): (&mut [f32], usize, usize),
    ends: Ends,
) {
    let width = 2 * S::F32_LANES;
    let depth = right.len() / width;
    let mut edge = [0.0; ROWS * WIDEST];
    for (tile, left) in left.chunks_exact(depth * ROWS).enumerate() {
        let count = rows.saturating_sub(tile * ROWS).min(ROWS);
        if count == 0 {
            break;
        }
        let to = &mut to[tile * ROWS * step..];
        if len == width {
            multiply_tile(simd, count, (left, right), (to, step), ends);
            continue;
        }
        for row in 0..count {
            edge[row * width..][..len].copy_from_slice(&to[row * step..][..len]);
        }
        multiply_tile(simd, count, (left, right), (&mut edge, width), ends);
        for row in 0..count {
            to[row * step..][..len].copy_from_slice(&edge[row * width..][..len]);
        }
    }
}

#[inline(always)]
fn multiply_tile<S: Simd>(
    simd: S,
    rows: usize,
    panels: (&[f32], &[f32]),
    to: (&mut [f32], usize),
    ends: Ends,
) {
    match rows {
        1 => multiply::<S, 1>(simd, panels, to, ends),
        2 => multiply::<S, 2>(simd, panels, to, ends),
        3 => multiply::<S, 3>(simd, panels, to, ends),
        4 => multiply::<S, 4>(simd, panels, to, ends),
        5 => multiply::<S, 5>(simd, panels, to, ends),
        _ => multiply::<S, ROWS>(simd, panels, to, ends),
    }
}

/// A tile of R rows × two registers, whose sums stay in registers.
#[inline(always)]
fn multiply<S: Simd, const R: usize>(
    simd: S,
    (left, right): (&[f32], &[f32]),
    (to, step): (&mut [f32], usize),
    ends: Ends,
) {
    let width = 2 * S::F32_LANES;
    let mut sums = [[simd.splat_f32s(0.0); 2]; R];
    if !ends.new {
        for (r, sums) in sums.iter_mut().enumerate() {
            sums.copy_from_slice(S::as_simd_f32s(&to[r * step..][..width]).0);
        }
    }
    let left = left.as_chunks::<ROWS>().0;
    let right = S::as_simd_f32s(right).0.as_chunks::<2>().0;
    for (a, b) in left.iter().zip(right) {
        for (sums, a) in sums.iter_mut().zip(a) {
            let a = simd.splat_f32s(*a);
            sums[0] = simd.mul_add_e_f32s(a, b[0], sums[0]);
            sums[1] = simd.mul_add_e_f32s(a, b[1], sums[1]);
        }
    }
    if let Some(bias) = ends.bias {
        let bias = S::as_simd_f32s(bias).0;
        for sums in &mut sums {
            sums[0] = simd.add_f32s(sums[0], bias[0]);
            sums[1] = simd.add_f32s(sums[1], bias[1]);
        }
    }
    for (r, sums) in sums.iter().enumerate() {
        let to = S::as_mut_simd_f32s(&mut to[r * step..][..width]).0;
        to.copy_from_slice(sums);
    }
}

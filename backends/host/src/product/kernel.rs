//! A product, and the computation of a thread's part of it.

use super::factor::{DEEPEST, Factor, Part, SLACK, Scratch, WIDEST};
use super::right::Right;
use crate::vector::{Kernel, Transpose};
use pulp::Simd;
use std::cell::Cell;
use std::ops::Range;

/// Rows of a register tile: with two registers of columns, 12 sums and 3 operands fit AVX2's 16 registers.
pub(super) const ROWS: usize = 6;

thread_local! {
    /// Memory that is kept from task to task, because new memory costs a page fault for each page, and has to be cleared.
    static MEMORY: Cell<Option<Box<Memory>>> = const { Cell::new(None) };
}

/// The values before and after the sums of a product.
#[derive(Clone, Copy)]
struct Ends<'a> {
    /// Whether the sums start at 0, because the result holds arbitrary values; otherwise they continue from the result.
    new: bool,
    /// The bias, added after the last inner value.
    bias: Option<&'a [f32]>,
}

impl<R: Right> Kernel for Task<'_, '_, R> {
    #[inline(always)]
    fn run<S: Simd, T: Transpose>(self, simd: S, transpose: T) {
        let mut memory = MEMORY.take().unwrap_or_default();
        let (vectors, rows) = ((simd, transpose), self.rows.len());
        let tile = match rows {
            ..=FEW => rows.next_power_of_two().min(self.product.right.tile::<S>()),
            _ => 0,
        };
        match tile {
            1 => few_rows::<S, T, R, 1>(self, vectors, &mut memory),
            2 => few_rows::<S, T, R, 2>(self, vectors, &mut memory),
            4 => few_rows::<S, T, R, 4>(self, vectors, &mut memory),
            8 => few_rows::<S, T, R, 8>(self, vectors, &mut memory),
            _ => self.of_panels(vectors, &mut memory),
        }
        MEMORY.set(Some(memory));
    }
}

impl<R: Right> Task<'_, '_, R> {
    /// Computes a task with both factors packed into panels.
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
        let (to, step) = (self.to, self.columns.len());
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
                    let place = (&mut to[column - self.columns.start..], step, len);
                    multiply_rows(vectors, self.rows.len(), (&*left, right), place, ends);
                }
            }
        }
    }
}

/// Multiplies all rows by a panel of columns. `place` has the result, the distance between its rows, and the number of its columns.
#[inline(always)]
fn multiply_rows<S: Simd, T: Transpose>(
    vectors: (S, T),
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
            multiply_tile(vectors, count, (left, right), (to, step), ends);
            continue;
        }
        for row in 0..count {
            edge[row * width..][..len].copy_from_slice(&to[row * step..][..len]);
        }
        multiply_tile(vectors, count, (left, right), (&mut edge, width), ends);
        for row in 0..count {
            to[row * step..][..len].copy_from_slice(&edge[row * width..][..len]);
        }
    }
}

#[inline(always)]
fn multiply_tile<S: Simd, T: Transpose>(
    vectors: (S, T),
    rows: usize,
    panels: (&[f32], &[f32]),
    to: (&mut [f32], usize),
    ends: Ends,
) {
    match rows {
        1 => multiply::<S, T, 1>(vectors, panels, to, ends),
        2 => multiply::<S, T, 2>(vectors, panels, to, ends),
        3 => multiply::<S, T, 3>(vectors, panels, to, ends),
        4 => multiply::<S, T, 4>(vectors, panels, to, ends),
        5 => multiply::<S, T, 5>(vectors, panels, to, ends),
        _ => multiply::<S, T, ROWS>(vectors, panels, to, ends),
    }
}

/// Computes a tile of R rows × two registers, with sums that stay in registers.
#[inline(always)]
fn multiply<S: Simd, T: Transpose, const R: usize>(
    (simd, transpose): (S, T),
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
            sums[0] = transpose.multiply_add(simd, a, b[0], sums[0]);
            sums[1] = transpose.multiply_add(simd, a, b[1], sums[1]);
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

/// The most rows for a product without panels; with more, packing weights takes no longer than transposing them for every tile.
pub(super) const FEW: usize = 8;

/// Multiplies rows in tiles of N, with sums that stay in registers.
#[inline(always)]
fn few_rows<S: Simd, T: Transpose, R: Right, const N: usize>(
    task: Task<R>,
    vectors: (S, T),
    memory: &mut Memory,
) {
    let Product { inner, bias, .. } = *task.product;
    let tiles = task.rows.len().div_ceil(N);
    let blocks = |size: usize| {
        let firsts = (0..inner).step_by(size);
        firsts.map(move |first| first..(first + size).min(inner))
    };
    // Several tiles read the weights of a block from a cache.
    let deepest = if tiles == 1 { inner } else { DEEPEST };
    let Memory { left, scratch, .. } = memory;
    let left = room(left, tiles * N * inner + SLACK);
    for block in blocks(DEEPEST) {
        let at = tiles * N * block.start;
        let part = Part {
            inner: block,
            across: task.rows.clone(),
        };
        let panels = (&mut left[at..], N);
        task.product.left.pack(vectors.1, &part, panels, scratch);
    }
    let left = left.as_chunks::<N>().0;
    for first in task.columns.clone().step_by(WIDEST) {
        let across = first..(first + WIDEST).min(task.columns.end);
        let mut sums = [[0.0; WIDEST]; FEW];
        for block in blocks(deepest) {
            let left = left[tiles * block.start..][..tiles * block.len()].chunks_exact(block.len());
            let part = Part {
                inner: block,
                across: across.clone(),
            };
            for (left, sums) in left.zip(sums.as_chunks_mut::<N>().0) {
                task.product.right.multiply(vectors, &part, left, sums);
            }
        }
        let rows = task.to[first - task.columns.start..].chunks_mut(task.columns.len());
        for (to, sums) in rows.zip(&sums).take(task.rows.len()) {
            let to = &mut to[..across.len()];
            to.copy_from_slice(&sums[..across.len()]);
            if let Some(bias) = bias {
                for (to, bias) in to.iter_mut().zip(&bias[across.clone()]) {
                    *to += bias;
                }
            }
        }
    }
}

/// A product of two factors, with an optional bias \[columns\] that is added to each row.
pub(crate) struct Product<'a, R = Factor<'a>> {
    pub(crate) left: Factor<'a>,
    pub(crate) right: R,
    pub(crate) rows: usize,
    pub(crate) inner: usize,
    pub(crate) columns: usize,
    pub(crate) bias: Option<&'a [f32]>,
}

impl<'a, R> Product<'a, R> {
    /// A product without a bias; `sizes` are the numbers of rows, inner values and columns.
    pub(crate) fn new(left: Factor<'a>, right: R, sizes: [usize; 3]) -> Self {
        let [rows, inner, columns] = sizes;
        Self {
            left,
            right,
            rows,
            inner,
            columns,
            bias: None,
        }
    }

    /// The number of values of the result.
    pub(super) fn len(&self) -> usize {
        self.rows * self.columns
    }
}

impl<R: Right> Product<'_, R> {
    /// The product over half as many inner values, which are pairs, if both factors can be [read so](Factor::in_pairs) and this process multiplies
    /// pairs. The number of rows has no say, so that a row's result doesn't depend on other rows.
    pub(super) fn in_pairs(&self) -> Option<Product<'_>> {
        Some(Product {
            left: self.left.in_pairs()?,
            right: self.right.pairs()?,
            rows: self.rows,
            inner: self.inner / 2,
            columns: self.columns,
            bias: self.bias,
        })
    }
}

/// Panels of both factors, which keep the largest size so far, and converted lines.
#[derive(Default)]
struct Memory {
    left: Vec<f32>,
    right: Vec<f32>,
    scratch: Scratch,
}

/// Returns the first `len` values of a vector, which grows if it has fewer.
fn room(values: &mut Vec<f32>, len: usize) -> &mut [f32] {
    if values.len() < len {
        values.resize(len, 0.0);
    }
    &mut values[..len]
}

/// Some rows and columns of a product.
pub(crate) struct Task<'a, 'b, R> {
    pub(crate) product: &'b Product<'a, R>,
    pub(crate) rows: Range<usize>,
    pub(crate) columns: Range<usize>,
    /// Their values, row by row.
    pub(crate) to: &'b mut [f32],
}

//! Products of matrices in plain Rust.
//!
//! Both factors are packed into panels of up to 1024 inner values: 6 rows of the left factor, and two registers of columns of the right
//! factor, in 64 KiB. A register tile is the product of two panels, so that each value read from memory serves many multiply-adds. Products
//! with up to 8 rows read weights in place, without panels; `grouped_gemm` decodes codes for them a few at a time, in registers. Both ways
//! sum over the inner dimension in order, with fused multiply-adds where the processor has them, as the kernels do, so that a row's result
//! doesn't depend on other rows. Two factors in bf16 go both ways in [`pairs`] of inner values where the processor multiplies those, whatever
//! the number of rows.

mod factor;
mod kernel;
mod pairs;
mod prefetch;
mod right;

pub(crate) use factor::{Factor, Lines, Part, Run, Scratch, WIDEST};
pub(crate) use kernel::{Product, Task};
pub(crate) use prefetch::prefetch;
pub(crate) use right::Right;

use crate::vector::dispatch;
use crate::workers::{each_row, least_work};
use kernel::{FEW, ROWS};
use rayon::prelude::*;
use std::ops::Range;

/// The most rows of a task; each task packs the right factor for itself.
pub(crate) const MOST_ROWS: usize = 64 * ROWS;

/// Computes products with the same number of columns; their results are one below the other.
pub(crate) fn products<R: Right>(products: &[Product<R>]) -> Vec<f32> {
    let sizes = products.iter().map(Product::len);
    let mut result = vec![0.0; sizes.sum()];
    products_into(products, one_after_the_other(products, &mut result));
    result
}

/// Splits `to` into the memory of each product's result, one after the other.
pub(crate) fn one_after_the_other<'a, R>(
    products: &[Product<R>],
    mut to: &'a mut [f32],
) -> Vec<&'a mut [f32]> {
    let mut part = |product: &Product<R>| {
        let (part, others) = std::mem::take(&mut to).split_at_mut(product.len());
        to = others;
        part
    };
    products.iter().map(&mut part).collect()
}

/// Computes products, each into its own memory.
pub(crate) fn products_into<R: Right>(products: &[Product<R>], to: Vec<&mut [f32]>) {
    let mut tasks = Vec::new();
    for (product, mut to) in products.iter().zip(to) {
        for rows in pieces(product.rows) {
            let (piece, others) = to.split_at_mut(rows.len() * product.columns);
            to = others;
            tasks.push((product, rows, piece));
        }
    }
    let work = products.iter().map(|p| p.rows * p.inner * p.columns).sum();
    let spread = Spread::of(tasks.len(), work);
    if let Spread::Columns(parts) = spread
        && tasks.iter().all(|(product, rows, _)| product.is_row(rows))
    {
        // The parts of all rows together, so that threads wait for each other once.
        let of_row = |(product, row, to)| Product::parts_of_row(product, row, to, parts);
        let parts: Vec<_> = tasks.into_iter().flat_map(of_row).collect();
        return parts.into_par_iter().for_each(run);
    }
    spread.each(tasks, |(product, rows, to)| {
        product.of_rows(rows, to, spread)
    });
}

/// How tasks are distributed over the threads.
#[derive(Clone, Copy)]
pub(crate) enum Spread {
    /// One thread computes all tasks.
    Alone,
    /// Each thread computes some tasks.
    Tasks,
    /// The tasks run one after the other, each with its columns divided into this many parts.
    Columns(usize),
}

impl Spread {
    /// The distribution for `tasks` tasks with `work` multiply-adds in all.
    pub(crate) fn of(tasks: usize, work: usize) -> Self {
        let threads = rayon::current_num_threads();
        match tasks {
            _ if threads == 1 || work < least_work() => Self::Alone,
            tasks if tasks >= 2 * threads => Self::Tasks,
            _ => Self::Columns((4 * threads).div_ceil(tasks.max(1))),
        }
    }

    /// Calls `f` for every task.
    pub(crate) fn each<T: Send, U: Send>(
        self,
        tasks: Vec<T>,
        f: impl Fn(T) -> U + Send + Sync,
    ) -> Vec<U> {
        match self {
            Self::Tasks => tasks.into_par_iter().map(f).collect(),
            Self::Alone | Self::Columns(_) => tasks.into_iter().map(f).collect(),
        }
    }
}

/// Divides rows into one piece per task.
pub(crate) fn pieces(rows: usize) -> impl Iterator<Item = Range<usize>> {
    let count = rows.div_ceil(MOST_ROWS).max(1);
    let size = rows.div_ceil(count).next_multiple_of(ROWS).max(1);
    (0..rows)
        .step_by(size)
        .map(move |first| first..(first + size).min(rows))
}

impl<R: Right> Product<'_, R> {
    /// Computes the product of some rows, as one of the tasks that are distributed by `spread`.
    pub(crate) fn of_rows(&self, rows: Range<usize>, to: &mut [f32], spread: Spread) {
        let (columns, count) = (self.columns, rows.len());
        if count == 0 || columns == 0 {
            return;
        }
        if self.inner == 0 {
            return self.biases(to);
        }
        let size = match spread {
            Spread::Columns(parts) => self.size(count, parts),
            Spread::Alone | Spread::Tasks => columns,
        };
        if size >= columns {
            return run(Task {
                product: self,
                rows,
                columns: 0..columns,
                to,
            });
        }
        if let (1, Spread::Columns(parts)) = (count, spread) {
            let parts: Vec<_> = self.parts_of_row(rows, to, parts).collect();
            return parts.into_par_iter().for_each(run);
        }
        let part = |first: usize| {
            let columns = first..(first + size).min(columns);
            let mut to = vec![0.0; count * columns.len()];
            run(Task {
                product: self,
                rows: rows.clone(),
                columns,
                to: &mut to,
            });
            to
        };
        let firsts: Vec<usize> = (0..columns).step_by(size).collect();
        let parts: Vec<Vec<f32>> = firsts.into_par_iter().map(part).collect();
        each_row(to, columns, &|row: usize, to: &mut [f32]| {
            for (to, part) in to.chunks_mut(size).zip(&parts) {
                to.copy_from_slice(&part[row * to.len()..][..to.len()]);
            }
        });
    }

    /// Whether these are a row whose values are sums of products.
    fn is_row(&self, rows: &Range<usize>) -> bool {
        rows.len() == 1 && self.inner > 0 && self.columns > 0
    }

    /// The number of columns in each of so many parts of `count` rows.
    fn size(&self, count: usize, parts: usize) -> usize {
        let unit = match count {
            ..=FEW => self.right.unit(),
            _ => WIDEST,
        };
        self.columns.div_ceil(parts).next_multiple_of(unit)
    }

    /// A row with its columns divided into at most so many parts.
    fn parts_of_row<'b>(
        &'b self,
        row: Range<usize>,
        to: &'b mut [f32],
        parts: usize,
    ) -> impl Iterator<Item = Task<'b, 'b, R>> {
        let size = self.size(1, parts);
        to.chunks_mut(size).enumerate().map(move |(part, to)| Task {
            product: self,
            rows: row.clone(),
            columns: part * size..part * size + to.len(),
            to,
        })
    }

    /// Computes the product without inner values, which is the bias or 0.
    fn biases(&self, to: &mut [f32]) {
        for row in to.chunks_exact_mut(self.columns) {
            match self.bias {
                Some(bias) => row.copy_from_slice(bias),
                None => row.fill(0.0),
            }
        }
    }
}

/// Computes some rows and columns of a product.
fn run<R: Right>(task: Task<'_, '_, R>) {
    let Some(pairs) = task.product.in_pairs() else {
        return dispatch(task);
    };
    pairs::dispatch(Task {
        product: &pairs,
        rows: task.rows,
        columns: task.columns,
        to: task.to,
    });
}

//! Products, and the part of one that a thread computes.

use super::factor::{Factor, Scratch};
use std::ops::Range;

/// A product, and a bias \[columns\] that is added to each row.
pub(crate) struct Product<'a, R = Factor<'a>> {
    pub(crate) left: Factor<'a>,
    pub(crate) right: R,
    pub(crate) rows: usize,
    pub(crate) inner: usize,
    pub(crate) columns: usize,
    pub(crate) bias: Option<&'a [f32]>,
}

impl<'a, R> Product<'a, R> {
    /// Without a bias, of so many rows, inner values and columns.
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

    /// Values of the result.
    pub(super) fn len(&self) -> usize {
        self.rows * self.columns
    }
}

/// Panels of both factors, as long as the longest so far, and lines on their way there.
#[derive(Default)]
pub(super) struct Memory {
    pub(super) left: Vec<f32>,
    pub(super) right: Vec<f32>,
    pub(super) scratch: Scratch,
}

/// The first values of a vector, which grows where it has less.
pub(super) fn room(values: &mut Vec<f32>, len: usize) -> &mut [f32] {
    if values.len() < len {
        values.resize(len, 0.0);
    }
    &mut values[..len]
}

/// Some rows and columns of a product.
pub(super) struct Task<'a, 'b, R> {
    pub(super) product: &'b Product<'a, R>,
    pub(super) rows: Range<usize>,
    pub(super) columns: Range<usize>,
    pub(super) to: &'b mut [f32],
    /// From a row of `to` to the next.
    pub(super) step: usize,
}

//! Sorted rows on the host: Flex's operations walk the experts' segments.

use crate::ops::host::{Operands, Rows, float_tensor, floats, rows_of, select_rows, words};
use crate::ops::host_product::{Factor, Lines, Product, Run, products};
use burn::backend::Flex;
use burn::backend::TensorMetadata;
use burn::backend::ops::FloatTensorOps;
use moebius_host::each_row;
use moebius_ops::permute::NOWHERE;
use std::ops::Range;

/// The experts' segments of sorted rows.
pub(in crate::ops) struct Segments {
    /// Slots of the rows that have an expert.
    pub(in crate::ops) order: Vec<u32>,
    offsets: Vec<usize>,
    /// Rows of the slots.
    positions: Vec<u32>,
}

impl Segments {
    /// Those of a call, or the one segment of `rows` rows where it has no sort.
    pub(in crate::ops) fn of(operands: &mut Operands, rows: usize) -> Self {
        let mut words = |name| operands.maybe_word(name).map(words);
        let all = || (0..rows as u32).collect();
        let offsets = words("offsets").unwrap_or_else(|| vec![0, rows as u32]);
        let offsets: Vec<usize> = offsets.iter().map(|offset| *offset as usize).collect();
        let mut order = words("order").unwrap_or_else(all);
        order.truncate(offsets[offsets.len() - 1]);
        Self {
            order,
            offsets,
            positions: words("positions").unwrap_or_else(all),
        }
    }

    pub(in crate::ops) fn experts(&self) -> usize {
        self.offsets.len() - 1
    }

    pub(in crate::ops) fn rows(&self, e: usize) -> Range<usize> {
        self.offsets[e]..self.offsets[e + 1]
    }

    /// The rows of neighbouring experts.
    pub(in crate::ops) fn rows_of(&self, experts: Range<usize>) -> Range<usize> {
        self.offsets[experts.start]..self.offsets[experts.end]
    }

    pub(in crate::ops) fn expert_of_rows(&self) -> Vec<u32> {
        let experts = 0..self.experts();
        let repeated = experts.flat_map(|e| self.rows(e).map(move |_| e as u32));
        repeated.collect()
    }

    /// The experts that have rows.
    pub(in crate::ops) fn occupied(&self) -> impl Iterator<Item = usize> {
        (0..self.experts()).filter(|e| !self.rows(*e).is_empty())
    }

    /// `rows` and zeros up to `bound` rows.
    pub(in crate::ops) fn padded(&self, rows: Rows, bound: usize, columns: usize) -> Rows {
        let missing = bound - self.order.len();
        if missing == 0 {
            return rows;
        }
        let zeros = float_tensor(vec![0.0; missing * columns], &[missing, columns]);
        if self.order.is_empty() {
            return zeros;
        }
        Flex::float_cat(vec![rows, zeros], 0)
    }

    /// The rows that have an expert.
    pub(in crate::ops) fn unpadded(&self, rows: Rows) -> Rows {
        if rows.shape()[0] == self.order.len() {
            return rows;
        }
        rows_of(rows, 0, self.order.len())
    }

    /// A column of the slots' values, by row.
    pub(in crate::ops) fn of_rows(&self, slots: &[f32]) -> Rows {
        let values: Vec<f32> = self.order.iter().map(|s| slots[*s as usize]).collect();
        float_tensor(values, &[self.order.len(), 1])
    }

    /// \[T,K\]: the rows' values by slot, 0 for slots without a row.
    pub(in crate::ops) fn to_slots(&self, rows: &[f32], top_k: usize) -> Rows {
        let value = |row: &u32| match *row {
            NOWHERE => 0.0,
            row => rows[row as usize],
        };
        let values: Vec<f32> = self.positions.iter().map(value).collect();
        float_tensor(values, &[self.positions.len() / top_k, top_k])
    }

    /// \[E,m,n\]: aᵀ · b over the rows of every expert.
    pub(in crate::ops) fn outer(&self, a: &Rows, b: &Rows) -> Rows {
        let (a, b) = (a.to_contiguous(), b.to_contiguous());
        let (m, n) = (a.shape()[1], b.shape()[1]);
        let product = |e: usize| {
            let rows = self.rows(e);
            let [left, right] = [&a, &b].map(|matrix| Factor {
                lines: Lines::From(rows.start),
                ..Factor::columns(matrix)
            });
            Product::new(left, right, [m, rows.len(), n])
        };
        let of_experts: Vec<_> = (0..self.experts()).map(product).collect();
        float_tensor(products(&of_experts), &[self.experts(), m, n])
    }

    /// \[E,n\]: the sum of the rows of every expert.
    pub(in crate::ops) fn sums(&self, rows: &Rows) -> Rows {
        let n = rows.shape()[1];
        let mut sums = vec![0.0; self.experts() * n];
        self.add_sums(0..self.experts(), &floats(rows.clone()), &mut sums);
        float_tensor(sums, &[self.experts(), n])
    }

    /// Adds the rows of some experts, all that are given, to sums.
    pub(in crate::ops) fn add_sums(&self, experts: Range<usize>, rows: &[f32], sums: &mut [f32]) {
        let n = sums.len() / experts.len().max(1);
        let mut rows = rows.chunks_exact(n.max(1));
        for (e, sum) in experts.zip(sums.chunks_exact_mut(n.max(1))) {
            for row in rows.by_ref().take(self.rows(e).len()) {
                for (sum, value) in sum.iter_mut().zip(row) {
                    *sum += value;
                }
            }
        }
    }

    /// rows · W_eᵀ + b_e for the rows of every expert e.
    pub(in crate::ops) fn products(&self, rows: &Rows, w: &Rows, bias: &Option<Rows>) -> Rows {
        let (rows, w) = (rows.to_contiguous(), w.to_contiguous());
        let n = w.shape()[1];
        let bias = bias.clone().map(floats);
        let product = |e: usize| Product {
            bias: bias.as_ref().map(|bias| &bias[e * n..][..n]),
            ..self.product(e, (&rows, n), Factor::stacked(&w, e, Run::Along))
        };
        let of_experts: Vec<_> = self.occupied().map(product).collect();
        float_tensor(products(&of_experts), &[self.order.len(), n])
    }

    /// rows · W_e for the rows of every expert e.
    pub(in crate::ops) fn products_back(&self, rows: &Rows, w: &Rows) -> Rows {
        let (rows, w) = (rows.to_contiguous(), w.to_contiguous());
        let columns = w.shape()[2];
        let right = |e| Factor::stacked(&w, e, Run::Across);
        let product = |e: usize| self.product(e, (&rows, columns), right(e));
        let of_experts: Vec<_> = self.occupied().map(product).collect();
        float_tensor(products(&of_experts), &[self.order.len(), columns])
    }

    /// The product of the rows of expert `e` and a factor of so many columns.
    fn product<'a>(
        &self,
        e: usize,
        (rows, columns): (&'a Rows, usize),
        right: Factor<'a>,
    ) -> Product<'a> {
        let of_expert = self.rows(e);
        let left = Factor {
            lines: Lines::From(of_expert.start),
            ..Factor::rows(rows)
        };
        Product::new(left, right, [of_expert.len(), rows.shape()[1], columns])
    }

    /// The token of every row.
    pub(in crate::ops) fn tokens(&self, top_k: usize) -> Vec<u32> {
        self.order.iter().map(|slot| slot / top_k as u32).collect()
    }
}

/// The token of every row.
pub(in crate::ops) fn gathered(x: &Rows, segments: &Segments, top_k: usize) -> Rows {
    let tokens = segments.tokens(top_k);
    if tokens.is_empty() {
        return float_tensor(Vec::new(), &[0, x.shape()[1]]);
    }
    select_rows(x.clone(), &tokens)
}

/// ⟨a, b⟩ of every row.
pub(in crate::ops) fn row_dots(a: &Rows, b: &Rows) -> Vec<f32> {
    let width = a.shape()[1].max(1);
    let (a, b) = (floats(a.clone()), floats(b.clone()));
    let rows = a.chunks(width).zip(b.chunks(width));
    rows.map(|(a, b)| a.iter().zip(b).map(|(a, b)| a * b).sum())
        .collect()
}

/// \[T,width\]: the weighted sum of every token's rows, in slot order; weights of 1 when `None`.
pub(in crate::ops) fn combined(
    rows: &[f32],
    weights: Option<&[f32]>,
    segments: &Segments,
    [top_k, width]: [usize; 2],
) -> Rows {
    let slots = segments.positions.len();
    let mut sums = vec![0.0; slots / top_k * width];
    let add = |token: usize, sum: &mut [f32]| {
        for slot in token * top_k..(token + 1) * top_k {
            let row = segments.positions[slot];
            // Not with weight 0: 0 times a NaN would not be 0.
            if row == NOWHERE {
                continue;
            }
            let weight = weights.map_or(1.0, |weights| weights[slot]);
            let pairs = sum.iter_mut().zip(&rows[row as usize * width..]);
            pairs.for_each(|(sum, value)| *sum += weight * value);
        }
    };
    each_row(&mut sums, width, &add);
    float_tensor(sums, &[slots / top_k, width])
}

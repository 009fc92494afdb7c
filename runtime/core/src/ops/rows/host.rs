//! Sorted rows on the host: Flex's operations walk the experts' segments.

use crate::ops::Sorted;
use crate::ops::host::{
    add_bias, expert, float_tensor, floats, matmul, rows_of, select_rows, transpose, words,
};
use burn::backend::Flex;
use burn::backend::TensorMetadata;
use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::FloatTensor;
use burn::tensor::Shape;
use moebius_shaders::permute::NOWHERE;
use std::ops::Range;

type Rows = FloatTensor<Flex>;

/// The experts' segments of sorted rows.
pub(in crate::ops) struct Segments {
    /// Slots of the rows that have an expert.
    pub(in crate::ops) order: Vec<u32>,
    offsets: Vec<usize>,
    /// Rows of the slots.
    positions: Vec<u32>,
}

impl Segments {
    pub(in crate::ops) fn of(sorted: Sorted<Flex>) -> Self {
        let offsets: Vec<usize> = words(sorted.offsets).iter().map(|o| *o as usize).collect();
        let mut order = words(sorted.order);
        order.truncate(offsets[offsets.len() - 1]);
        Self {
            order,
            offsets,
            positions: words(sorted.positions),
        }
    }

    fn experts(&self) -> usize {
        self.offsets.len() - 1
    }

    /// The rows of expert `e`.
    pub(in crate::ops) fn rows(&self, e: usize) -> Range<usize> {
        self.offsets[e]..self.offsets[e + 1]
    }

    /// The expert of every row.
    pub(in crate::ops) fn expert_of_rows(&self) -> Vec<u32> {
        let experts = 0..self.experts();
        let repeated = experts.flat_map(|e| self.rows(e).map(move |_| e as u32));
        repeated.collect()
    }

    /// `f` of every expert that has rows, one below the other.
    pub(in crate::ops) fn each(
        &self,
        columns: usize,
        f: impl Fn(usize, Range<usize>) -> Rows,
    ) -> Rows {
        let occupied = (0..self.experts()).filter(|e| !self.rows(*e).is_empty());
        let results: Vec<Rows> = occupied.map(|e| f(e, self.rows(e))).collect();
        if results.is_empty() {
            return float_tensor(Vec::new(), &[0, columns]);
        }
        Flex::float_cat(results, 0)
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
        rows_of(rows, 0, self.order.len())
    }

    /// A column of the slots' values, by row.
    pub(in crate::ops) fn of_rows(&self, slots: &[f32]) -> Rows {
        let values: Vec<f32> = self.order.iter().map(|s| slots[*s as usize]).collect();
        float_tensor(values, &[self.order.len(), 1])
    }

    /// \[T,K\]: the rows' values by slot, 0 for slots without a row.
    pub(in crate::ops) fn to_slots(&self, rows: &[f32], top_k: usize) -> Rows {
        let value = |row: &u32| {
            if *row == NOWHERE {
                0.0
            } else {
                rows[*row as usize]
            }
        };
        let values: Vec<f32> = self.positions.iter().map(value).collect();
        float_tensor(values, &[self.positions.len() / top_k, top_k])
    }

    /// Row e of `biases` for every row of expert e.
    pub(in crate::ops) fn repeated(&self, biases: &Rows) -> Rows {
        select_rows(biases.clone(), &self.expert_of_rows())
    }

    /// \[E,m,n\]: aᵀ · b over the rows of every expert.
    pub(in crate::ops) fn outer(&self, a: &Rows, b: &Rows) -> Rows {
        let (m, n) = (a.shape()[1], b.shape()[1]);
        let product = |e: usize| {
            let Range { start, end } = self.rows(e);
            if start == end {
                return float_tensor(vec![0.0; m * n], &[1, m, n]);
            }
            let a = transpose(rows_of(a.clone(), start, end));
            let product = Flex::float_matmul(a, rows_of(b.clone(), start, end));
            Flex::float_reshape(product, Shape::from([1, m, n]))
        };
        Flex::float_cat((0..self.experts()).map(product).collect(), 0)
    }

    /// \[E,n\]: the sum of the rows of every expert.
    pub(in crate::ops) fn sums(&self, rows: &Rows) -> Rows {
        let n = rows.shape()[1];
        let mut sums = vec![0.0; self.experts() * n];
        let values = floats(rows.clone());
        for (row, e) in self.expert_of_rows().iter().enumerate() {
            let sum = &mut sums[*e as usize * n..][..n];
            for (sum, value) in sum.iter_mut().zip(&values[row * n..]) {
                *sum += value;
            }
        }
        float_tensor(sums, &[self.experts(), n])
    }

    /// rows · W_eᵀ + b_e for the rows of every expert e.
    pub(in crate::ops) fn products(&self, rows: &Rows, w: &Rows, bias: &Option<Rows>) -> Rows {
        self.each(w.shape()[1], |e, range| {
            let rows = rows_of(rows.clone(), range.start, range.end);
            let w = transpose(expert(w.clone(), e));
            add_bias(matmul(rows, w), crate::ops::host::expert_row(bias, e))
        })
    }
}

/// The token of every row.
pub(in crate::ops) fn gathered(x: &Rows, segments: &Segments, top_k: usize) -> Rows {
    let tokens: Vec<u32> = segments.order.iter().map(|s| s / top_k as u32).collect();
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

/// The weighted sum of the rows of every token, in slot order.
pub(in crate::ops) fn combined(
    rows: Rows,
    weights: Option<&[f32]>,
    segments: &Segments,
    top_k: usize,
) -> Rows {
    let (slots, width) = (segments.positions.len(), rows.shape()[1]);
    let kept = segments.order.len();
    // One row of zeros stands for the slots that reached no expert.
    let nowhere = float_tensor(vec![0.0; width], &[1, width]);
    let rows = if kept == 0 {
        nowhere
    } else {
        Flex::float_cat(vec![rows, nowhere], 0)
    };
    let at: Vec<u32> = segments
        .positions
        .iter()
        .map(|row| (*row).min(kept as u32))
        .collect();
    // Its weight is 0 too, because 0 times a NaN weight would not be.
    let weight = |slot: usize| match weights {
        _ if segments.positions[slot] == NOWHERE => 0.0,
        Some(weights) => weights[slot],
        None => 1.0,
    };
    let weights = float_tensor((0..slots).map(weight).collect(), &[slots / top_k, top_k, 1]);
    let rows = select_rows(rows, &at);
    let rows = Flex::float_reshape(rows, Shape::from([slots / top_k, top_k, width]));
    let sum = Flex::float_sum_dim(Flex::float_mul(rows, weights), 1);
    Flex::float_reshape(sum, Shape::from([slots / top_k, width]))
}

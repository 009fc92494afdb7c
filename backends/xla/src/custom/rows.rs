//! Rows of tokens in and out of the order of their experts.
//!
//! Shapes: tokens \[T,n\], sorted rows \[R,n\], order \[S\], offsets \[E+1\], positions \[S\], weights \[T,K\] for
//! S = T·K slots. Sorted rows past offsets\[E\] belong to no expert: they are 0 in results, and hold
//! anything in operands. Products and sums are f32, results of the type of the rows.

use super::grouped::{combine, row_of};
use super::{Lower, along, rows_where, words};
use crate::ElementType;
use crate::stablehlo::{Binary, Builder, Compare, Reduction, TensorType, Value};
use serde::{Deserialize, Serialize};

/// Sizes of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sizes {
    /// Tokens T.
    pub tokens: usize,
    /// Experts E.
    pub experts: usize,
    /// Slots per token K.
    pub top_k: usize,
    /// The most sorted rows R that a routing has.
    pub row_bound: usize,
    /// Elements of a row n.
    pub width: usize,
}

/// A move of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Rows {
    /// \[R,n\]: the token of every sorted row. Operands: x \[T,n\], order, offsets.
    Gather(Sizes),
    /// \[T,n\]: the sum of a token's rows in slot order. Operands: rows \[R,n\], positions, and the
    /// weights of the sum if it is weighted.
    Combine {
        /// Its sizes.
        sizes: Sizes,
        /// Whether rows have weights other than 1.
        weighted: bool,
    },
    /// Gradients of a weighted combination: of the rows \[R,n\], and of the weights f32 \[T,K\].
    /// Operands: dy \[T,n\], rows \[R,n\], weights, order, offsets, positions.
    CombineBackward(Sizes),
}

impl Lower for Rows {
    fn name(&self) -> &'static str {
        match self {
            Self::Gather(_) => "gather rows",
            Self::Combine { .. } => "combine rows",
            Self::CombineBackward(_) => "combine rows backward",
        }
    }

    fn operands(&self) -> Vec<Vec<usize>> {
        let sizes = match self {
            Self::Gather(sizes) | Self::Combine { sizes, .. } | Self::CombineBackward(sizes) => {
                sizes
            }
        };
        let slots = vec![sizes.tokens * sizes.top_k];
        let offsets = vec![sizes.experts + 1];
        let tokens = vec![sizes.tokens, sizes.width];
        let rows = vec![sizes.row_bound, sizes.width];
        let weights = vec![sizes.tokens, sizes.top_k];
        match self {
            Self::Gather(_) => vec![tokens, slots, offsets],
            Self::Combine { weighted: true, .. } => vec![rows, slots, weights],
            Self::Combine { .. } => vec![rows, slots],
            Self::CombineBackward(_) => {
                vec![tokens, rows, weights, slots.clone(), offsets, slots]
            }
        }
    }

    fn lower(&self, b: &mut Builder, inputs: &[Value]) -> Vec<Value> {
        match self {
            Self::Gather(sizes) => {
                let (rows, _) = sizes.gathered(b, inputs[0], (inputs[1], inputs[2]));
                vec![rows]
            }
            Self::Combine { sizes, .. } => {
                let element = b.element(inputs[0]);
                let weights = inputs.get(2).map(|w| b.convert(*w, ElementType::F32));
                let shape = [sizes.tokens, sizes.top_k];
                let y = combine(b, inputs[0], inputs[1], weights, shape);
                vec![b.convert(y, element)]
            }
            Self::CombineBackward(sizes) => sizes.combine_backward(b, inputs),
        }
    }
}

/// Which of the first `rows` sorted rows have an expert.
pub(super) fn owned(b: &mut Builder, offsets: Value, rows: usize) -> Value {
    let experts = b.shape(offsets)[0] - 1;
    let offsets = words(b, offsets);
    let last = b.slice_dim(offsets, 0, experts..experts + 1);
    let last = b.broadcast(last, &[rows], &[0]);
    let row = b.iota(TensorType::new([rows], ElementType::U32), 0);
    b.compare(Compare::Lt, row, last)
}

impl Sizes {
    /// Rows \[R,n\] of x \[T,n\], and the slots of the rows; a row without an expert is 0.
    fn gathered(
        &self,
        b: &mut Builder,
        x: Value,
        (order, offsets): (Value, Value),
    ) -> (Value, Value) {
        let order = words(b, order);
        let slots = b.slice_dim(order, 0, 0..self.row_bound);
        if self.row_bound == 0 {
            let ty = b.ty(x).with_shape([0, self.width]);
            return (b.splat(0.0, ty), slots);
        }
        let tokens = b.binary_scalar(Binary::Divide, slots, self.top_k as f64);
        let rows = b.take(x, tokens);
        let owned = owned(b, offsets, self.row_bound);
        (rows_where(b, owned, rows), slots)
    }

    fn combine_backward(&self, b: &mut Builder, inputs: &[Value]) -> Vec<Value> {
        let [dy, rows, weights, positions] = [inputs[0], inputs[1], inputs[2], inputs[5]];
        let (element, shape) = (b.element(rows), [self.row_bound, self.width]);
        let (dy, slots) = self.gathered(b, dy, (inputs[3], inputs[4]));
        let dy = b.convert(dy, ElementType::F32);
        if self.row_bound == 0 {
            let ty = TensorType::new([self.tokens, self.top_k], ElementType::F32);
            return vec![b.convert(dy, element), b.splat(0.0, ty)];
        }
        let weights = b.convert(weights, ElementType::F32);
        let weights = b.reshape(weights, &[self.tokens * self.top_k]);
        let weights = b.take(weights, slots);
        let weights = along(b, weights, &shape, 0);
        // Rows without an expert stay 0, whatever weight their slot has.
        let drows = b.mul(dy, weights);
        let owned = owned(b, inputs[4], self.row_bound);
        let drows = rows_where(b, owned, drows);
        let rows = b.convert(rows, ElementType::F32);
        let products = b.mul(rows, dy);
        let dots = b.reduce(Reduction::Sum, products, &[1]);
        let (found, dweights) = row_of(b, dots, positions);
        let dweights = rows_where(b, found, dweights);
        let dweights = b.reshape(dweights, &[self.tokens, self.top_k]);
        vec![b.convert(drows, element), dweights]
    }
}

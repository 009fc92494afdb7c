//! Feed-forward experts: W_out · act(W_in · x + b_in) + b_out of every slot, and the weighted sum of
//! a token's slots.
//!
//! Shapes: x, y and dy \[T,H\], router weights f32 \[T,K\], w_in \[E, F or 2F (gate rows, then up rows), H\],
//! w_out \[E,H,F\], b_in \[E, F or 2F\], b_out \[E,H\]; of a sort order and positions \[S\] and offsets
//! \[E+1\]. x, weights, biases and y are f32, f16 or bf16; products sum in f32, and their operands have
//! the type of x. A block of rows goes through both products before the next one, so that its hidden
//! rows never leave the cache, but for what a backward pass wants kept.

mod activation;
mod backward;

pub use activation::Activation;
pub use backward::Backward;

use super::Lower;
use super::grouped::{self, Block, Pass, Segments, combine};
use crate::ElementType;
use crate::stablehlo::{Binary, Builder, DotDims, TensorType, Value};
use serde::{Deserialize, Serialize};

/// The experts of a layer and one batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Experts {
    /// Tokens T.
    pub tokens: usize,
    /// Slots of a token K.
    pub top_k: usize,
    /// Experts E.
    pub experts: usize,
    /// Width of a token H.
    pub hidden: usize,
    /// Width of an expert F.
    pub inter: usize,
    /// The most sorted rows R that a routing has.
    pub row_bound: usize,
    /// Between the two products.
    pub activation: Activation,
    /// Gate and up projections instead of one.
    pub gated: bool,
    /// Whether there are biases.
    pub bias: bool,
}

impl Experts {
    fn columns(&self) -> usize {
        self.inter * if self.gated { 2 } else { 1 }
    }

    fn slots(&self) -> usize {
        self.tokens * self.top_k
    }

    /// x, router weights, order, offsets, positions, w_in, w_out, and b_in, b_out if there are biases.
    fn operands(&self) -> Vec<Vec<usize>> {
        let (t, h, f, e) = (self.tokens, self.hidden, self.inter, self.experts);
        let (slots, columns) = (self.slots(), self.columns());
        let mut shapes = vec![
            vec![t, h],
            vec![t, self.top_k],
            vec![slots],
            vec![e + 1],
            vec![slots],
            vec![e, columns, h],
            vec![e, h, f],
        ];
        if self.bias {
            shapes.extend([vec![e, columns], vec![e, h]]);
        }
        shapes
    }
}

/// The forward pass: y, and with `keep` what the backward pass reads.
///
/// Operands: x, router weights, order, offsets, positions, w_in, w_out, and b_in, b_out if there are
/// biases. Results: y, and pre \[R, F or 2F\] with `keep`, the first product before its activation, 0 past
/// the last expert's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forward {
    /// The experts.
    pub experts: Experts,
    /// Whether the first product is a result, too.
    pub keep: bool,
}

/// Operands of both passes.
struct Inputs<'a> {
    x: Value,
    weights: Value,
    order: Value,
    offsets: Value,
    positions: Value,
    /// w_in, w_out, and the biases.
    stacks: &'a [Value],
}

impl<'a> Inputs<'a> {
    fn of(inputs: &'a [Value]) -> Self {
        let [x, weights, order, offsets, positions, stacks @ ..] = inputs else {
            unreachable!("the operands are counted")
        };
        Self {
            x: *x,
            weights: *weights,
            order: *order,
            offsets: *offsets,
            positions: *positions,
            stacks,
        }
    }
}

/// The slots of sorted rows and their tokens, i32 \[R\].
fn slots_and_tokens(
    b: &mut Builder,
    segments: &Segments,
    order: Value,
    top_k: usize,
) -> [Value; 2] {
    let slots = segments.of_rows(b, order);
    let slots = b.convert(slots, ElementType::S32);
    [slots, b.binary_scalar(Binary::Divide, slots, top_k as f64)]
}

/// The rows of x \[n, …\] that the block's entries of `index` \[R\] say.
fn taken(b: &mut Builder, block: &Block, x: Value, index: Value) -> Value {
    let index = block.rows(b, index);
    b.take(x, index)
}

/// rows · Wᵀ + bias in f32.
pub(super) fn product(b: &mut Builder, rows: Value, w: Value, bias: Option<Value>) -> Value {
    let product = grouped::product(b, rows, w, &DotDims::matmul_transposed(0));
    let Some(bias) = bias else {
        return product;
    };
    let shape = b.shape(product);
    let bias = b.convert(bias, ElementType::F32);
    let bias = super::along(b, bias, &shape, 1);
    b.add(product, bias)
}

impl Lower for Forward {
    fn name(&self) -> &'static str {
        "experts"
    }

    fn operands(&self) -> Vec<Vec<usize>> {
        self.experts.operands()
    }

    fn lower(&self, b: &mut Builder, inputs: &[Value]) -> Vec<Value> {
        let p = &self.experts;
        let operands = Inputs::of(inputs);
        let dtype = b.element(operands.x);
        let segments = Segments::new(b, p.row_bound, operands.offsets);
        let [_, tokens] = slots_and_tokens(b, &segments, operands.order, p.top_k);
        let mut rows = vec![TensorType::new([p.row_bound, p.hidden], ElementType::F32)];
        if self.keep {
            rows.push(TensorType::new([p.row_bound, p.columns()], dtype));
        }
        let pass = Pass {
            stacks: operands.stacks,
            rows: &rows,
            sums: &[],
        };
        let results = segments.walk(b, &pass, |b, block, matrices| {
            let (w_in, w_out) = (matrices[0], matrices[1]);
            let x = taken(b, block, operands.x, tokens);
            let pre = product(b, x, w_in, matrices.get(2).copied());
            let hidden = activation::hidden(b, p, pre);
            let hidden = b.convert(hidden, dtype);
            let mut results = vec![product(b, hidden, w_out, matrices.get(3).copied())];
            if self.keep {
                results.push(b.convert(pre, dtype));
            }
            results
        });
        let shape = [p.tokens, p.top_k];
        let y = combine(
            b,
            results[0],
            operands.positions,
            Some(operands.weights),
            shape,
        );
        let mut results = results;
        results[0] = b.convert(y, dtype);
        results
    }
}

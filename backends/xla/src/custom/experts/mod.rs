//! Feed-forward experts and their gradients: [`moebius_ops::moe`].
//!
//! Products sum in f32, and their operands have the type of x. A block of rows goes through both products before the
//! next one, so that its hidden rows never leave the cache, but for what a backward pass wants kept.

pub(super) mod activation;
mod backward;

pub(super) use backward::backward;

use super::grouped::{self, Block, Pass, Segments, combine};
use crate::ElementType;
use crate::stablehlo::{Binary, Builder, DotDims, TensorType, Value};
use moebius_ops::moe::Problem;

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

/// y, and with `keep` what the backward pass reads: the first product before its activation, 0 past the last
/// expert's rows.
pub(super) fn forward(b: &mut Builder, p: &Problem, keep: bool, inputs: &[Value]) -> Vec<Value> {
    let operands = Inputs::of(inputs);
    let dtype = b.element(operands.x);
    let segments = Segments::new(b, p.row_bound, operands.offsets);
    let [_, tokens] = slots_and_tokens(b, &segments, operands.order, p.routing.top_k());
    let mut rows = vec![TensorType::new([p.row_bound, p.hidden], ElementType::F32)];
    if keep {
        rows.push(TensorType::new([p.row_bound, p.columns_in()], dtype));
    }
    let pass = Pass {
        stacks: operands.stacks,
        rows: &rows,
        sums: &[],
    };
    let mut results = segments.walk(b, &pass, |b, block, matrices| {
        let (w_in, w_out) = (matrices[0], matrices[1]);
        let x = taken(b, block, operands.x, tokens);
        let pre = product(b, x, w_in, matrices.get(2).copied());
        let hidden = activation::hidden(b, p, pre);
        let hidden = b.convert(hidden, dtype);
        let mut results = vec![product(b, hidden, w_out, matrices.get(3).copied())];
        if keep {
            results.push(b.convert(pre, dtype));
        }
        results
    });
    let shape = [p.routing.tokens(), p.routing.top_k()];
    let (positions, weights) = (operands.positions, operands.weights);
    let y = combine(b, results[0], positions, Some(weights), shape);
    results[0] = b.convert(y, dtype);
    results
}

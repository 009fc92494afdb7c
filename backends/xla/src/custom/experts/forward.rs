//! The forward pass of feed-forward experts.
//!
//! A block of rows goes through both products before the next one, so that its hidden rows never leave the cache, but for
//! what a backward pass wants kept.

use super::activation::hidden;
use crate::custom::grouped_gemm::product::affine;
use crate::custom::grouped_gemm::segments::Segments;
use crate::custom::permute::rows::combine;
use crate::stablehlo::{Builder, Value};
use moebius_ops::experts::Problem;
use moebius_pjrt::ElementType::{F32, S32};
use moebius_pjrt::TensorType;

/// The slots of sorted rows and their tokens, i32 \[R\].
pub(super) fn slots_and_tokens(b: &Builder, p: &Problem, order: Value) -> [Value; 2] {
    let slots = b.convert(b.slice_dim(order, 0, 0..p.row_bound), S32);
    [slots, b.div(slots, p.routing.top_k() as f64)]
}

/// y, and with `keep` what the backward pass reads: the first product before its activation, 0 past the last
/// expert's rows.
pub(super) fn forward(b: &Builder, p: &Problem, keep: bool, inputs: &[Value]) -> Vec<Value> {
    let [x, weights, order, offsets, positions, stacks @ ..] = inputs else {
        unreachable!("the operands are counted")
    };
    let dtype = b.element(*x);
    let segments = Segments::new(b, p.row_bound, *offsets);
    let [_, tokens] = slots_and_tokens(b, p, *order);
    let mut rows = vec![TensorType::new([p.row_bound, p.hidden], F32)];
    if keep {
        rows.push(TensorType::new([p.row_bound, p.columns_in()], dtype));
    }
    let mut results = segments.walk(stacks, &rows, &[], |block, matrices| {
        let (w_in, w_out) = (matrices[0], matrices[1]);
        let x = b.take(*x, block.rows(tokens));
        let pre = affine(b, x, w_in, matrices.get(2).copied());
        let hidden = b.convert(hidden(b, p, pre), dtype);
        let mut results = vec![affine(b, hidden, w_out, matrices.get(3).copied())];
        if keep {
            results.push(b.convert(pre, dtype));
        }
        results
    });
    let shape = [p.routing.tokens(), p.routing.top_k()];
    let y = combine(b, results[0], *positions, Some(*weights), shape);
    results[0] = b.convert(y, dtype);
    results
}

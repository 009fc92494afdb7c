//! The forward pass of feed-forward experts.
//!
//! A block of rows goes through both products before the next one, so that its hidden rows never leave the cache, but for
//! what a backward pass wants kept.

use super::activation::hidden;
use super::slots::{Slots, of_tokens, to_tokens};
use crate::custom::grouped_gemm::product::affine;
use crate::stablehlo::{Builder, Value};
use moebius_ops::experts::Problem;
use moebius_pjrt::ElementType::F32;
use moebius_pjrt::TensorType;

/// y, and with `keep` what the backward pass reads: the first product before its activation, 0 past the last
/// expert's rows.
pub(super) fn forward(b: &Builder, p: &Problem, keep: bool, inputs: &[Value]) -> Vec<Value> {
    let (x, dtype) = (inputs[0], b.element(inputs[0]));
    let (slots, segments, stacks) = Slots::of(b, p, &inputs[1..]);
    let mut rows = vec![TensorType::new([p.row_bound, p.hidden], F32)];
    if keep {
        rows.push(TensorType::new([p.row_bound, p.columns_in()], dtype));
    }
    let mut results = segments.walk(stacks, &rows, &[], |block, matrices| {
        let (w_in, w_out) = (matrices[0], matrices[1]);
        let x = of_tokens(b, slots.as_ref(), block, x);
        let pre = affine(b, x, w_in, matrices.get(2).copied());
        let hidden = b.convert(hidden(b, p, pre), dtype);
        let mut results = vec![affine(b, hidden, w_out, matrices.get(3).copied())];
        if keep {
            results.push(b.convert(pre, dtype));
        }
        results
    });
    let weights = slots.as_ref().map(|slots| slots.weights);
    let y = to_tokens(b, p, slots.as_ref(), results[0], weights);
    results[0] = b.convert(y, dtype);
    results
}

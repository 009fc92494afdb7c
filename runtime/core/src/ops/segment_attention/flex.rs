//! Attention within segments on Flex.

use crate::ops::host::{Computed, Floats, Operands, segments};
use moebius_host::segment_attention as host;
use moebius_ops::SegmentAttention;

/// Computes o and its log-sum-exp, or the gradients of q, k and v.
pub(in crate::ops) fn run(operation: &SegmentAttention, mut b: Operands) -> Vec<Computed> {
    let problem = &operation.problem;
    let floats = ["q", "k", "v", "o", "lse", "do"].map(|name| Floats::of(&mut b, name));
    let [q, k, v, o, lse, d_o] = floats.each_ref().map(Floats::values);
    let segments = segments(&mut b, problem.rows());
    let results: Vec<Vec<f32>> = if operation.backward {
        host::backward(problem, &segments, [q, k, v], [o, lse, d_o]).into()
    } else {
        host::forward(problem, &segments, [q, k, v]).into()
    };
    results.into_iter().map(Computed::from).collect()
}

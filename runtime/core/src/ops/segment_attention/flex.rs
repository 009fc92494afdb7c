//! Attention within segments on Flex.

use crate::ops::host::{Floats, Operands, cast_like, float_tensor, segments};
use crate::ops::tensors::Value;
use burn::backend::Flex;
use moebius_host::segment_attention as host;
use moebius_ops::segment_attention::Problem;

/// o and its log-sum-exp, or the gradients of q, k and v.
pub(in crate::ops) fn run(problem: &Problem, backward: bool, mut b: Operands) -> Vec<Value<Flex>> {
    let (rows, heads, d) = (problem.rows(), problem.heads(), problem.head_dim());
    let dtype = b.get("q").float().dtype();
    let inputs = ["q", "k", "v"].map(|name| Floats::of(&mut b, name));
    let inputs = inputs.each_ref().map(Floats::values);
    let segments = segments(&mut b, rows);
    let tensor = |values| cast_like(float_tensor(values, &[rows, heads * d]), dtype);
    let results = if backward {
        let results = ["o", "do"].map(|name| Floats::of(&mut b, name));
        let results = results.each_ref().map(Floats::values);
        host::backward(problem, &segments, inputs, results)
            .map(tensor)
            .into()
    } else {
        let [o, lse] = host::forward(problem, &segments, inputs);
        vec![tensor(o), float_tensor(lse, &[rows, heads])]
    };
    results.into_iter().map(Value::Float).collect()
}

//! Products on Flex.

use crate::ops::host::{Floats, Operands, cast_like, float_tensor, matrices, segments};
use crate::ops::tensors::Value;
use burn::backend::Flex;
use moebius_host::grouped_gemm as host;
use moebius_ops::GroupedGemm;
use moebius_ops::grouped_gemm::Problem;

pub(in crate::ops) fn run(operation: &GroupedGemm, b: Operands) -> Vec<Value<Flex>> {
    match operation {
        GroupedGemm::Linear(problem) => linear(problem, b),
        GroupedGemm::LinearBackward {
            problem,
            rows,
            w,
            bias,
        } => gradients(problem, [*rows, *w, *bias], b),
        GroupedGemm::Fp8Linear(problem) => super::fp8::flex::run(problem, b),
        GroupedGemm::Fp8Codes(_) => unreachable!("a product of codes needs matrix instructions"),
    }
}

fn linear(problem: &Problem, mut b: Operands) -> Vec<Value<Flex>> {
    let segments = segments(&mut b, problem.row_bound);
    let dtype = b.get("rows").float().dtype();
    let [rows, bias] = ["rows", "b"].map(|name| Floats::of(&mut b, name));
    let w = b.float("W").to_contiguous();
    let y = host::linear(
        problem,
        &segments,
        rows.values(),
        matrices(&w),
        bias.maybe(),
    );
    let y = float_tensor(y, &[problem.row_bound, problem.n]);
    vec![Value::Float(cast_like(y, dtype))]
}

/// The gradients that are needed: of the rows, the weights and the biases.
fn gradients(problem: &Problem, needs: [bool; 3], mut b: Operands) -> Vec<Value<Flex>> {
    let segments = segments(&mut b, problem.row_bound);
    let dtype = b.get("rows").float().dtype();
    let floats = ["dy", "rows"].map(|name| Floats::of(&mut b, name));
    let w = b.float("W").to_contiguous();
    let floats = floats.each_ref().map(Floats::values);
    let [rows, w, bias] = host::linear_backward(problem, &segments, needs, floats, matrices(&w));
    let Problem {
        experts,
        row_bound,
        n,
        k,
        ..
    } = *problem;
    let tensor = |values: Option<Vec<f32>>, shape: &[usize]| {
        let tensor = float_tensor(values?, shape);
        Some(Value::Float(cast_like(tensor, dtype)))
    };
    let gradients = [
        tensor(rows, &[row_bound, k]),
        tensor(w, &[experts, n, k]),
        tensor(bias, &[experts, n]),
    ];
    gradients.into_iter().flatten().collect()
}

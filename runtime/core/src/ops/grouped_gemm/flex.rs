//! Products on Flex, expert by expert.

use crate::ops::host::{Operands, cast_like, to_f32};
use crate::ops::permute::host::Segments;
use crate::ops::tensors::Value;
use burn::backend::Flex;
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
    let segments = Segments::of(&mut b, problem.row_bound);
    let (rows, w) = (b.float("rows"), b.float("W"));
    let dtype = rows.dtype();
    let rows = segments.unpadded(to_f32(rows));
    let y = segments.products(&rows, &w, &b.maybe_float("b"));
    let y = segments.padded(y, problem.row_bound, problem.n);
    vec![Value::Float(cast_like(y, dtype))]
}

/// The gradients that are needed: of the rows, the weights and the biases.
fn gradients(
    problem: &Problem,
    [of_rows, of_w, of_bias]: [bool; 3],
    mut b: Operands,
) -> Vec<Value<Flex>> {
    let segments = Segments::of(&mut b, problem.row_bound);
    let (rows, w) = (b.float("rows"), b.float("W"));
    let dtype = rows.dtype();
    let dy = segments.unpadded(to_f32(b.float("dy")));
    let rows = segments.unpadded(to_f32(rows));
    let drows = of_rows.then(|| {
        let drows = segments.products_back(&dy, &w);
        segments.padded(drows, problem.row_bound, problem.k)
    });
    let dw = of_w.then(|| segments.outer(&dy, &rows));
    let dbias = of_bias.then(|| segments.sums(&dy));
    let gradients = [drows, dw, dbias].into_iter().flatten();
    gradients
        .map(|gradient| Value::Float(cast_like(gradient, dtype)))
        .collect()
}

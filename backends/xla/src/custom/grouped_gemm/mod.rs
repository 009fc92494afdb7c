//! Products per expert, and dense ones that are computed alike: [`moebius_ops::grouped_gemm`].

pub(super) mod activation;
mod fp8;
mod linear;
pub(super) mod product;
pub(super) mod segments;

use crate::stablehlo::{Builder, Value};
use moebius_ops::GroupedGemm;

pub(super) fn lower(b: &Builder, operation: &GroupedGemm, inputs: &[Value]) -> Vec<Value> {
    match operation {
        GroupedGemm::Linear(problem) => linear::forward(b, problem, inputs),
        GroupedGemm::LinearBackward {
            problem,
            rows,
            w,
            bias,
        } => linear::backward(b, problem, [*rows, *w, *bias], inputs),
        GroupedGemm::Fp8Linear(problem) => vec![fp8::forward(b, problem, inputs)],
        GroupedGemm::Fp8Codes(_) => unreachable!("refused before it is lowered"),
    }
}

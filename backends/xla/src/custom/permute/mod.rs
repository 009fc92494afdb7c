//! Slots in the order of their experts, and rows in and out of it: [`moebius_ops::permute`].

pub(super) mod rows;
pub(super) mod sorting;

use crate::stablehlo::{Builder, Value};
use moebius_ops::Permute;

pub(super) fn lower(b: &Builder, operation: &Permute, inputs: &[Value]) -> Vec<Value> {
    match operation {
        Permute::Sort { problem, mask } => sorting::sort(b, problem, *mask, inputs),
        Permute::Gather(p) => vec![rows::gathered(b, p, inputs[0], (inputs[1], inputs[2])).0],
        Permute::Combine { problem, .. } => vec![rows::combined(b, problem, inputs)],
        Permute::CombineBackward(p) => rows::combine_backward(b, p, inputs),
    }
}

//! Feed-forward experts and their gradients: [`moebius_ops::experts`].
//!
//! Products sum in f32, and their operands have the type of x.

mod activation;
mod backward;
mod forward;
mod slots;

use crate::stablehlo::{Builder, Value};
use moebius_ops::Experts;

pub(super) fn lower(b: &Builder, operation: &Experts, inputs: &[Value]) -> Vec<Value> {
    match operation {
        Experts::Forward { problem, keep } => forward::forward(b, problem, *keep, inputs),
        Experts::Backward {
            problem,
            x,
            weights,
            ..
        } => backward::backward(b, problem, (*x, *weights), inputs),
    }
}

//! How CubeCL computes [`moebius_ops::exact`]: each result by one unit, which goes through its sums in order.
//!
//! | file | contents |
//! |---|---|
//! | `functions.rs` | products and sums that no compiler takes apart, and functions made of them |
//! | `rows.rs` | maps, products, activations, norms, sums and rotations |
//! | `route.rs` | the choice of experts |
//! | `attend.rs` | attention over a cache |
//!
//! There is one variant for all devices, because another order of sums would give other bits. Weights and scores that exceed one binding are
//! refused.

pub(crate) mod attend;
mod functions;
pub(crate) mod route;
pub(crate) mod rows;

pub use attend::{AttendBuffers, AttendPlan, launch_attend, plan_attend};
pub use route::{RouteBuffers, launch_route};
pub use rows::{
    CombineBuffers, MapBuffers, NormBuffers, ProductBuffers, RotateBuffers, launch_activation,
    launch_combine, launch_map, launch_norm, launch_product, launch_rotate,
};

use crate::prelude::*;
use crate::rounds::{fits_rounds, looped};
use moebius_ops::{Exact, Operation, Signature};

const KERNEL: &str = "exact operation";

/// Plans an operation other than an attention: one unit for each result, or for each row or token.
///
/// # Errors
/// [`Unsupported`] for tensors that don't fit one binding, and for more than a grid or the rounds of an invocation's loops hold.
pub fn plan(operation: &Exact, device: &Capability) -> Result<Grid, Unsupported> {
    let Signature {
        operands, results, ..
    } = Operation::from(*operation).signature();
    for tensor in operands.iter().chain(&results) {
        crate::fits_binding(KERNEL, tensor.bytes(), device)?;
    }
    let (units, rounds) = match operation {
        Exact::Map { elements, .. } => (*elements, 0),
        Exact::Product(p) => (p.rows * p.n, looped(p.k, 0)),
        Exact::Activate(p) => (p.rows * p.inter, 0),
        Exact::Norm(p) => (p.rows, 2 * looped(p.width, 0)),
        Exact::Route { problem, .. } => {
            let (experts, top_k) = (problem.experts(), problem.top_k());
            let choice = looped(experts, looped(top_k, 0));
            let scores = 3 * looped(experts, 0) + 3 * looped(top_k, 0);
            (problem.tokens(), looped(top_k, choice) + scores)
        }
        Exact::Combine(p) => (p.tokens * p.width, looped(p.top_k, 0)),
        Exact::Rotate(p) => (p.batch * p.tokens * p.heads * p.width, 0),
        Exact::Attend(_) => unreachable!("an attention has a plan of its own"),
    };
    fits_rounds(KERNEL, rounds, device)?;
    Grid::elementwise(KERNEL, units, device)
}

//! How CubeCL computes [`moebius_ops::expert_activation::output_bias`].

use super::{RowGrid, expert_of, row_sum};
use crate::prelude::*;
use crate::rounds::{fits_rounds, looped, search};
use cubecl::prelude::*;
use moebius_ops::expert_activation::output_bias::Problem;

/// A [`Problem`], planned for a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    problem: Problem,
    lanes: usize,
    per_slot: RowGrid,
}

/// Plans the dot products of dy and the output bias.
///
/// # Errors
/// [`Unsupported`] for an element type the device lacks, and for more than a binding or a grid holds.
pub fn plan(problem: Problem, device: &Capability) -> Result<Plan, Unsupported> {
    let kernel = "output_bias";
    let bytes = problem.element().bytes();
    problem.element().supported(kernel, device)?;
    let tokens = problem.slots() / problem.top_k();
    let rows = tokens.max(problem.experts());
    crate::fits_binding(kernel, rows * problem.hidden() * bytes, device)?;
    crate::fits_binding(kernel, problem.slots() * 4, device)?;
    let lanes = lanes(problem.hidden(), bytes, device);
    let per_slot = RowGrid::new(kernel, problem.slots(), device)?;
    let walk = looped((problem.hidden() / lanes).div_ceil(per_slot.units), 0);
    fits_rounds(kernel, search(problem.experts()) + walk, device)?;
    Ok(Plan {
        problem,
        lanes,
        per_slot,
    })
}

/// Adds ⟨dy, bias⟩ to dweights; `units` units per entry of `order`.
#[cube(launch_unchecked)]
fn output_bias_weights<F: Float, N: Size>(
    dy: &[Vector<F, N>],
    bias: &[Vector<F, N>],
    order: &[u32],
    offsets: &[u32],
    dweights: &mut [f32],
    experts: usize,
    top_k: usize,
    row: usize,
    #[comptime] units: usize,
    #[define(F)] _element: ElemType,
) {
    let sorted = ABSOLUTE_POS / units;
    let unit = ABSOLUTE_POS % units;
    let routed = sorted < offsets[experts] as usize;
    let mut sum = Vector::<f32, N>::new(0.0f32);
    if routed {
        let token = order[sorted] as usize / top_k;
        let expert = expert_of(offsets, sorted, experts);
        for column in range_stepped(unit, row, units) {
            let a = Vector::<f32, N>::cast_from(dy[token * row + column]);
            let b = Vector::<f32, N>::cast_from(bias[expert * row + column]);
            sum = fma(a, b, sum);
        }
    }
    let total = row_sum(sum.vector_sum(), units);
    if unit == 0 && routed {
        dweights[order[sorted] as usize] += total;
    }
}

buffers! {
    /// Buffers of the dot products.
    pub struct Buffers {
        pub dy: Handle => "[T,H]" read,
        pub bias: Handle => "[E,H]" read,
        pub order: Handle => "[S] u32" read,
        pub offsets: Handle => "[E+1] u32" read,
        pub dweights: Handle => "[S] f32" written: "added to",
    }
}

/// Enqueues the dot products: one launch.
pub fn launch(client: &Client, plan: &Plan, buffers: Buffers) {
    let p = &plan.problem;
    if p.slots() == 0 {
        return;
    }
    launched::note(|| format!("output_bias_weights_{}", p.element()));
    let RowGrid { grid, units } = plan.per_slot;
    let (count, dim, lanes) = (grid.count(), grid.dim(), plan.lanes);
    let [dy, bias, order] = [buffers.dy, buffers.bias, buffers.order].map(bind);
    let [offsets, dweights] = [buffers.offsets, buffers.dweights].map(bind);
    let (experts, top_k, row) = (p.experts(), p.top_k(), p.hidden() / lanes);
    let element = p.element().elem_type();
    // SAFETY: the buffers are as long as they are described; offsets[E] is at most S, and units past it touch nothing.
    unsafe {
        output_bias_weights::launch_unchecked(
            client, count, dim, lanes, dy, bias, order, offsets, dweights, experts, top_k, row,
            units, element,
        );
    }
}

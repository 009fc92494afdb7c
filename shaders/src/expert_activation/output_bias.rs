//! What the output bias adds to the gradient of the routing weights: dweights\[s\] += ⟨dy_t, b_e⟩.
//!
//! y_t = Σ_k w_tk · (W_e · hidden + b_e), so the weight of slot s = t·K + k sees ⟨dy_t, b_e⟩ besides
//! what [`super::launch_backward()`] writes. Slots without an expert are left as they are.
//! Shapes: dy \[T,H\] and b \[E,H\] of the element type, dweights f32 \[S\]; sums are f32.
//! FLOPs 2·S·H; bytes 2·S·H elements, from cache if K > 1.

use super::{RowGrid, expert_of, row_sum};
use crate::element::Element;
use crate::error::{ShapeError, Unsupported};
use crate::grid::lanes;
use crate::launched;
use crate::permute::Sorted;
use cubecl::prelude::*;
use cubecl::server::Handle;
use moebius_device::Capability;

/// The products of gradients and biases of `hidden` values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Problem {
    slots: usize,
    experts: usize,
    top_k: usize,
    hidden: usize,
    /// Type of dy and the bias.
    pub element: Element,
}

impl Problem {
    /// `slots` = T·`top_k` slots and rows of `hidden` values in f32.
    ///
    /// # Errors
    /// [`ShapeError`] when a size is 0, the slots are no multiple of `top_k`, or an index would
    /// not fit 31 bits.
    pub fn new(
        slots: usize,
        experts: usize,
        top_k: usize,
        hidden: usize,
    ) -> Result<Self, ShapeError> {
        for (what, size) in [("experts", experts), ("top_k", top_k), ("hidden", hidden)] {
            if size == 0 {
                return Err(ShapeError::new(what, "at least 1", size));
            }
        }
        if !slots.is_multiple_of(top_k) {
            let expected = format!("a multiple of top_k = {top_k}");
            return Err(ShapeError::new("slots", expected, slots));
        }
        let elements = slots.max(experts).checked_mul(hidden);
        if elements.is_none_or(|n| n > i32::MAX as usize) {
            let got = format!("{slots} slots, {experts} experts, {hidden} values");
            return Err(ShapeError::new(
                "output bias",
                "matrices of at most 2^31 - 1 elements",
                got,
            ));
        }
        Ok(Self {
            slots,
            experts,
            top_k,
            hidden,
            element: Element::F32,
        })
    }

    /// A copy with gradients and biases of `element`.
    pub fn with_element(self, element: Element) -> Self {
        Self { element, ..self }
    }
}

/// A [`Problem`] this device can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    problem: Problem,
    lanes: usize,
    per_slot: RowGrid,
}

/// Plans the products.
///
/// # Errors
/// [`Unsupported`] for an element type the device lacks, or more than a binding or a grid holds.
pub fn plan(problem: Problem, device: &Capability) -> Result<Plan, Unsupported> {
    let kernel = "output_bias";
    let bytes = problem.element.bytes();
    problem.element.supported(kernel, device)?;
    let tokens = problem.slots / problem.top_k;
    let rows = tokens.max(problem.experts);
    crate::fits_binding(kernel, rows * problem.hidden * bytes, device)?;
    crate::fits_binding(kernel, problem.slots * 4, device)?;
    Ok(Plan {
        problem,
        lanes: lanes(problem.hidden, bytes, device),
        per_slot: RowGrid::new(kernel, problem.slots, device)?,
    })
}

/// `units` units per entry of `order`.
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

/// Buffers of the products.
#[derive(Clone)]
pub struct Buffers {
    /// \[T,H\], read.
    pub dy: Handle,
    /// \[E,H\], read.
    pub bias: Handle,
    /// \[S\] u32, read.
    pub order: Handle,
    /// \[E+1\] u32, read.
    pub offsets: Handle,
    /// \[S\] f32, added to.
    pub dweights: Handle,
}

/// Enqueues the products: one launch.
pub fn launch(client: &Client, plan: &Plan, buffers: Buffers) {
    let p = &plan.problem;
    if p.slots == 0 {
        return;
    }
    let row = p.hidden / plan.lanes;
    // SAFETY: the caller's buffers have the planned shapes; offsets[E] is at most S, and units
    // past it touch nothing.
    unsafe {
        launched::note(|| format!("output_bias_weights_{}", p.element));
        output_bias_weights::launch_unchecked(
            client,
            plan.per_slot.grid.count(),
            plan.per_slot.grid.dim(),
            plan.lanes,
            BufferArg::from_raw_parts(buffers.dy, p.slots / p.top_k * row),
            BufferArg::from_raw_parts(buffers.bias, p.experts * row),
            BufferArg::from_raw_parts(buffers.order, p.slots),
            BufferArg::from_raw_parts(buffers.offsets, p.experts + 1),
            BufferArg::from_raw_parts(buffers.dweights, p.slots),
            p.experts,
            p.top_k,
            row,
            plan.per_slot.units,
            p.element.elem_type(),
        );
    }
}

/// The oracle, in f64: what is added to dweights \[S\].
pub fn reference(problem: &Problem, sorted: &Sorted, dy: &[f64], bias: &[f64]) -> Vec<f64> {
    let hidden = problem.hidden;
    let mut added = vec![0.0; problem.slots];
    for e in 0..problem.experts {
        let rows = sorted.offsets[e] as usize..sorted.offsets[e + 1] as usize;
        for slot in &sorted.order[rows] {
            let slot = *slot as usize;
            let dy = &dy[slot / problem.top_k * hidden..][..hidden];
            let products = dy.iter().zip(&bias[e * hidden..]).map(|(a, b)| a * b);
            added[slot] = products.sum();
        }
    }
    added
}

/// The products of every type.
#[cfg(feature = "emit")]
pub(super) fn entries() -> [crate::emit::KernelEntry; 3] {
    use crate::emit::{KernelEntry, Machine, Planned, buffer};
    Element::ALL.map(|element| {
        let build = move |at: &Machine| -> Planned {
            let problem = Problem::new(2048, 8, 2, 512)?.with_element(element);
            let plan = plan(problem, &at.capability)?;
            let (settings, device, target) = at.parts(plan.per_slot.grid.dim());
            Ok(Box::new(output_bias_weights::OutputBiasWeights::new(
                settings,
                device,
                target,
                buffer(),
                buffer(),
                buffer(),
                buffer(),
                buffer(),
                (),
                (),
                (),
                plan.lanes,
                plan.per_slot.units,
                element.elem_type(),
            )))
        };
        let name = format!("output_bias_weights_{element}");
        KernelEntry::new(("expert_activation", "output-bias"), name, build).of(element)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::permute;

    #[test]
    fn reference_values() {
        let problem = Problem::new(4, 2, 2, 2).unwrap();
        // Token 0 goes to experts 1 and 0, token 1 to expert 1 and nowhere.
        let sorted = permute::reference(&[1, 0, 1, 2], 2);
        let got = reference(
            &problem,
            &sorted,
            &[1.0, 2.0, 3.0, 5.0],
            &[10.0, 1.0, 100.0, 7.0],
        );
        assert_eq!(got, [114.0, 12.0, 335.0, 0.0]);
    }

    #[test]
    fn shapes_are_checked() {
        assert!(Problem::new(5, 2, 2, 2).is_err());
        assert!(Problem::new(4, 0, 2, 2).is_err());
        assert!(Problem::new(4, 2, 2, 1 << 30).is_err());
    }
}

//! The backward pass: one cube (a CPU: one unit) per sorted row and slot, and the gradient alone.

use super::{Form, Plan, activate, activation_gradient, row_sum};
use crate::prelude::*;
use cubecl::prelude::*;

/// Writes dpre of the vector at `gate` for the gradient `d` of its hidden values; returns those.
#[cube]
fn differentiate<F: Float, N: Size>(
    pre: &[Vector<F, N>],
    dpre: &mut [Vector<F, N>],
    gate: usize,
    row: usize,
    d: Vector<f32, N>,
    #[comptime] form: Form,
) -> Vector<f32, N> {
    let x = Vector::<f32, N>::cast_from(pre[gate]);
    let value = activate::<N>(x, form.activation);
    let slope = d * activation_gradient::<N>(x, form.activation);
    if comptime!(form.gated) {
        let up = Vector::<f32, N>::cast_from(pre[gate + row]);
        dpre[gate] = Vector::cast_from(slope * up);
        dpre[gate + row] = Vector::cast_from(d * value);
        value * up
    } else {
        dpre[gate] = Vector::cast_from(slope);
        value
    }
}

/// dpre of the vector at `gate` is 0.
#[cube]
fn clear<F: Float, N: Size>(
    dpre: &mut [Vector<F, N>],
    gate: usize,
    row: usize,
    #[comptime] form: Form,
) {
    #[unroll]
    for part in 0..comptime!(form.parts()) {
        dpre[gate + part * row] = Vector::cast_from(Vector::<f32, N>::new(0.0f32));
    }
}

/// `units` units per entry of `order`: R sorted rows, then the slots beyond, whose dweights are 0.
#[cube(launch_unchecked)]
fn expert_activation_backward<F: Float, N: Size>(
    pre: &[Vector<F, N>],
    dhidden: &mut [Vector<F, N>],
    order: &[u32],
    offsets: &[u32],
    weights: &[f32],
    dpre: &mut [Vector<F, N>],
    dweights: &mut [f32],
    experts: usize,
    slots: usize,
    rows: usize,
    row: usize,
    #[comptime] form: Form,
    #[comptime] units: usize,
    #[define(F)] _element: ElemType,
) {
    let sorted = ABSOLUTE_POS / units;
    let unit = ABSOLUTE_POS % units;
    let slot = order[min(sorted, slots - 1)] as usize;
    let gate = sorted * row * comptime!(form.parts());
    let mut sum = Vector::<f32, N>::new(0.0f32);
    if sorted < offsets[experts] as usize {
        let weight = Vector::<f32, N>::new(weights[slot]);
        for column in range_stepped(unit, row, units) {
            let d = Vector::<f32, N>::cast_from(dhidden[sorted * row + column]);
            let hidden = differentiate::<F, N>(pre, dpre, gate + column, row, weight * d, form);
            dhidden[sorted * row + column] = Vector::cast_from(weight * hidden);
            sum = fma(d, hidden, sum);
        }
    } else if sorted < rows {
        for column in range_stepped(unit, row, units) {
            dhidden[sorted * row + column] = Vector::cast_from(Vector::<f32, N>::new(0.0f32));
            clear::<F, N>(dpre, gate + column, row, form);
        }
    }
    let total = row_sum(sum.vector_sum(), units);
    if unit == 0 && sorted < slots {
        dweights[slot] = total;
    }
}

/// One unit per vector of `dhidden`.
#[cube(launch_unchecked)]
fn expert_activation_gradient<F: Float, N: Size>(
    pre: &[Vector<F, N>],
    dhidden: &[Vector<F, N>],
    offsets: &[u32],
    dpre: &mut [Vector<F, N>],
    experts: usize,
    row: usize,
    #[comptime] form: Form,
    #[define(F)] _element: ElemType,
) {
    if ABSOLUTE_POS < dhidden.len() {
        let sorted = ABSOLUTE_POS / row;
        let gate = sorted * row * comptime!(form.parts()) + ABSOLUTE_POS % row;
        if sorted < offsets[experts] as usize {
            let d = Vector::<f32, N>::cast_from(dhidden[ABSOLUTE_POS]);
            differentiate::<F, N>(pre, dpre, gate, row, d, form);
        } else {
            clear::<F, N>(dpre, gate, row, form);
        }
    }
}

buffers! {
    /// Buffers of the backward pass.
    pub struct BackwardBuffers {
        pub pre: Handle => "[R, F or 2F]" read,
        pub dhidden: Handle => "[R,F]" read: "the gradient before the weights, overwritten by w · hidden",
        pub order: Handle => "[S] u32" read,
        pub offsets: Handle => "[E+1] u32" read,
        pub weights: Handle => "[S] f32" read,
        pub dpre: Handle => "[R, F or 2F]" written,
        pub dweights: Handle => "[S] f32" written,
    }
}

/// Enqueues the backward pass: one launch.
pub fn launch_backward(client: &Client, plan: &Plan, buffers: BackwardBuffers) {
    let p = &plan.problem;
    if p.slots() == 0 {
        return;
    }
    let hidden = p.hidden_len() / plan.lanes;
    let pre = p.pre_len() / plan.lanes;
    // SAFETY: the buffers hold what is planned, and the row bound bounds offsets[E];
    // units past the last slot write nothing.
    unsafe {
        launched::note(|| super::name(p, "expert_activation_backward"));
        expert_activation_backward::launch_unchecked(
            client,
            plan.per_slot.grid.count(),
            plan.per_slot.grid.dim(),
            plan.lanes,
            bind(buffers.pre, pre, p.element.bytes() * plan.lanes),
            bind(buffers.dhidden, hidden, p.element.bytes() * plan.lanes),
            bind_words(buffers.order, p.slots()),
            bind_words(buffers.offsets, p.experts() + 1),
            bind_words(buffers.weights, p.slots()),
            bind(buffers.dpre, pre, p.element.bytes() * plan.lanes),
            bind_words(buffers.dweights, p.slots()),
            p.experts(),
            p.slots(),
            p.row_bound(),
            p.inter() / plan.lanes,
            super::form(p),
            plan.per_slot.units,
            p.element.elem_type(),
        );
    }
}

buffers! {
    /// Buffers of the gradient alone.
    pub struct GradientBuffers {
        pub pre: Handle => "[R, F or 2F]" read,
        pub dhidden: Handle => "[R,F]" read,
        pub offsets: Handle => "[E+1] u32" read,
        pub dpre: Handle => "[R, F or 2F]" written,
    }
}

/// Enqueues the gradient without weights: one launch.
pub fn launch_gradient(client: &Client, plan: &Plan, buffers: GradientBuffers) {
    let p = &plan.problem;
    if p.slots() == 0 {
        return;
    }
    let pre = p.pre_len() / plan.lanes;
    let bytes = p.element.bytes() * plan.lanes;
    // SAFETY: the buffers hold what is planned; units past the last vector return.
    unsafe {
        launched::note(|| super::name(p, "expert_activation_gradient"));
        expert_activation_gradient::launch_unchecked(
            client,
            plan.vectors.count(),
            plan.vectors.dim(),
            plan.lanes,
            bind(buffers.pre, pre, bytes),
            bind(buffers.dhidden, p.hidden_len() / plan.lanes, bytes),
            bind_words(buffers.offsets, p.experts() + 1),
            bind(buffers.dpre, pre, bytes),
            p.experts(),
            p.inter() / plan.lanes,
            super::form(p),
            p.element.elem_type(),
        );
    }
}

//! hidden = act(pre), or act(gate) · up.

use super::{Form, Plan, activate};
use crate::prelude::*;
use cubecl::prelude::*;

/// The hidden values of the vector of `pre` at `gate`, whose up part lies `row` vectors further.
#[cube]
fn hidden_of<F: Float, N: Size>(
    pre: &[Vector<F, N>],
    gate: usize,
    row: usize,
    #[comptime] form: Form,
) -> Vector<f32, N> {
    let value = activate::<N>(Vector::<f32, N>::cast_from(pre[gate]), form.activation);
    if comptime!(form.gated) {
        value * Vector::<f32, N>::cast_from(pre[gate + row])
    } else {
        value
    }
}

/// One unit per vector of `hidden`.
#[cube(launch_unchecked)]
fn expert_activation<F: Float, N: Size>(
    pre: &[Vector<F, N>],
    offsets: &[u32],
    hidden: &mut [Vector<F, N>],
    experts: usize,
    row: usize,
    #[comptime] form: Form,
    #[define(F)] _element: ElemType,
) {
    if ABSOLUTE_POS < hidden.len() {
        let sorted = ABSOLUTE_POS / row;
        let column = ABSOLUTE_POS % row;
        let mut value = Vector::<f32, N>::new(0.0f32);
        if sorted < offsets[experts] as usize {
            let gate = sorted * row * comptime!(form.parts()) + column;
            value = hidden_of::<F, N>(pre, gate, row, form);
        }
        hidden[ABSOLUTE_POS] = Vector::cast_from(value);
    }
}

buffers! {
    /// Buffers of the forward pass.
    pub struct ForwardBuffers {
        pub pre: Handle => "[R, F or 2F]" read,
        pub offsets: Handle => "[E+1] u32" read,
        pub hidden: Handle => "[R,F]" written,
    }
}

/// Enqueues the activation: one launch.
pub fn launch(client: &Client, plan: &Plan, buffers: ForwardBuffers) {
    let p = &plan.problem;
    if p.slots() == 0 {
        return;
    }
    let bytes = p.element.bytes() * plan.lanes;
    // SAFETY: the buffers hold what is planned; units past the last vector return.
    unsafe {
        launched::note(|| super::name(p, "expert_activation"));
        expert_activation::launch_unchecked(
            client,
            plan.vectors.count(),
            plan.vectors.dim(),
            plan.lanes,
            bind(buffers.pre, p.pre_len() / plan.lanes, bytes),
            bind_words(buffers.offsets, p.experts() + 1),
            bind(buffers.hidden, p.hidden_len() / plan.lanes, bytes),
            p.experts(),
            p.inter() / plan.lanes,
            super::form(p),
            p.element.elem_type(),
        );
    }
}

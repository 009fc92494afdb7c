//! How CubeCL computes [`moebius_ops::permute::dispatch`].

use super::rows::{RowsPlan, weight_of};
use crate::prelude::*;
use cubecl::prelude::*;

/// Computes the sorted rows; one unit per vector.
#[cube(launch_unchecked)]
fn dispatch<F: Float, N: Size>(
    order: &[u32],
    offsets: &[u32],
    weights: ComptimeOption<&[f32]>,
    x: &[Vector<F, N>],
    rows: &mut [Vector<F, N>],
    vectors: usize,
    experts: usize,
    top_k: usize,
    #[define(F)] _element: ElemType,
) {
    if ABSOLUTE_POS < rows.len() {
        let row = ABSOLUTE_POS / vectors;
        let column = ABSOLUTE_POS % vectors;
        let mut value = Vector::<f32, N>::new(0.0f32);
        if row < offsets[experts] as usize {
            let slot = order[row] as usize;
            let weight = Vector::<f32, N>::new(weight_of(&weights, slot));
            value = weight * Vector::<f32, N>::cast_from(x[slot / top_k * vectors + column]);
        }
        rows[ABSOLUTE_POS] = Vector::cast_from(value);
    }
}

buffers! {
    /// Buffers of a dispatch.
    pub struct DispatchBuffers {
        pub order: Handle => "[S] u32" read,
        pub offsets: Handle => "[E+1] u32" read,
        pub weights: Option<Handle> => "[S] f32" read,
        pub x: Handle = "x" | "dy" => "[T,H]" read,
        pub rows: Handle = "drows" | "rows" => "[R,H]" written,
    }
}

/// Enqueues a dispatch: one launch, or none without rows.
pub fn launch(client: &Client, plan: &RowsPlan, buffers: DispatchBuffers) {
    let p = &plan.problem;
    if p.row_bound() == 0 {
        return;
    }
    launched::note(|| super::rows::name("dispatch", p.element(), buffers.weights.is_some()));
    let (count, dim, lanes) = (plan.rows.count(), plan.rows.dim(), plan.lanes);
    let [order, offsets] = [buffers.order, buffers.offsets].map(bind);
    let [x, rows] = [buffers.x, buffers.rows].map(bind);
    let (weights, element) = (buffers.weights.map(bind).into(), p.element().elem_type());
    let (vectors, experts, top_k) = (plan.vectors(), p.experts(), p.top_k());
    // SAFETY: the buffers are as long as they are described; units past the last vector return.
    unsafe {
        dispatch::launch_unchecked(
            client, count, dim, lanes, order, offsets, weights, x, rows, vectors, experts, top_k,
            element,
        );
    }
}

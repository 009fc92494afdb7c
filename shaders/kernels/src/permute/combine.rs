//! How CubeCL computes [`moebius_ops::permute::combine`].

use super::rows::{RowsPlan, weight_of};
use crate::prelude::*;
use cubecl::prelude::*;

/// Computes y; one unit per vector.
#[cube(launch_unchecked)]
fn combine<F: Float, N: Size>(
    positions: &[u32],
    weights: ComptimeOption<&[f32]>,
    rows: &[Vector<F, N>],
    y: &mut [Vector<F, N>],
    vectors: usize,
    row_bound: u32,
    top_k: usize,
    #[define(F)] _element: ElemType,
) {
    if ABSOLUTE_POS < y.len() {
        let token = ABSOLUTE_POS / vectors;
        let column = ABSOLUTE_POS % vectors;
        let mut sum = Vector::<f32, N>::new(0.0f32);
        for k in 0..top_k {
            let slot = token * top_k + k;
            let row = positions[slot];
            if row < row_bound {
                let value = Vector::<f32, N>::cast_from(rows[row as usize * vectors + column]);
                sum = fma(Vector::<f32, N>::new(weight_of(&weights, slot)), value, sum);
            }
        }
        y[ABSOLUTE_POS] = Vector::cast_from(sum);
    }
}

buffers! {
    /// Buffers of a combine.
    pub struct CombineBuffers {
        pub positions: Handle => "[S] u32" read,
        pub weights: Option<Handle> => "[S] f32" read,
        pub rows: Handle => "[R,H]" read,
        pub y: Handle => "[T,H]" written,
    }
}

/// Enqueues a combine: one launch, or none without tokens.
pub fn launch(client: &Client, plan: &RowsPlan, buffers: CombineBuffers) {
    let p = &plan.problem;
    if p.slots() == 0 {
        return;
    }
    launched::note(|| super::rows::name("combine", p.element(), buffers.weights.is_some()));
    let (count, dim, lanes) = (plan.tokens.count(), plan.tokens.dim(), plan.lanes);
    let [positions, rows, y] = [buffers.positions, buffers.rows, buffers.y].map(bind);
    let (weights, element) = (buffers.weights.map(bind).into(), p.element().elem_type());
    let (vectors, bound, top_k) = (plan.vectors(), p.row_bound() as u32, p.top_k());
    // SAFETY: the buffers are as long as they are described; units past the last vector return, and no row past the bound is read.
    unsafe {
        combine::launch_unchecked(
            client, count, dim, lanes, positions, weights, rows, y, vectors, bound, top_k, element,
        );
    }
}

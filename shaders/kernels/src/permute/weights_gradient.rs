//! How CubeCL computes [`moebius_ops::permute::weights_gradient`].
//!
//! On a GPU several units share a slot: each sums every n-th vector in order, lane by lane, and then neighbours are added
//! pairwise, so the plan fixes the order. On a CPU one unit takes a slot.

use super::rows::RowsPlan;
use crate::prelude::*;
use cubecl::prelude::*;

/// Computes dw; one row of units per slot.
#[cube(launch_unchecked)]
fn combine_weights_gradient<F: Float, N: Size>(
    positions: &[u32],
    dy: &[Vector<F, N>],
    rows: &[Vector<F, N>],
    dweights: &mut [f32],
    vectors: usize,
    row_bound: u32,
    top_k: usize,
    #[comptime] units: [u32; 2],
    #[define(F)] _element: ElemType,
) {
    let (along, across) = comptime!((units[0] as usize, units[1] as usize));
    let unit = UNIT_POS_X as usize;
    let slot = CUBE_POS * across + UNIT_POS_Y as usize;
    let mut sum = Vector::<f32, N>::new(0.0f32);
    if slot < dweights.len() {
        let row = positions[slot];
        if row < row_bound {
            let from = slot / top_k * vectors;
            let to = row as usize * vectors;
            for i in range_stepped(unit, vectors, along) {
                let a = Vector::<f32, N>::cast_from(dy[from + i]);
                sum = fma(a, Vector::<f32, N>::cast_from(rows[to + i]), sum);
            }
        }
    }
    let total = row_sum(sum.vector_sum(), along, across);
    if unit == 0 && slot < dweights.len() {
        dweights[slot] = total;
    }
}

/// The sum of `value` over the units along x; `along` is a power of two.
#[cube]
fn row_sum(value: f32, #[comptime] along: usize, #[comptime] across: usize) -> f32 {
    if comptime!(along == 1) {
        value
    } else {
        let mut partial = Shared::<[f32]>::new_slice(comptime!(along * across));
        let unit = UNIT_POS_X as usize;
        let own = UNIT_POS_Y as usize * along + unit;
        partial[own] = value;
        #[unroll]
        for level in 0..comptime!(along.ilog2()) {
            let half = comptime!(along >> (level + 1));
            sync_cube();
            if unit < half {
                let other = partial[own + half];
                partial[own] += other;
            }
        }
        // Only unit 0 uses the result, and it wrote the last sum itself.
        partial[own]
    }
}

buffers! {
    /// Buffers of the weights' gradient.
    pub struct WeightsGradientBuffers {
        pub positions: Handle => "[S] u32" read,
        pub dy: Handle => "[T,H]" read,
        pub rows: Handle => "[R,H]" read,
        pub dweights: Handle => "[S] f32" written,
    }
}

/// Enqueues the gradient: one launch, or none without tokens.
pub fn launch(client: &Client, plan: &RowsPlan, buffers: WeightsGradientBuffers) {
    let p = &plan.problem;
    if p.slots() == 0 {
        return;
    }
    launched::note(|| format!("combine_weights_gradient_{}", p.element()));
    let (count, dim, lanes) = (plan.slots.count(), plan.slots.dim(), plan.lanes);
    let [positions, dy] = [buffers.positions, buffers.dy].map(bind);
    let [rows, dweights] = [buffers.rows, buffers.dweights].map(bind);
    let (vectors, bound, top_k) = (plan.vectors(), p.row_bound() as u32, p.top_k());
    let (units, element) = (plan.slots.units, p.element().elem_type());
    // SAFETY: the buffers are as long as they are described; no slot past the last is written, and no row past the bound is read.
    unsafe {
        combine_weights_gradient::launch_unchecked(
            client, count, dim, lanes, positions, dy, rows, dweights, vectors, bound, top_k, units,
            element,
        );
    }
}

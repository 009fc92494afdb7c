//! Parts of a softmax in ascending order.

use super::{Buffers, Plan};
use crate::attention::rules::{Scalars, scalars};
use crate::bound::bind;
use crate::element::DeviceElement;
use crate::launched;
use cubecl::prelude::*;
use cubecl::server::Handle;

/// The largest score of two parts, and what the sums of either must be multiplied by.
#[cube]
pub(super) fn joined(before: f32, own: f32) -> (f32, f32, f32) {
    let top = max(before, own);
    (top, (before - top).exp(), (own - top).exp())
}

/// The sums of two parts as one.
#[cube]
pub(super) fn sum<N: Size>(
    all: Vector<f32, N>,
    part: Vector<f32, N>,
    before: f32,
    own: f32,
) -> Vector<f32, N> {
    fma(part, Vector::new(own), all * Vector::new(before))
}

#[cube(launch_unchecked)]
fn cache_merge<F: Float, N: Size>(
    sums: &[Vector<f32, N>],
    stats: &[f32],
    spans: &[u32],
    tables: &[u32],
    o: &mut [Vector<F, N>],
    lse: &mut [f32],
    scalars: Scalars,
    registers: usize,
    splits: usize,
    #[comptime] sinks: bool,
    #[define(F)] _element: ElemType,
) {
    if ABSOLUTE_POS < o.len() {
        let (row, register) = (ABSOLUTE_POS / registers, ABSOLUTE_POS % registers);
        let mut top = f32::min_value();
        let mut total = 0.0f32;
        let mut all = Vector::<f32, N>::new(0.0f32);
        for part in row * splits..(row + 1) * splits {
            let of_part = stats[2 * part + 1];
            // By its bits, because a sum that isn't a number is of some tokens, too.
            if u32::reinterpret(of_part) != 0u32 {
                let (largest, before, own) = joined(top, stats[2 * part]);
                top = largest;
                total = total * before + of_part * own;
                all = sum::<N>(all, sums[part * registers + register], before, own);
            }
        }
        if comptime!(sinks) {
            let sequence = row / scalars.queries / scalars.heads;
            let position = spans[2 * sequence] as usize + row % scalars.queries;
            if position < spans[2 * sequence + 1] as usize {
                let sink = tables[scalars.sinks + row / scalars.queries % scalars.heads];
                let (largest, before, own) = joined(top, f32::reinterpret(sink));
                top = largest;
                total = total * before + own;
                all *= Vector::new(before);
            }
        }
        let mut share = 0.0f32;
        let mut log = f32::min_value();
        if u32::reinterpret(total) != 0u32 {
            share = 1.0f32 / total;
            log = top + total.ln();
        }
        o[ABSOLUTE_POS] = Vector::cast_from(all * Vector::new(share));
        if register == 0 {
            lse[row] = log;
        }
    }
}

/// Enqueues the merge of sums, and what belongs to them; the last are the tables.
pub(super) fn launch(
    client: &Client,
    plan: &Plan,
    [sums, stats, gathered]: [Handle; 3],
    buffers: Buffers,
) {
    let p = plan.problem.attention();
    launched::note(|| super::merge_name(p));
    // SAFETY: the buffers are as long as they are described; units past the last return.
    unsafe {
        cache_merge::launch_unchecked(
            client,
            plan.merge.count(),
            plan.merge.dim(),
            plan.lanes,
            bind(sums),
            bind(stats),
            bind(buffers.spans),
            bind(gathered),
            bind(buffers.o),
            bind(buffers.lse),
            scalars(p),
            p.sizes().value_dim / plan.lanes,
            plan.splits,
            p.sinks(),
            p.element().elem_type(),
        );
    }
}

//! o and lse: one unit per (row, head), in one pass over the rows it attends to.

use super::head::{accumulate, dot, load_head, store_head, zero_head};
use super::{Form, Plan, Side, partners};
use crate::prelude::*;
use cubecl::prelude::*;

/// Units with neighbouring rows of one head, so that most of them read the same key at once.
#[cube(launch_unchecked)]
fn segment_attention<F: Float, N: Size>(
    q: &[Vector<F, N>],
    k: &[Vector<F, N>],
    v: &[Vector<F, N>],
    segments: &[u32],
    o: &mut [Vector<F, N>],
    lse: &mut [f32],
    rows: usize,
    heads: usize,
    #[comptime] form: Form,
    #[define(F)] _element: ElemType,
) {
    if ABSOLUTE_POS < rows * heads {
        let row = ABSOLUTE_POS % rows;
        let head = ABSOLUTE_POS / rows;
        let vectors = comptime!(form.vectors);
        let at = (row * heads + head) * vectors;
        let (first, end) = partners(segments, row, Side::Query, form.causal);
        let query = load_head::<F, N>(q, at, form.scale(), vectors);
        let mut sums = zero_head::<N>(vectors);
        let mut total = 0.0f32;
        let mut largest = f32::min_value();
        for other in first..end {
            let from = (other * heads + head) * vectors;
            let score = dot::<F, N>(&query, k, from, vectors);
            if score > largest {
                let shrink = (largest - score).exp();
                largest = score;
                total *= shrink;
                #[unroll]
                for i in 0..vectors {
                    sums[i] *= Vector::<f32, N>::new(shrink);
                }
            }
            let p = (score - largest).exp();
            total += p;
            accumulate::<F, N>(&mut sums, p, v, from, vectors);
        }
        let mut share = 0.0f32;
        let mut log = 0.0f32;
        if first < end {
            share = 1.0f32 / total;
            log = largest + total.ln();
        }
        store_head::<F, N>(&sums, share, o, at, vectors);
        lse[row * heads + head] = log;
    }
}

buffers! {
    /// Buffers of the forward pass.
    pub struct ForwardBuffers {
        pub q: Handle => "[R, heads·D]" read,
        pub k: Handle => "[R, heads·D]" read,
        pub v: Handle => "[R, heads·D]" read,
        pub segments: Handle => "[R,2] u32" read,
        pub o: Handle => "[R, heads·D]" written,
        pub lse: Handle => "[R, heads] f32" written,
    }
}

/// Enqueues the attention: one launch.
pub fn launch(client: &Client, plan: &Plan, buffers: ForwardBuffers) {
    let p = &plan.problem;
    if p.rows() == 0 {
        return;
    }
    let (count, dim, lanes) = (plan.per_head.count(), plan.per_head.dim(), plan.lanes);
    let [q, k, v, o] = [buffers.q, buffers.k, buffers.v, buffers.o].map(bind);
    let [segments, lse] = [buffers.segments, buffers.lse].map(bind);
    let (rows, heads, form) = (p.rows(), p.heads(), plan.form());
    let element = p.element().elem_type();
    launched::note(|| super::name(p, "segment_attention"));
    // SAFETY: the buffers are as long as they are described, and segments lie inside the rows; units past the last head return.
    unsafe {
        segment_attention::launch_unchecked(
            client, count, dim, lanes, q, k, v, segments, o, lse, rows, heads, form, element,
        );
    }
}

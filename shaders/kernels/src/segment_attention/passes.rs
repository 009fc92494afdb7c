//! The kernels for o and lse, and for the gradients dq, dk and dv.
//!
//! Forward, one unit per (row, head) walks once over the rows that its row attends to. The backward pass is four launches of one
//! unit per (row, head), which sums over the rows on the other side. dq and dk share one kernel: a unit holds a row of one side,
//! walks over the other side, and sums ds times the rows it finds, so no two units add to the same value.

use super::head::{accumulate, dot, load_head, store_head, zero_head};
use super::{Form, Plan, Side, partners};
use crate::prelude::*;
use cubecl::prelude::*;

/// Computes o and lse. Neighbouring units have neighbouring rows of one head, so that most of them read the same key at once.
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

/// Computes statistics\[i, h\] = (lse, ⟨do, o⟩), the numbers of a query row that gradients of scores need, in one binding.
#[cube(launch_unchecked)]
fn attention_statistics<F: Float, N: Size>(
    o: &[Vector<F, N>],
    d_o: &[Vector<F, N>],
    lse: &[f32],
    statistics: &mut [f32],
    #[comptime] form: Form,
    #[define(F)] _element: ElemType,
) {
    if ABSOLUTE_POS < lse.len() {
        let vectors = comptime!(form.vectors);
        let at = ABSOLUTE_POS * vectors;
        let head = load_head::<F, N>(o, at, 1.0f32, vectors);
        statistics[2 * ABSOLUTE_POS] = lse[ABSOLUTE_POS];
        statistics[2 * ABSOLUTE_POS + 1] = dot::<F, N>(&head, d_o, at, vectors);
    }
}

/// Computes out\[i\] = Σ_j ds · other\[j\] / √D, where one side has q and do, the other k and v.
#[cube(launch_unchecked)]
fn attention_score_gradient<F: Float, N: Size>(
    own: &[Vector<F, N>],
    own_value: &[Vector<F, N>],
    other: &[Vector<F, N>],
    other_value: &[Vector<F, N>],
    statistics: &[f32],
    segments: &[u32],
    out: &mut [Vector<F, N>],
    rows: usize,
    heads: usize,
    #[comptime] form: Form,
    #[comptime] side: Side,
    #[define(F)] _element: ElemType,
) {
    if ABSOLUTE_POS < rows * heads {
        let row = ABSOLUTE_POS % rows;
        let head = ABSOLUTE_POS / rows;
        let vectors = comptime!(form.vectors);
        let at = (row * heads + head) * vectors;
        let (first, end) = partners(segments, row, side, form.causal);
        let mine = load_head::<F, N>(own, at, form.scale(), vectors);
        let value = load_head::<F, N>(own_value, at, 1.0f32, vectors);
        let mut sums = zero_head::<N>(vectors);
        for met in first..end {
            let from = (met * heads + head) * vectors;
            let query = match comptime!(side) {
                Side::Query => row,
                Side::Key => met,
            } * heads
                + head;
            let score = dot::<F, N>(&mine, other, from, vectors);
            let p = (score - statistics[2 * query]).exp();
            let dp = dot::<F, N>(&value, other_value, from, vectors);
            let ds = p * (dp - statistics[2 * query + 1]);
            accumulate::<F, N>(&mut sums, ds, other, from, vectors);
        }
        store_head::<F, N>(&sums, form.scale(), out, at, vectors);
    }
}

/// Computes dv\[j\] = Σ_i p · do\[i\].
#[cube(launch_unchecked)]
fn attention_value_gradient<F: Float, N: Size>(
    q: &[Vector<F, N>],
    k: &[Vector<F, N>],
    d_o: &[Vector<F, N>],
    statistics: &[f32],
    segments: &[u32],
    dv: &mut [Vector<F, N>],
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
        let (first, end) = partners(segments, row, Side::Key, form.causal);
        let key = load_head::<F, N>(k, at, form.scale(), vectors);
        let mut sums = zero_head::<N>(vectors);
        for query in first..end {
            let from = (query * heads + head) * vectors;
            let score = dot::<F, N>(&key, q, from, vectors);
            let p = (score - statistics[2 * (query * heads + head)]).exp();
            accumulate::<F, N>(&mut sums, p, d_o, from, vectors);
        }
        store_head::<F, N>(&sums, 1.0f32, dv, at, vectors);
    }
}

buffers! {
    /// Buffers of the backward pass.
    pub struct BackwardBuffers {
        pub q: Handle => "[R, heads·D]" read,
        pub k: Handle => "[R, heads·D]" read,
        pub v: Handle => "[R, heads·D]" read,
        pub o: Handle => "[R, heads·D]" read: "what the forward pass wrote",
        pub lse: Handle => "[R, heads] f32" read: "what the forward pass wrote",
        pub segments: Handle => "[R,2] u32" read,
        pub d_o: Handle = "do" => "[R, heads·D]" read: "the gradient of `o`",
        pub dq: Handle => "[R, heads·D]" written,
        pub dk: Handle => "[R, heads·D]" written,
        pub dv: Handle => "[R, heads·D]" written,
    }
}

/// Enqueues the backward pass: four launches.
pub fn launch_backward(client: &Client, plan: &Plan, buffers: BackwardBuffers) {
    let p = &plan.problem;
    if p.rows() == 0 {
        return;
    }
    let statistics = empty_words(client, 2 * p.heads_of_rows());
    launch_statistics(client, plan, &buffers, &statistics);
    let (queries, keys) = ([&buffers.q, &buffers.d_o], [&buffers.k, &buffers.v]);
    let sides = [
        (Side::Query, queries, keys, &buffers.dq),
        (Side::Key, keys, queries, &buffers.dk),
    ];
    for (side, [own, own_value], [other, other_value], out) in sides {
        launched::note(|| super::name(p, side.kernel()));
        // SAFETY: the buffers are as long as they are described; units past the last head return; segments lie inside the rows.
        unsafe {
            attention_score_gradient::launch_unchecked(
                client,
                plan.per_head.count(),
                plan.per_head.dim(),
                plan.lanes,
                bind(own.clone()),
                bind(own_value.clone()),
                bind(other.clone()),
                bind(other_value.clone()),
                bind(statistics.clone()),
                bind(buffers.segments.clone()),
                bind(out.clone()),
                p.rows(),
                p.heads(),
                plan.form(),
                side,
                p.element().elem_type(),
            );
        }
    }
    launch_value_gradient(client, plan, buffers, statistics);
}

fn launch_statistics(client: &Client, plan: &Plan, buffers: &BackwardBuffers, statistics: &Handle) {
    let p = &plan.problem;
    launched::note(|| format!("attention_statistics_{}", p.element()));
    // SAFETY: the buffers are as long as they are described; units past the last head return.
    unsafe {
        attention_statistics::launch_unchecked(
            client,
            plan.per_head.count(),
            plan.per_head.dim(),
            plan.lanes,
            bind(buffers.o.clone()),
            bind(buffers.d_o.clone()),
            bind(buffers.lse.clone()),
            bind(statistics.clone()),
            plan.form(),
            p.element().elem_type(),
        );
    }
}

fn launch_value_gradient(
    client: &Client,
    plan: &Plan,
    buffers: BackwardBuffers,
    statistics: Handle,
) {
    let p = &plan.problem;
    launched::note(|| super::name(p, "attention_value_gradient"));
    // SAFETY: the buffers are as long as they are described; units past the last head return; segments lie inside the rows.
    unsafe {
        attention_value_gradient::launch_unchecked(
            client,
            plan.per_head.count(),
            plan.per_head.dim(),
            plan.lanes,
            bind(buffers.q),
            bind(buffers.k),
            bind(buffers.d_o),
            bind(statistics),
            bind(buffers.segments),
            bind(buffers.dv),
            p.rows(),
            p.heads(),
            plan.form(),
            p.element().elem_type(),
        );
    }
}

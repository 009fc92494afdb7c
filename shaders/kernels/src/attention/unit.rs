//! The forward pass of the `unit` variant: one unit per query and head, in one pass over the keys it sees.

use super::operands::{Layout, LayoutLaunch, head_at};
use super::rules::{Scalars, Site, keys_of, scalars, site};
use super::score_rule::{LaunchRule, ScoreRule, scores_by, seen_by};
use super::softmax::{dropped, ended};
use super::{Form, ForwardBuffers, Plan};
use crate::prelude::*;
use crate::segment_attention::head::{
    accumulate, dot, load_head, scale_head, store_head, zero_head,
};
use cubecl::prelude::*;

/// The running softmax of a query: its largest score, and the sum of exponentials (0 until a key is seen).
#[derive(CubeType, Clone, Copy)]
struct Softmax {
    largest: f32,
    total: f32,
}

/// Computes o and lse; one unit per query and head. Neighbouring units have neighbouring queries of one head, so that most of
/// them read the same key at once.
#[cube(launch_unchecked)]
fn attention_unit<F: Float, N: Size, R: ScoreRule>(
    q: &[Vector<F, N>],
    k: &[Vector<F, N>],
    v: &[Vector<F, N>],
    tables: &[u32],
    o: &mut [Vector<F, N>],
    lse: &mut [f32],
    scalars: Scalars,
    layout: Layout,
    rule: R::Args,
    #[comptime] form: Form,
    #[define(F)] _element: ElemType,
) {
    if ABSOLUTE_POS < lse.len() {
        let (vectors, value_vectors) = comptime!((form.vectors, form.value_vectors));
        let mut site = site_of(ABSOLUTE_POS, &scalars);
        let own = head_at(&layout.q, site.batch, site.head) + site.query * layout.q.row;
        let query = load_head::<F, N>(q, own, 1.0f32, vectors);
        let mut sums = zero_head::<N>(value_vectors);
        let mut softmax = Softmax {
            largest: f32::min_value(),
            total: 0.0f32.runtime(),
        };
        let kv_head = site.head / scalars.group;
        let keys = head_at(&layout.k, site.batch, kv_head);
        let values = head_at(&layout.v, site.batch, kv_head);
        let (first, end) = keys_of(site.query, site.query, &scalars, form.kinds);
        for key in first..end {
            site.key = key;
            if seen_by::<Const<1>, R>(&site, &scalars, tables, &rule, form).extract(0usize) {
                let at = keys + key * layout.k.row;
                let raw = scalars.scale * dot::<F, N>(&query, k, at, vectors);
                let raw = Vector::<f32, Const<1>>::new(raw);
                let score = scores_by::<Const<1>, R>(raw, &site, &scalars, tables, &rule, form);
                let score = score.extract(0usize);
                let p = raised::<N>(&mut softmax, &mut sums, score, value_vectors);
                let (weight, _) = dropped(p, p, &site, tables, form);
                let at = values + key * layout.v.row;
                accumulate::<F, N>(&mut sums, weight, v, at, value_vectors);
            }
        }
        let (top, total) = (softmax.largest, softmax.total);
        let (share, mut log) = ended(top, total, site.head, &scalars, tables, form);
        store_head::<F, N>(&sums, share, o, ABSOLUTE_POS * value_vectors, value_vectors);
        if comptime!(form.counted) {
            log = f32::cast_from(end - first);
        }
        lse[ABSOLUTE_POS] = log;
    }
}

/// The sequence, head and query of query row `row`, with keys from 0 on.
#[cube]
pub(super) fn site_of(row: usize, scalars: &Scalars) -> Site<Const<1>> {
    site::<Const<1>>(
        row / scalars.queries / scalars.heads,
        row / scalars.queries % scalars.heads,
        row % scalars.queries,
    )
}

/// Adds a score to the softmax and returns its exponential; shrinks the sums if the score is the largest so far.
#[cube]
fn raised<N: Size>(
    softmax: &mut Softmax,
    sums: &mut Array<Vector<f32, N>>,
    score: f32,
    #[comptime] vectors: usize,
) -> f32 {
    if score > softmax.largest {
        let shrink = (softmax.largest - score).exp();
        softmax.largest = score;
        softmax.total *= shrink;
        scale_head::<N>(sums, shrink, vectors);
    }
    let p = (score - softmax.largest).exp();
    softmax.total += p;
    p
}

pub(super) fn launch<R: LaunchRule>(
    client: &Client,
    plan: &Plan,
    buffers: ForwardBuffers,
    tables: Handle,
    rule: &R,
) {
    let p = &plan.problem;
    let [(q, of_q), (k, of_k), (v, of_v)] = buffers.operands(plan);
    launched::note(|| plan.name("attention_unit"));
    let (count, dim, lanes) = (plan.per_query.count(), plan.per_query.dim(), plan.lanes);
    let [tables, o, lse] = [tables, buffers.o, buffers.lse].map(bind);
    let (scalars, layout, rule) = (scalars(p), LayoutLaunch::new(of_q, of_k, of_v), rule.args());
    let (form, element) = (plan.form(), p.element().elem_type());
    // SAFETY: the buffers are as long as they are described; keys and table entries lie inside of them; units past the last query
    // return.
    unsafe {
        attention_unit::launch_unchecked::<R>(
            client, count, dim, lanes, q, k, v, tables, o, lse, scalars, layout, rule, form,
            element,
        );
    }
}

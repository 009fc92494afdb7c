//! The backward pass of the `unit` variant (dq, dk and dv), and the contribution of one pair of a query and a key to gradients.
//!
//! Two passes recompute the scores: one unit per query sums dq over the keys it sees, and one unit per key sums dk or dv over the
//! queries that see it, one head of its group after the other. lse and Δ of a query share one binding, and dk and dv are separate
//! launches, because WebGPU guarantees only seven buffers beside CubeCL's own.

use crate::attention::Form;
use crate::attention::operands::{Backward, Through};
use crate::attention::rules::{Scalars, Site, keys_of, queries_of, scalars, trace};
use crate::attention::score_rule::{LaunchRule, ScoreRule, before_rule, score_by, seen_by};
use crate::attention::softmax::dropped;
use crate::attention::unit::site_of;
use crate::prelude::*;
use crate::segment_attention::head::{
    accumulate, dot, load_head, scale_head, store_head, zero_head,
};
use cubecl::prelude::*;

/// The dot product ⟨do, v⟩ of a query and a key, one of which the unit holds; 0 if `unread`.
#[cube]
pub(super) fn value_product<F: Float, N: Size>(
    held: &Array<Vector<f32, N>>,
    other: &[Vector<F, N>],
    at: usize,
    #[comptime] form: Form,
    #[comptime] unread: bool,
) -> f32 {
    if comptime!(unread) {
        0.0f32.runtime()
    } else {
        dot::<F, N>(held, other, at, form.value_vectors)
    }
}

/// The contribution of a visible pair, from ⟨q, k⟩, ⟨do, v⟩ and its query's lse and Δ: p after dropout, ds before the slope of
/// the problem's rules, and the slope of the rules from index `from` on.
#[cube]
pub(super) fn pair<R: ScoreRule>(
    score: f32,
    product: f32,
    lse: f32,
    delta: f32,
    site: &Site<Const<1>>,
    scalars: &Scalars,
    tables: &[u32],
    rule: &R::Args,
    #[comptime] form: Form,
    #[comptime] from: usize,
) -> (f32, f32, f32) {
    let raw = Vector::<f32, Const<1>>::new(score * scalars.scale);
    let (before, slope) = trace::<Const<1>>(raw, site, scalars, tables, form.kinds, from);
    let score = score_by::<Const<1>, R>(before, site, scalars, rule, form);
    let p = (score.extract(0usize) - lse).exp();
    let (weight, product) = dropped(p, product, site, tables, form);
    let ds = p * (product - delta);
    let ds = Vector::<f32, Const<1>>::new(ds);
    let ds = before_rule::<Const<1>, R>(ds, before, site, scalars, rule, form);
    (weight, ds.extract(0usize), slope.extract(0usize))
}

/// Computes dq\[i\] = scale · Σ_j ds_ij · k\[j\]; one unit per query and head.
#[cube(launch_unchecked)]
fn attention_query_gradient_unit<F: Float, N: Size, R: ScoreRule>(
    q: &[Vector<F, N>],
    k: &[Vector<F, N>],
    v: &[Vector<F, N>],
    d_o: &[Vector<F, N>],
    statistics: &[f32],
    tables: &[u32],
    dq: &mut [Vector<F, N>],
    scalars: Scalars,
    rule: R::Args,
    rows: usize,
    #[comptime] form: Form,
    #[comptime] through_lse: bool,
    #[define(F)] _element: ElemType,
) {
    if ABSOLUTE_POS < rows {
        let row = ABSOLUTE_POS;
        let vectors = comptime!(form.vectors);
        let value_vectors = comptime!(if through_lse { 1 } else { form.value_vectors });
        let mut site = site_of(row, &scalars);
        let query = load_head::<F, N>(q, row * vectors, 1.0f32, vectors);
        let d_row = load_head::<F, N>(d_o, row * value_vectors, 1.0f32, value_vectors);
        let (lse, delta) = (statistics[2 * row], statistics[2 * row + 1]);
        let mut sums = zero_head::<N>(vectors);
        let keys = (site.batch * scalars.kv_heads + site.head / scalars.group) * scalars.keys;
        let (first, end) = keys_of(site.query, site.query, &scalars, form.kinds);
        for key in first..end {
            site.key = key;
            if seen_by::<Const<1>, R>(&site, &scalars, tables, &rule, form).extract(0usize) {
                let at = keys + key;
                let (score, product) = (
                    dot::<F, N>(&query, k, at * vectors, vectors),
                    value_product::<F, N>(
                        &d_row,
                        v,
                        at * comptime!(form.value_vectors),
                        form,
                        through_lse,
                    ),
                );
                let (_, ds, slope) = pair::<R>(
                    score, product, lse, delta, &site, &scalars, tables, &rule, form, 0usize,
                );
                accumulate::<F, N>(&mut sums, ds * slope, k, at * vectors, vectors);
            }
        }
        scale_head::<N>(&mut sums, scalars.scale, vectors);
        store_head::<F, N>(&sums, 1.0f32, dq, row * vectors, vectors);
    }
}

/// Computes dk\[j\] = scale · Σ_i ds_ij · q\[i\], or dv\[j\] = Σ_i p_ij · do\[i\], over the queries of all heads of the group;
/// one unit per key and key head.
#[cube(launch_unchecked)]
fn attention_key_gradient_unit<F: Float, N: Size, R: ScoreRule>(
    q: &[Vector<F, N>],
    k: &[Vector<F, N>],
    v: &[Vector<F, N>],
    d_o: &[Vector<F, N>],
    statistics: &[f32],
    tables: &[u32],
    out: &mut [Vector<F, N>],
    scalars: Scalars,
    rule: R::Args,
    rows: usize,
    #[comptime] form: Form,
    #[comptime] of: Of,
    #[define(F)] _element: ElemType,
) {
    if ABSOLUTE_POS < rows {
        let row = ABSOLUTE_POS;
        let (vectors, value_vectors) = comptime!((form.vectors, form.value_vectors));
        let (written, read) = comptime!(of.widths(form));
        let (key, head_row) = (row % scalars.keys, row / scalars.keys);
        let (kv_head, batch) = (head_row % scalars.kv_heads, head_row / scalars.kv_heads);
        let own = load_head::<F, N>(k, row * vectors, 1.0f32, vectors);
        let value = load_head::<F, N>(v, row * value_vectors, 1.0f32, read);
        let mut sums = zero_head::<N>(written);
        let (first, end) = queries_of(key, key, &scalars, form.kinds);
        for member in 0..scalars.group {
            let head = kv_head * scalars.group + member;
            let queries = (batch * scalars.heads + head) * scalars.queries;
            let mut site = site_of(queries, &scalars);
            site.key = key;
            for query in first..end {
                site.query = query;
                if seen_by::<Const<1>, R>(&site, &scalars, tables, &rule, form).extract(0usize) {
                    let at = queries + query;
                    let (lse, delta) = (statistics[2 * at], statistics[2 * at + 1]);
                    let none = comptime!(of != Of::Keys);
                    let (score, product) = (
                        dot::<F, N>(&own, q, at * vectors, vectors),
                        value_product::<F, N>(&value, d_o, at * value_vectors, form, none),
                    );
                    let (p, ds, slope) = pair::<R>(
                        score, product, lse, delta, &site, &scalars, tables, &rule, form, 0usize,
                    );
                    if comptime!(of == Of::Values) {
                        accumulate::<F, N>(&mut sums, p, d_o, at * value_vectors, value_vectors);
                    } else {
                        accumulate::<F, N>(&mut sums, ds * slope, q, at * vectors, vectors);
                    }
                }
            }
        }
        if comptime!(of != Of::Values) {
            scale_head::<N>(&mut sums, scalars.scale, vectors);
        }
        store_head::<F, N>(&sums, 1.0f32, out, row * written, written);
    }
}

/// The gradient that a unit of a key sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Of {
    Keys,
    /// The gradient of the keys through the log-sum-exp, which doesn't involve values.
    KeysOfLse,
    Values,
}

impl Of {
    /// Vectors per row that is written, and vectors per value row that the unit holds.
    fn widths(self, form: Form) -> (usize, usize) {
        match self {
            Self::Keys => (form.vectors, form.value_vectors),
            Self::KeysOfLse => (form.vectors, 1),
            Self::Values => (form.value_vectors, 1),
        }
    }

    fn kernel(self) -> &'static str {
        match self {
            Self::Keys => "attention_key_gradient_unit",
            Self::KeysOfLse => "attention_key_gradient_of_lse_unit",
            Self::Values => "attention_value_gradient_unit",
        }
    }
}

/// Enqueues the gradients of queries, keys and values.
pub(super) fn launch<R: LaunchRule>(backward: &Backward<'_, R>) {
    let (p, buffers) = (&backward.plan.problem, backward.buffers);
    if p.query_rows() > 0 {
        launch_query_gradient(backward);
    }
    if p.key_rows() > 0 {
        match &buffers.through {
            Through::Output { dv, .. } => {
                launch_key_gradient(backward, Of::Keys, &buffers.dk);
                launch_key_gradient(backward, Of::Values, dv);
            }
            Through::LogSumExp { .. } => {
                launch_key_gradient(backward, Of::KeysOfLse, &buffers.dk);
            }
        }
    }
}

fn launch_query_gradient<R: LaunchRule>(backward: &Backward<'_, R>) {
    let (plan, b) = (backward.plan, backward.buffers);
    let p = &plan.problem;
    let [q, k, v, d_o, statistics, tables] = backward.inputs();
    launched::note(|| {
        let of = launched::suffix(backward.through_lse(), "_of_lse");
        plan.name(&format!("attention_query_gradient{of}_unit"))
    });
    let (count, dim, lanes) = (plan.per_query.count(), plan.per_query.dim(), plan.lanes);
    let (client, rule, dq) = (backward.client, backward.rule.args(), bind(b.dq.clone()));
    let (scalars, rows, element) = (scalars(p), p.query_rows(), p.element().elem_type());
    let (form, of_lse) = (plan.form(), backward.through_lse());
    // SAFETY: the buffers are as long as they are described; keys and table entries lie inside of them; units past the last
    // query return.
    unsafe {
        attention_query_gradient_unit::launch_unchecked::<R>(
            client, count, dim, lanes, q, k, v, d_o, statistics, tables, dq, scalars, rule, rows,
            form, of_lse, element,
        );
    }
}

fn launch_key_gradient<R: LaunchRule>(backward: &Backward<'_, R>, of: Of, out: &Handle) {
    let plan = backward.plan;
    let p = &plan.problem;
    let [q, k, v, d_o, statistics, tables] = backward.inputs();
    launched::note(|| plan.name(of.kernel()));
    let (count, dim, lanes) = (plan.per_key.count(), plan.per_key.dim(), plan.lanes);
    let (client, rule, out) = (backward.client, backward.rule.args(), bind(out.clone()));
    let (scalars, rows, element) = (scalars(p), p.key_rows(), p.element().elem_type());
    let form = plan.form();
    // SAFETY: the buffers are as long as they are described; queries and table entries lie inside of them; units past the last
    // key return.
    unsafe {
        attention_key_gradient_unit::launch_unchecked::<R>(
            client, count, dim, lanes, q, k, v, d_o, statistics, tables, out, scalars, rule, rows,
            form, of, element,
        );
    }
}

//! Gradients of tables: one unit per element sums, in ascending order, over the pairs that read the element.

use super::unit::{pair, value_product};
use crate::attention::Form;
use crate::attention::operands::Backward;
use crate::attention::rules::{Kind, Scalars, Site, scalars};
use crate::attention::score_rule::{LaunchRule, ScoreRule, seen_by};
use crate::attention::unit::site_of;
use crate::prelude::*;
use crate::segment_attention::head::{dot, load_head};
use cubecl::prelude::*;

/// Compile-time parameters of the kernels of this file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Spec {
    form: Form,
    through_lse: bool,
    /// The index of the first rule after the table's rule.
    after: usize,
}

/// The gradient at the output of the table's rule for a visible pair; 0 for a hidden one.
#[cube]
fn of_pair<F: Float, N: Size, R: ScoreRule>(
    q: &[Vector<F, N>],
    k: &[Vector<F, N>],
    v: &[Vector<F, N>],
    d_o: &[Vector<F, N>],
    statistics: &[f32],
    tables: &[u32],
    site: &Site<Const<1>>,
    scalars: &Scalars,
    rule: &R::Args,
    #[comptime] spec: Spec,
) -> f32 {
    let form = comptime!(spec.form);
    let vectors = comptime!(form.vectors);
    let value_vectors = comptime!(if spec.through_lse {
        1
    } else {
        form.value_vectors
    });
    let mut gradient = 0.0f32;
    if seen_by::<Const<1>, R>(site, scalars, tables, rule, form).extract(0usize) {
        let row = (site.batch * scalars.heads + site.head) * scalars.queries + site.query;
        let kv_head = site.batch * scalars.kv_heads + site.head / scalars.group;
        let at = kv_head * scalars.keys + site.key;
        let query = load_head::<F, N>(q, row * vectors, 1.0f32, vectors);
        let d_row = load_head::<F, N>(d_o, row * value_vectors, 1.0f32, value_vectors);
        let (score, product) = (
            dot::<F, N>(&query, k, at * vectors, vectors),
            value_product::<F, N>(
                &d_row,
                v,
                at * comptime!(form.value_vectors),
                form,
                spec.through_lse,
            ),
        );
        let (lse, delta) = (statistics[2 * row], statistics[2 * row + 1]);
        let (_, ds, slope) = pair::<R>(
            score, product, lse, delta, site, scalars, tables, rule, form, spec.after,
        );
        gradient = ds * slope;
    }
    gradient
}

/// Computes dbias\[b, h, i, j\], summed over the sequences and heads that share the element; one unit per element.
#[cube(launch_unchecked)]
fn attention_bias_gradient<F: Float, N: Size, R: ScoreRule>(
    q: &[Vector<F, N>],
    k: &[Vector<F, N>],
    v: &[Vector<F, N>],
    d_o: &[Vector<F, N>],
    statistics: &[f32],
    tables: &[u32],
    d_bias: &mut [f32],
    scalars: Scalars,
    rule: R::Args,
    // The table's number of heads, and the numbers of sequences and heads that share an element.
    heads: usize,
    batches_each: usize,
    heads_each: usize,
    #[comptime] spec: Spec,
    #[define(F)] _element: ElemType,
) {
    if ABSOLUTE_POS < d_bias.len() {
        let pairs = scalars.queries * scalars.keys;
        let matrix = ABSOLUTE_POS / pairs;
        let mut site = site_of(0usize.runtime(), &scalars);
        site.query = ABSOLUTE_POS % pairs / scalars.keys;
        site.key = ABSOLUTE_POS % scalars.keys;
        let mut sum = 0.0f32;
        for batch in 0..batches_each {
            for head in 0..heads_each {
                site.batch = matrix / heads + batch;
                site.head = matrix % heads + head;
                sum += of_pair::<F, N, R>(
                    q, k, v, d_o, statistics, tables, &site, &scalars, &rule, spec,
                );
            }
        }
        d_bias[ABSOLUTE_POS] = sum;
    }
}

/// Computes drelative\[h, r\]; one unit per element. It sums a diagonal of pairs of each sequence; the two outermost distances
/// sum every pair beyond them as well.
#[cube(launch_unchecked)]
fn attention_relative_gradient<F: Float, N: Size, R: ScoreRule>(
    q: &[Vector<F, N>],
    k: &[Vector<F, N>],
    v: &[Vector<F, N>],
    d_o: &[Vector<F, N>],
    statistics: &[f32],
    tables: &[u32],
    d_relative: &mut [f32],
    scalars: Scalars,
    rule: R::Args,
    batch: usize,
    #[comptime] spec: Spec,
    #[define(F)] _element: ElemType,
) {
    if ABSOLUTE_POS < d_relative.len() {
        let places = 2 * scalars.reach + 1;
        let ahead = (ABSOLUTE_POS % places as usize) as i32 - scalars.reach;
        let mut site = site_of(0usize.runtime(), &scalars);
        site.head = ABSOLUTE_POS / places as usize;
        let mut sum = 0.0f32;
        for sequence in 0..batch {
            site.batch = sequence;
            for query in 0..scalars.queries {
                site.query = query;
                let on = query as i32 + scalars.shift + ahead;
                let keys = scalars.keys as i32;
                let mut first = on;
                let mut end = on + 1;
                if ahead == -scalars.reach {
                    first = 0i32.runtime();
                }
                if ahead == scalars.reach {
                    end = keys;
                }
                let first = min(max(first, 0), keys) as usize;
                let end = min(max(end, 0), keys) as usize;
                for key in first..end {
                    site.key = key;
                    sum += of_pair::<F, N, R>(
                        q, k, v, d_o, statistics, tables, &site, &scalars, &rule, spec,
                    );
                }
            }
        }
        d_relative[ABSOLUTE_POS] = sum;
    }
}

/// Computes dsinks\[h\] = −Σ_(b, i) exp(sink − lse) · Δ; one unit per head.
#[cube(launch_unchecked)]
fn attention_sink_gradient(
    statistics: &[f32],
    tables: &[u32],
    d_sinks: &mut [f32],
    scalars: Scalars,
    batch: usize,
) {
    if ABSOLUTE_POS < d_sinks.len() {
        let sink = f32::reinterpret(tables[scalars.sinks + ABSOLUTE_POS]);
        let mut sum = 0.0f32;
        for sequence in 0..batch {
            let first = (sequence * scalars.heads + ABSOLUTE_POS) * scalars.queries;
            for row in first..first + scalars.queries {
                sum -= (sink - statistics[2 * row]).exp() * statistics[2 * row + 1];
            }
        }
        d_sinks[ABSOLUTE_POS] = sum;
    }
}

/// Enqueues the gradients of the tables that have a buffer for it.
pub(super) fn launch<R: LaunchRule>(backward: &Backward<'_, R>) {
    let buffers = backward.buffers;
    if let Some(d_bias) = &buffers.d_bias {
        launch_bias(backward, d_bias);
    }
    if let Some(d_relative) = &buffers.d_relative {
        launch_relative(backward, d_relative);
    }
    if let Some(d_sinks) = &buffers.d_sinks {
        launch_sinks(backward, d_sinks);
    }
}

fn spec<R>(backward: &Backward<'_, R>, kind: Kind) -> Spec {
    let form = backward.plan.form();
    Spec {
        form,
        through_lse: backward.through_lse(),
        after: form.kinds.place(kind) + 1,
    }
}

fn launch_bias<R: LaunchRule>(backward: &Backward<'_, R>, d_bias: &Handle) {
    let plan = backward.plan;
    let (p, s) = (&plan.problem, plan.problem.sizes());
    let [q, k, v, d_o, statistics, tables] = backward.inputs();
    let Some(pattern) = p.rules().bias() else {
        return;
    };
    let shape = pattern.shape(s);
    if shape.contains(&0) {
        return;
    }
    let each = |has: bool, size: usize| if has { 1 } else { size };
    launched::note(|| plan.name("attention_bias_gradient"));
    let (count, dim, lanes) = (plan.table_grid.count(), plan.table_grid.dim(), plan.lanes);
    let (client, rule, out) = (backward.client, backward.rule.args(), bind(d_bias.clone()));
    let (batches, heads) = (each(pattern.batch, s.batch), each(pattern.heads, s.heads));
    let (scalars, all_heads, element) = (scalars(p), shape[1], p.element().elem_type());
    let spec = spec(backward, Kind::Bias);
    // SAFETY: the buffers are as long as they are described; pairs lie inside of them; units past the last element return.
    unsafe {
        attention_bias_gradient::launch_unchecked::<R>(
            client, count, dim, lanes, q, k, v, d_o, statistics, tables, out, scalars, rule,
            all_heads, batches, heads, spec, element,
        );
    }
}

fn launch_relative<R: LaunchRule>(backward: &Backward<'_, R>, d_relative: &Handle) {
    let plan = backward.plan;
    let (p, s) = (&plan.problem, plan.problem.sizes());
    let [q, k, v, d_o, statistics, tables] = backward.inputs();
    if p.rules().relative().is_none() {
        return;
    }
    launched::note(|| plan.name("attention_relative_gradient"));
    let (count, dim, lanes) = (plan.table_grid.count(), plan.table_grid.dim(), plan.lanes);
    let (client, rule) = (backward.client, backward.rule.args());
    let out = bind(d_relative.clone());
    let (scalars, sequences, element) = (scalars(p), s.batch, p.element().elem_type());
    let spec = spec(backward, Kind::Relative);
    // SAFETY: the buffers are as long as they are described; pairs lie inside of them; units past the last element return.
    unsafe {
        attention_relative_gradient::launch_unchecked::<R>(
            client, count, dim, lanes, q, k, v, d_o, statistics, tables, out, scalars, rule,
            sequences, spec, element,
        );
    }
}

fn launch_sinks<R>(backward: &Backward<'_, R>, d_sinks: &Handle) {
    let (plan, p) = (backward.plan, &backward.plan.problem);
    launched::note(|| "attention_sink_gradient");
    // SAFETY: the buffers are as long as they are described; rows lie inside of them; units past the last head return.
    unsafe {
        attention_sink_gradient::launch_unchecked(
            backward.client,
            plan.table_grid.count(),
            plan.table_grid.dim(),
            backward.statistics(),
            backward.tables(),
            bind(d_sinks.clone()),
            scalars(p),
            p.sizes().batch,
        );
    }
}

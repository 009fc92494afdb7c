//! Gradients of queries, keys and values: sums in ascending order, without atomics.
//!
//! Two passes compute the scores anew: a unit per query sums dq over the keys it sees, and a unit per key sums dk and dv
//! over the queries that see it, the heads of its group one after the other. lse and Δ of a query come in one binding, and
//! dk and dv leave by their own launches: WebGPU grants seven buffers.

use super::dropout::dropped;
use super::rules::{Scalars, Site, keys_of, queries_of, scalars, trace};
use super::score_rule::{LaunchRule, NoRule, ScoreRule, before_rule, score_by, seen_by};
use super::tables::{self, TableBuffers};
use super::unit::site_of;
use super::{Form, Plan, Variant, backward_tables, cpu};
use crate::bound::bind;
use crate::element::DeviceElement;
use crate::launched;
use crate::named::{FromNames, Lookup, buffers};
use crate::segment_attention::head::{
    accumulate, dot, load_head, scale_head, store_head, zero_head,
};
use cubecl::prelude::*;
use cubecl::server::Handle;

/// statistics\[row\] = (lse, Δ): Δ = ⟨do, o⟩, or −dlse where the gradient comes through the log-sum-exp.
#[cube(launch_unchecked)]
fn attention_statistics<F: Float, N: Size>(
    o: ComptimeOption<&[Vector<F, N>]>,
    d_o: ComptimeOption<&[Vector<F, N>]>,
    lse: &[f32],
    d_lse: ComptimeOption<&[f32]>,
    statistics: &mut [f32],
    #[comptime] vectors: usize,
    #[define(F)] _element: ElemType,
) {
    if ABSOLUTE_POS < lse.len() {
        let at = ABSOLUTE_POS * vectors;
        let mut delta = 0.0f32;
        #[comptime]
        if let ComptimeOption::Some(d_lse) = d_lse {
            delta -= d_lse[ABSOLUTE_POS];
        }
        #[comptime]
        if let ComptimeOption::Some(o) = o {
            #[comptime]
            if let ComptimeOption::Some(d_o) = d_o {
                let head = load_head::<F, N>(o, at, 1.0f32, vectors);
                delta += dot::<F, N>(&head, d_o, at, vectors);
            }
        }
        statistics[2 * ABSOLUTE_POS] = lse[ABSOLUTE_POS];
        statistics[2 * ABSOLUTE_POS + 1] = delta;
    }
}

/// ⟨do, v⟩ of a query and a key, one of them held by the unit; 0 where nothing reads it.
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

/// p as dropout leaves it and ds of a seen pair, ds before the slope of the rules, and that slope from place `from` on.
#[cube]
pub(super) fn pair<R: ScoreRule>(
    products: (f32, f32),
    statistics: (f32, f32),
    site: &Site<Const<1>>,
    scalars: &Scalars,
    tables: &[u32],
    rule: &R::Args,
    #[comptime] form: Form,
    #[comptime] from: usize,
) -> (f32, f32, f32) {
    let raw = Vector::<f32, Const<1>>::new(products.0 * scalars.scale);
    let (before, slope) = trace::<Const<1>>(raw, site, scalars, tables, form.kinds, from);
    let score = score_by::<Const<1>, R>(before, site, scalars, rule, form);
    let p = (score.extract(0usize) - statistics.0).exp();
    let (weight, product) = dropped((p, products.1), site, tables, form);
    let ds = p * (product - statistics.1);
    let ds = Vector::<f32, Const<1>>::new(ds);
    let ds = before_rule::<Const<1>, R>(ds, before, site, scalars, rule, form);
    (weight, ds.extract(0usize), slope.extract(0usize))
}

/// dq\[i\] = scale · Σ_j ds_ij · k\[j\].
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
        let statistic = (statistics[2 * row], statistics[2 * row + 1]);
        let mut sums = zero_head::<N>(vectors);
        let keys = (site.batch * scalars.kv_heads + site.head / scalars.group) * scalars.keys;
        let (first, end) = keys_of(site.query, site.query, &scalars, form.kinds);
        for key in first..end {
            site.key = key;
            if seen_by::<Const<1>, R>(&site, &scalars, tables, &rule, form).extract(0usize) {
                let at = keys + key;
                let products = (
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
                    products, statistic, &site, &scalars, tables, &rule, form, 0usize,
                );
                accumulate::<F, N>(&mut sums, ds * slope, k, at * vectors, vectors);
            }
        }
        scale_head::<N>(&mut sums, scalars.scale, vectors);
        store_head::<F, N>(&sums, 1.0f32, dq, row * vectors, vectors);
    }
}

/// dk\[j\] = scale · Σ_i ds_ij · q\[i\], or dv\[j\] = Σ_i p_ij · do\[i\], over the queries of all heads of the group.
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
                    let statistic = (statistics[2 * at], statistics[2 * at + 1]);
                    let none = comptime!(of != Of::Keys);
                    let products = (
                        dot::<F, N>(&own, q, at * vectors, vectors),
                        value_product::<F, N>(&value, d_o, at * value_vectors, form, none),
                    );
                    let (p, ds, slope) = pair::<R>(
                        products, statistic, &site, &scalars, tables, &rule, form, 0usize,
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

/// Which gradient a unit of a key sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Of {
    Keys,
    /// That of the keys through the log-sum-exp, where no values take part.
    KeysOfLse,
    Values,
}

impl Of {
    /// Vectors of a row that is written, and of one of values that is held.
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

buffers! {
    /// Buffers of the backward pass; shapes as in [`moebius_ops::attention`].
    pub struct BackwardBuffers {
        pub q: Handle => "[B, Hq, Sq, D]" read,
        pub k: Handle => "[B, Hkv, Skv, D]" read,
        pub v: Handle => "[B, Hkv, Skv, Dv]" read,
        /// Read.
        pub tables: TableBuffers,
        pub lse: Handle => "[B, Hq, Sq] f32" read: "what the forward pass wrote",
        /// Where the gradient comes from.
        pub through: Through,
        pub dq: Handle => "[B, Hq, Sq, D]" written,
        pub dk: Handle => "[B, Hkv, Skv, D]" written,
        pub d_bias: Option<Handle> = "dbias" => "f32" written: "of the dense bias, where it is there",
        pub d_relative: Option<Handle> = "drelative" => "f32" written: "of the biases by distance, where it is there",
        pub d_sinks: Option<Handle> = "dsinks" => "f32" written: "of the sinks, where it is there",
    }
}

/// The result whose gradient comes in.
#[derive(Clone)]
pub enum Through {
    /// o.
    Output {
        /// Read: what the forward pass wrote.
        o: Handle,
        /// Gradient of o, read.
        d_o: Handle,
        /// Written.
        dv: Handle,
    },
    /// The log-sum-exp; the gradient of v is 0.
    LogSumExp {
        /// Gradient of lse f32, read.
        d_lse: Handle,
    },
}

impl FromNames for Through {
    /// Through the log-sum-exp where that has a gradient.
    fn from_names(buffers: &impl Lookup, _: &[&str]) -> Self {
        let of = |name: &str| Handle::from_names(buffers, &[name]);
        match buffers.find("dlse") {
            Some(d_lse) => Self::LogSumExp { d_lse },
            None => Self::Output {
                o: of("o"),
                d_o: of("do"),
                dv: of("dv"),
            },
        }
    }
}

/// What the launches of a backward pass share.
pub(super) struct Backward<'a, R> {
    pub(super) client: &'a Client,
    pub(super) plan: &'a Plan,
    pub(super) buffers: &'a BackwardBuffers,
    pub(super) tables: Handle,
    /// f32 \[B, Hq, Sq, 2\].
    pub(super) statistics: Handle,
    pub(super) rule: &'a R,
}

impl<R> Backward<'_, R> {
    /// A matrix of so many rows; one without rows isn't read, and something else is bound.
    pub(super) fn bind(&self, buffer: &Handle, rows: usize) -> BufferArg {
        bind(match rows {
            0 => self.statistics.clone(),
            _ => buffer.clone(),
        })
    }

    pub(super) fn through_lse(&self) -> bool {
        matches!(self.buffers.through, Through::LogSumExp { .. })
    }

    /// do, or q where the gradient comes through the log-sum-exp and nothing reads it.
    pub(super) fn d_o(&self) -> BufferArg {
        let d_o = match &self.buffers.through {
            Through::Output { d_o, .. } => d_o,
            Through::LogSumExp { .. } => &self.buffers.q,
        };
        self.bind(d_o, self.plan.problem.query_rows())
    }

    pub(super) fn statistics(&self) -> BufferArg {
        bind(self.statistics.clone())
    }

    pub(super) fn tables(&self) -> BufferArg {
        bind(self.tables.clone())
    }

    /// q, k, v, do, statistics and tables: what every gradient of pairs reads, in this order.
    pub(super) fn inputs(&self) -> [BufferArg; 6] {
        let (p, b) = (&self.plan.problem, self.buffers);
        [
            self.bind(&b.q, p.query_rows()),
            self.bind(&b.k, p.key_rows()),
            self.bind(&b.v, p.key_rows()),
            self.d_o(),
            self.statistics(),
            self.tables(),
        ]
    }
}

/// Enqueues the backward pass: four launches or fewer, one more for each table's gradient, and one per table where there
/// are several.
///
/// # Panics
/// Where a table of a rule is missing.
pub fn launch_backward(client: &Client, plan: &Plan, buffers: BackwardBuffers) {
    launch_by(client, plan, &buffers, &NoRule);
}

/// [`launch_backward`] with `rule` after the problem's rules.
///
/// # Panics
/// As [`launch_backward`], and unless the plan is one of [`super::plan_ruled`].
pub fn launch_backward_ruled<R: LaunchRule>(
    client: &Client,
    plan: &Plan,
    buffers: BackwardBuffers,
    rule: &R,
) {
    assert!(plan.ruled, "expected a plan with a rule");
    launch_by(client, plan, &buffers, rule);
}

fn launch_by<R: LaunchRule>(client: &Client, plan: &Plan, buffers: &BackwardBuffers, rule: &R) {
    let p = &plan.problem;
    let backward = Backward {
        client,
        plan,
        buffers,
        tables: tables::gather(client, &plan.problem, plan.table_grid, &buffers.tables),
        statistics: client.empty(p.query_rows().max(1) * 8),
        rule,
    };
    if p.query_rows() > 0 {
        launch_statistics(&backward);
    }
    match plan.variant {
        Variant::Cpu if p.query_rows() > 0 => cpu::launch_backward(&backward),
        _ => launch_units(&backward),
    }
    backward_tables::launch(&backward);
}

fn launch_units<R: LaunchRule>(backward: &Backward<'_, R>) {
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

fn launch_statistics<R>(backward: &Backward<'_, R>) {
    let (plan, buffers) = (backward.plan, backward.buffers);
    let p = &plan.problem;
    let (o, d_o, d_lse) = match &buffers.through {
        Through::Output { o, d_o, .. } => (Some(o), Some(d_o), None),
        Through::LogSumExp { d_lse } => (None, None, Some(d_lse)),
    };
    let bound = |buffer: Option<&Handle>| buffer.cloned().map(bind);
    // SAFETY: the buffers are as long as they are described; units past the last query return.
    unsafe {
        launched::note(|| {
            let of = launched::suffix(backward.through_lse(), "_of_lse");
            format!("attention_statistics{of}_unit_{}", p.element())
        });
        attention_statistics::launch_unchecked(
            backward.client,
            plan.per_query.count(),
            plan.per_query.dim(),
            plan.lanes,
            bound(o).into(),
            bound(d_o).into(),
            bind(buffers.lse.clone()),
            bound(d_lse).into(),
            backward.statistics(),
            plan.form().value_vectors,
            p.element().elem_type(),
        );
    }
}

fn launch_query_gradient<R: LaunchRule>(backward: &Backward<'_, R>) {
    let (plan, b) = (backward.plan, backward.buffers);
    let p = &plan.problem;
    let [q, k, v, d_o, statistics, tables] = backward.inputs();
    // SAFETY: the buffers are as long as they are described; keys and table entries lie inside of them; units past the last
    // query return.
    unsafe {
        launched::note(|| {
            let of = launched::suffix(backward.through_lse(), "_of_lse");
            plan.name(&format!("attention_query_gradient{of}_unit"))
        });
        attention_query_gradient_unit::launch_unchecked::<R>(
            backward.client,
            plan.per_query.count(),
            plan.per_query.dim(),
            plan.lanes,
            q,
            k,
            v,
            d_o,
            statistics,
            tables,
            bind(b.dq.clone()),
            scalars(p),
            backward.rule.args(),
            p.query_rows(),
            plan.form(),
            backward.through_lse(),
            p.element().elem_type(),
        );
    }
}

fn launch_key_gradient<R: LaunchRule>(backward: &Backward<'_, R>, of: Of, out: &Handle) {
    let plan = backward.plan;
    let p = &plan.problem;
    let [q, k, v, d_o, statistics, tables] = backward.inputs();
    // SAFETY: the buffers are as long as they are described; queries and table entries lie inside of them; units past the last
    // key return.
    unsafe {
        launched::note(|| plan.name(of.kernel()));
        attention_key_gradient_unit::launch_unchecked::<R>(
            backward.client,
            plan.per_key.count(),
            plan.per_key.dim(),
            plan.lanes,
            q,
            k,
            v,
            d_o,
            statistics,
            tables,
            bind(out.clone()),
            scalars(p),
            backward.rule.args(),
            p.key_rows(),
            plan.form(),
            of,
            p.element().elem_type(),
        );
    }
}

//! What a pair of a query and a key adds to gradients.

use crate::attention::Form;
use crate::attention::dropout::dropped;
use crate::attention::rules::{Scalars, Site, trace};
use crate::attention::score_rule::{ScoreRule, before_rule, score_by};
use crate::segment_attention::head::dot;
use cubecl::prelude::*;

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

/// p as dropout leaves it and ds of a seen pair from ⟨q, k⟩ and ⟨do, v⟩ and its query's lse and Δ, ds before the slope of the rules, and that slope from place `from` on.
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

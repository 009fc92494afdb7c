//! A user-defined score rule on a device.
//!
//! It is compiled into the kernels of the `unit` and `cpu` variants only: `tile` and `rows` would unroll it for each of their
//! queries, so a plan with such a rule chooses neither.

use super::Form;
use super::rules::{Scalars, Site, seen, tile_of, trace};
use cubecl::prelude::*;
use moebius_ops::attention::{HostRule, Pair};

/// A query and consecutive keys, one per lane.
#[derive(CubeType, Clone, Copy)]
pub struct Pairs<N: Size> {
    /// The sequence.
    pub batch: u32,
    /// The query head.
    pub head: u32,
    /// The query i.
    pub query: u32,
    /// The position of the query among the keys: i + Skv − Sq, so that queries and keys end together.
    pub position: i32,
    /// The keys j. Some may lie past the last key; results for them are ignored.
    pub keys: Vector<i32, N>,
}

/// A user-defined score rule in CubeCL; [`HostRule`] is the same rule in plain Rust. It runs after all built-in rules.
#[allow(missing_docs, reason = "the macro adds functions of its own")]
#[cube]
pub trait ScoreRule: Send + Sync + 'static {
    /// The rule's numbers, given at launch, so that another number needs no new kernel.
    type Args: LaunchArg;

    /// The new scores for the scores `s`.
    fn score<N: Size>(args: &Self::Args, s: Vector<f32, N>, at: &Pairs<N>) -> Vector<f32, N>;

    /// The derivatives of [`ScoreRule::score`] with respect to `s`.
    fn slope<N: Size>(args: &Self::Args, s: Vector<f32, N>, at: &Pairs<N>) -> Vector<f32, N>;

    /// Whether the query sees each key.
    fn seen<N: Size>(args: &Self::Args, at: &Pairs<N>) -> Vector<bool, N>;
}

/// The launch arguments of a rule.
pub type RuleArgs<R> = <<R as ScoreRule>::Args as LaunchArg>::RuntimeArg;

/// A user-defined rule with its numbers, for the host and for devices.
pub trait LaunchRule: HostRule + ScoreRule + Sized {
    /// The rule's launch arguments.
    fn args(&self) -> RuleArgs<Self>;
}

/// The absence of a user-defined rule.
#[derive(Clone, Copy, Debug)]
pub(super) struct NoRule;

#[cube]
impl ScoreRule for NoRule {
    type Args = ();

    fn score<N: Size>(_args: &(), s: Vector<f32, N>, _at: &Pairs<N>) -> Vector<f32, N> {
        s
    }

    fn slope<N: Size>(_args: &(), _s: Vector<f32, N>, _at: &Pairs<N>) -> Vector<f32, N> {
        Vector::new(1.0f32)
    }

    fn seen<N: Size>(_args: &(), at: &Pairs<N>) -> Vector<bool, N> {
        at.keys.equal(&at.keys)
    }
}

impl HostRule for NoRule {
    fn score(&self, s: f64, _: &Pair) -> f64 {
        s
    }

    fn slope(&self, _: f64, _: &Pair) -> f64 {
        1.0
    }
}

impl LaunchRule for NoRule {
    fn args(&self) {}
}

#[cube]
fn pairs_of<N: Size>(site: &Site<N>, scalars: &Scalars) -> Pairs<N> {
    Pairs::<N> {
        batch: site.batch as u32,
        head: site.head as u32,
        query: site.query as u32,
        position: site.query as i32 + scalars.shift,
        keys: Vector::new(site.key as i32) + site.lanes,
    }
}

/// [`seen`], combined with the user-defined rule.
#[cube]
pub(super) fn seen_by<N: Size, R: ScoreRule>(
    site: &Site<N>,
    scalars: &Scalars,
    tables: &[u32],
    rule: &R::Args,
    #[comptime] form: Form,
) -> Vector<bool, N> {
    let others = seen::<N>(site, scalars, tables, form.kinds);
    if comptime!(form.ruled) {
        others.vec_and(R::seen::<N>(rule, &pairs_of::<N>(site, scalars)))
    } else {
        others
    }
}

/// The scores after all rules.
#[cube]
pub(super) fn scores_by<N: Size, R: ScoreRule>(
    raw: Vector<f32, N>,
    site: &Site<N>,
    scalars: &Scalars,
    tables: &[u32],
    rule: &R::Args,
    #[comptime] form: Form,
) -> Vector<f32, N> {
    let (others, _) = trace::<N>(raw, site, scalars, tables, form.kinds, 0usize);
    score_by::<N, R>(others, site, scalars, rule, form)
}

/// The scores after the user-defined rule.
#[cube]
pub(super) fn score_by<N: Size, R: ScoreRule>(
    s: Vector<f32, N>,
    site: &Site<N>,
    scalars: &Scalars,
    rule: &R::Args,
    #[comptime] form: Form,
) -> Vector<f32, N> {
    if comptime!(form.ruled) {
        R::score::<N>(rule, s, &pairs_of::<N>(site, scalars))
    } else {
        s
    }
}

/// The gradients before the user-defined rule, from the gradients `ds` after it and the scores `s` before it.
#[cube]
pub(super) fn before_rule<N: Size, R: ScoreRule>(
    ds: Vector<f32, N>,
    s: Vector<f32, N>,
    site: &Site<N>,
    scalars: &Scalars,
    rule: &R::Args,
    #[comptime] form: Form,
) -> Vector<f32, N> {
    if comptime!(form.ruled) {
        ds * R::slope::<N>(rule, s, &pairs_of::<N>(site, scalars))
    } else {
        ds
    }
}

/// [`tile_of`], except that a user-defined rule may hide any pair.
#[cube]
pub(super) fn tile_by(
    first_query: usize,
    last_query: usize,
    first_key: usize,
    last_key: usize,
    scalars: &Scalars,
    #[comptime] form: Form,
) -> u32 {
    let met = tile_of(
        first_query,
        last_query,
        first_key,
        last_key,
        scalars,
        form.kinds,
    );
    if comptime!(form.ruled) {
        min(met, 1u32)
    } else {
        met
    }
}

//! Gradients.

use super::product::{Rows, by_key_head, stacked, zeros};
use super::scores::{Scored, Scores};
use super::walk::{Queries, Tile, Walk, write};
use super::{Terms, Tiling, relative, sum_element};
use crate::ElementType;
use crate::stablehlo::{Binary, Builder, DotDims, Reduction, Unary, Value};
use moebius_ops::TableGradients;
use moebius_ops::attention::Rule;

/// Gradients of results.
#[derive(Clone, Copy)]
pub(super) enum Of {
    /// o and its gradient.
    Output { o: Value, gradient: Value },
    /// The gradient of lse.
    LogSumExp { gradient: Value },
}

/// dq, dk, dv of gradients of o, and the tables' that are wanted.
pub(super) fn backward(
    b: &mut Builder,
    terms: &Terms<'_>,
    [q, k, v]: [Value; 3],
    (lse, of): (Value, Of),
    (wanted, tiling): (TableGradients, Tiling),
) -> Vec<Value> {
    let sums = sum_element(b, q);
    let delta = delta(b, of, sums);
    let walk = Walk::new(terms.problem, tiling);
    let scores = Scores::new(b, terms, &walk, sums);
    let pass = Pass::new(b, &scores, [q, k, v], (lse, delta, of));
    let mut state = pass.zeros(b);
    let places = Places::new(b, &scores, wanted, &mut state);
    let mut results = walk.each_queries(b, &state, |b, queries, state| {
        let block = pass.block(b, queries);
        let own = b.shape(block.q.x);
        let mut inner = state.to_vec();
        inner[0] = zeros(b, &own, sums);
        let mut results = walk.each_keys(b, queries, &inner, |b, at, state| {
            pass.tile(b, &block, at, (state, &places))
        });
        let dq = results[0];
        let mut shape = b.shape(state[0]);
        shape[2] = walk.queries;
        let dq = b.reshape(dq, &shape);
        results[0] = write(b, state[0], dq, &[(2, queries.start)]);
        results
    });
    let s = terms.problem.sizes();
    let element = b.element(q);
    results[0] = b.slice_dim(results[0], 2, 0..s.queries);
    for (result, like) in results[1..].iter_mut().zip([k, v]).take(places.first - 1) {
        let all = b.slice_dim(*result, 1, 0..s.keys);
        *result = b.reshape(all, &b.shape(like));
    }
    for result in &mut results[..places.first] {
        *result = b.convert(*result, element);
    }
    places.finish(b, &scores, &mut results);
    if let Some(sinks) = terms.tables.sinks.filter(|_| wanted.sinks) {
        results.push(of_sinks(b, sinks, (lse, delta)));
    }
    results
}

/// Δ = ⟨do, o⟩ − dlse, \[B, Hq, Sq\].
fn delta(b: &mut Builder, of: Of, element: ElementType) -> Value {
    match of {
        Of::Output { o, gradient } => {
            let [o, gradient] = [o, gradient].map(|x| b.convert(x, element));
            let products = b.mul(o, gradient);
            b.reduce(Reduction::Sum, products, &[3])
        }
        Of::LogSumExp { gradient } => {
            let gradient = b.convert(gradient, element);
            b.unary(Unary::Negate, gradient)
        }
    }
}

/// −Σ exp(sink − lse) · Δ over sequences and queries, \[Hq\].
fn of_sinks(b: &mut Builder, sinks: Value, (lse, delta): (Value, Value)) -> Value {
    let lse = b.convert(lse, b.element(delta));
    let sinks = b.convert(sinks, b.element(delta));
    let sinks = b.broadcast(sinks, &b.shape(lse), &[1]);
    let weight = b.sub(sinks, lse);
    let weight = b.unary(Unary::Exponential, weight);
    let products = b.mul(weight, delta);
    let sum = b.reduce(Reduction::Sum, products, &[0, 2]);
    b.unary(Unary::Negate, sum)
}

/// Where the tables' gradients lie in the state of the loops.
struct Places {
    /// The first of them.
    first: usize,
    /// The dense bias's, with its extents 1, and the place of its rule.
    bias: Option<(usize, Vec<usize>, usize)>,
    /// That of the biases by distance, and the place of its rule.
    relative: Option<(usize, usize)>,
}

impl Places {
    fn new(
        b: &mut Builder,
        scores: &Scores<'_>,
        wanted: TableGradients,
        state: &mut Vec<Value>,
    ) -> Self {
        let (problem, walk) = (scores.terms.problem, scores.walk);
        let first = state.len();
        let place = |of: fn(&Rule) -> bool| problem.rules().iter().position(|rule| of(&rule));
        let mut bias = None;
        let dense = scores.terms.tables.bias.filter(|_| wanted.bias);
        if let (Some(table), Some(rule)) = (dense, place(|rule| matches!(rule, Rule::Bias(_)))) {
            let [queries, keys] = walk.padded();
            let shape = b.shape(table);
            let one = (0..2).filter(|dim| shape[*dim] == 1).collect();
            bias = Some((state.len(), one, rule));
            let shape = [shape[0], shape[1], queries, keys];
            state.push(zeros(b, &shape, scores.element));
        }
        let mut by_distance = None;
        let rule = place(|rule| matches!(rule, Rule::Relative(_)));
        if let Some(rule) = rule.filter(|_| wanted.relative) {
            by_distance = Some((state.len(), rule));
            state.push(relative::sums(b, problem, walk, scores.element));
        }
        Self {
            first,
            bias,
            relative: by_distance,
        }
    }

    /// Adds gradients of a tile's scores to those of the tables.
    fn add(
        &self,
        b: &mut Builder,
        scores: &Scores<'_>,
        (scored, ds, at): (&Scored, Value, Tile),
        state: &mut [Value],
    ) {
        if let Some((to, one, rule)) = &self.bias {
            let own = scored.before(b, ds, rule + 1);
            let own = b.reduce_keep(Reduction::Sum, own, one);
            // Every tile is visited once.
            state[*to] = write(b, state[*to], own, &[(2, at.query), (3, at.key)]);
        }
        if let Some((to, rule)) = self.relative {
            let own = scored.before(b, ds, rule + 1);
            state[to] = relative::add(b, scores.walk, state[to], (own, at));
        }
    }

    /// The gradients as they leave.
    fn finish(&self, b: &mut Builder, scores: &Scores<'_>, results: &mut [Value]) {
        let [queries, keys] = scores.walk.total();
        if let Some((at, ..)) = self.bias {
            let all = b.slice_dim(results[at], 2, 0..queries);
            results[at] = b.slice_dim(all, 3, 0..keys);
        }
        if let Some((at, _)) = self.relative {
            results[at] = relative::gathered(b, scores.terms.problem, scores.walk, results[at]);
        }
    }
}

/// What every tile reads. Queries are \[B, Hq, rows, width\], keys \[B · Hkv, rows, width\], of whole blocks.
struct Pass<'a> {
    scores: &'a Scores<'a>,
    q: Rows,
    k: Rows,
    v: Value,
    /// Of o, if it has any.
    gradient: Option<Rows>,
    /// \[B, Hq, rows\].
    lse: Value,
    delta: Value,
}

/// A block of queries: by key head, but for lse and Δ.
struct Block {
    q: Rows,
    gradient: Option<Rows>,
    lse: Value,
    delta: Value,
}

impl<'a> Pass<'a> {
    fn new(
        b: &mut Builder,
        scores: &'a Scores<'a>,
        [q, k, v]: [Value; 3],
        (lse, delta, of): (Value, Value, Of),
    ) -> Self {
        let walk = scores.walk;
        let queries = |b: &mut Builder, x: Value| {
            let x = walk.pad_queries(b, x, 2);
            Rows::new(b, x, scores.hides())
        };
        let q = queries(b, q);
        let gradient = match of {
            Of::Output { gradient, .. } => Some(queries(b, gradient)),
            Of::LogSumExp { .. } => None,
        };
        let [k, v] = [k, v].map(|x| {
            let x = walk.pad_keys(b, x, 2);
            stacked(b, x)
        });
        let lse = b.convert(lse, scores.element);
        let [lse, delta] = [lse, delta].map(|x| walk.pad_queries(b, x, 2));
        Self {
            scores,
            q,
            k: Rows::new(b, k, scores.hides()),
            v,
            gradient,
            lse,
            delta,
        }
    }

    /// Zeros for dq \[B, Hq, rows, D\], dk \[B · Hkv, rows, D\] and, of gradients of o, dv \[B · Hkv, rows, Dv\].
    fn zeros(&self, b: &mut Builder) -> Vec<Value> {
        let v = self.gradient.map(|_| self.v);
        let operands = [Some(self.q.x), Some(self.k.x), v];
        let zeros = |x| {
            let shape = b.shape(x);
            zeros(b, &shape, self.scores.element)
        };
        operands.into_iter().flatten().map(zeros).collect()
    }

    fn block(&self, b: &mut Builder, queries: &Queries) -> Block {
        let (walk, group) = (self.scores.walk, self.scores.terms.problem.group());
        let part = |b: &mut Builder, x: Value| walk.query_part(b, x, 2, queries.start);
        let rows = |b: &mut Builder, rows: Rows| {
            let own = part(b, rows.x);
            rows.of(by_key_head(b, own, group))
        };
        Block {
            q: rows(b, self.q),
            gradient: self.gradient.map(|x| rows(b, x)),
            lse: part(b, self.lse),
            delta: part(b, self.delta),
        }
    }

    /// The state of the loops with what a tile adds.
    fn tile(
        &self,
        b: &mut Builder,
        block: &Block,
        at: Tile,
        (state, places): (&[Value], &Places),
    ) -> Vec<Value> {
        let (scores, walk) = (self.scores, self.scores.walk);
        let shape = scores.shape();
        let [k, v] = [self.k.x, self.v].map(|x| walk.key_part(b, x, 1, at.key));
        let products = b.dot(block.q.x, k, &DotDims::matmul_transposed(1), scores.element);
        let seen = scores.seen(b, at);
        let scored = scores.scored(b, products, at).seen(b, seen);
        let over_pairs = |b: &mut Builder, x: Value| b.broadcast(x, &shape, &[0, 1, 2]);
        let seen_only = |b: &mut Builder, x: Value| match seen {
            Some(seen) => b.select_or_zero(seen, x),
            None => x,
        };
        let lse = over_pairs(b, block.lse);
        let p = b.sub(scored.score, lse);
        let p = b.unary(Unary::Exponential, p);
        let p = seen_only(b, p);
        let delta = over_pairs(b, block.delta);
        let dp = match block.gradient {
            Some(gradient) => {
                let dims = DotDims::matmul_transposed(1);
                let dp = b.dot(gradient.x, v, &dims, scores.element);
                let dp = b.reshape(dp, &shape);
                b.sub(dp, delta)
            }
            None => b.unary(Unary::Negate, delta),
        };
        let ds = b.mul(p, dp);
        let ds = seen_only(b, ds);
        let mut results = state.to_vec();
        places.add(b, scores, (&scored, ds, at), &mut results);
        let ds = scored.before(b, ds, 0);
        let ds = b.binary_scalar(Binary::Multiply, ds, scores.terms.scale);
        let by_group = b.shape(products);
        let [ds, p] = [ds, p].map(|x| b.reshape(x, &by_group));
        let by_query = (ds, &DotDims::matmul(1));
        let dq = self.k.of(k).product(b, by_query, |b| scores.seen(b, at));
        results[0] = b.add(results[0], dq);
        // Sums over the queries of all heads of the group.
        let over_queries = DotDims::batched(1, 1, 1);
        let pairs = [Some((ds, block.q)), block.gradient.map(|x| (p, x))];
        for (place, (weights, rows)) in pairs.into_iter().flatten().enumerate() {
            let weighted = (weights, &over_queries);
            let sum = rows.product(b, weighted, |b| scores.seen(b, at));
            let all = results[1 + place];
            let before = walk.key_part(b, all, 1, at.key);
            let after = b.add(before, sum);
            results[1 + place] = write(b, all, after, &[(1, at.key)]);
        }
        results
    }
}

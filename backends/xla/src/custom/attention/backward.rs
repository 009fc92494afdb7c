//! Gradients of attention under score rules.

use super::relative;
use super::scores::{Scored, Scores};
use super::walk::{Queries, Rows, Terms, Tile, Tiling, Walk, by_key_head, stacked, write, zeros};
use crate::stablehlo::{Along, Builder, DotDims, Reduction, Value};
use moebius_ops::TableGradients;
use moebius_ops::attention::Rule;
use moebius_pjrt::ElementType;

/// The result whose gradient comes in.
#[derive(Clone, Copy)]
pub(super) enum Of {
    /// The output o, with its gradient.
    Output { o: Value, gradient: Value },
    /// The log-sum-exp lse, by its gradient.
    LogSumExp { gradient: Value },
}

/// Appends the backward pass: dq, dk and dv (dv only through o), then the gradients of the tables that are `wanted`.
pub(super) fn backward(
    b: &Builder,
    terms: &Terms<'_>,
    [q, k, v]: [Value; 3],
    (lse, of): (Value, Of),
    (wanted, tiling): (TableGradients, Tiling),
) -> Vec<Value> {
    let sums = b.sum_element(q);
    let delta = delta(b, of, sums);
    let walk = Walk::new(terms.problem, tiling);
    let scores = Scores::new(b, terms, &walk, sums);
    let pass = Pass::new(b, &scores, [q, k, v], (lse, delta, of));
    let mut state = pass.zeros(b);
    let places = Places::new(b, &scores, wanted, &mut state);
    let mut results = walk.each_queries(b, &state, |b, queries, state| {
        let block = pass.block(b, queries);
        let mut inner = state.to_vec();
        inner[0] = zeros(b, &b.shape(block.q.x), sums);
        let mut results = walk.each_keys(b, queries, &inner, |b, at, state| {
            pass.tile(b, &block, at, (state, &places))
        });
        let mut shape = b.shape(state[0]);
        shape[2] = walk.queries;
        let dq = b.reshape(results[0], &shape);
        results[0] = write(b, state[0], dq, &[(2, queries.start)]);
        results
    });
    let s = terms.problem.sizes();
    let element = b.element(q);
    results[0] = b.slice_dim(results[0], 2, 0..s.queries);
    for (result, like) in results[1..].iter_mut().zip([k, v]).take(places.first - 1) {
        *result = b.reshape(b.slice_dim(*result, 1, 0..s.keys), &b.shape(like));
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

/// Δ = ⟨do, o⟩ − dlse, which every gradient of scores subtracts, \[B, Hq, Sq\].
fn delta(b: &Builder, of: Of, element: ElementType) -> Value {
    match of {
        Of::Output { o, gradient } => {
            let [o, gradient] = [o, gradient].map(|x| b.convert(x, element));
            b.sum(b.mul(o, gradient), &[3])
        }
        Of::LogSumExp { gradient } => b.neg(b.convert(gradient, element)),
    }
}

/// The gradient of the sinks, −Σ exp(sink − lse) · Δ over sequences and queries, \[Hq\].
fn of_sinks(b: &Builder, sinks: Value, (lse, delta): (Value, Value)) -> Value {
    let [lse, sinks] = [lse, sinks].map(|x| b.convert(x, b.element(delta)));
    let sinks = b.broadcast(sinks, &b.shape(lse), &[1]);
    let weight = b.exp(b.sub(sinks, lse));
    b.neg(b.sum(b.mul(weight, delta), &[0, 2]))
}

/// The indices of the tables' gradients in the state of the loops.
struct Places {
    /// The index of the first one, after dq, dk and dv.
    first: usize,
    /// The dense bias's index, its dimensions of extent 1, and the index of its rule.
    bias: Option<(usize, Vec<usize>, usize)>,
    /// The index of the gradients of the biases by distance, and the index of their rule.
    relative: Option<(usize, usize)>,
}

impl Places {
    fn new(
        b: &Builder,
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

    /// Adds a tile's gradients of scores to the gradients of the tables.
    fn add(
        &self,
        b: &Builder,
        scores: &Scores<'_>,
        (scored, ds, at): (&Scored, Value, Tile),
        state: &mut [Value],
    ) {
        if let Some((to, one, rule)) = &self.bias {
            let own = scored.before(b, ds, rule + 1);
            let own = b.reduce_keep(Reduction::Sum, own, one);
            // Each tile is visited once, so its part is written rather than added.
            state[*to] = write(b, state[*to], own, &[(2, at.query), (3, at.key)]);
        }
        if let Some((to, rule)) = self.relative {
            let own = scored.before(b, ds, rule + 1);
            state[to] = relative::add(b, scores.walk, state[to], (own, at));
        }
    }

    /// Turns the sums in `results` into the gradients that the operation returns.
    fn finish(&self, b: &Builder, scores: &Scores<'_>, results: &mut [Value]) {
        let [queries, keys] = scores.walk.total;
        if let Some((at, ..)) = self.bias {
            results[at] = b.slice_dim(b.slice_dim(results[at], 2, 0..queries), 3, 0..keys);
        }
        if let Some((at, _)) = self.relative {
            results[at] = relative::gathered(b, scores.terms.problem, scores.walk, results[at]);
        }
    }
}

/// The operands of every tile, padded to whole blocks: queries \[B, Hq, rows, width\], keys \[B · Hkv, rows, width\].
struct Pass<'a> {
    scores: &'a Scores<'a>,
    q: Rows,
    k: Rows,
    v: Value,
    /// The gradient of o, in a pass through o.
    gradient: Option<Rows>,
    /// The log-sum-exp, \[B, Hq, rows\].
    lse: Value,
    delta: Value,
}

/// A block of queries: q and the gradient of o stacked by key head, lse and Δ by query head.
struct Block {
    q: Rows,
    gradient: Option<Rows>,
    lse: Value,
    delta: Value,
}

impl<'a> Pass<'a> {
    fn new(
        b: &Builder,
        scores: &'a Scores<'a>,
        [q, k, v]: [Value; 3],
        (lse, delta, of): (Value, Value, Of),
    ) -> Self {
        let walk = scores.walk;
        let queries = |x| Rows::new(b, walk.pad_queries(b, x, 2), scores.hides);
        let q = queries(q);
        let gradient = match of {
            Of::Output { gradient, .. } => Some(queries(gradient)),
            Of::LogSumExp { .. } => None,
        };
        let [k, v] = [k, v].map(|x| stacked(b, walk.pad_keys(b, x, 2)));
        let lse = b.convert(lse, scores.element);
        let [lse, delta] = [lse, delta].map(|x| walk.pad_queries(b, x, 2));
        Self {
            scores,
            q,
            k: Rows::new(b, k, scores.hides),
            v,
            gradient,
            lse,
            delta,
        }
    }

    /// Zeros for dq \[B, Hq, rows, D\], dk \[B · Hkv, rows, D\] and, in a pass through o, dv \[B · Hkv, rows, Dv\].
    fn zeros(&self, b: &Builder) -> Vec<Value> {
        let v = self.gradient.map(|_| self.v);
        let operands = [Some(self.q.x), Some(self.k.x), v];
        let zeros = |x| zeros(b, &b.shape(x), self.scores.element);
        operands.into_iter().flatten().map(zeros).collect()
    }

    fn block(&self, b: &Builder, queries: &Queries) -> Block {
        let (walk, group) = (self.scores.walk, self.scores.terms.problem.group());
        let part = |x| walk.query_part(b, x, 2, queries.start);
        let rows = |rows: Rows| rows.of(by_key_head(b, part(rows.x), group));
        Block {
            q: rows(self.q),
            gradient: self.gradient.map(rows),
            lse: part(self.lse),
            delta: part(self.delta),
        }
    }

    /// Adds a tile's gradients to the state of the loops.
    fn tile(
        &self,
        b: &Builder,
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
        let seen_only = |x| match seen {
            Some(seen) => b.select(seen, x, 0.0),
            None => x,
        };
        let p = seen_only(b.exp(b.sub(scored.score, Along(block.lse, [0, 1, 2]))));
        let delta = b.broadcast(block.delta, &shape, &[0, 1, 2]);
        let dp = match block.gradient {
            Some(gradient) => {
                let dims = DotDims::matmul_transposed(1);
                let dp = b.dot(gradient.x, v, &dims, scores.element);
                b.sub(scores.dropped(b, b.reshape(dp, &shape), at), delta)
            }
            None => b.neg(delta),
        };
        let ds = seen_only(b.mul(p, dp));
        let mut results = state.to_vec();
        places.add(b, scores, (&scored, ds, at), &mut results);
        let ds = b.mul(scored.before(b, ds, 0), scores.terms.scale);
        let p = scores.dropped(b, p, at);
        let [ds, p] = [ds, p].map(|x| b.reshape(x, &b.shape(products)));
        let seen = || scores.seen(b, at);
        let by_query = (ds, &DotDims::matmul(1));
        results[0] = b.add(results[0], self.k.of(k).product(b, by_query, seen));
        // The products sum over the queries of all heads of a group.
        let over_queries = DotDims::batched(1, 1, 1);
        let pairs = [Some((ds, block.q)), block.gradient.map(|x| (p, x))];
        for (place, (weights, rows)) in pairs.into_iter().flatten().enumerate() {
            let sum = rows.product(b, (weights, &over_queries), seen);
            let all = results[1 + place];
            let after = b.add(walk.key_part(b, all, 1, at.key), sum);
            results[1 + place] = write(b, all, after, &[(1, at.key)]);
        }
        results
    }
}

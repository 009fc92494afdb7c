//! o and lse.

use super::product::{Rows, by_key_head, stacked, zeros};
use super::scores::Scores;
use super::walk::{Tile, Walk, write};
use super::{Terms, Tiling, sum_element};
use crate::stablehlo::{Builder, Compare, DotDims, Reduction, TensorType, Unary, Value};

/// o \[B, Hq, Sq, Dv\] of v's type and lse \[B, Hq, Sq\], in f32 for halves.
pub(crate) fn forward(
    b: &mut Builder,
    terms: &Terms<'_>,
    [q, k, v]: [Value; 3],
    tiling: Tiling,
) -> [Value; 2] {
    let s = terms.problem.sizes();
    let (sums, own) = (sum_element(b, q), b.element(v));
    let walk = Walk::new(terms.problem, tiling);
    let scores = Scores::new(b, terms, &walk, sums);
    let q = walk.pad_queries(b, q, 2);
    let [k, v] = [k, v].map(|x| {
        let x = walk.pad_keys(b, x, 2);
        stacked(b, x)
    });
    let v = Rows::new(b, v, scores.hides());
    let rows = [s.batch, s.heads, walk.padded()[0]];
    let width = b.shape(v.x)[2];
    let state = [
        zeros(b, &[&rows[..], &[width]].concat(), own),
        zeros(b, &rows, sums),
    ];
    let results = walk.each_queries(b, &state, |b, queries, state| {
        let q = walk.query_part(b, q, 2, queries.start);
        let q = by_key_head(b, q, terms.problem.group());
        let softmax = Softmax::new(b, &scores, width);
        let softmax = walk.each_keys(b, queries, &softmax.state(), |b, at, state| {
            let [k, v_part] = [k, v.x].map(|x| walk.key_part(b, x, 1, at.key));
            let keys = (k, v.of(v_part));
            Softmax::of(state)
                .with(b, &scores, (q, keys), at)
                .state()
                .to_vec()
        });
        let [o, lse] = Softmax::of(&softmax).finished(b);
        let o = b.convert(o, own);
        [(state[0], o), (state[1], lse)]
            .map(|(all, part)| write(b, all, part, &[(2, queries.start)]))
            .to_vec()
    });
    [results[0], results[1]].map(|x| b.slice_dim(x, 2, 0..s.queries))
}

/// The softmax over the keys so far.
struct Softmax {
    /// \[B, Hq, queries\]: the largest score, −∞ before any.
    largest: Value,
    /// Of the exponentials of scores, less the largest one.
    sum: Value,
    /// \[B, Hq, queries, Dv\]: values times those exponentials.
    o: Value,
}

impl Softmax {
    /// Before any key.
    fn new(b: &mut Builder, scores: &Scores<'_>, width: usize) -> Self {
        let [batch, heads, queries, _] = scores.shape();
        let ty = TensorType::new([batch, heads, queries], scores.element);
        let o = zeros(b, &[batch, heads, queries, width], scores.element);
        let Some(sinks) = scores.terms.tables.sinks else {
            return Self {
                largest: b.lowest(ty.clone()),
                sum: b.splat(0.0, ty),
                o,
            };
        };
        let sinks = b.convert(sinks, scores.element);
        let largest = b.broadcast(sinks, &ty.shape, &[1]);
        let nothing = b.compare_scalar(Compare::Eq, largest, f64::NEG_INFINITY);
        let (zero, one) = (b.splat(0.0, ty.clone()), b.splat(1.0, ty));
        let sum = b.select(nothing, zero, one);
        Self { largest, sum, o }
    }

    fn of(state: &[Value]) -> Self {
        Self {
            largest: state[0],
            sum: state[1],
            o: state[2],
        }
    }

    fn state(&self) -> [Value; 3] {
        [self.largest, self.sum, self.o]
    }

    /// With a block of keys and values more, of queries by key head.
    fn with(
        self,
        b: &mut Builder,
        scores: &Scores<'_>,
        (q, (k, v)): (Value, (Value, Rows)),
        at: Tile,
    ) -> Self {
        let (shape, element) = (scores.shape(), scores.element);
        let products = b.dot(q, k, &DotDims::matmul_transposed(1), element);
        let score = scores.scored(b, products, at).score;
        let seen = scores.seen(b, at);
        let never = b.lowest(b.ty(score).clone());
        let score = seen.map_or(score, |seen| b.select(seen, score, never));
        let here = b.reduce(Reduction::Max, score, &[3]);
        let largest = b.max(self.largest, here);
        // Rows that have seen nothing yet: −∞ − −∞ would be NaN.
        let nothing = b.compare_scalar(Compare::Eq, largest, f64::NEG_INFINITY);
        let zero = b.splat_like(0.0, largest);
        let from = b.select(nothing, zero, largest);
        let all = b.broadcast(from, &shape, &[0, 1, 2]);
        let p = b.sub(score, all);
        let p = b.unary(Unary::Exponential, p);
        let shrink = b.sub(self.largest, from);
        let shrink = b.unary(Unary::Exponential, shrink);
        let part = b.reduce(Reduction::Sum, p, &[3]);
        let sum = b.mul(self.sum, shrink);
        let sum = b.add(sum, part);
        let of_o = b.shape(self.o);
        let shrink = b.broadcast(shrink, &of_o, &[0, 1, 2]);
        let o = b.mul(self.o, shrink);
        let of_products = b.shape(products);
        let p = b.reshape(p, &of_products);
        let part = v.product(b, (p, &DotDims::matmul(1)), |b| scores.seen(b, at));
        let part = b.reshape(part, &of_o);
        let o = b.add(o, part);
        Self { largest, sum, o }
    }

    /// o and lse: 0 and the least finite f32 of rows that see nothing.
    fn finished(self, b: &mut Builder) -> [Value; 2] {
        let nothing = b.compare_scalar(Compare::Eq, self.sum, 0.0);
        let one = b.splat_like(1.0, self.sum);
        let sum = b.select(nothing, one, self.sum);
        let shape = b.shape(self.o);
        let sums = b.broadcast(sum, &shape, &[0, 1, 2]);
        let o = b.div(self.o, sums);
        let log = b.unary(Unary::Log, sum);
        let lse = b.add(self.largest, log);
        let least = b.splat_like(f64::from(f32::MIN), lse);
        [o, b.select(nothing, least, lse)]
    }
}

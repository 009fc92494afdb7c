//! Attention under score rules, and its gradients: [`moebius_ops::attention`].
//!
//! If there are few scores, all are computed at once. Otherwise they are computed in blocks of queries over blocks of
//! keys, with the softmax rescaled as its largest score grows (Milakov & Gimelshein 2018): memory grows with the rows
//! and the tables, and a block of queries visits only the keys that the rules without tables let it see. Both forms
//! share one program text, with or without loops around it. The rows of query heads that share a key head are stacked
//! for one product, so that keys and values aren't repeated.
//!
//! A row with NaN affects only the rows that see it: weights of unseen pairs are set to 0, and elements that aren't
//! finite, whose products with 0 are NaN, are added separately ([`Rows`]).
//!
//! | file | what it computes |
//! |---|---|
//! | `walk.rs` | operands of scores, blocks and the loops over them, weighted sums of rows |
//! | `scores.rs`, `relative.rs` | scores of a tile, and which of its pairs are seen |
//! | `mod.rs`, `backward.rs` | the forward and the backward pass |

mod backward;
mod relative;
mod scores;
mod walk;

pub(super) use scores::{Places, all, by_place};
pub use walk::Tiling;
pub(crate) use walk::{Tables, Terms};

use super::values::float;
use crate::stablehlo::{Along, Builder, DotDims, Reduction, Value};
use backward::{Of, backward};
use moebius_ops::{Attention, AttentionPass, Operation};
use moebius_pjrt::TensorType;
use scores::Scores;
use walk::{Rows, Tile, Walk, by_key_head, stacked, write, zeros};

/// Appends the operation, whose operands were checked, and returns its results.
pub(super) fn lower(
    b: &Builder,
    operation: &Attention,
    inputs: &[Value],
    tiling: Tiling,
) -> Vec<Value> {
    let signature = Operation::from(*operation).signature();
    let named = |name: &str| {
        let place = signature.operands.iter().position(|x| x.name == name);
        place.map(|place| inputs[place])
    };
    let there = |name: &str| {
        named(name).unwrap_or_else(|| unreachable!("a description of this pass has {name}"))
    };
    let tables = Tables {
        query_documents: named("query_documents"),
        key_documents: named("key_documents"),
        blocks: named("blocks"),
        mask: named("mask"),
        slopes: named("slopes"),
        bias: named("bias"),
        relative: named("relative"),
        sinks: named("sinks"),
        dropout: named("dropout"),
    };
    let terms = Terms::new(&operation.problem, tables);
    let element = float(operation.problem.element());
    let rows = |name: &str| b.convert(there(name), element);
    let qkv = ["q", "k", "v"].map(rows);
    let (of, wanted) = match operation.pass {
        AttentionPass::Forward => return forward(b, &terms, qkv, tiling).to_vec(),
        AttentionPass::Output(wanted) => {
            let (o, gradient) = (rows("o"), rows("do"));
            (Of::Output { o, gradient }, wanted)
        }
        AttentionPass::LogSumExp(wanted) => {
            let gradient = there("dlse");
            (Of::LogSumExp { gradient }, wanted)
        }
    };
    backward(b, &terms, qkv, (there("lse"), of), (wanted, tiling))
}

/// Appends the forward pass: o \[B, Hq, Sq, Dv\] in v's type and lse \[B, Hq, Sq\], in f32 for f16 and bf16.
pub(crate) fn forward(
    b: &Builder,
    terms: &Terms<'_>,
    [q, k, v]: [Value; 3],
    tiling: Tiling,
) -> [Value; 2] {
    let s = terms.problem.sizes();
    let (sums, own) = (b.sum_element(q), b.element(v));
    let walk = Walk::new(terms.problem, tiling);
    let scores = Scores::new(b, terms, &walk, sums);
    let q = walk.pad_queries(b, q, 2);
    let [k, v] = [k, v].map(|x| stacked(b, walk.pad_keys(b, x, 2)));
    let v = Rows::new(b, v, scores.hides);
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
            let [k, of_v] = [k, v.x].map(|x| walk.key_part(b, x, 1, at.key));
            let softmax = Softmax::of(state).with(b, &scores, (q, k, v.of(of_v)), at);
            softmax.state().to_vec()
        });
        let [o, lse] = Softmax::of(&softmax).finished(b);
        [(state[0], b.convert(o, own)), (state[1], lse)]
            .map(|(all, part)| write(b, all, part, &[(2, queries.start)]))
            .to_vec()
    });
    [results[0], results[1]].map(|x| b.slice_dim(x, 2, 0..s.queries))
}

/// The running softmax over the keys so far.
struct Softmax {
    /// The largest score so far, \[B, Hq, queries\]; −∞ before any key.
    largest: Value,
    /// The sum of exp(score − largest), \[B, Hq, queries\].
    sum: Value,
    /// The sum of exp(score − largest) · v, \[B, Hq, queries, Dv\].
    o: Value,
}

impl Softmax {
    /// The softmax before any key, which includes the sinks.
    fn new(b: &Builder, scores: &Scores<'_>, width: usize) -> Self {
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
        let largest = b.broadcast(b.convert(sinks, scores.element), &ty.shape, &[1]);
        let nothing = b.eq(largest, f64::NEG_INFINITY);
        let sum = b.select(nothing, b.splat(0.0, ty), 1.0);
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

    /// The softmax with one more block of keys and values; q is stacked by key head.
    fn with(
        self,
        b: &Builder,
        scores: &Scores<'_>,
        (q, k, v): (Value, Value, Rows),
        at: Tile,
    ) -> Self {
        let products = b.dot(q, k, &DotDims::matmul_transposed(1), scores.element);
        let score = scores.scored(b, products, at).score;
        let score = match scores.seen(b, at) {
            Some(seen) => b.select(seen, score, f64::NEG_INFINITY),
            None => score,
        };
        let largest = b.max(self.largest, b.reduce(Reduction::Max, score, &[3]));
        // A row that has seen nothing yet would compute −∞ − −∞, which is NaN.
        let from = b.select_number(b.eq(largest, f64::NEG_INFINITY), 0.0, largest);
        let p = b.exp(b.sub(score, Along(from, [0, 1, 2])));
        let shrink = b.exp(b.sub(self.largest, from));
        let part = b.sum(p, &[3]);
        let sum = b.add(b.mul(self.sum, shrink), part);
        let o = b.mul(self.o, Along(shrink, [0, 1, 2]));
        let p = b.reshape(scores.dropped(b, p, at), &b.shape(products));
        let part = v.product(b, (p, &DotDims::matmul(1)), || scores.seen(b, at));
        let o = b.add(o, b.reshape(part, &b.shape(o)));
        Self { largest, sum, o }
    }

    /// o and lse; for rows that see nothing 0 and the lowest finite f32.
    fn finished(self, b: &Builder) -> [Value; 2] {
        let nothing = b.eq(self.sum, 0.0);
        let sum = b.select_number(nothing, 1.0, self.sum);
        let o = b.div(self.o, Along(sum, [0, 1, 2]));
        let lse = b.add(self.largest, b.log(sum));
        [o, b.select_number(nothing, f64::from(f32::MIN), lse)]
    }
}

//! Attention among the sorted rows of one expert and one sequence, and its gradients:
//! [`moebius_ops::segment_attention`].
//!
//! A sequence's rows are neighbours: it is walked in blocks of B rows from its first one on, each block of
//! queries over the blocks of keys that it sees, with the softmax rescaled as its largest score grows (Milakov
//! & Gimelshein 2018). Where a row lies in its blocks follows from its own sequence, the shapes of the
//! blocks from no batch, and rows of other sequences are taken as 0: what a sequence gets, to the last
//! bit, and where a NaN of it goes, depends on nothing else. Work and memory follow from the lengths of
//! the sequences, not from R²; a sequence wastes B − 1 rows at most.

use super::fp8::pad_end;
use super::grouped::{element, most_blocks};
use super::neighbours::Keys;
use crate::ElementType;
use crate::stablehlo::{Binary, Builder, Compare, DotDims, Reduction, TensorType, Unary, Value};
use moebius_ops::segment_attention::Problem;

/// Rows of a block B.
const BLOCK: usize = 64;

/// o and lse of q, k, v, and of order and offsets unless one expert has all rows.
pub(super) fn forward(b: &mut Builder, p: &Problem, dense: bool, inputs: &[Value]) -> Vec<Value> {
    if p.rows() == 0 {
        let lse = TensorType::new([0, p.heads()], ElementType::F32);
        return vec![inputs[0], b.splat(0.0, lse)];
    }
    let element = b.element(inputs[0]);
    let (seen, projections) = seen(b, p, dense, inputs);
    let [o, lse] = seen.attended(b, projections);
    let o = seen.rows(b, o, p.head_dim());
    vec![b.convert(o, element), seen.rows(b, lse, 1)]
}

/// dq, dk and dv of the operands of the forward pass, o, lse and do.
pub(super) fn backward(b: &mut Builder, p: &Problem, dense: bool, inputs: &[Value]) -> Vec<Value> {
    if p.rows() == 0 {
        return inputs[..3].to_vec();
    }
    let element = b.element(inputs[0]);
    let (seen, projections) = seen(b, p, dense, inputs);
    let first = if dense { 3 } else { 5 };
    let [o, gradient] = [first, first + 2].map(|i| seen.heads(b, inputs[i]));
    let products = b.mul(o, gradient);
    let delta = b.reduce(Reduction::Sum, products, &[2]);
    let lse = seen.heads(b, inputs[first + 1]);
    let lse = b.slice_dim(lse, 2, 0..1);
    let padded = b.shape(lse)[1];
    let lse = b.reshape(lse, &[p.heads(), padded]);
    let [dq, dk, dv] = seen.gradients(b, projections, [lse, delta, gradient]);
    let dq = b.binary_scalar(Binary::Multiply, dq, scale(p));
    let results = [dq, dk, dv].map(|d| {
        let d = seen.rows(b, d, p.head_dim());
        b.convert(d, element)
    });
    results.to_vec()
}

fn scale(p: &Problem) -> f64 {
    1.0 / (p.head_dim() as f64).sqrt()
}

/// The sequences, and the scaled queries, keys and values by head.
fn seen(b: &mut Builder, p: &Problem, dense: bool, inputs: &[Value]) -> (Seen, [Value; 3]) {
    let sort = match dense {
        true => {
            let order = b.iota(TensorType::new([p.rows()], ElementType::S32), 0);
            (order, b.integers(&[0, p.rows() as i64], ElementType::S32))
        }
        false => (inputs[3], inputs[4]),
    };
    let seen = Seen::new(b, p, sort);
    let [q, k, v] = [0, 1, 2].map(|i| seen.heads(b, inputs[i]));
    let q = b.binary_scalar(Binary::Multiply, q, scale(p));
    (seen, [q, k, v])
}

/// The sequences among the rows, in the order of their blocks of queries.
struct Seen {
    heads: usize,
    rows: usize,
    causal: bool,
    /// i32 \[R\]: the first row of a row's sequence, and one past the last.
    first: Value,
    end: Value,
    /// Blocks of queries, an i32 scalar, and the most that there can be.
    count: Value,
    most: u64,
}

/// A block of rows of one sequence: where it begins, and where the sequence ends, i32 scalars.
#[derive(Clone, Copy)]
struct Span {
    start: Value,
    end: Value,
}

/// A block of query rows.
struct Queries {
    span: Span,
    /// Where its sequence begins.
    first: Value,
    /// Blocks of keys.
    count: Value,
}

impl Span {
    /// `x` \[heads, B, …\], 0 in rows past the sequence's last.
    fn inside(self, b: &mut Builder, x: Value) -> Value {
        let shape = b.shape(x);
        let row = self.places(b, &[BLOCK], 0);
        let end = b.broadcast(self.end, &[BLOCK], &[]);
        let inside = b.compare(Compare::Lt, row, end);
        let inside = b.broadcast(inside, &shape, &[1]);
        let zero = b.splat_like(0.0, x);
        b.select(inside, x, zero)
    }

    /// The block's rows of x \[heads, padded, …\], whosever they are.
    fn rows(self, b: &mut Builder, x: Value) -> Value {
        let mut sizes = b.shape(x);
        sizes[1] = BLOCK;
        let starts = starts(b, self.start, sizes.len());
        b.dynamic_slice(x, &starts, &sizes)
    }

    /// The block's rows of x \[heads, padded, …\], 0 past the sequence's last.
    fn own_rows(self, b: &mut Builder, x: Value) -> Value {
        let rows = self.rows(b, x);
        self.inside(b, rows)
    }

    /// x \[heads, padded, …\] with `rows` in place of the block's. Those past the sequence's last must be 0:
    /// later sequences write theirs later.
    fn written(self, b: &mut Builder, x: Value, rows: Value) -> Value {
        let rank = b.ty(x).rank();
        let starts = starts(b, self.start, rank);
        b.dynamic_update_slice(x, rows, &starts)
    }

    /// i32 of `shape`: the numbers of the block's rows along `dim`.
    fn places(self, b: &mut Builder, shape: &[usize], dim: usize) -> Value {
        let row = b.iota(TensorType::new(shape, ElementType::S32), dim);
        let start = b.broadcast(self.start, shape, &[]);
        b.add(row, start)
    }
}

impl Seen {
    fn new(b: &mut Builder, p: &Problem, sort: (Value, Value)) -> Self {
        let (s, rows) = (p.segments(), p.rows());
        let keys = Keys::new(b, rows, s.sequence_slots(), sort);
        let row = b.iota(TensorType::new([rows], ElementType::S32), 0);
        let none = b.splat_like(0.0, row);
        let goes_on = keys.beside(b, 1);
        let starts = b.select(goes_on, none, row);
        let first = b.cumulative(Reduction::Max, starts, 0);
        let next = b.binary_scalar(Binary::Add, row, 1.0);
        let goes_on = keys.beside(b, -1);
        let beyond = b.splat_like(rows as f64, row);
        let ends = b.select(goes_on, beyond, next);
        let ends = b.reverse(ends, &[0]);
        let ends = b.cumulative(Reduction::Min, ends, 0);
        let end = b.reverse(ends, &[0]);
        // A block begins at every B-th row of a sequence.
        let place = b.sub(row, first);
        let place = b.binary_scalar(Binary::Remainder, place, BLOCK as f64);
        let begins = b.compare_scalar(Compare::Eq, place, 0.0);
        let begins = b.and(begins, keys.owned);
        let begins = b.convert(begins, ElementType::S32);
        let sequences = s.experts() * s.slots().div_ceil(s.sequence_slots());
        Self {
            heads: p.heads(),
            rows,
            causal: p.causal,
            first,
            end,
            count: b.reduce(Reduction::Sum, begins, &[0]),
            most: most_blocks(rows, sequences, BLOCK) as u64,
        }
    }

    /// f32 \[heads, padded, D\] of x \[R, heads·D\], with a block of zeros after the last row. A single column
    /// gets another one of zeros, as in [`super::grouped::product`].
    fn heads(&self, b: &mut Builder, x: Value) -> Value {
        let x = b.convert(x, ElementType::F32);
        let width = b.shape(x)[1] / self.heads;
        let x = b.reshape(x, &[self.rows, self.heads, width]);
        let x = b.transpose(x, &[1, 0, 2]);
        let zero = b.scalar(0.0, ElementType::F32);
        let x = pad_end(b, x, zero, 1, BLOCK);
        pad_end(b, x, zero, 2, usize::from(width == 1))
    }

    /// \[R, heads·width\] of x \[heads, padded, width or more\] or \[heads, padded\].
    fn rows(&self, b: &mut Builder, x: Value, width: usize) -> Value {
        let shape = b.shape(x);
        let all = shape.get(2).copied().unwrap_or(1);
        let x = b.reshape(x, &[shape[0], shape[1], all]);
        let x = b.slice_dim(x, 1, 0..self.rows);
        let x = b.slice_dim(x, 2, 0..width);
        let x = b.transpose(x, &[1, 0, 2]);
        b.reshape(x, &[self.rows, self.heads * width])
    }

    /// Runs `body` on every block of queries, in the order of their rows.
    fn each_block(
        &self,
        b: &mut Builder,
        state: &[Value],
        body: impl FnOnce(&mut Builder, &Queries, &[Value]) -> Vec<Value>,
    ) -> Vec<Value> {
        let start = b.scalar(0.0, ElementType::S32);
        let state = [&[start], state].concat();
        let results = b.counted(self.most, |b| {
            b.for_loop(self.count, &state, |b, _, state| {
                let queries = self.queries(b, state[0]);
                let results = body(b, &queries, &state[1..]);
                let next = b.binary_scalar(Binary::Add, state[0], BLOCK as f64);
                let next = b.min(next, queries.span.end);
                [&[next], results.as_slice()].concat()
            })
        });
        results[1..].to_vec()
    }

    /// The block of queries that begins at row `start`.
    fn queries(&self, b: &mut Builder, start: Value) -> Queries {
        let [first, end] = [self.first, self.end].map(|x| element(b, x, start));
        // Causal queries see no block behind their own.
        let beyond = match self.causal {
            true => b.binary_scalar(Binary::Add, start, 1.0),
            false => end,
        };
        let length = b.sub(beyond, first);
        let length = b.binary_scalar(Binary::Add, length, (BLOCK - 1) as f64);
        Queries {
            span: Span { start, end },
            first,
            count: b.binary_scalar(Binary::Divide, length, BLOCK as f64),
        }
    }

    /// The j-th block of keys, and which of them a query sees, \[heads, B, B\].
    fn keys(&self, b: &mut Builder, queries: &Queries, j: Value) -> (Span, Value) {
        let before = b.binary_scalar(Binary::Multiply, j, BLOCK as f64);
        let span = Span {
            start: b.add(queries.first, before),
            end: queries.span.end,
        };
        let square = [BLOCK, BLOCK];
        let query = queries.span.places(b, &square, 0);
        let key = span.places(b, &square, 1);
        let end = b.broadcast(span.end, &square, &[]);
        let met = match self.causal {
            true => b.compare(Compare::Le, key, query),
            false => b.compare(Compare::Lt, key, end),
        };
        let inside = b.compare(Compare::Lt, query, end);
        let seen = b.and(inside, met);
        let shape = [self.heads, BLOCK, BLOCK];
        (span, b.broadcast(seen, &shape, &[1, 2]))
    }

    /// o \[heads, padded, D\] and lse \[heads, padded\].
    fn attended(&self, b: &mut Builder, [q, k, v]: [Value; 3]) -> [Value; 2] {
        let o = b.splat_like(0.0, q);
        let lse = TensorType::new([self.heads, self.rows + BLOCK], ElementType::F32);
        let lse = b.splat(0.0, lse);
        let results = self.each_block(b, &[o, lse], |b, queries, state| {
            let at = queries.span;
            let q = at.rows(b, q);
            let ty = TensorType::new([self.heads, BLOCK], ElementType::F32);
            let largest = b.lowest(ty.clone());
            let (sum, o) = (b.splat(0.0, ty), b.splat_like(0.0, q));
            let softmax = b.for_loop(queries.count, &[largest, sum, o], |b, j, state| {
                let (span, seen) = self.keys(b, queries, j);
                let (k, v) = (span.rows(b, k), span.own_rows(b, v));
                rescaled(b, (q, k, v, seen), [state[0], state[1], state[2]])
            });
            let [largest, sum, o] = [softmax[0], softmax[1], softmax[2]];
            let shape = b.shape(o);
            let sums = b.broadcast(sum, &shape, &[0, 1]);
            let o = b.div(o, sums);
            let log = b.unary(Unary::Log, sum);
            let lse = b.add(largest, log);
            let (o, lse) = (at.inside(b, o), at.inside(b, lse));
            vec![at.written(b, state[0], o), at.written(b, state[1], lse)]
        });
        [results[0], results[1]]
    }

    /// Gradients of the scaled queries, of keys and of values, \[heads, padded, D\]. q is scaled.
    fn gradients(
        &self,
        b: &mut Builder,
        [q, k, v]: [Value; 3],
        [lse, delta, gradient]: [Value; 3],
    ) -> [Value; 3] {
        let zero = b.splat_like(0.0, q);
        let results = self.each_block(b, &[zero; 3], |b, queries, state| {
            let at = queries.span;
            let [q, gradient] = [q, gradient].map(|x| at.own_rows(b, x));
            let [lse, delta] = [lse, delta].map(|x| {
                let x = at.rows(b, x);
                b.broadcast(x, &[self.heads, BLOCK, BLOCK], &[0, 1])
            });
            let dq = b.splat_like(0.0, q);
            let sums = [dq, state[1], state[2]];
            let sums = b.for_loop(queries.count, &sums, |b, j, sums| {
                let (span, seen) = self.keys(b, queries, j);
                let pair = Pair {
                    of: (q, gradient),
                    met: (span.own_rows(b, k), span.rows(b, v)),
                    lse,
                    delta,
                    seen,
                };
                let [dq, dk, dv] = pair.gradients(b);
                let mut results = vec![b.add(sums[0], dq)];
                for (sum, part) in sums[1..].iter().zip([dk, dv]) {
                    let before = span.rows(b, *sum);
                    let after = b.add(before, part);
                    let after = span.inside(b, after);
                    results.push(span.written(b, *sum, after));
                }
                results
            });
            let dq = at.inside(b, sums[0]);
            vec![at.written(b, state[0], dq), sums[1], sums[2]]
        });
        [results[0], results[1], results[2]]
    }
}

/// One block of keys more: the largest scores and the sums \[heads, B\], and the outputs \[heads, B, D\] times
/// the sums.
fn rescaled(
    b: &mut Builder,
    (q, k, v, seen): (Value, Value, Value, Value),
    [largest, sum, o]: [Value; 3],
) -> Vec<Value> {
    let f32 = ElementType::F32;
    let scores = b.dot(q, k, &DotDims::matmul_transposed(1), f32);
    let shape = b.shape(scores);
    let never = b.lowest(b.ty(scores).clone());
    let scores = b.select(seen, scores, never);
    let here = b.reduce(Reduction::Max, scores, &[2]);
    let next = b.max(largest, here);
    // Rows that have seen nothing yet: −∞ − −∞ would be NaN.
    let nothing = b.compare_scalar(Compare::Eq, next, f64::NEG_INFINITY);
    let zero = b.splat_like(0.0, next);
    let from = b.select(nothing, zero, next);
    let all = b.broadcast(from, &shape, &[0, 1]);
    let p = b.sub(scores, all);
    let p = b.unary(Unary::Exponential, p);
    let shrink = b.sub(largest, from);
    let shrink = b.unary(Unary::Exponential, shrink);
    let part = b.reduce(Reduction::Sum, p, &[2]);
    let sum = b.mul(sum, shrink);
    let sum = b.add(sum, part);
    let of_o = b.shape(o);
    let shrink = b.broadcast(shrink, &of_o, &[0, 1]);
    let o = b.mul(o, shrink);
    let part = b.dot(p, v, &DotDims::matmul(1), f32);
    vec![next, sum, b.add(o, part)]
}

/// A block of queries and one of keys.
struct Pair {
    /// Scaled queries and the gradient of o, \[heads, B, D\].
    of: (Value, Value),
    /// Keys and values, \[heads, B, D\].
    met: (Value, Value),
    /// Of the queries, \[heads, B, B\].
    lse: Value,
    delta: Value,
    seen: Value,
}

impl Pair {
    /// What the pair adds to the gradients of the scaled queries, of keys and of values.
    fn gradients(&self, b: &mut Builder) -> [Value; 3] {
        let f32 = ElementType::F32;
        let ((q, gradient), (k, v)) = (self.of, self.met);
        let scores = b.dot(q, k, &DotDims::matmul_transposed(1), f32);
        let p = b.sub(scores, self.lse);
        let p = b.unary(Unary::Exponential, p);
        let none = b.splat_like(0.0, p);
        let p = b.select(self.seen, p, none);
        let dp = b.dot(gradient, v, &DotDims::matmul_transposed(1), f32);
        let ds = b.sub(dp, self.delta);
        let ds = b.mul(p, ds);
        let ds = b.select(self.seen, ds, none);
        let over_queries = DotDims::batched(1, 1, 1);
        [
            b.dot(ds, k, &DotDims::matmul(1), f32),
            b.dot(ds, q, &over_queries, f32),
            b.dot(p, gradient, &over_queries, f32),
        ]
    }
}

/// `start` in dimension 1 of `rank`, 0 in the others.
fn starts(b: &mut Builder, start: Value, rank: usize) -> Vec<Value> {
    let zero = b.scalar(0.0, ElementType::S32);
    let mut starts = vec![zero; rank];
    starts[1] = start;
    starts
}

//! Attention among the sorted rows of one expert and one sequence, and its gradients:
//! [`moebius_ops::segment_attention`].
//!
//! A sequence's rows are consecutive. They are walked in blocks of B rows from the first one on: each block of queries
//! goes over the blocks of keys that it sees, with the softmax rescaled as its largest score grows (Milakov &
//! Gimelshein 2018). A row's place in its block depends only on its own sequence, the blocks' shape is constant, and
//! rows of other sequences are replaced by 0: so a sequence's results, to the last bit, and the spread of its NaNs
//! depend on nothing else. Work and memory grow with the lengths of the sequences, not with R²; a sequence wastes at
//! most B − 1 rows. [`super::attention`] can offer neither: it chooses the blocks to visit before the documents are
//! known, and its blocks begin at multiples of their size.

use super::grouped_gemm::segments::most_blocks;
use super::permute::owned;
use super::values::{along, element_at, pad_end, starts, words};
use crate::stablehlo::{Along, Builder, DotDims, Reduction, Value};
use moebius_ops::SegmentAttention;
use moebius_ops::segment_attention::Problem;
use moebius_pjrt::ElementType::{self, F32, S32};
use moebius_pjrt::TensorType;

/// The rows of a block, B.
const BLOCK: usize = 64;

pub(super) fn lower(b: &Builder, operation: &SegmentAttention, inputs: &[Value]) -> Vec<Value> {
    if operation.backward {
        backward(b, &operation.problem, inputs)
    } else {
        forward(b, &operation.problem, inputs)
    }
}

/// Appends the forward pass: o and lse. The operands are q, k, v, order and offsets.
fn forward(b: &Builder, p: &Problem, inputs: &[Value]) -> Vec<Value> {
    if p.rows() == 0 {
        let lse = TensorType::new([0, p.heads()], F32);
        return vec![inputs[0], b.splat(0.0, lse)];
    }
    let element = b.element(inputs[0]);
    let (seen, projections) = seen(b, p, inputs);
    let [o, lse] = seen.attended(b, projections);
    let o = seen.rows(b, o, p.head_dim());
    vec![b.convert(o, element), seen.rows(b, lse, 1)]
}

/// Appends the backward pass: dq, dk and dv. The operands are those of the forward pass, o, lse and do.
fn backward(b: &Builder, p: &Problem, inputs: &[Value]) -> Vec<Value> {
    if p.rows() == 0 {
        return inputs[..3].to_vec();
    }
    let element = b.element(inputs[0]);
    let (seen, projections) = seen(b, p, inputs);
    let [o, lse, gradient] = [5, 6, 7].map(|i| seen.heads(b, inputs[i]));
    let delta = b.sum(b.mul(o, gradient), &[2]);
    let lse = b.slice_dim(lse, 2, 0..1);
    let lse = b.reshape(lse, &[p.heads(), b.shape(lse)[1]]);
    let [dq, dk, dv] = seen.gradients(b, projections, [lse, delta, gradient]);
    let results =
        [b.mul(dq, scale(p)), dk, dv].map(|d| b.convert(seen.rows(b, d, p.head_dim()), element));
    results.to_vec()
}

fn scale(p: &Problem) -> f64 {
    1.0 / (p.head_dim() as f64).sqrt()
}

/// The sequences, and q (scaled), k and v by head.
fn seen(b: &Builder, p: &Problem, inputs: &[Value]) -> (Seen, [Value; 3]) {
    let seen = Seen::new(b, p, inputs[3], inputs[4]);
    let [q, k, v] = [0, 1, 2].map(|i| seen.heads(b, inputs[i]));
    (seen, [b.mul(q, scale(p)), k, v])
}

/// The sequences among the sorted rows, walked in blocks of queries.
struct Seen {
    heads: usize,
    rows: usize,
    causal: bool,
    /// The first row of each row's sequence, and the row after the last: i32 \[R\] each.
    first: Value,
    end: Value,
    /// The number of blocks of queries, an i32 scalar, and its upper bound.
    count: Value,
    most: u64,
}

/// A block of rows of one sequence: the block's first row, and the row after the sequence's last, i32 scalars.
#[derive(Clone, Copy)]
struct Span {
    start: Value,
    end: Value,
}

/// A block of query rows.
struct Queries {
    span: Span,
    /// The first row of the block's sequence.
    first: Value,
    /// The number of blocks of keys to visit.
    count: Value,
}

impl Span {
    /// `x` \[heads, B, …\] with 0 in rows past the sequence's end.
    fn inside(self, b: &Builder, x: Value) -> Value {
        let shape = b.shape(x);
        let row = self.places(b, &[BLOCK], 0);
        let inside = b.lt(row, Along(self.end, []));
        b.select(b.broadcast(inside, &shape, &[1]), x, 0.0)
    }

    /// The block's rows of `x` \[heads, padded, …\], whichever sequence they belong to.
    fn rows(self, b: &Builder, x: Value) -> Value {
        let mut sizes = b.shape(x);
        sizes[1] = BLOCK;
        b.dynamic_slice(x, &starts(b, self.start, 1, sizes.len()), &sizes)
    }

    /// The block's rows of `x` \[heads, padded, …\], 0 past the sequence's end.
    fn own_rows(self, b: &Builder, x: Value) -> Value {
        self.inside(b, self.rows(b, x))
    }

    /// `x` \[heads, padded, …\] with the block's rows replaced by `rows`, which must be 0 past the sequence's end:
    /// later sequences write their rows afterwards.
    fn written(self, b: &Builder, x: Value, rows: Value) -> Value {
        b.dynamic_update_slice(x, rows, &starts(b, self.start, 1, b.ty(x).rank()))
    }

    /// The row numbers of the block along `dim`, i32 of `shape`.
    fn places(self, b: &Builder, shape: &[usize], dim: usize) -> Value {
        let row = b.iota(TensorType::new(shape, S32), dim);
        b.add(row, Along(self.start, []))
    }
}

impl Seen {
    fn new(b: &Builder, p: &Problem, order: Value, offsets: Value) -> Self {
        let (s, rows) = (p.segments(), p.rows());
        let keys = Keys::new(b, p, order, offsets);
        let row = b.iota(TensorType::new([rows], S32), 0);
        let none = b.splat_like(0.0, row);
        let first = b.cumulative(Reduction::Max, b.select(keys.beside(b, 1), none, row), 0);
        let next = b.add(row, 1.0);
        let ends = b.select(keys.beside(b, -1), b.splat_like(rows as f64, row), next);
        let end = b.reverse(b.cumulative(Reduction::Min, b.reverse(ends, &[0]), 0), &[0]);
        // A block begins at every B-th row of a sequence.
        let begins = b.eq(b.rem(b.sub(row, first), BLOCK as f64), 0.0);
        let begins = b.convert(b.and(begins, keys.owned), S32);
        let sequences = s.experts() * s.slots().div_ceil(s.sequence_slots());
        Self {
            heads: p.heads(),
            rows,
            causal: p.causal(),
            first,
            end,
            count: b.sum(begins, &[0]),
            most: most_blocks(rows, sequences, BLOCK) as u64,
        }
    }

    /// Splits x \[R, heads·D\] by head: f32 \[heads, padded, D\], with a block of zeros after the last row. If D is 1,
    /// a second column of zeros is added, as in [`super::grouped_gemm::segments::product`].
    fn heads(&self, b: &Builder, x: Value) -> Value {
        let x = b.convert(x, F32);
        let width = b.shape(x)[1] / self.heads;
        let x = b.transpose(b.reshape(x, &[self.rows, self.heads, width]), &[1, 0, 2]);
        let zero = b.scalar(0.0, F32);
        let x = pad_end(b, x, zero, 1, BLOCK);
        pad_end(b, x, zero, 2, usize::from(width == 1))
    }

    /// Joins the heads again: \[R, heads·width\] of x \[heads, padded, width or more\] or \[heads, padded\].
    fn rows(&self, b: &Builder, x: Value, width: usize) -> Value {
        let shape = b.shape(x);
        let x = b.reshape(x, &[shape[0], shape[1], shape.get(2).copied().unwrap_or(1)]);
        let x = b.slice_dim(b.slice_dim(x, 1, 0..self.rows), 2, 0..width);
        b.reshape(b.transpose(x, &[1, 0, 2]), &[self.rows, self.heads * width])
    }

    /// Runs `body` on every block of queries, in the order of their rows.
    fn each_block(
        &self,
        b: &Builder,
        state: &[Value],
        body: impl FnOnce(&Builder, &Queries, &[Value]) -> Vec<Value>,
    ) -> Vec<Value> {
        let state = [&[b.scalar(0.0, S32)], state].concat();
        let results = b.counted(self.most, |b| {
            b.for_loop(self.count, &state, |b, _, state| {
                let queries = self.queries(b, state[0]);
                let results = body(b, &queries, &state[1..]);
                let next = b.min(b.add(state[0], BLOCK as f64), queries.span.end);
                [&[next], results.as_slice()].concat()
            })
        });
        results[1..].to_vec()
    }

    /// The block of queries that begins at row `start`.
    fn queries(&self, b: &Builder, start: Value) -> Queries {
        let [first, end] = [self.first, self.end].map(|x| element_at(b, x, start));
        // Causal queries see no block of keys after their own block.
        let beyond = if self.causal { b.add(start, 1.0) } else { end };
        let length = b.add(b.sub(beyond, first), (BLOCK - 1) as f64);
        Queries {
            span: Span { start, end },
            first,
            count: b.div(length, BLOCK as f64),
        }
    }

    /// The j-th block of keys, and whether each query sees each key, \[heads, B, B\].
    fn keys(&self, b: &Builder, queries: &Queries, j: Value) -> (Span, Value) {
        let span = Span {
            start: b.add(queries.first, b.mul(j, BLOCK as f64)),
            end: queries.span.end,
        };
        let square = [BLOCK, BLOCK];
        let query = queries.span.places(b, &square, 0);
        let key = span.places(b, &square, 1);
        let end = b.broadcast(span.end, &square, &[]);
        let met = if self.causal {
            b.le(key, query)
        } else {
            b.lt(key, end)
        };
        let seen = b.and(b.lt(query, end), met);
        let shape = [self.heads, BLOCK, BLOCK];
        (span, b.broadcast(seen, &shape, &[1, 2]))
    }

    /// The forward pass: o \[heads, padded, D\] and lse \[heads, padded\].
    fn attended(&self, b: &Builder, [q, k, v]: [Value; 3]) -> [Value; 2] {
        let o = b.splat_like(0.0, q);
        let lse = b.splat(0.0, TensorType::new([self.heads, self.rows + BLOCK], F32));
        let results = self.each_block(b, &[o, lse], |b, queries, state| {
            let at = queries.span;
            let q = at.rows(b, q);
            let ty = TensorType::new([self.heads, BLOCK], F32);
            let largest = b.lowest(ty.clone());
            let (sum, o) = (b.splat(0.0, ty), b.splat_like(0.0, q));
            let softmax = b.for_loop(queries.count, &[largest, sum, o], |b, j, state| {
                let (span, seen) = self.keys(b, queries, j);
                let (k, v) = (span.rows(b, k), span.own_rows(b, v));
                rescaled(b, (q, k, v, seen), [state[0], state[1], state[2]])
            });
            let [largest, sum, o] = [softmax[0], softmax[1], softmax[2]];
            let o = b.div(o, Along(sum, [0, 1]));
            let lse = b.add(largest, b.log(sum));
            let (o, lse) = (at.inside(b, o), at.inside(b, lse));
            vec![at.written(b, state[0], o), at.written(b, state[1], lse)]
        });
        [results[0], results[1]]
    }

    /// The gradients of the scaled queries, the keys and the values, \[heads, padded, D\]; q is scaled.
    fn gradients(
        &self,
        b: &Builder,
        [q, k, v]: [Value; 3],
        [lse, delta, gradient]: [Value; 3],
    ) -> [Value; 3] {
        let results = self.each_block(b, &[b.splat_like(0.0, q); 3], |b, queries, state| {
            let at = queries.span;
            let [q, gradient] = [q, gradient].map(|x| at.own_rows(b, x));
            let [lse, delta] = [lse, delta]
                .map(|x| b.broadcast(at.rows(b, x), &[self.heads, BLOCK, BLOCK], &[0, 1]));
            let dq = b.splat_like(0.0, q);
            let sums = [dq, state[1], state[2]];
            let sums = b.for_loop(queries.count, &sums, |b, j, sums| {
                let (span, seen) = self.keys(b, queries, j);
                let of = [q, gradient, span.own_rows(b, k), span.rows(b, v)];
                let [dq, dk, dv] = pair_gradients(b, of, [lse, delta, seen]);
                let mut results = vec![b.add(sums[0], dq)];
                for (sum, part) in sums[1..].iter().zip([dk, dv]) {
                    let after = span.inside(b, b.add(span.rows(b, *sum), part));
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

/// The running softmax with one more block of keys: the largest scores and the sums of exponentials, \[heads, B\], and
/// the outputs times those sums, \[heads, B, D\].
fn rescaled(
    b: &Builder,
    (q, k, v, seen): (Value, Value, Value, Value),
    [largest, sum, o]: [Value; 3],
) -> Vec<Value> {
    let scores = b.dot(q, k, &DotDims::matmul_transposed(1), F32);
    let scores = b.select(seen, scores, b.lowest(b.ty(scores)));
    let next = b.max(largest, b.reduce(Reduction::Max, scores, &[2]));
    // A row that has seen nothing yet would compute −∞ − −∞, which is NaN.
    let from = b.select_number(b.eq(next, f64::NEG_INFINITY), 0.0, next);
    let p = b.exp(b.sub(scores, Along(from, [0, 1])));
    let shrink = b.exp(b.sub(largest, from));
    let part = b.sum(p, &[2]);
    let sum = b.add(b.mul(sum, shrink), part);
    let o = b.mul(o, Along(shrink, [0, 1]));
    vec![next, sum, b.add(o, b.dot(p, v, &DotDims::matmul(1), F32))]
}

/// The gradients that a pair of blocks adds to the scaled queries, the keys and the values. The operands are the scaled
/// queries, the gradient of o, keys and values, \[heads, B, D\]; and lse, Δ and whether a query sees a key, \[heads, B,
/// B\].
fn pair_gradients(
    b: &Builder,
    [q, gradient, k, v]: [Value; 4],
    [lse, delta, seen]: [Value; 3],
) -> [Value; 3] {
    let p = b.exp(b.sub(b.dot(q, k, &DotDims::matmul_transposed(1), F32), lse));
    let none = b.splat_like(0.0, p);
    let p = b.select(seen, p, none);
    let dp = b.dot(gradient, v, &DotDims::matmul_transposed(1), F32);
    let ds = b.select(seen, b.mul(p, b.sub(dp, delta)), none);
    let over_queries = DotDims::batched(1, 1, 1);
    [
        b.dot(ds, k, &DotDims::matmul(1), F32),
        b.dot(ds, q, &over_queries, F32),
        b.dot(p, gradient, &over_queries, F32),
    ]
}

/// The keys that tell the sequences of sorted rows apart: i32 \[R\] each.
struct Keys {
    /// The row's expert; E for none.
    expert: Value,
    /// The number of the row's sequence.
    sequence: Value,
    /// Whether each row has an expert, \[R\].
    owned: Value,
}

impl Keys {
    /// The keys of rows that `order` and `offsets` have sorted.
    fn new(b: &Builder, p: &Problem, order: Value, offsets: Value) -> Self {
        let (s, rows) = (p.segments(), p.rows());
        let slots = b.slice_dim(words(b, order), 0, 0..rows);
        let sequence = b.div(slots, s.sequence_slots() as f64);
        let ends = b.slice_dim(words(b, offsets), 0, 1..s.experts() + 1);
        let square = TensorType::new([rows, s.experts()], ElementType::U32);
        let before = b.le(along(b, ends, &square.shape, 1), b.iota(square, 0));
        Self {
            expert: b.sum(b.convert(before, S32), &[1]),
            sequence: b.convert(sequence, S32),
            owned: owned(b, offsets, rows),
        }
    }

    /// Whether row r − `shift` belongs to the sequence of row r, for each r, \[R\].
    fn beside(&self, b: &Builder, shift: i64) -> Value {
        let outside = b.scalar(-1.0, S32);
        let same = |key: Value| b.eq(key, b.pad(key, outside, &[shift], &[-shift], &[0]));
        b.and(self.owned, b.and(same(self.expert), same(self.sequence)))
    }
}

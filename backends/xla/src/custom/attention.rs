//! Attention among the sorted rows of one expert and one sequence, and its gradients.
//!
//! s_ij = ⟨q_i, k_j⟩ / √D, p_ij = exp(s_ij − lse_i), lse_i = ln Σ_j exp(s_ij), o_i = Σ_j p_ij · v_j over the rows
//! j of i's sequence, or j ≤ i when causal; ds_ij = p_ij · (⟨do_i, v_j⟩ − ⟨do_i, o_i⟩), dq_i = Σ_j ds_ij · k_j / √D,
//! dk_j = Σ_i ds_ij · q_i / √D, dv_j = Σ_i p_ij · do_i. Shapes: q, k, v, o and their gradients \[R, heads·D\],
//! lse f32 \[R, heads\]; rows without an expert are 0 in results and hold anything in operands.
//!
//! A sequence's rows are neighbours, so a block of query rows meets a range of blocks of keys, which is
//! the device's to know: a loop over it, with the softmax rescaled as its largest score grows (Milakov
//! & Gimelshein 2018). Work and memory follow from the lengths of the sequences, not from R². Rows of
//! other sequences in a block count as 0 times what they hold, so a NaN among them spreads to the block.

use super::neighbours::Sequences;
use super::{Lower, rows_where};
use crate::ElementType;
use crate::stablehlo::{Binary, Builder, Compare, DotDims, Reduction, TensorType, Unary, Value};
use serde::{Deserialize, Serialize};

/// Rows of a block.
const BLOCK: usize = 64;

/// An attention. Operands: q, k, v, order, offsets; results: o, lse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attention {
    /// Which rows attend to one another.
    pub sequences: Sequences,
    /// Heads.
    pub heads: usize,
    /// Values of a head D.
    pub head_dim: usize,
    /// Whether a row attends to itself and the rows before it only.
    pub causal: bool,
    /// Further operands o, lse and do, and results dq, dk and dv instead.
    pub backward: bool,
}

impl Lower for Attention {
    fn name(&self) -> &'static str {
        match self.backward {
            true => "segment attention backward",
            false => "segment attention",
        }
    }

    fn operands(&self) -> Vec<Vec<usize>> {
        let s = &self.sequences;
        let rows = vec![s.row_bound, self.heads * self.head_dim];
        let (order, offsets) = (vec![s.slots], vec![s.experts + 1]);
        let mut shapes = vec![rows.clone(), rows.clone(), rows.clone(), order, offsets];
        if self.backward {
            shapes.extend([rows.clone(), vec![s.row_bound, self.heads], rows]);
        }
        shapes
    }

    fn lower(&self, b: &mut Builder, inputs: &[Value]) -> Vec<Value> {
        if self.sequences.row_bound == 0 {
            return self.nothing(b, inputs);
        }
        let seen = Seen::new(b, self, inputs[3], inputs[4]);
        let [q, k, v] = [0, 1, 2].map(|i| seen.heads(b, inputs[i]));
        let scale = 1.0 / (self.head_dim as f64).sqrt();
        let q = b.binary_scalar(Binary::Multiply, q, scale);
        let element = b.element(inputs[0]);
        if !self.backward {
            let [o, lse] = seen.attended(b, [q, k, v]);
            let o = seen.rows(b, o);
            return vec![b.convert(o, element), seen.rows(b, lse)];
        }
        let [o, gradient] = [5, 7].map(|i| seen.heads(b, inputs[i]));
        let products = b.mul(o, gradient);
        let delta = b.reduce(Reduction::Sum, products, &[2]);
        let lse = seen.heads(b, inputs[6]);
        let lse = b.reshape(lse, &[self.heads, seen.padded]);
        let [dq, dk, dv] = seen.gradients(b, [q, k, v], [lse, delta, gradient]);
        let dq = b.binary_scalar(Binary::Multiply, dq, scale);
        let results = [dq, dk, dv].map(|d| {
            let d = seen.rows(b, d);
            b.convert(d, element)
        });
        results.to_vec()
    }
}

impl Attention {
    /// Results without rows.
    fn nothing(&self, b: &mut Builder, inputs: &[Value]) -> Vec<Value> {
        if self.backward {
            return inputs[..3].to_vec();
        }
        let lse = TensorType::new([0, self.heads], ElementType::F32);
        vec![inputs[0], b.splat(0.0, lse)]
    }
}

/// Which rows a row attends to, in blocks; padded to whole ones.
struct Seen {
    heads: usize,
    rows: usize,
    block: usize,
    padded: usize,
    /// \[R\]: whether a row has an expert.
    owned: Value,
    /// i32 \[padded\]: the first row that a row attends to, and one past the last; 0 for none.
    first: Value,
    end: Value,
}

/// A block of query rows: where it begins, and the range of its keys.
struct Queries {
    start: Value,
    first: Value,
    end: Value,
    /// The first block of keys.
    low: Value,
    /// Blocks of keys.
    count: Value,
}

impl Seen {
    fn new(b: &mut Builder, attention: &Attention, order: Value, offsets: Value) -> Self {
        let rows = attention.sequences.row_bound;
        let block = BLOCK.min(rows);
        let padded = rows.next_multiple_of(block);
        let keys = attention.sequences.keys(b, order, offsets);
        let row = b.iota(TensorType::new([rows], ElementType::S32), 0);
        let next = b.binary_scalar(Binary::Add, row, 1.0);
        let none = b.splat_like(0.0, row);
        let goes_on = keys.beside(b, 1);
        let starts = b.select(goes_on, none, row);
        let first = b.cumulative(Reduction::Max, starts, 0);
        let end = if attention.causal {
            next
        } else {
            let goes_on = keys.beside(b, -1);
            let beyond = b.splat_like(rows as f64, row);
            let ends = b.select(goes_on, beyond, next);
            let ends = b.reverse(ends, &[0]);
            let ends = b.cumulative(Reduction::Min, ends, 0);
            b.reverse(ends, &[0])
        };
        let [first, end] = [first, end].map(|x| {
            let x = rows_where(b, keys.owned, x);
            pad_rows(b, x, 0, padded - rows)
        });
        Self {
            heads: attention.heads,
            rows,
            block,
            padded,
            owned: keys.owned,
            first,
            end,
        }
    }

    /// f32 \[heads, padded, D\] of x \[R, heads·D\], 0 in rows without an expert.
    fn heads(&self, b: &mut Builder, x: Value) -> Value {
        let x = rows_where(b, self.owned, x);
        let x = b.convert(x, ElementType::F32);
        let width = b.shape(x)[1] / self.heads;
        let x = b.reshape(x, &[self.rows, self.heads, width]);
        let x = b.transpose(x, &[1, 0, 2]);
        pad_rows(b, x, 1, self.padded - self.rows)
    }

    /// \[R, heads·D\] of x \[heads, padded, D\] or \[heads, padded\].
    fn rows(&self, b: &mut Builder, x: Value) -> Value {
        let width = b.shape(x).get(2).copied().unwrap_or(1);
        let x = b.reshape(x, &[self.heads, self.padded, width]);
        let x = b.slice_dim(x, 1, 0..self.rows);
        let x = b.transpose(x, &[1, 0, 2]);
        b.reshape(x, &[self.rows, self.heads * width])
    }

    /// Runs `body` on every block of queries.
    fn each_block(
        &self,
        b: &mut Builder,
        state: &[Value],
        body: impl FnOnce(&mut Builder, &Queries, &[Value]) -> Vec<Value>,
    ) -> Vec<Value> {
        let blocks = self.padded / self.block;
        let count = b.scalar(blocks as f64, ElementType::S32);
        b.counted(blocks as u64, |b| {
            b.for_loop(count, state, |b, at, state| {
                let queries = self.queries(b, at);
                body(b, &queries, state)
            })
        })
    }

    fn queries(&self, b: &mut Builder, at: Value) -> Queries {
        let size = self.block as f64;
        let start = b.binary_scalar(Binary::Multiply, at, size);
        let first = b.dynamic_slice(self.first, &[start], &[self.block]);
        let end = b.dynamic_slice(self.end, &[start], &[self.block]);
        // Firsts ascend while rows have an expert; without one the range is empty.
        let low = b.slice_dim(first, 0, 0..1);
        let low = b.reshape(low, &[]);
        let low = b.binary_scalar(Binary::Divide, low, size);
        let high = b.reduce(Reduction::Max, end, &[0]);
        let high = b.binary_scalar(Binary::Add, high, size - 1.0);
        let high = b.binary_scalar(Binary::Divide, high, size);
        let count = b.sub(high, low);
        Queries {
            start,
            first,
            end,
            low,
            count,
        }
    }

    /// The rows of a block of x \[heads, padded, …\].
    fn of_block(&self, b: &mut Builder, x: Value, start: Value) -> Value {
        let mut sizes = b.shape(x);
        sizes[1] = self.block;
        let starts = starts(b, start, sizes.len());
        b.dynamic_slice(x, &starts, &sizes)
    }

    /// x \[heads, padded, …\] with the rows of a block in their place.
    fn with_block(&self, b: &mut Builder, x: Value, rows: Value, start: Value) -> Value {
        let starts = starts(b, start, b.ty(x).rank());
        b.dynamic_update_slice(x, rows, &starts)
    }

    /// Where the j-th block of keys begins, and which keys a query sees, \[heads, B, B\].
    fn keys(&self, b: &mut Builder, queries: &Queries, j: Value) -> (Value, Value) {
        let at = b.add(queries.low, j);
        let start = b.binary_scalar(Binary::Multiply, at, self.block as f64);
        let square = TensorType::new([self.block, self.block], ElementType::S32);
        let key = b.iota(square.clone(), 1);
        let from = b.broadcast(start, &square.shape, &[]);
        let key = b.add(key, from);
        let first = b.broadcast(queries.first, &square.shape, &[0]);
        let end = b.broadcast(queries.end, &square.shape, &[0]);
        let after = b.compare(Compare::Ge, key, first);
        let before = b.compare(Compare::Lt, key, end);
        let seen = b.and(after, before);
        let shape = [self.heads, self.block, self.block];
        (start, b.broadcast(seen, &shape, &[1, 2]))
    }

    /// o \[heads, padded, D\] and lse \[heads, padded\].
    fn attended(&self, b: &mut Builder, [q, k, v]: [Value; 3]) -> [Value; 2] {
        let o = b.splat_like(0.0, q);
        let lse = b.splat(
            0.0,
            TensorType::new([self.heads, self.padded], ElementType::F32),
        );
        let results = self.each_block(b, &[o, lse], |b, queries, state| {
            let q = self.of_block(b, q, queries.start);
            let ty = TensorType::new([self.heads, self.block], ElementType::F32);
            let largest = b.lowest(ty.clone());
            let (sum, o) = (b.splat(0.0, ty), b.splat_like(0.0, q));
            let softmax = b.for_loop(queries.count, &[largest, sum, o], |b, j, state| {
                let (start, seen) = self.keys(b, queries, j);
                let (k, v) = (self.of_block(b, k, start), self.of_block(b, v, start));
                rescaled(b, (q, k, v, seen), [state[0], state[1], state[2]])
            });
            let [o, lse] = self.finished(b, queries, [softmax[0], softmax[1], softmax[2]]);
            vec![
                self.with_block(b, state[0], o, queries.start),
                self.with_block(b, state[1], lse, queries.start),
            ]
        });
        [results[0], results[1]]
    }

    /// o and lse of a block from its largest scores, sums and unscaled outputs; 0 of rows that see nothing.
    fn finished(
        &self,
        b: &mut Builder,
        queries: &Queries,
        [largest, sum, o]: [Value; 3],
    ) -> [Value; 2] {
        let shape = b.shape(o);
        let sees = b.compare_scalar(Compare::Gt, queries.end, 0.0);
        let sees_all = b.broadcast(sees, &shape, &[1]);
        let sees = b.broadcast(sees, &shape[..2], &[1]);
        let sums = b.broadcast(sum, &shape, &[0, 1]);
        let o = b.div(o, sums);
        let log = b.unary(Unary::Log, sum);
        let lse = b.add(largest, log);
        let (no_o, no_lse) = (b.splat_like(0.0, o), b.splat_like(0.0, lse));
        [b.select(sees_all, o, no_o), b.select(sees, lse, no_lse)]
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
            let at = queries.start;
            let [q, gradient] = [q, gradient].map(|x| self.of_block(b, x, at));
            let [lse, delta] = [lse, delta].map(|x| {
                let x = self.of_block(b, x, at);
                b.broadcast(x, &[self.heads, self.block, self.block], &[0, 1])
            });
            let dq = b.splat_like(0.0, q);
            let state = [state[0], dq, state[1], state[2]];
            let sums = b.for_loop(queries.count, &state[1..], |b, j, sums| {
                let (start, seen) = self.keys(b, queries, j);
                let [k, v] = [k, v].map(|x| self.of_block(b, x, start));
                let pair = Pair {
                    of: (q, gradient),
                    met: (k, v),
                    lse,
                    delta,
                    seen,
                };
                let [dq, dk, dv] = pair.gradients(b);
                let mut results = vec![b.add(sums[0], dq)];
                for (sum, part) in sums[1..].iter().zip([dk, dv]) {
                    let before = self.of_block(b, *sum, start);
                    let after = b.add(before, part);
                    results.push(self.with_block(b, *sum, after, start));
                }
                results
            });
            let dq = self.with_block(b, state[0], sums[0], at);
            vec![dq, sums[1], sums[2]]
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

/// x with `count` zero rows after the end of dimension `dim`.
fn pad_rows(b: &mut Builder, x: Value, dim: usize, count: usize) -> Value {
    let zero = b.scalar(0.0, b.element(x));
    super::fp8::pad_end(b, x, zero, dim, count)
}

/// `start` in dimension 1 of `rank`, 0 in the others.
fn starts(b: &mut Builder, start: Value, rank: usize) -> Vec<Value> {
    let zero = b.scalar(0.0, ElementType::S32);
    let mut starts = vec![zero; rank];
    starts[1] = start;
    starts
}

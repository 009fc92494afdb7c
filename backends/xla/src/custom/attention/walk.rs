//! Which blocks of queries and keys are computed together, and the loops over them.

use super::super::values::{element_at, pad_end};
use super::terms::Tiling;
use crate::stablehlo::{Builder, Value};
use moebius_ops::attention::Problem;
use moebius_pjrt::ElementType::S32;
use std::ops::Range;

/// All queries and keys as one block, or blocks of keys for each block of queries.
pub(super) struct Walk {
    /// Queries of a block.
    pub(super) queries: usize,
    /// Keys of a block.
    pub(super) keys: usize,
    /// For each block of queries the blocks of keys that the rules let it see.
    ranges: Vec<Range<usize>>,
    /// The queries and keys that there are.
    total: [usize; 2],
}

/// A block of queries.
pub(super) struct Queries {
    /// Its first query, an i32 scalar.
    pub(super) start: Value,
    /// Its blocks of keys.
    keys: Keys,
}

enum Keys {
    /// None, or the one that has all keys.
    Whole(bool),
    /// The first, and how many, i32 scalars.
    Blocks(Value, Value),
}

/// A block of queries and one of keys: where they begin, i32 scalars.
#[derive(Clone, Copy)]
pub(super) struct Tile {
    pub(super) query: Value,
    pub(super) key: Value,
}

impl Walk {
    pub(super) fn new(problem: &Problem, tiling: Tiling) -> Self {
        let s = problem.sizes();
        let pairs = [s.batch, s.heads, s.queries, s.keys];
        let scores = pairs.iter().fold(1_usize, |n, d| n.saturating_mul(*d));
        let total = [s.queries, s.keys];
        if scores <= tiling.whole || scores == 0 {
            let blocks = 0..usize::from(scores > 0);
            return Self {
                queries: s.queries,
                keys: s.keys,
                ranges: vec![blocks],
                total,
            };
        }
        let block = tiling.block.max(1);
        let queries = block.min(s.queries);
        // Few queries see more keys at once.
        let keys = (block * block / queries)
            .next_multiple_of(block)
            .min(s.keys);
        let ranges = (0..s.queries.div_ceil(queries)).map(|at| {
            let first = at * queries;
            let seen = problem.keys_of(first..(first + queries).min(s.queries));
            if seen.is_empty() {
                0..0
            } else {
                seen.start / keys..seen.end.div_ceil(keys)
            }
        });
        Self {
            queries,
            keys,
            ranges: ranges.collect(),
            total,
        }
    }

    /// Queries and keys of all blocks.
    pub(super) fn padded(&self) -> [usize; 2] {
        let [queries, keys] = self.total;
        [
            queries.next_multiple_of(self.queries.max(1)),
            keys.next_multiple_of(self.keys.max(1)),
        ]
    }

    /// The queries and keys that there are.
    pub(super) fn total(&self) -> [usize; 2] {
        self.total
    }

    /// `x` with zeros after the last query, which lies in dimension `dim`.
    pub(super) fn pad_queries(&self, b: &Builder, x: Value, dim: usize) -> Value {
        pad(b, x, dim, self.padded()[0])
    }

    /// `x` with zeros after the last key, which lies in dimension `dim`.
    pub(super) fn pad_keys(&self, b: &Builder, x: Value, dim: usize) -> Value {
        pad(b, x, dim, self.padded()[1])
    }

    /// Runs `body` on every block of queries.
    pub(super) fn each_queries(
        &self,
        b: &Builder,
        state: &[Value],
        body: impl FnOnce(&Builder, &Queries, &[Value]) -> Vec<Value>,
    ) -> Vec<Value> {
        if let [range] = self.ranges.as_slice() {
            let start = b.scalar(0.0, S32);
            let keys = if self.keys >= self.total[1] {
                Keys::Whole(!range.is_empty())
            } else {
                let [first, count] = [range.start, range.len()].map(|n| b.scalar(n as f64, S32));
                Keys::Blocks(first, count)
            };
            return body(b, &Queries { start, keys }, state);
        }
        let numbers = |of: fn(&Range<usize>) -> usize| -> Vec<i64> {
            self.ranges.iter().map(|range| of(range) as i64).collect()
        };
        let firsts = b.integers(&numbers(|range| range.start), S32);
        let counts = b.integers(&numbers(Range::len), S32);
        let blocks = self.ranges.len();
        let count = b.scalar(blocks as f64, S32);
        b.counted(blocks as u64, |b| {
            b.for_loop(count, state, |b, at, state| {
                let start = b.mul(at, self.queries as f64);
                let [first, count] = [firsts, counts].map(|all| element_at(b, all, at));
                let keys = Keys::Blocks(first, count);
                body(b, &Queries { start, keys }, state)
            })
        })
    }

    /// Runs `body` on every block of keys that these queries may see.
    pub(super) fn each_keys(
        &self,
        b: &Builder,
        queries: &Queries,
        state: &[Value],
        body: impl FnOnce(&Builder, Tile, &[Value]) -> Vec<Value>,
    ) -> Vec<Value> {
        let query = queries.start;
        match queries.keys {
            Keys::Whole(false) => state.to_vec(),
            Keys::Whole(true) => {
                let key = b.scalar(0.0, S32);
                body(b, Tile { query, key }, state)
            }
            Keys::Blocks(first, count) => {
                let all: usize = self.ranges.iter().map(Range::len).sum();
                let rounds = all.div_ceil(self.ranges.len());
                b.counted(rounds as u64, |b| {
                    b.for_loop(count, state, |b, at, state| {
                        let key = b.mul(b.add(first, at), self.keys as f64);
                        body(b, Tile { query, key }, state)
                    })
                })
            }
        }
    }

    /// The queries' part of x along `dim`.
    pub(super) fn query_part(&self, b: &Builder, x: Value, dim: usize, at: Value) -> Value {
        part(b, x, &[(dim, at, self.queries)])
    }

    /// The keys' part of x along `dim`.
    pub(super) fn key_part(&self, b: &Builder, x: Value, dim: usize, at: Value) -> Value {
        part(b, x, &[(dim, at, self.keys)])
    }

    /// The part of `x` \[…, queries, keys\] that a tile has.
    pub(super) fn tile_part(&self, b: &Builder, x: Value, at: Tile) -> Value {
        let last = b.ty(x).rank() - 1;
        let dims = [
            (last - 1, at.query, self.queries),
            (last, at.key, self.keys),
        ];
        part(b, x, &dims)
    }
}

/// `x` with zeros up to `extent` along `dim`.
fn pad(b: &Builder, x: Value, dim: usize, extent: usize) -> Value {
    let zero = b.scalar(0.0, b.element(x));
    let missing = extent - b.shape(x)[dim];
    pad_end(b, x, zero, dim, missing)
}

/// So many elements of x from the i32 scalar on, in some of its dimensions.
pub(super) fn part(b: &Builder, x: Value, dims: &[(usize, Value, usize)]) -> Value {
    let mut sizes = b.shape(x);
    if dims.iter().all(|(dim, _, size)| sizes[*dim] == *size) {
        return x;
    }
    let mut starts = vec![b.scalar(0.0, S32); sizes.len()];
    for (dim, start, size) in dims {
        (starts[*dim], sizes[*dim]) = (*start, *size);
    }
    b.dynamic_slice(x, &starts, &sizes)
}

/// `whole` with `part` written where the i32 scalars say.
pub(super) fn write(b: &Builder, whole: Value, part: Value, dims: &[(usize, Value)]) -> Value {
    let rank = b.ty(whole).rank();
    if b.shape(whole) == b.shape(part) {
        return part;
    }
    let mut starts = vec![b.scalar(0.0, S32); rank];
    for (dim, start) in dims {
        starts[*dim] = *start;
    }
    b.dynamic_update_slice(whole, part, &starts)
}

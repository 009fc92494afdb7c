//! Operands of scores besides q and k, blocks of queries and keys, loops over the blocks, and products of their rows.

use super::super::values::{element_at, pad_end};
use crate::stablehlo::{Builder, DotDims, Reduction, Value};
use moebius_ops::attention::{Problem, Rule};
use moebius_pjrt::ElementType::{self, S32};
use moebius_pjrt::TensorType;
use std::ops::Range;

/// How the scores of an attention are divided into blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tiling {
    /// The largest number of scores, B · Hq · Sq · Skv, that is computed at once.
    pub whole: usize,
    /// The number of queries and of keys in a block if there are more scores.
    pub block: usize,
}

impl Default for Tiling {
    /// At most 2²⁴ scores at once, 64 MiB in f32; otherwise blocks of 128.
    fn default() -> Self {
        Self {
            whole: 1 << 24,
            block: 128,
        }
    }
}

/// The terms of scores besides queries and keys.
pub(crate) struct Terms<'a> {
    /// Sizes and rules. Element types and widths are taken from the operands instead.
    pub(crate) problem: &'a Problem,
    /// The problem's scale and cap, in f64 as Burn gives them.
    pub(crate) scale: f64,
    pub(crate) cap: f64,
    pub(crate) tables: Tables,
}

/// The operands that rules and sinks read, with their names in the operation's description.
#[derive(Clone, Copy, Default)]
pub(crate) struct Tables {
    pub(crate) query_documents: Option<Value>,
    pub(crate) key_documents: Option<Value>,
    pub(crate) blocks: Option<Value>,
    /// Words or booleans that say which pairs are seen.
    pub(crate) mask: Option<Value>,
    pub(crate) slopes: Option<Value>,
    pub(crate) bias: Option<Value>,
    pub(crate) relative: Option<Value>,
    pub(crate) sinks: Option<Value>,
    pub(crate) dropout: Option<Value>,
}

impl<'a> Terms<'a> {
    pub(crate) fn new(problem: &'a Problem, tables: Tables) -> Self {
        let cap = problem.rules().iter().find_map(|rule| match rule {
            Rule::Softcap(cap) => Some(f64::from(cap)),
            _ => None,
        });
        Self {
            problem,
            scale: f64::from(problem.scale()),
            cap: cap.unwrap_or(1.0),
            tables,
        }
    }
}

/// The division of queries and keys into blocks: one block of all, or a range of blocks of keys for each block of
/// queries.
pub(super) struct Walk {
    /// The number of queries in a block.
    pub(super) queries: usize,
    /// The number of keys in a block.
    pub(super) keys: usize,
    /// For each block of queries, the blocks of keys that the rules let it see.
    ranges: Vec<Range<usize>>,
    /// The numbers of queries and keys, without padding.
    pub(super) total: [usize; 2],
}

/// A block of queries.
pub(super) struct Queries {
    /// The block's first query, an i32 scalar.
    pub(super) start: Value,
    /// The blocks of keys that the queries may see.
    keys: Keys,
}

enum Keys {
    /// All keys in one block, if true; no keys otherwise.
    Whole(bool),
    /// The first block and the number of blocks, i32 scalars.
    Blocks(Value, Value),
}

/// A block of queries with a block of keys, by the first of each, i32 scalars.
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
        // With few queries, a block has more keys.
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

    /// The numbers of queries and keys, padded to whole blocks.
    pub(super) fn padded(&self) -> [usize; 2] {
        let [queries, keys] = self.total;
        [
            queries.next_multiple_of(self.queries.max(1)),
            keys.next_multiple_of(self.keys.max(1)),
        ]
    }

    /// `x` with zeros after the last query; queries lie along dimension `dim`.
    pub(super) fn pad_queries(&self, b: &Builder, x: Value, dim: usize) -> Value {
        pad(b, x, dim, self.padded()[0])
    }

    /// `x` with zeros after the last key; keys lie along dimension `dim`.
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

    /// Runs `body` on every block of keys that a block of queries may see.
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

    /// The part of `x` for the block of queries from `at` on, along `dim`.
    pub(super) fn query_part(&self, b: &Builder, x: Value, dim: usize, at: Value) -> Value {
        part(b, x, &[(dim, at, self.queries)])
    }

    /// The part of `x` for the block of keys from `at` on, along `dim`.
    pub(super) fn key_part(&self, b: &Builder, x: Value, dim: usize, at: Value) -> Value {
        part(b, x, &[(dim, at, self.keys)])
    }

    /// The part of `x` \[…, queries, keys\] for a tile.
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

/// A slice of `x`: for each entry of `dims` a dimension, its start (an i32 scalar) and its size; other dimensions stay
/// whole.
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

/// `whole` with `part` written at the starts in `dims` (i32 scalars), 0 in other dimensions.
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

/// Rows for products with weights that are 0 for unseen pairs: a row with NaN or infinity affects only the rows that
/// see it.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    /// The rows, \[…, rows, width\].
    pub(super) x: Value,
    /// Whether some element isn't finite, so that 0 · x isn't 0: an i32 scalar, 1 or 0; `None` if every pair is seen.
    wild: Option<Value>,
}

impl Rows {
    /// Wraps rows `x`; `hides` says whether some pair isn't seen.
    pub(super) fn new(b: &Builder, x: Value, hides: bool) -> Self {
        let wild = hides.then(|| {
            let dims: Vec<usize> = (0..b.ty(x).rank()).collect();
            let any = b.reduce(Reduction::Or, b.not(b.is_finite(x)), &dims);
            b.convert(any, S32)
        });
        Self { x, wild }
    }

    /// A part of these rows.
    pub(super) fn of(self, part: Value) -> Self {
        Self { x: part, ..self }
    }

    /// Sums the rows by `weights` over the pairs that are seen; `seen` appends which, if it is needed. Elements that
    /// aren't finite are left out of the product and, if there are any, added where they are seen.
    pub(super) fn product(
        self,
        b: &Builder,
        (weights, dims): (Value, &DotDims),
        seen: impl FnOnce() -> Option<Value>,
    ) -> Value {
        let element = b.element(weights);
        let x = b.convert(self.x, element);
        let Some(wild) = self.wild else {
            return b.dot(weights, x, dims, element);
        };
        let finite = b.select(b.is_finite(x), x, 0.0);
        let sum = b.dot(weights, finite, dims, element);
        // A loop of 0 or 1 rounds, so that this part is skipped when all is finite. It computes anew which pairs are
        // seen, so that nothing as large as the scores is kept for it.
        let results = b.counted(0, |b| {
            b.for_loop(wild, &[sum], |b, _, state| {
                let Some(seen) = seen() else {
                    return state.to_vec();
                };
                let seen = b.convert(b.reshape(seen, &b.shape(weights)), element);
                let [above, below] = [f64::INFINITY, f64::NEG_INFINITY].map(|infinity| {
                    // NaN counts as both infinities, whose sum it is.
                    let same = b.or(b.eq(x, infinity), b.ne(x, x));
                    let count = b.dot(seen, b.convert(same, element), dims, element);
                    b.select(b.gt(count, 0.0), b.splat_like(infinity, count), 0.0)
                });
                vec![b.add(state[0], b.add(above, below))]
            })
        });
        results[0]
    }
}

/// Stacks the heads that share keys: \[B, Hq, rows, width\] → \[B · Hkv, group · rows, width\].
pub(super) fn by_key_head(b: &Builder, x: Value, group: usize) -> Value {
    let shape = b.shape(x);
    let heads = shape[0] * (shape[1] / group);
    b.reshape(x, &[heads, group * shape[2], shape[3]])
}

/// Joins the dimensions of sequences and heads: \[B, Hkv, rows, width\] → \[B · Hkv, rows, width\].
pub(super) fn stacked(b: &Builder, x: Value) -> Value {
    by_key_head(b, x, 1)
}

pub(super) fn zeros(b: &Builder, shape: &[usize], element: ElementType) -> Value {
    b.splat(0.0, TensorType::new(shape, element))
}

//! Biases by distance: all pairs on a diagonal have the same bias.
//!
//! Diagonals are numbered from the last query and the first key on: query i and key j are on diagonal j − i + Q − 1,
//! where Q is the number of queries padded to whole blocks. A tile of n queries and m keys has n + m − 1 consecutive
//! diagonals.

use super::walk::{Tile, Walk, part, write};
use crate::stablehlo::{Builder, Reduction, Value};
use moebius_ops::attention::Problem;
use moebius_pjrt::{ElementType, TensorType};

/// The number of diagonals of all whole blocks, plus one that has no pair.
fn count(walk: &Walk) -> usize {
    walk.padded().iter().sum()
}

/// The index of each diagonal's bias among `entries` biases, i32 \[diagonals\].
fn entries(b: &Builder, problem: &Problem, walk: &Walk, entries: usize) -> Value {
    let diagonal = b.iota(TensorType::new([count(walk)], ElementType::S32), 0);
    // The middle entry belongs to a key at the query's own position.
    let beside = walk.padded()[0] as i64 - 1 + problem.position(0);
    let middle = entries as i64 / 2;
    let entry = b.add(diagonal, (middle - beside) as f64);
    b.clamp(0.0, entry, (entries - 1) as f64)
}

/// Spreads a table \[Hq, 2n + 1\] to the biases of all diagonals, \[Hq, diagonals\], in type `element`.
pub(super) fn diagonals(
    b: &Builder,
    problem: &Problem,
    walk: &Walk,
    (table, element): (Value, ElementType),
) -> Value {
    let entry = entries(b, problem, walk, b.shape(table)[1]);
    let table = b.transpose(b.convert(table, element), &[1, 0]);
    b.transpose(b.take(table, entry), &[1, 0])
}

/// The number of a tile's first diagonal, an i32 scalar.
fn first(b: &Builder, walk: &Walk, at: Tile) -> Value {
    let before = walk.padded()[0] - walk.queries;
    b.add(b.sub(at.key, at.query), before as f64)
}

/// The biases of a tile's pairs, \[Hq, queries, keys\], from the result of [`diagonals`].
pub(super) fn biases(b: &Builder, walk: &Walk, diagonals: Value, at: Tile) -> Value {
    let (n, m, heads) = (walk.queries, walk.keys, b.shape(diagonals)[0]);
    let own = part(b, diagonals, &[(1, first(b, walk, at), n + m)]);
    // Cut the repeated vector into rows one shorter than itself: each row is shifted by one diagonal from the row
    // before.
    let all = b.reshape(b.repeat_at(own, 1, n), &[heads, n * (n + m)]);
    let all = b.slice_dim(all, 1, 0..n * (n + m - 1));
    let all = b.reshape(all, &[heads, n, n + m - 1]);
    b.slice_dim(all, 2, n - 1..n + m - 1)
}

/// Adds the gradients of a tile's scores \[B, Hq, queries, keys\] to the gradients of the diagonals \[Hq, diagonals\].
pub(super) fn add(b: &Builder, walk: &Walk, sums: Value, (of, at): (Value, Tile)) -> Value {
    let of = b.sum(of, &[0]);
    let (n, m, heads) = (walk.queries, walk.keys, b.shape(of)[0]);
    let zero = b.scalar(0.0, b.element(of));
    let all = b.pad(of, zero, &[0, 0, n as i64 - 1], &[0; 3], &[0; 3]);
    let all = b.reshape(all, &[heads, n * (n + m - 1)]);
    let all = b.pad(all, zero, &[0, 0], &[0, n as i64], &[0; 2]);
    let own = b.sum(b.reshape(all, &[heads, n, n + m]), &[1]);
    let first = first(b, walk, at);
    let after = b.add(part(b, sums, &[(1, first, n + m)]), own);
    write(b, sums, after, &[(1, first)])
}

/// Zeros to which [`add`] adds, \[Hq, diagonals\].
pub(super) fn sums(b: &Builder, problem: &Problem, walk: &Walk, element: ElementType) -> Value {
    b.splat(
        0.0,
        TensorType::new([problem.sizes().heads, count(walk)], element),
    )
}

/// Sums the gradients of the diagonals to those of the table, \[Hq, 2n + 1\].
pub(super) fn gathered(b: &Builder, problem: &Problem, walk: &Walk, sums: Value) -> Value {
    let reach = problem.rules().relative().unwrap_or(0);
    let (size, heads) = (2 * reach + 1, b.shape(sums)[0]);
    let table = b.splat(0.0, TensorType::new([size, heads], b.element(sums)));
    let entry = entries(b, problem, walk, size);
    let sums = b.transpose(sums, &[1, 0]);
    b.transpose(b.put(table, entry, sums, Some(Reduction::Sum)), &[1, 0])
}

//! The softmax of some rows of queries over one block of 16 tokens.

use super::{Spec, value_of};
use crate::attention::rules::{Scalars, seen, site, trace};
use crate::attention::softmax::{exp, highest};
use cubecl::prelude::*;
use moebius_ops::kv_cache::BLOCK;

/// The running softmax of some rows over tokens.
#[derive(CubeType)]
pub(super) struct Softmax<N: Size> {
    /// The largest score of each row.
    pub(super) largest: Array<f32>,
    /// The sums of exponentials of each row, one for each lane of tokens.
    pub(super) totals: Array<Vector<f32, N>>,
    /// The sums of exponentials times values, row after row.
    pub(super) sums: Array<Vector<f32, N>>,
}

/// Some rows of queries of one key head: row r is query r / group of head r % group of the group.
#[derive(CubeType)]
pub(super) struct Rows {
    pub(super) batch: usize,
    pub(super) kv_head: usize,
    /// The first row, and one past the key head's last.
    pub(super) first: usize,
    pub(super) end: usize,
    /// The head and the query of each row. Rows past the end repeat the last.
    heads: Array<usize>,
    queries: Array<usize>,
    /// Copies of the rows of q on a processor, because their offsets in q take divisions, which LLVM would repeat for each value
    /// read.
    q: Array<f32>,
}

/// The rows from `first` on, of the `end` rows of a sequence's key head.
#[cube]
pub(super) fn rows_of<F: Float>(
    q: &[F],
    batch: usize,
    kv_head: usize,
    first: usize,
    end: usize,
    scalars: &Scalars,
    #[comptime] spec: Spec,
) -> Rows {
    let kept = comptime!(if spec.cpu {
        spec.rows * spec.head_dim
    } else {
        1
    });
    let mut values = Array::<f32>::new(kept);
    let mut heads = Array::<usize>::new(comptime!(spec.rows));
    let mut queries = Array::<usize>::new(comptime!(spec.rows));
    #[unroll]
    for r in 0..comptime!(spec.rows) {
        let row = min(first + r, end - 1);
        heads[r] = kv_head * scalars.group + row % scalars.group;
        queries[r] = row / scalars.group;
        if comptime!(spec.cpu) {
            let from = (batch * scalars.heads + heads[r]) * scalars.queries + queries[r];
            for d in 0..comptime!(spec.head_dim) {
                let value = q[from * comptime!(spec.head_dim) + d];
                values[comptime!(r * spec.head_dim) + d] = f32::cast_from(value);
            }
        }
    }
    Rows {
        batch,
        kv_head,
        first,
        end,
        heads,
        queries,
        q: values,
    }
}

/// The row of q, o and lse of row `r`.
#[cube]
pub(super) fn tensor_row(rows: &Rows, r: usize, scalars: &Scalars) -> usize {
    (rows.batch * scalars.heads + rows.heads[r]) * scalars.queries + rows.queries[r]
}

/// The softmax over no tokens.
#[cube]
pub(super) fn nothing<N: Size>(#[comptime] spec: Spec) -> Softmax<N> {
    let width = N::value();
    let registers = comptime!(spec.rows * spec.value_dim / width);
    let mut largest = Array::<f32>::new(comptime!(spec.rows));
    let mut totals = Array::<Vector<f32, N>>::new(comptime!(spec.rows));
    let mut sums = Array::<Vector<f32, N>>::new(registers);
    #[unroll(!spec.cpu)]
    for r in 0..comptime!(spec.rows) {
        largest[r] = f32::min_value();
        totals[r] = Vector::new(0.0f32);
    }
    #[unroll(spec.in_registers(width))]
    for i in 0..registers {
        sums[i] = Vector::new(0.0f32);
    }
    Softmax::<N> {
        largest,
        totals,
        sums,
    }
}

/// The dot products ⟨q, k⟩ of the rows and a block's tokens, before the scales of the keys.
#[cube]
fn products<F: Float, N: Size>(
    q: &[F],
    pool: &[Vector<u32, N>],
    block: usize,
    rows: &Rows,
    scalars: &Scalars,
    #[comptime] spec: Spec,
) -> Array<Vector<f32, N>> {
    let width = N::value();
    let across = comptime!(BLOCK / width);
    let per = comptime!(spec.per_word());
    let mut queries = Array::<usize>::new(comptime!(spec.rows));
    let mut sums = Array::<Vector<f32, N>>::new(comptime!(spec.rows * across));
    #[unroll]
    for r in 0..comptime!(spec.rows) {
        queries[r] = tensor_row(rows, r, scalars) * comptime!(spec.head_dim);
        #[unroll]
        for i in 0..across {
            sums[comptime!(r * across + i)] = Vector::new(0.0f32);
        }
    }
    for word in 0..comptime!(spec.key_words()) {
        #[unroll]
        for i in 0..across {
            let words = pool[block / width + word * across + i];
            #[unroll]
            for place in 0..per {
                let k = value_of::<N>(words, place, spec);
                #[unroll]
                for r in 0..comptime!(spec.rows) {
                    let d = word * per + place;
                    let q = if comptime!(spec.cpu) {
                        rows.q[comptime!(r * spec.head_dim) + d]
                    } else {
                        f32::cast_from(q[queries[r] + d])
                    };
                    let at = comptime!(r * across + i);
                    sums[at] = fma(Vector::new(q), k, sums[at]);
                }
            }
        }
    }
    // A separate array, because registers can't be indexed by a computed number.
    let mut found = Array::<Vector<f32, N>>::new(comptime!(spec.rows * across));
    #[unroll]
    for i in 0..comptime!(spec.rows * across) {
        found[i] = sums[i];
    }
    found
}

/// Register `i` of the scales of a block's keys, or of its values.
#[cube]
fn scales<N: Size>(
    pool: &[Vector<u32, N>],
    block: usize,
    i: usize,
    #[comptime] values: bool,
    #[comptime] spec: Spec,
) -> Vector<f32, N> {
    let width = N::value();
    let from = comptime!(spec.scales() + if values { BLOCK } else { 0 });
    Vector::<f32, N>::reinterpret(pool[(block + from) / width + i])
}

/// eˣ for numbers that are at most 0.
#[cube]
pub(super) fn power<N: Size>(x: Vector<f32, N>, #[comptime] spec: Spec) -> Vector<f32, N> {
    if comptime!(spec.cpu) {
        exp::<N>(x)
    } else {
        x.exp()
    }
}

/// Turns the scores of row `r` into exponentials and adds them to the softmax, whose sums shrink if a score is the largest so
/// far.
#[cube]
fn soften<N: Size>(
    scores: &mut Array<Vector<f32, N>>,
    softmax: &mut Softmax<N>,
    tables: &[u32],
    rows: &Rows,
    scalars: &Scalars,
    token: usize,
    full: bool,
    r: usize,
    #[comptime] spec: Spec,
) {
    let width = N::value();
    let across = comptime!(BLOCK / width);
    let mut site = site::<N>(rows.batch, rows.heads[r], rows.queries[r]);
    let floor = Vector::<f32, N>::min_value();
    let mut largest = floor;
    // A query past the end of its sequence sees no token.
    let there = site.query as i32 + scalars.shift < scalars.keys as i32;
    #[unroll]
    for i in 0..across {
        let place = r * across + i;
        site.key = token + comptime!(i * width);
        let (mut s, _) = trace::<N>(scores[place], &site, scalars, tables, spec.kinds, 0usize);
        if !full {
            let last = select(there, scalars.keys as i32 - site.key as i32, 0i32);
            let seen = seen::<N>(&site, scalars, tables, spec.kinds);
            let seen = seen.vec_and(site.lanes.less_than(&Vector::new(last)));
            s = select_many(seen, s, floor);
        }
        scores[place] = s;
        largest = largest.max(s);
    }
    let before = softmax.largest[r];
    let top = highest::<N>(largest, before);
    let shrink = power::<Const<1>>(Vector::new(before - top), spec).extract(0usize);
    let mut total = softmax.totals[r] * Vector::new(shrink);
    #[unroll]
    for i in 0..across {
        let place = r * across + i;
        let mut p = power::<N>(scores[place] - Vector::new(top), spec);
        if !full {
            let none = scores[place].equal(&floor);
            p = select_many(none, Vector::new(0.0f32), p);
        }
        total += p;
        scores[place] = p;
    }
    softmax.totals[r] = total;
    if top > before {
        let registers = comptime!(spec.value_dim / width);
        #[unroll(spec.in_registers(width))]
        for i in 0..registers {
            softmax.sums[r * registers + i] *= Vector::new(shrink);
        }
        softmax.largest[r] = top;
    }
}

/// Adds exponentials times the values of a block. If `careful`, a hidden token contributes nothing, whatever its values are.
#[cube]
fn weigh<N: Size>(
    pool: &[Vector<u32, N>],
    block: usize,
    weights: &Array<Vector<f32, N>>,
    softmax: &mut Softmax<N>,
    #[comptime] careful: bool,
    #[comptime] spec: Spec,
) {
    let width = N::value();
    let across = comptime!(BLOCK / width);
    let of_value = comptime!(spec.value_words() / width);
    let first = (block + comptime!(spec.values())) / width;
    let per = comptime!(spec.per_word());
    let zero = Vector::<f32, N>::new(0.0f32);
    // Enough independent sums to hide the latency of one.
    let group = comptime!(if per == 1 && of_value % 2 == 0 { 2 } else { 1 });
    let rows = comptime!(spec.rows);
    #[unroll(spec.in_registers(width))]
    for i in 0..comptime!(of_value / group) {
        let mut sums = Array::<Vector<f32, N>>::new(comptime!(rows * per * group));
        #[unroll]
        for at in 0..comptime!(rows * per * group) {
            let own = comptime!(spec.register(at, group, of_value));
            sums[at] = softmax.sums[own + i * group];
        }
        for tokens in 0..across {
            #[unroll]
            for lane in 0..width {
                let token = first + (tokens * width + lane) * of_value + i * group;
                #[unroll]
                for beside in 0..group {
                    let words = pool[token + beside];
                    #[unroll]
                    for place in 0..per {
                        let v = value_of::<N>(words, place, spec);
                        #[unroll]
                        for r in 0..rows {
                            let p = weights[comptime!(r * across) + tokens].extract(lane);
                            let p = Vector::<f32, N>::new(p);
                            let mut v = v;
                            if comptime!(careful) {
                                v = select_many(p.equal(&zero), zero, v);
                            }
                            let at = comptime!((r * per + place) * group + beside);
                            sums[at] = fma(p, v, sums[at]);
                        }
                    }
                }
            }
        }
        #[unroll]
        for at in 0..comptime!(rows * per * group) {
            let own = comptime!(spec.register(at, group, of_value));
            softmax.sums[own + i * group] = sums[at];
        }
    }
}

/// Adds the tokens of the block at word `block`, whose first token is `token`; `full` says that every row sees every token.
#[cube]
pub(super) fn add_block<F: Float, N: Size>(
    q: &[F],
    pool: &[Vector<u32, N>],
    tables: &[u32],
    softmax: &mut Softmax<N>,
    rows: &Rows,
    scalars: &Scalars,
    block: usize,
    token: usize,
    full: bool,
    #[comptime] spec: Spec,
) {
    let width = N::value();
    let across = comptime!(BLOCK / width);
    let mut scores = products::<F, N>(q, pool, block, rows, scalars, spec);
    #[unroll(!spec.cpu)]
    for r in 0..comptime!(spec.rows) {
        #[unroll]
        for i in 0..across {
            let place = r * across + i;
            if comptime!(spec.scaled()) {
                scores[place] *= scales::<N>(pool, block, i, false, spec);
            }
            scores[place] *= Vector::new(scalars.scale);
        }
        soften::<N>(
            &mut scores,
            softmax,
            tables,
            rows,
            scalars,
            token,
            full,
            r,
            spec,
        );
        if comptime!(spec.scaled()) {
            #[unroll]
            for i in 0..across {
                let place = r * across + i;
                scores[place] *= scales::<N>(pool, block, i, true, spec);
            }
        }
    }
    // On a GPU memory is the bound, so one form suffices; on a processor the selection would cost time.
    if comptime!(!spec.cpu) {
        weigh::<N>(pool, block, &scores, softmax, true, spec);
    } else if full {
        weigh::<N>(pool, block, &scores, softmax, false, spec);
    } else {
        weigh::<N>(pool, block, &scores, softmax, true, spec);
    }
}

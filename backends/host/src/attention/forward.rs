//! The forward pass: o and its log-sum-exp, one block of queries by one block of keys at a time (Milakov & Gimelshein 2018, Dao 2022).

use super::in_place::{self, Scores, TOKENS, Tokens};
use super::panels::{Hidden, Left, Line, PANEL, Pairs, Panels, add_product, panels_of, turn};
use super::scores::{Block, KEYS, Operands};
use crate::values::{E4m3, Words};
use crate::vector::{Kernel, Transpose, dispatch, exp, vectorized};
use crate::workers::least_work;
use half::{bf16, f16};
use moebius_ops::attention::Sizes;
use moebius_ops::kv_cache::CacheFormat;
use pulp::{Simd, WithSimd};
use rayon::prelude::*;
use std::cell::Cell;
use std::ops::Range;

/// The keys and values of one key head, packed for products.
struct Packed {
    /// kᵀ \[D, Skv\].
    keys: Panels,
    /// v \[Skv, Dv\].
    values: Panels,
    /// Whether the values of each block of keys are finite.
    finite: Vec<bool>,
}

/// Fills o \[B, Hq, Sq, Dv\], which holds zeros at first, and lse \[B, Hq, Sq\], which holds `f32::MIN`.
pub(crate) fn run(operands: &Operands<'_>, source: &impl Source, [o, lse]: [&mut [f32]; 2]) {
    let problem = operands.problem;
    let s = problem.sizes();
    let width = s.value_dim;
    if s.queries * problem.group() <= FEW {
        return of_few(operands, source, o, lse);
    }
    let heads = (0..s.batch * s.kv_heads).into_par_iter();
    let packed: Vec<Packed> = heads.map(|head| Packed::of(source, head, s)).collect();
    let (mut o_rest, mut lse_rest) = (o, lse);
    let mut tasks = Vec::new();
    for block in operands.query_blocks() {
        let (o, rest) = o_rest.split_at_mut(block.rows() * width);
        o_rest = rest;
        let (lse, rest) = lse_rest.split_at_mut(block.rows());
        lse_rest = rest;
        let head = block.batch * s.kv_heads + block.heads.start / problem.group();
        let packed = &packed[head];
        tasks.push(Task {
            operands,
            packed,
            block,
            out: (o, lse),
        });
    }
    tasks.into_par_iter().for_each(vectorized);
}

/// The kernel that packs the keys and values of key head `head`.
struct Pack<'a, K> {
    source: &'a K,
    head: usize,
    keys: usize,
    to: &'a mut Packed,
}

impl<K: Source> Kernel for Pack<'_, K> {
    #[inline(always)]
    fn run<S: Simd, T: Transpose>(self, _: S, transpose: T) {
        let Self { source, head, .. } = self;
        let blocks = |size: usize| {
            let firsts = (0..self.keys).step_by(size);
            firsts.map(move |first| first..(first + size).min(self.keys))
        };
        for (keys, lines) in blocks(PANEL).zip(self.to.keys.each()) {
            source.keys(transpose, head, keys, lines);
        }
        let mut room = Vec::new();
        for keys in blocks(KEYS) {
            let first = keys.start;
            let values = source.values(head, keys, &mut room);
            let finite = values.iter().all(|value| value.is_finite());
            self.to.finite.push(finite);
            self.to.values.put(first, values);
        }
    }
}

impl Packed {
    fn of(source: &impl Source, head: usize, s: &Sizes) -> Self {
        let mut to = Self {
            keys: Panels::new(s.head_dim, s.keys),
            values: Panels::new(s.keys, s.value_dim),
            finite: Vec::new(),
        };
        dispatch(Pack {
            source,
            head,
            keys: s.keys,
            to: &mut to,
        });
        to
    }
}

/// The forward pass of a block of queries.
struct Task<'a> {
    operands: &'a Operands<'a>,
    packed: &'a Packed,
    block: Block,
    /// The block's rows of o and lse.
    out: (&'a mut [f32], &'a mut [f32]),
}

impl WithSimd for Task<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (operands, block) = (self.operands, &self.block);
        let (width, rows) = (operands.problem.sizes().head_dim, block.rows());
        let q = operands.scaled_queries(block);
        let across = self.packed.values.count();
        let mut sums = vec![[0.0; PANEL]; rows * across];
        let mut scores = vec![[0.0; PANEL]; rows * (KEYS / PANEL)];
        let mut running = vec![Running::new(); rows];
        for (keys, full) in operands.key_blocks(block) {
            let panels = panels_of(&keys);
            let tiles = panels.len();
            let scores = &mut scores[..rows * tiles];
            scores.fill([0.0; PANEL]);
            let right = (&self.packed.keys, 0..width, panels);
            add_product(simd, (Left::Rows(&q, width), rows), right, scores);
            let finite = self.packed.finite[keys.start / KEYS];
            let mut hidden = Hidden::new(!finite);
            for (row, running) in running.iter_mut().enumerate() {
                let scores = scores[row * tiles..][..tiles].as_flattened_mut();
                let none: [&mut [f32]; 2] = [&mut [], &mut []];
                operands.apply(simd, (block, row), (&keys, full), scores, none);
                hidden.note(scores);
                let shrink = running.add(simd, scores);
                operands.drop((block, row), keys.start, scores);
                scale(simd, shrink, &mut sums[row * across..][..across]);
            }
            let p = scores.as_flattened();
            let (left, inner) = (Left::Rows(p, tiles * PANEL), keys.clone());
            match hidden.0 {
                None => {
                    let right = (&self.packed.values, inner, 0..across);
                    add_product(simd, (left, rows), right, &mut sums);
                }
                Some(hidden) => {
                    let pairs = Pairs::new(p, &hidden, tiles * PANEL);
                    pairs.add_rows(simd, (&self.packed.values, inner), &mut sums);
                }
            }
        }
        self.finish(&running, &sums, across);
    }
}

impl Task<'_> {
    /// Divides the rows by their sums of exponentials, including sinks.
    #[inline(always)]
    fn finish(self, running: &[Running], sums: &[Line], across: usize) {
        let (operands, block) = (self.operands, &self.block);
        let width = operands.problem.sizes().value_dim;
        let (o, lse) = self.out;
        let sums = sums.chunks_exact(across);
        let rows = running.iter().zip(sums).zip(o.chunks_exact_mut(width));
        for (row, ((running, sums), o)) in rows.enumerate() {
            let head = block.heads.start + row / block.queries.len();
            let sink = operands.sinks.get(head).copied();
            let Some((found, factor)) = running.finish(sink) else {
                continue;
            };
            lse[row] = found;
            for (o, sum) in o.iter_mut().zip(sums.as_flattened()) {
                *o = sum * factor;
            }
        }
    }
}

/// Multiplies the lines of a row by `factor`.
#[inline(always)]
fn scale<S: Simd>(simd: S, factor: f32, lines: &mut [Line]) {
    if factor == 1.0 {
        return;
    }
    let by = simd.splat_f32s(factor);
    for value in S::as_mut_simd_f32s(lines.as_flattened_mut()).0 {
        *value = simd.mul_f32s(*value, by);
    }
}

/// The most query rows per key head for which keys and values are read unpacked; with more rows, packing pays off.
const FEW: usize = 8;

/// Fills o \[B, Hq, Sq, Dv\] and lse \[B, Hq, Sq\], which holds `f32::MIN` at first, without packing keys and values.
fn of_few(operands: &Operands<'_>, source: &impl Source, mut o: &mut [f32], mut lse: &mut [f32]) {
    let s = operands.problem.sizes();
    let width = s.value_dim;
    let mut blocks = operands.query_blocks();
    let work = operands.problem.query_rows() * s.keys * (s.head_dim + width);
    let shared = work >= least_work();
    // Heads that share keys are divided where threads would have unequal parts of the work, if that means to pack nothing twice.
    let threads = rayon::current_num_threads();
    if shared && source.format().is_some() && blocks.len() < 4 * threads {
        blocks = in_shares(blocks, threads);
    }
    let mut pieces = Vec::with_capacity(blocks.len());
    for block in blocks {
        let (own, rest) = o.split_at_mut(block.rows() * width);
        let (own_lse, rest_lse) = lse.split_at_mut(block.rows());
        (o, lse) = (rest, rest_lse);
        pieces.push((block, own, own_lse));
    }
    let task = |pieces: &mut [Piece<'_>]| {
        dispatch(FewTask {
            operands,
            source,
            pieces,
        });
    };
    if shared {
        pieces.par_chunks_mut(1).for_each(task);
    } else {
        task(&mut pieces);
    }
}

/// Divides blocks where the share of a thread ends, if all threads have as many heads.
fn in_shares(blocks: Vec<Block>, threads: usize) -> Vec<Block> {
    let heads: usize = blocks.iter().map(|block| block.heads.len()).sum();
    let (share, mut before) = (heads.div_ceil(threads), 0);
    let mut parts = Vec::new();
    for mut block in blocks {
        while !block.heads.is_empty() {
            let first = block.heads.start;
            let end = (first + share - before % share).min(block.heads.end);
            before += end - first;
            parts.push(Block {
                heads: first..end,
                ..block.clone()
            });
            block.heads.start = end;
        }
    }
    parts
}

/// A block of queries, and its rows of o and lse.
type Piece<'a> = (Block, &'a mut [f32], &'a mut [f32]);

/// The forward pass of some queries, without packing.
struct FewTask<'a, 'b, K> {
    operands: &'a Operands<'a>,
    source: &'a K,
    /// The queries of a key head, or of some of its heads.
    pieces: &'a mut [Piece<'b>],
}

thread_local! {
    /// Memory that is kept from task to task, because it would have to be cleared.
    static ROOM: Cell<Option<Box<Room>>> = const { Cell::new(None) };
}

/// Memory that the blocks of a task share, because a block of one query takes less time than to get it anew. It holds arbitrary values at first.
#[derive(Default)]
struct Room {
    /// Queries times the scale.
    q: Vec<f32>,
    /// Some keys, transposed.
    turned: Panels,
    /// Values, of a source that doesn't store them as they are read.
    values: Vec<f32>,
    /// The scores of each row for a block of keys.
    scores: [Scores; FEW],
}

impl<K: Source> Kernel for FewTask<'_, '_, K> {
    #[inline(always)]
    fn run<S: Simd, T: Transpose>(self, simd: S, transpose: T) {
        let vectors = (simd, transpose);
        match self.source.format() {
            None | Some(CacheFormat::F32) => self.run_in::<S, T, f32>(vectors),
            Some(CacheFormat::F16) => self.run_in::<S, T, f16>(vectors),
            Some(CacheFormat::Bf16) => self.run_in::<S, T, bf16>(vectors),
            Some(CacheFormat::E4m3) => self.run_in::<S, T, E4m3>(vectors),
        }
    }
}

impl<K: Source> FewTask<'_, '_, K> {
    /// Runs the pass over keys and values that are stored in E, if the source stores them as they are read.
    #[inline(always)]
    fn run_in<S: Simd, T: Transpose, E: Words>(self, vectors: (S, T)) {
        let Self {
            operands, source, ..
        } = self;
        let mut room = ROOM.take().unwrap_or_default();
        room.turned.make_one(operands.problem.sizes().head_dim);
        for (block, o, lse) in self.pieces {
            let few = FewQueries {
                operands,
                source,
                block,
                room: &mut room,
            };
            few.run::<S, T, E>(vectors, (o, lse));
        }
        ROOM.set(Some(room));
    }
}

/// The forward pass of all queries of a key head, or of some of its heads, without packing.
struct FewQueries<'a, K> {
    operands: &'a Operands<'a>,
    source: &'a K,
    block: &'a Block,
    room: &'a mut Room,
}

impl<K: Source> FewQueries<'_, K> {
    /// Fills the block's rows of o and lse.
    #[inline(always)]
    fn run<S: Simd, T: Transpose, E: Words>(
        mut self,
        vectors: (S, T),
        (o, lse): (&mut [f32], &mut [f32]),
    ) {
        let (operands, block, source) = (self.operands, self.block, self.source);
        let (s, group) = (*operands.problem.sizes(), operands.problem.group());
        let width = s.value_dim;
        let head = block.batch * s.kv_heads + block.heads.start / group;
        self.room.q.clear();
        self.room.q.extend(operands.scaled(block));
        let mut running = [Running::new(); FEW];
        for (keys, full) in operands.key_blocks(block) {
            let after = keys.end..(keys.end + KEYS).min(s.keys);
            let mut tokens = [[Tokens::default(); KEYS / TOKENS]; 2];
            let [tokens, next] = &mut tokens;
            let stored = tokens_of(source, head, &keys, tokens);
            let plain = in_place::are_plain::<E>(stored.unwrap_or_default());
            if plain {
                self.score::<S, T, E::Plain>(vectors, (head, &keys), stored);
            } else {
                self.score::<S, T, E>(vectors, (head, &keys), stored);
            }
            for (row, o) in o.chunks_exact_mut(width).enumerate() {
                let scores = &mut self.room.scores[row][..panels_of(&keys).len()];
                let scores = scores.as_flattened_mut();
                let none: [&mut [f32]; 2] = [&mut [], &mut []];
                operands.apply(vectors.0, (block, row), (&keys, full), scores, none);
                let shrink = running[row].add(vectors.0, scores);
                operands.drop((block, row), keys.start, scores);
                if shrink != 1.0 {
                    o.iter_mut().for_each(|o| *o *= shrink);
                }
            }
            let Room { values, scores, .. } = &mut *self.room;
            let scores = &scores[..block.rows()];
            if let Some(stored) = stored {
                let ahead = tokens_of(source, head, &after, next).unwrap_or_default();
                if plain {
                    in_place::add_values::<S, T, E::Plain>(vectors, scores, [stored, ahead], o);
                } else {
                    in_place::add_values::<S, T, E>(vectors, scores, [stored, ahead], o);
                }
            } else {
                let values = source.values(head, keys, values);
                let all = values.chunks(TOKENS * width).map(Tokens::of_values);
                let count = all.len();
                for (to, tokens) in next.iter_mut().zip(all) {
                    *to = tokens;
                }
                in_place::add_values::<S, T, f32>(vectors, scores, [&next[..count], &[]], o);
            }
        }
        self.finish(&running, (o, lse));
    }

    /// Divides the rows by their sums of exponentials, including sinks.
    #[inline(always)]
    fn finish(self, running: &[Running], (o, lse): (&mut [f32], &mut [f32])) {
        let (operands, block) = (self.operands, self.block);
        let width = operands.problem.sizes().value_dim;
        for (row, o) in o.chunks_exact_mut(width).enumerate() {
            let head = block.heads.start + row / block.queries.len();
            let sink = operands.sinks.get(head).copied();
            if let Some((found, factor)) = running[row].finish(sink) {
                lse[row] = found;
                o.iter_mut().for_each(|o| *o *= factor);
            }
        }
    }

    /// Computes the scores of all rows for a head's block of keys, which `stored` has if the source has them in this form.
    #[inline(always)]
    fn score<S: Simd, T: Transpose, E: Words>(
        &mut self,
        (simd, transpose): (S, T),
        (head, keys): (usize, &Range<usize>),
        stored: Option<&[Tokens<'_>]>,
    ) {
        let (dim, rows) = (self.operands.problem.sizes().head_dim, self.block.rows());
        let Room {
            q, turned, scores, ..
        } = &mut *self.room;
        if let Some(tokens) = stored {
            return in_place::score::<S, T, E>((simd, transpose), (q, rows), tokens, scores);
        }
        for (at, first) in keys.clone().step_by(PANEL).enumerate() {
            let some = first..(first + PANEL).min(keys.end);
            let lines = turned.only(some.len());
            self.source.keys(transpose, head, some, lines);
            let mut sums = [[0.0; PANEL]; FEW];
            let right = (&*turned, 0..dim, 0..1);
            add_product(simd, (Left::Rows(q, dim), rows), right, &mut sums);
            for (scores, sums) in scores.iter_mut().zip(&sums[..rows]) {
                scores[at] = *sums;
            }
        }
    }
}

/// The tokens of some keys, the first of which is a multiple of sixteen, if the source stores all of them as they are read in place.
#[inline(always)]
fn tokens_of<'a, 'b>(
    source: &'a impl Source,
    head: usize,
    keys: &Range<usize>,
    room: &'b mut [Tokens<'a>],
) -> Option<&'b [Tokens<'a>]> {
    let count = keys.len().div_ceil(TOKENS);
    for (tokens, first) in room.iter_mut().zip(keys.clone().step_by(TOKENS)) {
        *tokens = source.tokens(head, first)?;
    }
    Some(&room[..count])
}

/// The largest score of a row so far, and the sum of all exponentials relative to it.
#[derive(Clone, Copy)]
struct Running {
    largest: f32,
    sum: f32,
}

impl Running {
    fn new() -> Self {
        Self {
            largest: f32::NEG_INFINITY,
            sum: 0.0,
        }
    }

    /// Turns scores into exponentials relative to the largest score so far; returns the factor by which earlier sums shrink.
    #[inline(always)]
    fn add<S: Simd>(&mut self, simd: S, scores: &mut [f32]) -> f32 {
        let scores = S::as_mut_simd_f32s(scores).0;
        let mut largest = simd.splat_f32s(f32::NEG_INFINITY);
        for score in scores.iter() {
            largest = simd.max_f32s(largest, *score);
        }
        let before = self.largest;
        self.largest = before.max(simd.reduce_max_f32s(largest));
        // If nothing is seen so far, any finite base will do: the exponentials of −∞ are 0.
        let base = if self.largest == f32::NEG_INFINITY {
            0.0
        } else {
            self.largest
        };
        let by = simd.splat_f32s(base);
        let mut sum = simd.splat_f32s(0.0);
        for score in scores.iter_mut() {
            *score = exp(simd, simd.sub_f32s(*score, by));
            sum = simd.add_f32s(sum, *score);
        }
        let shrink = if before == self.largest {
            1.0
        } else {
            (before - base).exp()
        };
        self.sum = self.sum * shrink + simd.reduce_sum_f32s(sum);
        shrink
    }

    /// Returns the log-sum-exp, and the factor for the row of sums; `None` if the query sees no key and there is no sink.
    #[inline(always)]
    fn finish(self, sink: Option<f32>) -> Option<(f32, f32)> {
        let Some(sink) = sink else {
            // The test isn't `> 0`, so that a NaN that is seen stays.
            let empty = self.sum == 0.0;
            return (!empty).then(|| (self.largest + self.sum.ln(), 1.0 / self.sum));
        };
        let largest = self.largest.max(sink);
        let shrink = (self.largest - largest).exp();
        let sum = self.sum * shrink + (sink - largest).exp();
        Some((largest + sum.ln(), shrink / sum))
    }
}

/// A source of keys and values for the key heads, numbered through \[B, Hkv\].
pub(crate) trait Source: Sync {
    /// Transposes keys into columns: element d of key i goes to `lines[d][i]`. There are at most as many keys as a panel has columns, and
    /// the first is a multiple of that number. Columns past the last key hold arbitrary values.
    fn keys<T: Transpose>(&self, transpose: T, head: usize, keys: Range<usize>, lines: &mut [Line]);

    /// Returns the values \[keys, Dv\] of keys, the first of which is a multiple of a panel's columns; the values are put in `room` if the
    /// source doesn't store them in this form.
    fn values<'a>(&'a self, head: usize, keys: Range<usize>, room: &'a mut Vec<f32>) -> &'a [f32];

    /// The format of keys and values as [`Source::tokens`] returns them; `None` if the source stores them otherwise.
    fn format(&self) -> Option<CacheFormat> {
        None
    }

    /// The keys and values of sixteen tokens, from `first` on, a multiple of sixteen; those past the last token are arbitrary. `None` where the
    /// source doesn't store them in this form.
    fn tokens(&self, _head: usize, _first: usize) -> Option<Tokens<'_>> {
        None
    }
}

/// Keys k \[B, Hkv, Skv, D\] and values v \[B, Hkv, Skv, Dv\] from the operands of a call.
impl Source for Operands<'_> {
    #[inline(always)]
    fn keys<T: Transpose>(
        &self,
        transpose: T,
        head: usize,
        keys: Range<usize>,
        lines: &mut [Line],
    ) {
        let s = self.problem.sizes();
        let first = (head * s.keys + keys.start) * s.head_dim;
        let k = &self.k[first..][..keys.len() * s.head_dim];
        turn(transpose, k, lines);
    }

    #[inline(always)]
    fn values<'a>(&'a self, head: usize, keys: Range<usize>, _: &'a mut Vec<f32>) -> &'a [f32] {
        let s = self.problem.sizes();
        let first = (head * s.keys + keys.start) * s.value_dim;
        &self.v[first..][..keys.len() * s.value_dim]
    }
}

//! The forward pass of the `cpu` variant: o and lse.
//!
//! A task takes every `cores`-th block of [`ROWS`] query rows of a key head, with the heads of its group side by side, and walks
//! over tiles of keys, which begin at multiples of their size. For each tile it goes through the block in strips of [`STRIP`]
//! rows: scores into scratch, then rules and softmax row by row, then probabilities times values. A strip skips a tile whose
//! pairs the rules all hide.

use super::{Apart, Corner, ROWS, STRIP, Spec, any_infinite, multiply, panels, rows};
use crate::attention::operands::{Strides, head_at};
use crate::attention::rules::{Scalars, Site, keys_of, scalars, site};
use crate::attention::score_rule::{LaunchRule, ScoreRule, scores_by, seen_by, tile_by};
use crate::attention::softmax::{ended, exp, factors, highest, row_or_none};
use crate::attention::visits::{span, tables_show};
use crate::attention::{ForwardBuffers, Plan};
use crate::prelude::*;
use cubecl::prelude::*;

impl Spec {
    /// The number of f32s of a task's scratch: queries, sums, lane sums and largest scores of a block, the scores of a strip, and
    /// the rows' counts of visited tiles.
    const fn scratch(self, width: usize) -> usize {
        let counted = if self.form.counted { ROWS } else { 0 };
        self.visits(width) + counted.next_multiple_of(width)
    }

    const fn visits(self, width: usize) -> usize {
        self.scores(width) + STRIP * self.tile
    }

    const fn sums(self, width: usize) -> usize {
        (ROWS * self.head_dim).next_multiple_of(width)
    }

    const fn totals(self, width: usize) -> usize {
        self.sums(width) + ROWS * self.padded_value
    }

    const fn largest(self, width: usize) -> usize {
        self.totals(width) + ROWS * width
    }

    const fn scores(self, width: usize) -> usize {
        self.largest(width) + ROWS.next_multiple_of(width)
    }
}

/// A block of query rows of one key head: row r is query r / group of head r % group of the group.
#[derive(CubeType, Clone, Copy)]
pub(super) struct Block {
    pub(super) batch: usize,
    pub(super) kv_head: usize,
    /// The first row, and one past the last.
    pub(super) first: usize,
    pub(super) end: usize,
    /// The offset of the task's scratch.
    pub(super) base: usize,
}

#[cube]
pub(super) fn site_of<N: Size>(row: usize, block: &Block, scalars: &Scalars) -> Site<N> {
    let head = block.kv_head * scalars.group + row % scalars.group;
    site::<N>(block.batch, head, row / scalars.group)
}

/// The row of `site` in q, o and lse.
#[cube]
pub(super) fn tensor_row<N: Size>(site: &Site<N>, scalars: &Scalars) -> usize {
    (site.batch * scalars.heads + site.head) * scalars.queries + site.query
}

/// Writes a block's scaled queries and an empty softmax to the scratch.
#[cube]
fn begin<F: Float, N: Size>(
    q: &[F],
    scratch: &mut [Vector<f32, Const<1>>],
    block: &Block,
    scalars: &Scalars,
    strides: &Strides,
    #[comptime] spec: Spec,
) {
    let width = N::value();
    let dim = comptime!(spec.head_dim);
    for row in 0..comptime!(ROWS) {
        // Rows past the last repeat the last.
        let site = site_of::<Const<1>>(min(block.first + row, block.end - 1), block, scalars);
        let from = head_at(strides, site.batch, site.head) + site.query * strides.row;
        for d in 0..dim {
            scratch[block.base + row * dim + d] =
                Vector::new(f32::cast_from(q[from + d]) * scalars.scale);
        }
        for d in 0..comptime!(spec.padded_value) {
            scratch[block.base
                + comptime!(spec.sums(width))
                + row * comptime!(spec.padded_value)
                + d] = Vector::new(0.0f32);
        }
        for lane in 0..width {
            scratch[block.base + comptime!(spec.totals(width)) + row * width + lane] =
                Vector::new(0.0f32);
        }
        scratch[block.base + comptime!(spec.largest(width)) + row] = Vector::min_value();
        if comptime!(spec.form.counted) {
            scratch[block.base + comptime!(spec.visits(width)) + row] = Vector::new(0.0f32);
        }
    }
}

/// Writes the scores of the strip that starts at row `row` of the block, with a tile of keys from panel `panel` on, to the
/// scratch.
#[cube]
fn score<N: Size>(
    scratch: &mut [Vector<f32, Const<1>>],
    packed: &[Vector<f32, N>],
    block: &Block,
    row: usize,
    panel: usize,
    #[comptime] spec: Spec,
) {
    let width = N::value();
    let dim = comptime!(spec.head_dim);
    #[unroll]
    for pair in 0..comptime!(spec.tile / (2 * width)) {
        let mut sums = Array::<Vector<f32, N>>::new(comptime!(2 * STRIP));
        #[unroll]
        for i in 0..comptime!(2 * STRIP) {
            sums[i] = Vector::new(0.0f32);
        }
        let from = Corner {
            left: block.base + row * dim,
            right: (panel + pair) * comptime!(2 * spec.head_dim),
        };
        multiply::<N>(
            &mut sums,
            scratch.with_vector_size::<Const<1>>(),
            packed,
            &from,
            dim.runtime(),
            false.runtime(),
            comptime!(Apart::of_panels(dim)),
        );
        let to = (block.base + comptime!(spec.scores(width))) / width + pair * 2;
        let registers = scratch.with_vector_size_mut::<N>();
        #[unroll]
        for i in 0..comptime!(STRIP) {
            registers[to + i * comptime!(spec.tile / width)] = sums[2 * i];
            registers[to + i * comptime!(spec.tile / width) + 1] = sums[2 * i + 1];
        }
    }
}

/// A row of a strip: its index in the block and in the strip, and the first key of the tile.
#[derive(CubeType, Clone, Copy)]
struct StripRow {
    row: usize,
    in_strip: usize,
    key: usize,
}

/// Turns one row's scores into probabilities; returns the factor by which the row's earlier sums must shrink.
#[cube]
fn soften<N: Size, R: ScoreRule>(
    scratch: &mut [Vector<f32, Const<1>>],
    tables: &[u32],
    block: &Block,
    scalars: &Scalars,
    rule: &R::Args,
    at: &StripRow,
    full: bool,
    #[comptime] spec: Spec,
) -> f32 {
    let width = N::value();
    let registers = comptime!(spec.tile / width);
    let (row, strip_row, first) = (at.row, at.in_strip, at.key);
    let base = block.base;
    let query_row = min(block.first + row, block.end - 1);
    let mut site = site_of::<N>(query_row, block, scalars);
    let dropout = row_or_none::<N>(&site, tables, spec.form);
    let from = (base + comptime!(spec.scores(width))) / width + strip_row * registers;
    let state = base + comptime!(spec.largest(width)) + row;
    let before = scratch[state].extract(0usize);
    // Hidden keys get the smallest finite f32, whose exponential is 0 as that of −∞ is.
    let lowest = Vector::<f32, N>::new(f32::min_value());
    let mut scores = Array::<Vector<f32, N>>::new(registers);
    let mut largest = lowest;
    let view = scratch.with_vector_size_mut::<N>();
    #[unroll]
    for i in 0..registers {
        site.key = first + i * width;
        let raw = view[from + i];
        let mut s = scores_by::<N, R>(raw, &site, scalars, tables, rule, spec.form);
        if !full {
            let last = Vector::<i32, N>::new(scalars.keys as i32 - site.key as i32);
            let seen = seen_by::<N, R>(&site, scalars, tables, rule, spec.form)
                .vec_and(site.lanes.less_than(&last));
            s = select_many(seen, s, lowest);
        }
        scores[i] = s;
        largest = largest.max(s);
    }
    let top = highest::<N>(largest, before);
    let mut total = Vector::<f32, N>::new(0.0f32);
    #[unroll]
    for i in 0..registers {
        let mut p = exp::<N>(scores[i] - Vector::new(top));
        if !full {
            p = select_many(scores[i].equal(&lowest), Vector::new(0.0f32), p);
        }
        total += p;
        if comptime!(spec.form.dropout) {
            site.key = first + i * width;
            p *= factors::<N>(&dropout, &site);
        }
        view[from + i] = p;
    }
    let shrink = exp::<Const<1>>(Vector::new(before - top)).extract(0usize);
    let sum = (base + comptime!(spec.totals(width))) / width + row;
    view[sum] = fma(view[sum], Vector::new(shrink), total);
    scratch[state] = Vector::new(top);
    shrink
}

/// Shrinks a strip's sums, and adds probabilities times the values of `count` keys from row `values` on.
#[cube]
fn weigh<N: Size>(
    scratch: &mut [Vector<f32, Const<1>>],
    v: &[Vector<f32, N>],
    block: &Block,
    row: usize,
    shrink: &Array<f32>,
    values: usize,
    count: usize,
    careful: bool,
    #[comptime] spec: Spec,
) {
    let width = N::value();
    let base = block.base;
    let across = comptime!(spec.padded_value / width);
    for pair in 0..comptime!(spec.padded_value / (2 * width)) {
        let to = (base + comptime!(spec.sums(width))) / width + row * across + 2 * pair;
        let mut sums = Array::<Vector<f32, N>>::new(comptime!(2 * STRIP));
        let view = scratch.with_vector_size_mut::<N>();
        #[unroll]
        for i in 0..comptime!(STRIP) {
            let factor = Vector::<f32, N>::new(shrink[i]);
            sums[2 * i] = view[to + i * across] * factor;
            sums[2 * i + 1] = view[to + i * across + 1] * factor;
        }
        let from = Corner {
            left: base + comptime!(spec.scores(width)),
            right: values * across + 2 * pair,
        };
        multiply::<N>(
            &mut sums,
            scratch.with_vector_size::<Const<1>>(),
            v,
            &from,
            count,
            careful,
            comptime!(Apart {
                row: spec.tile,
                across: 1,
                down: spec.padded_value / width
            }),
        );
        let view = scratch.with_vector_size_mut::<N>();
        #[unroll]
        for i in 0..comptime!(STRIP) {
            view[to + i * across] = sums[2 * i];
            view[to + i * across + 1] = sums[2 * i + 1];
        }
    }
}

/// Writes o and lse of a block.
#[cube]
fn finish<F: Float, N: Size>(
    scratch: &mut [Vector<f32, Const<1>>],
    tables: &[u32],
    o: &mut [F],
    lse: &mut [f32],
    block: &Block,
    scalars: &Scalars,
    #[comptime] spec: Spec,
) {
    let width = N::value();
    let dim = comptime!(spec.value_dim);
    for row in 0..block.end - block.first {
        let site = site_of::<Const<1>>(block.first + row, block, scalars);
        let to = tensor_row::<Const<1>>(&site, scalars);
        let top = scratch[block.base + comptime!(spec.largest(width)) + row].extract(0usize);
        let sums = block.base + comptime!(spec.totals(width)) + row * width;
        let mut total = 0.0f32;
        for lane in 0..width {
            total += scratch[sums + lane].extract(0usize);
        }
        let (share, mut log) = ended(top, total, site.head, scalars, tables, spec.form);
        if comptime!(spec.form.counted) {
            log = scratch[block.base + comptime!(spec.visits(width)) + row].extract(0usize);
        }
        lse[to] = log;
        let from = block.base + comptime!(spec.sums(width)) + row * comptime!(spec.padded_value);
        for d in 0..dim {
            o[to * dim + d] = F::cast_from(scratch[from + d].extract(0usize) * share);
        }
    }
}

/// A tile of keys, as a block processes it.
#[derive(CubeType, Clone, Copy)]
struct KeyTile {
    /// The key head, and the first key.
    head: usize,
    key: usize,
    /// 0 if tables hide every key of the tile from the block.
    show: u32,
    /// Whether a value of the tile is infinite or NaN.
    odd: bool,
}

/// Processes the strip of a block from row `row` on with a tile of keys.
#[cube]
fn strip<N: Size, R: ScoreRule>(
    packed: &[Vector<f32, N>],
    v: &[Vector<f32, N>],
    tables: &[u32],
    scratch: &mut [Vector<f32, Const<1>>],
    block: &Block,
    scalars: &Scalars,
    rule: &R::Args,
    row: usize,
    tile: &KeyTile,
    #[comptime] spec: Spec,
) {
    let width = N::value();
    let (head, key) = (tile.head, tile.key);
    let count = min(comptime!(spec.tile), scalars.keys - key);
    let bottom = min(block.first + row + comptime!(STRIP), block.end) - 1;
    let (top, bottom) = ((block.first + row) / scalars.group, bottom / scalars.group);
    let mut met = tile_by(top, bottom, key, key + count - 1, scalars, spec.form);
    if comptime!(spec.form.kinds.skip_by_tables()) {
        met = min(met, tile.show);
    }
    if met > 0 {
        let panels = scalars.keys.div_ceil(comptime!(2 * width));
        let panel = head * panels + key / comptime!(2 * width);
        score::<N>(scratch, packed, block, row, panel, spec);
        let full = met == 2 && count == comptime!(spec.tile);
        let mut shrink = Array::<f32>::new(comptime!(STRIP));
        for i in 0..comptime!(STRIP) {
            let at = StripRow {
                row: row + i,
                in_strip: i,
                key,
            };
            shrink[i] = soften::<N, R>(scratch, tables, block, scalars, rule, &at, full, spec);
            if comptime!(spec.form.counted) {
                let at = block.base + comptime!(spec.visits(width)) + row + i;
                scratch[at] += Vector::new(1.0f32);
            }
        }
        let values = head * scalars.keys + key;
        let careful = tile.odd && !full;
        weigh::<N>(
            scratch, v, block, row, &shrink, values, count, careful, spec,
        );
    }
}

/// Processes a block's rows with all tiles of a key head that they may see.
#[cube]
fn meet<N: Size, R: ScoreRule>(
    packed: &[Vector<f32, N>],
    v: &[Vector<f32, N>],
    tables: &[u32],
    scratch: &mut [Vector<f32, Const<1>>],
    block: &Block,
    scalars: &Scalars,
    rule: &R::Args,
    head: usize,
    #[comptime] spec: Spec,
) {
    let width = N::value();
    let (tile, kinds) = comptime!((spec.tile, spec.form.kinds));
    let (top, bottom) = (block.first / scalars.group, (block.end - 1) / scalars.group);
    let span = span(block.batch, top, bottom, scalars, tables, kinds);
    let (near, far) = keys_of(top, bottom, scalars, kinds);
    for at in near / tile..far.div_ceil(tile) {
        let key = at * tile;
        let count = min(tile, scalars.keys - key);
        let registers = comptime!(spec.padded_value / width);
        let from = (head * scalars.keys + key) * registers;
        let odd = any_infinite::<N>(v, from, count * registers);
        let show = tables_show(&span, key, key + count - 1, scalars, tables, kinds);
        let of_keys = KeyTile {
            head,
            key,
            show,
            odd,
        };
        for row in range_stepped(0usize, block.end - block.first, comptime!(STRIP)) {
            strip::<N, R>(
                packed, v, tables, scratch, block, scalars, rule, row, &of_keys, spec,
            );
        }
    }
}

#[cube(launch_unchecked)]
fn attention_cpu<F: Float, N: Size, R: ScoreRule>(
    q: &[F],
    packed: &[Vector<f32, N>],
    v: &[Vector<f32, N>],
    tables: &[u32],
    scratch: &mut [Vector<f32, Const<1>>],
    o: &mut [F],
    lse: &mut [f32],
    scalars: Scalars,
    of_q: Strides,
    rule: R::Args,
    blocks: usize,
    cores: usize,
    #[comptime] spec: Spec,
    #[define(F)] _element: ElemType,
) {
    let width = N::value();
    let rows = scalars.queries * scalars.group;
    let of_head = rows.div_ceil(comptime!(ROWS));
    let heads = blocks / of_head;
    for item in range_stepped(ABSOLUTE_POS, blocks, cores) {
        // Later queries come first: they see more keys under a causal rule.
        let head = item % heads;
        let first = (of_head - 1 - item / heads) * comptime!(ROWS);
        let block = Block {
            batch: head / scalars.kv_heads,
            kv_head: head % scalars.kv_heads,
            first,
            end: min(first + comptime!(ROWS), rows),
            base: ABSOLUTE_POS * comptime!(spec.scratch(width)),
        };
        begin::<F, N>(q, scratch, &block, &scalars, &of_q, spec);
        meet::<N, R>(
            packed, v, tables, scratch, &block, &scalars, &rule, head, spec,
        );
        finish::<F, N>(scratch, tables, o, lse, &block, &scalars, spec);
    }
}

/// Enqueues the forward pass: the packing of the keys, the packing of the values unless they already are rows of whole registers
/// of f32, and the attention.
pub(in crate::attention) fn launch<R: LaunchRule>(
    client: &Client,
    plan: &Plan,
    buffers: ForwardBuffers,
    tables: Handle,
    rule: &R,
) {
    let (p, spec) = (&plan.problem, Spec::of(plan));
    let (s, width) = (p.sizes(), plan.register);
    let blocks = s.batch * s.kv_heads * (s.queries * p.group()).div_ceil(ROWS);
    let keys = panels(client, plan, &buffers.k, s.head_dim);
    let values = rows(client, plan, &buffers.v, s.value_dim, spec.padded_value);
    let [queries, ..] = plan.shapes();
    let (q, of_q) = buffers.q.bind(queries, 1, p.element().bytes(), &buffers.o);
    let scratch = empty_words(client, plan.cores * spec.scratch(width));
    // Without keys nothing is read, and another buffer fills the binding.
    let [keys, values] = match p.key_rows() {
        0 => [scratch.clone(), scratch.clone()],
        _ => [keys, values],
    };
    launched::note(|| plan.name("attention_cpu"));
    // SAFETY: the buffers are as long as they are described or packed; blocks, tiles and table entries lie inside of them, and a
    // task's blocks and scratch are its own.
    unsafe {
        attention_cpu::launch_unchecked::<R>(
            client,
            CubeCount::Static(1, 1, 1),
            CubeDim::new_1d(plan.cores as u32),
            width,
            q,
            bind(keys),
            bind(values),
            bind(tables),
            bind(scratch),
            bind(buffers.o),
            bind(buffers.lse),
            scalars(p),
            of_q,
            rule.args(),
            blocks,
            plan.cores,
            spec,
            p.element().elem_type(),
        );
    }
}

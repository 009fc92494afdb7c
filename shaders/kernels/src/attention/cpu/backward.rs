//! The backward pass of the `cpu` variant: dq, dk and dv in one pass over the pairs, which recomputes each score once.
//!
//! A task takes every `cores`-th key head and walks over its tiles of keys, and for each tile over the blocks of [`ROWS`] query
//! rows that see it. For each strip of a block, it computes probabilities and gradients of scores in scratch and adds to dq of
//! the strip's rows; then the whole block adds to dk and dv of the tile. dq thus sums over keys, and dk and dv over queries, in
//! ascending order.

use super::forward::{Block, site_of, tensor_row};
use super::{
    Apart, Corner, ROWS, STRIP, Spec, Sums, Width, add_product, any_infinite, multiply, panels,
    rows,
};
use crate::attention::operands::{Backward, Through};
use crate::attention::rules::{Scalars, queries_of, scalars, trace};
use crate::attention::score_rule::{
    LaunchRule, ScoreRule, before_rule, score_by, seen_by, tile_by,
};
use crate::attention::softmax::{exp, factors_or_one, row_or_none};
use crate::attention::visits::{span, tables_show};
use crate::attention::{Form, Plan};
use crate::prelude::*;
use cubecl::prelude::*;

/// Rows of a tile, rounded up to whole strips.
const fn tile_rows(spec: Spec) -> usize {
    spec.tile.next_multiple_of(STRIP)
}

/// Offsets of the parts of a task's scratch, in f32s: dk and dv of a tile, then probabilities and gradients of scores of a block,
/// each with one row more because the tile's last strip reads past a row's end, then dq of the head.
impl Spec {
    const fn value_sums(self) -> usize {
        tile_rows(self) * self.padded_head
    }

    const fn weights(self) -> usize {
        self.value_sums() + tile_rows(self) * self.padded_value
    }

    const fn gradients(self) -> usize {
        self.weights() + (ROWS + 1) * self.tile
    }

    const fn query_sums(self) -> usize {
        self.gradients() + (ROWS + 1) * self.tile
    }

    /// The number of f32s of a task's scratch.
    fn words(self, plan: &Plan) -> usize {
        let rows = plan.problem.sizes().queries * plan.problem.group();
        self.query_sums() + rows.next_multiple_of(ROWS) * self.padded_head
    }

    /// The sums of dq for one strip.
    const fn to_queries(self) -> Sums {
        Sums {
            rows: STRIP,
            padded: self.padded_head,
            row: self.tile,
            across: 1,
        }
    }

    /// The sums of dk or dv for one tile.
    const fn to_keys(self, padded: usize) -> Sums {
        Sums {
            rows: tile_rows(self),
            padded,
            row: 1,
            across: self.tile,
        }
    }

    /// The number of f32s of a block's rows: queries, then gradients of outputs.
    const fn block(self) -> usize {
        ROWS * (self.padded_head + self.padded_value)
    }
}

/// The tile of keys that a task works on: key head, first key, and offset of the task's scratch.
#[derive(CubeType, Clone, Copy)]
struct KeyTile {
    head: usize,
    key: usize,
    base: usize,
}

/// Compile-time parameters of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Pass {
    spec: Spec,
    through_lse: bool,
}

/// Sets `count` f32s from `first` on to 0.
#[cube]
fn clear<N: Size>(scratch: &mut [Vector<f32, Const<1>>], first: usize, count: usize) {
    let width = N::value();
    let view = scratch.with_vector_size_mut::<N>();
    for i in first / width..(first + count) / width {
        view[i] = Vector::new(0.0f32);
    }
}

/// Copies the queries of a block and the gradients of its outputs; rows past the last query are 0.
#[cube]
fn load<F: Float>(
    q: &[F],
    d_o: &[F],
    block_rows: &mut [Vector<f32, Const<1>>],
    block: &Block,
    scalars: &Scalars,
    #[comptime] pass: Pass,
) {
    let spec = comptime!(pass.spec);
    let values = block.base + comptime!(ROWS * spec.padded_head);
    for row in 0..comptime!(ROWS) {
        let inside = block.first + row < block.end;
        let site = site_of::<Const<1>>(min(block.first + row, block.end - 1), block, scalars);
        let from = tensor_row::<Const<1>>(&site, scalars);
        for d in 0..comptime!(spec.padded_head) {
            let mut value = 0.0f32;
            if inside && d < comptime!(spec.head_dim) {
                value = f32::cast_from(q[from * comptime!(spec.head_dim) + d]);
            }
            block_rows[block.base + row * comptime!(spec.padded_head) + d] = Vector::new(value);
        }
        if comptime!(!pass.through_lse) {
            for d in 0..comptime!(spec.padded_value) {
                let mut value = 0.0f32;
                if inside && d < comptime!(spec.value_dim) {
                    value = f32::cast_from(d_o[from * comptime!(spec.value_dim) + d]);
                }
                block_rows[values + row * comptime!(spec.padded_value) + d] = Vector::new(value);
            }
        }
    }
}

/// Writes the product of a strip's rows, which begin at `left`, and the panels from `panel` on to `to` in scratch.
#[cube]
fn score<N: Size>(
    scratch: &mut [Vector<f32, Const<1>>],
    block_rows: &mut [Vector<f32, Const<1>>],
    packed: &[Vector<f32, N>],
    left: usize,
    panel: usize,
    to: usize,
    #[comptime] rows: Width,
    #[comptime] tile: usize,
) {
    let width = N::value();
    let (dim, stride) = comptime!((rows.dim, rows.padded));
    #[unroll]
    for pair in 0..comptime!(tile / (2 * width)) {
        let mut sums = Array::<Vector<f32, N>>::new(comptime!(2 * STRIP));
        #[unroll]
        for i in 0..comptime!(2 * STRIP) {
            sums[i] = Vector::new(0.0f32);
        }
        let from = Corner {
            left,
            right: (panel + pair) * comptime!(2 * dim),
        };
        multiply::<N>(
            &mut sums,
            block_rows.with_vector_size::<Const<1>>(),
            packed,
            &from,
            dim.runtime(),
            false.runtime(),
            comptime!(Apart::of_panels(stride)),
        );
        let to = to / width + pair * 2;
        let view = scratch.with_vector_size_mut::<N>();
        #[unroll]
        for i in 0..comptime!(STRIP) {
            view[to + i * comptime!(tile / width)] = sums[2 * i];
            view[to + i * comptime!(tile / width) + 1] = sums[2 * i + 1];
        }
    }
}

/// Turns one row of a strip into the operands of the gradients: raw scores into probabilities, and products ⟨do, v⟩ into
/// gradients of scores before the scale.
#[cube]
fn soften<N: Size, R: ScoreRule>(
    scratch: &mut [Vector<f32, Const<1>>],
    statistics: &[f32],
    tables: &[u32],
    block: &Block,
    scalars: &Scalars,
    rule: &R::Args,
    row: usize,
    tile: &KeyTile,
    full: bool,
    #[comptime] pass: Pass,
) {
    let width = N::value();
    let spec = comptime!(pass.spec);
    let kinds = comptime!(spec.form.kinds);
    let (base, first) = (tile.base, tile.key);
    let query_row = min(block.first + row, block.end - 1);
    let mut site = site_of::<N>(query_row, block, scalars);
    let dropout = row_or_none::<N>(&site, tables, spec.form);
    let statistic = 2 * tensor_row::<N>(&site, scalars);
    let lse = Vector::<f32, N>::new(statistics[statistic]);
    let delta = Vector::<f32, N>::new(statistics[statistic + 1]);
    let zero = Vector::<f32, N>::new(0.0f32);
    let weights = (base + comptime!(spec.weights()) + row * comptime!(spec.tile)) / width;
    let gradients = (base + comptime!(spec.gradients()) + row * comptime!(spec.tile)) / width;
    // A row past the last query sees no key.
    let keys = select(block.first + row < block.end, scalars.keys as i32, 0i32);
    let view = scratch.with_vector_size_mut::<N>();
    #[unroll]
    for i in 0..comptime!(spec.tile / width) {
        site.key = first + i * width;
        let mut s = view[weights + i] * Vector::new(scalars.scale);
        let mut slope = Vector::<f32, N>::new(1.0f32);
        if comptime!(kinds.change_scores()) {
            let (changed, slopes) = trace::<N>(s, &site, scalars, tables, kinds, 0usize);
            s = changed;
            slope = slopes;
        }
        let score = score_by::<N, R>(s, &site, scalars, rule, spec.form);
        let mut p = exp::<N>(score - lse);
        let mut ds = -delta;
        let kept = factors_or_one::<N>(&dropout, &site, spec.form);
        if comptime!(!pass.through_lse) {
            ds = view[gradients + i] * kept - delta;
        }
        ds = before_rule::<N, R>(p * ds * slope, s, &site, scalars, rule, spec.form);
        p *= kept;
        if !full {
            let last = Vector::<i32, N>::new(keys - site.key as i32);
            let seen = seen_by::<N, R>(&site, scalars, tables, rule, spec.form)
                .vec_and(site.lanes.less_than(&last));
            p = select_many(seen, p, zero);
            ds = select_many(seen, ds, zero);
        }
        view[weights + i] = p;
        view[gradients + i] = ds;
    }
}

/// How many pairs of a strip's rows and `count` keys are visible, coded like [`tile_by`]; rows past the last query see none.
#[cube]
fn met_by(
    block: &Block,
    row: usize,
    key: usize,
    count: usize,
    scalars: &Scalars,
    #[comptime] form: Form,
) -> u32 {
    let mut met = 0u32;
    if block.first + row < block.end {
        let bottom = min(block.first + row + comptime!(STRIP), block.end) - 1;
        let (top, bottom) = ((block.first + row) / scalars.group, bottom / scalars.group);
        met = tile_by(top, bottom, key, key + count - 1, scalars, form);
    }
    met
}

/// Computes probabilities and gradients of scores for the strip from `row` on and a tile of keys, and adds to dq of the strip.
/// `odd` says that the tile has infinite or NaN keys.
#[cube]
fn strip<N: Size, R: ScoreRule>(
    k_panels: &[Vector<f32, N>],
    v_panels: &[Vector<f32, N>],
    key_rows: &[Vector<f32, N>],
    statistics: &[f32],
    tables: &[u32],
    scratch: &mut [Vector<f32, Const<1>>],
    block_rows: &mut [Vector<f32, Const<1>>],
    block: &Block,
    scalars: &Scalars,
    rule: &R::Args,
    row: usize,
    tile: &KeyTile,
    odd: bool,
    #[comptime] pass: Pass,
) {
    let width = N::value();
    let spec = comptime!(pass.spec);
    let count = min(comptime!(spec.tile), scalars.keys - tile.key);
    let weights = tile.base + comptime!(spec.weights()) + row * comptime!(spec.tile);
    let gradients = tile.base + comptime!(spec.gradients()) + row * comptime!(spec.tile);
    let met = met_by(block, row, tile.key, count, scalars, spec.form);
    if met > 0 {
        let whole = block.first + row + comptime!(STRIP) <= block.end;
        let full = met == 2 && count == comptime!(spec.tile) && whole;
        let head = block.batch * scalars.kv_heads + block.kv_head;
        let of_head = scalars.keys.div_ceil(comptime!(2 * width));
        let panel = head * of_head + tile.key / comptime!(2 * width);
        let from = block.base + row * comptime!(spec.padded_head);
        let (heads, keys) = comptime!((spec.head(), spec.tile));
        score::<N>(
            scratch, block_rows, k_panels, from, panel, weights, heads, keys,
        );
        if comptime!(!pass.through_lse) {
            let rows = block.base + comptime!(ROWS * spec.padded_head);
            let from = rows + row * comptime!(spec.padded_value);
            let values = comptime!(spec.value());
            score::<N>(
                scratch, block_rows, v_panels, from, panel, gradients, values, keys,
            );
        }
        for i in 0..comptime!(STRIP) {
            let own = row + i;
            soften::<N, R>(
                scratch, statistics, tables, block, scalars, rule, own, tile, full, pass,
            );
        }
        let to = (block.first + row) * comptime!(spec.padded_head);
        let to = tile.base + comptime!(spec.query_sums()) + to;
        let from = Corner {
            left: gradients,
            right: (head * scalars.keys + tile.key) * comptime!(spec.padded_head / width),
        };
        let sums = comptime!(spec.to_queries());
        add_product::<N>(scratch, key_rows, to, &from, count, odd && !full, sums);
    } else {
        clear::<N>(scratch, weights, comptime!(STRIP * spec.tile));
        clear::<N>(scratch, gradients, comptime!(STRIP * spec.tile));
    }
}

/// Adds a block's contribution to dk and dv of a tile; `base` is the offset of the task's scratch.
#[cube]
fn add_to_keys<N: Size>(
    scratch: &mut [Vector<f32, Const<1>>],
    block_rows: &mut [Vector<f32, Const<1>>],
    block: &Block,
    base: usize,
    #[comptime] pass: Pass,
) {
    let width = N::value();
    let spec = comptime!(pass.spec);
    let steps = comptime!(ROWS).runtime();
    let view = block_rows.with_vector_size::<N>();
    let odd = any_infinite::<N>(view, block.base / width, comptime!(spec.block() / width));
    if comptime!(!pass.through_lse) {
        let to = base + comptime!(spec.value_sums());
        let from = Corner {
            left: base + comptime!(spec.weights()),
            right: (block.base + comptime!(ROWS * spec.padded_head)) / width,
        };
        let sums = comptime!(spec.to_keys(spec.padded_value));
        add_product::<N>(scratch, view, to, &from, steps, odd, sums);
    }
    let from = Corner {
        left: base + comptime!(spec.gradients()),
        right: block.base / width,
    };
    let sums = comptime!(spec.to_keys(spec.padded_head));
    add_product::<N>(scratch, view, base, &from, steps, odd, sums);
}

/// Writes `count` rows of sums from `from` on, times `factor`, to `out` from row `to` on.
#[cube]
fn write<F: Float>(
    scratch: &mut [Vector<f32, Const<1>>],
    out: &mut [F],
    from: usize,
    to: usize,
    count: usize,
    factor: f32,
    #[comptime] rows: Width,
) {
    let (dim, padded) = comptime!((rows.dim, rows.padded));
    for row in 0..count {
        for d in 0..dim {
            let sum = scratch[from + row * padded + d].extract(0usize);
            out[(to + row) * dim + d] = F::cast_from(sum * factor);
        }
    }
}

/// Writes dq of a key head from the sums in the scratch at `base`.
#[cube]
fn write_queries<F: Float>(
    scratch: &mut [Vector<f32, Const<1>>],
    dq: &mut [F],
    head: usize,
    base: usize,
    scalars: &Scalars,
    #[comptime] spec: Spec,
) {
    let rows = scalars.queries * scalars.group;
    let block = Block {
        batch: head / scalars.kv_heads,
        kv_head: head % scalars.kv_heads,
        first: 0usize.runtime(),
        end: rows,
        base,
    };
    for row in 0..rows {
        let site = site_of::<Const<1>>(row, &block, scalars);
        let to = tensor_row::<Const<1>>(&site, scalars);
        let from = base + comptime!(spec.query_sums()) + row * comptime!(spec.padded_head);
        let heads = comptime!(spec.head());
        let scale = scalars.scale;
        write::<F>(scratch, dq, from, to, 1usize.runtime(), scale, heads);
    }
}

/// Computes dk and dv of a tile of keys in scratch, over all blocks of rows that see the tile.
#[cube]
fn meet<F: Float, N: Size, R: ScoreRule>(
    q: &[F],
    d_o: &[F],
    k_panels: &[Vector<f32, N>],
    v_panels: &[Vector<f32, N>],
    key_rows: &[Vector<f32, N>],
    statistics: &[f32],
    tables: &[u32],
    scratch: &mut [Vector<f32, Const<1>>],
    block_rows: &mut [Vector<f32, Const<1>>],
    scalars: &Scalars,
    rule: &R::Args,
    tile: &KeyTile,
    #[comptime] pass: Pass,
) {
    let spec = comptime!(pass.spec);
    let (head, base, key) = (tile.head, tile.base, tile.key);
    let count = min(comptime!(spec.tile), scalars.keys - key);
    clear::<N>(scratch, base, comptime!(spec.weights()));
    let width = N::value();
    let across = comptime!(spec.padded_head / width);
    let first = (head * scalars.keys + key) * across;
    let odd = any_infinite::<N>(key_rows, first, count * across);
    let rows = scalars.queries * scalars.group;
    let (near, far) = queries_of(key, key + count - 1, scalars, spec.form.kinds);
    let blocks = (far * scalars.group).div_ceil(comptime!(ROWS));
    for block in near * scalars.group / comptime!(ROWS)..blocks {
        let block = Block {
            batch: head / scalars.kv_heads,
            kv_head: head % scalars.kv_heads,
            first: block * comptime!(ROWS),
            end: min((block + 1) * comptime!(ROWS), rows),
            base: ABSOLUTE_POS * comptime!(spec.block()),
        };
        let kinds = comptime!(spec.form.kinds);
        let (top, bottom) = (block.first / scalars.group, (block.end - 1) / scalars.group);
        let last = key + count - 1;
        let span = span(block.batch, top, bottom, scalars, tables, kinds);
        if tables_show(&span, key, last, scalars, tables, kinds) > 0 {
            load::<F>(q, d_o, block_rows, &block, scalars, pass);
            for row in range_stepped(0usize, comptime!(ROWS), comptime!(STRIP)) {
                strip::<N, R>(
                    k_panels, v_panels, key_rows, statistics, tables, scratch, block_rows, &block,
                    scalars, rule, row, tile, odd, pass,
                );
            }
            add_to_keys::<N>(scratch, block_rows, &block, base, pass);
        }
    }
}

#[cube(launch_unchecked)]
fn attention_gradients_cpu<F: Float, N: Size, R: ScoreRule>(
    q: &[F],
    d_o: &[F],
    key_panels: &[Vector<f32, N>],
    value_panels: &[Vector<f32, N>],
    key_rows: &[Vector<f32, N>],
    statistics: &[f32],
    tables: &[u32],
    scratch: &mut [Vector<f32, Const<1>>],
    block_rows: &mut [Vector<f32, Const<1>>],
    dq: &mut [F],
    dk: &mut [F],
    dv: &mut [F],
    scalars: Scalars,
    rule: R::Args,
    heads: usize,
    cores: usize,
    // The number of f32s of a task's scratch.
    words: usize,
    #[comptime] pass: Pass,
    #[define(F)] _element: ElemType,
) {
    let spec = comptime!(pass.spec);
    let base = ABSOLUTE_POS * words;
    for head in range_stepped(ABSOLUTE_POS, heads, cores) {
        let first = base + comptime!(spec.query_sums());
        clear::<N>(scratch, first, words - comptime!(spec.query_sums()));
        for key in range_stepped(0usize, scalars.keys, comptime!(spec.tile)) {
            let tile = KeyTile { head, key, base };
            meet::<F, N, R>(
                q,
                d_o,
                key_panels,
                value_panels,
                key_rows,
                statistics,
                tables,
                scratch,
                block_rows,
                &scalars,
                &rule,
                &tile,
                pass,
            );
            let to = head * scalars.keys + key;
            let count = min(comptime!(spec.tile), scalars.keys - key);
            let heads = comptime!(spec.head());
            write::<F>(scratch, dk, base, to, count, scalars.scale, heads);
            if comptime!(!pass.through_lse) {
                let from = base + comptime!(spec.value_sums());
                let values = comptime!(spec.value());
                write::<F>(scratch, dv, from, to, count, 1.0f32.runtime(), values);
            }
        }
        write_queries::<F>(scratch, dq, head, base, &scalars, spec);
    }
}

/// Enqueues the gradients of queries, keys and values: first the packing of k and v, then the pass. There must be queries.
pub(in crate::attention) fn launch<R: LaunchRule>(backward: &Backward<'_, R>) {
    let (client, plan, b) = (backward.client, backward.plan, backward.buffers);
    let (p, spec, width) = (&plan.problem, Spec::of(plan), plan.register);
    let s = p.sizes();
    let words = spec.words(plan);
    let scratch = empty_words(client, plan.cores * words);
    let k = b.k.clone().into();
    let key_panels = panels(client, plan, &k, s.head_dim);
    let key_rows = rows(client, plan, &k, s.head_dim, spec.padded_head);
    let of_keys = |buffer: &Handle| match p.key_rows() {
        // Without keys nothing is read, and `scratch` fills the binding.
        0 => bind(scratch.clone()),
        _ => bind(buffer.clone()),
    };
    let (d_o, v, dv, value_dim) = match &b.through {
        Through::Output { d_o, dv, .. } => (d_o, &b.v, dv, s.value_dim),
        // Values aren't involved; the buffers bound in their places aren't used.
        Through::LogSumExp { .. } => (&b.q, &b.k, &b.dk, s.head_dim),
    };
    let value_panels = panels(client, plan, &v.clone().into(), value_dim);
    let pass = Pass {
        spec,
        through_lse: backward.through_lse(),
    };
    launched::note(|| plan.name("attention_gradients_cpu"));
    // SAFETY: the buffers are as long as they are described or packed; blocks, tiles and table entries lie inside of them, and a
    // task's heads and scratch are its own.
    unsafe {
        attention_gradients_cpu::launch_unchecked::<R>(
            client,
            CubeCount::Static(1, 1, 1),
            CubeDim::new_1d(plan.cores as u32),
            width,
            bind(b.q.clone()),
            bind(d_o.clone()),
            of_keys(&key_panels),
            of_keys(&value_panels),
            of_keys(&key_rows),
            backward.statistics(),
            backward.tables(),
            bind(scratch.clone()),
            bind(empty_words(client, plan.cores * spec.block())),
            bind(b.dq.clone()),
            of_keys(&b.dk),
            of_keys(dv),
            scalars(p),
            backward.rule.args(),
            s.batch * s.kv_heads,
            plan.cores,
            words,
            pass,
            p.element().elem_type(),
        );
    }
}

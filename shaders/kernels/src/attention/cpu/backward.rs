//! dq, dk and dv in one pass over the pairs, so that scores are computed once more and not twice.
//!
//! A task takes every `cores`-th key head and walks over its tiles of keys; for each over the blocks of [`ROWS`] query rows that
//! see it. Strips of a block become probabilities and their gradients, in scratch, and add to their rows' dq; then the block adds
//! to dk and dv of the tile. So dq takes keys, and dk and dv take queries, in ascending order.

use super::forward::{Block, site_of, tensor_row};
use super::{ROWS, STRIP, Spec, any_infinite, multiply, panels, rows};
use crate::attention::Plan;
use crate::attention::operands::{Backward, Through};
use crate::attention::rules::{Scalars, queries_of, scalars, trace};
use crate::attention::score_rule::{
    LaunchRule, ScoreRule, before_rule, score_by, seen_by, tile_by,
};
use crate::attention::softmax::{exp, factors_or_one, row_or_none};
use crate::attention::visits::{span, tables_show};
use crate::bound::{bind, empty_words};
use crate::element::DeviceElement;
use crate::launched;
use cubecl::prelude::*;
use cubecl::server::Handle;

/// Rows of a tile in whole strips.
const fn tile_rows(spec: Spec) -> usize {
    spec.tile.next_multiple_of(STRIP)
}

/// Where the parts of a task's scratch begin, in f32s: dk and dv of a tile, probabilities and their gradients of a block (the
/// last strip of a tile reads a row's end beyond it), and dq of the head.
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

    /// f32s of a task's scratch.
    fn words(self, plan: &Plan) -> usize {
        let rows = plan.problem.sizes().queries * plan.problem.group();
        self.query_sums() + rows.next_multiple_of(ROWS) * self.padded_head
    }

    /// f32s of the rows of a block: queries, then the gradients of their outputs.
    const fn block(self) -> usize {
        ROWS * (self.padded_head + self.padded_value)
    }
}

/// What the kernel is specialised on beside [`Spec`].
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

/// Copies the queries of a block and the gradients of their outputs; rows past the last are 0.
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

/// A strip's rows at `at.0` times the panels at `at.1`, to `at.2` in scratch.
#[cube]
fn score<N: Size>(
    scratch: &mut [Vector<f32, Const<1>>],
    block_rows: &mut [Vector<f32, Const<1>>],
    packed: &[Vector<f32, N>],
    at: (usize, usize, usize),
    #[comptime] sizes: (usize, usize, usize),
) {
    let width = N::value();
    let (dim, stride, tile) = comptime!(sizes);
    #[unroll]
    for pair in 0..comptime!(tile / (2 * width)) {
        let mut sums = Array::<Vector<f32, N>>::new(comptime!(2 * STRIP));
        #[unroll]
        for i in 0..comptime!(2 * STRIP) {
            sums[i] = Vector::new(0.0f32);
        }
        multiply::<N>(
            &mut sums,
            block_rows.with_vector_size::<Const<1>>(),
            packed,
            (at.0, (at.1 + pair) * comptime!(2 * dim)),
            dim.runtime(),
            false.runtime(),
            (stride, 1, 2),
        );
        let to = at.2 / width + pair * 2;
        let view = scratch.with_vector_size_mut::<N>();
        #[unroll]
        for i in 0..comptime!(STRIP) {
            view[to + i * comptime!(tile / width)] = sums[2 * i];
            view[to + i * comptime!(tile / width) + 1] = sums[2 * i + 1];
        }
    }
}

/// One row of a strip: raw scores become probabilities, and products with values the gradients of scores before their scale.
#[cube]
fn soften<N: Size, R: ScoreRule>(
    scratch: &mut [Vector<f32, Const<1>>],
    statistics: &[f32],
    tables: &[u32],
    block: &Block,
    scalars: &Scalars,
    rule: &R::Args,
    // The row of the block, where its scratch begins, and the first key.
    at: (usize, usize, usize),
    full: bool,
    #[comptime] pass: Pass,
) {
    let width = N::value();
    let spec = comptime!(pass.spec);
    let kinds = comptime!(spec.form.kinds);
    let (row, base, first) = at;
    let query_row = min(block.first + row, block.end - 1);
    let mut site = site_of::<N>(query_row, block, scalars);
    let dropout = row_or_none::<N>(&site, tables, spec.form);
    let statistic = 2 * tensor_row::<N>(&site, scalars);
    let lse = Vector::<f32, N>::new(statistics[statistic]);
    let delta = Vector::<f32, N>::new(statistics[statistic + 1]);
    let zero = Vector::<f32, N>::new(0.0f32);
    let weights = (base + comptime!(spec.weights()) + row * comptime!(spec.tile)) / width;
    let gradients = (base + comptime!(spec.gradients()) + row * comptime!(spec.tile)) / width;
    // A row past the last sees nothing.
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

/// sums\[rows\] += left · right, by strips of rows; `at` is where sums, left and right begin.
#[cube]
fn add_product<N: Size>(
    scratch: &mut [Vector<f32, Const<1>>],
    right: &[Vector<f32, N>],
    at: (usize, usize, usize),
    steps: usize,
    careful: bool,
    // Rows, f32s of a row of sums, and the strides on the left.
    #[comptime] sizes: (usize, usize, usize, usize),
) {
    let width = N::value();
    let (rows, padded, row_stride, step_stride) = comptime!(sizes);
    let across = comptime!(padded / width);
    for strip in 0..comptime!(rows.div_ceil(STRIP)) {
        for pair in 0..comptime!(across / 2) {
            let to = at.0 / width + strip * comptime!(STRIP * across) + 2 * pair;
            let mut sums = Array::<Vector<f32, N>>::new(comptime!(2 * STRIP));
            let view = scratch.with_vector_size_mut::<N>();
            #[unroll]
            for i in 0..comptime!(STRIP) {
                sums[2 * i] = view[to + i * across];
                sums[2 * i + 1] = view[to + i * across + 1];
            }
            multiply::<N>(
                &mut sums,
                scratch.with_vector_size::<Const<1>>(),
                right,
                (
                    at.1 + strip * comptime!(STRIP * row_stride),
                    at.2 + 2 * pair,
                ),
                steps,
                careful,
                comptime!((row_stride, step_stride, padded / width)),
            );
            let view = scratch.with_vector_size_mut::<N>();
            #[unroll]
            for i in 0..comptime!(STRIP) {
                view[to + i * across] = sums[2 * i];
                view[to + i * across + 1] = sums[2 * i + 1];
            }
        }
    }
}

/// A strip of a block's rows and a tile of keys: probabilities and gradients of scores, and what they add to dq. `at` is the
/// strip's first row, where the task's scratch begins, and the first key; `odd` tells infinite keys in the tile.
#[cube]
fn strip<N: Size, R: ScoreRule>(
    key_panels: &[Vector<f32, N>],
    value_panels: &[Vector<f32, N>],
    key_rows: &[Vector<f32, N>],
    read: (&[f32], &[u32]),
    scratch: &mut [Vector<f32, Const<1>>],
    block_rows: &mut [Vector<f32, Const<1>>],
    block: &Block,
    scalars: &Scalars,
    rule: &R::Args,
    at: (usize, usize, usize),
    odd: bool,
    #[comptime] pass: Pass,
) {
    let width = N::value();
    let spec = comptime!(pass.spec);
    let (row, base, key) = at;
    let count = min(comptime!(spec.tile), scalars.keys - key);
    let weights = base + comptime!(spec.weights()) + row * comptime!(spec.tile);
    let gradients = base + comptime!(spec.gradients()) + row * comptime!(spec.tile);
    let mut met = 0u32;
    if block.first + row < block.end {
        let bottom = min(block.first + row + comptime!(STRIP), block.end) - 1;
        let (top, bottom) = ((block.first + row) / scalars.group, bottom / scalars.group);
        met = tile_by(top, bottom, key, key + count - 1, scalars, spec.form);
    }
    if met > 0 {
        let whole = block.first + row + comptime!(STRIP) <= block.end;
        let full = met == 2 && count == comptime!(spec.tile) && whole;
        let head = block.batch * scalars.kv_heads + block.kv_head;
        let of_head = scalars.keys.div_ceil(comptime!(2 * width));
        let panel = head * of_head + key / comptime!(2 * width);
        let from = block.base + row * comptime!(spec.padded_head);
        let sizes = comptime!((spec.head_dim, spec.padded_head, spec.tile));
        let at = (from, panel, weights);
        score::<N>(scratch, block_rows, key_panels, at, sizes);
        if comptime!(!pass.through_lse) {
            let rows = block.base + comptime!(ROWS * spec.padded_head);
            let from = rows + row * comptime!(spec.padded_value);
            let sizes = comptime!((spec.value_dim, spec.padded_value, spec.tile));
            let at = (from, panel, gradients);
            score::<N>(scratch, block_rows, value_panels, at, sizes);
        }
        for i in 0..comptime!(STRIP) {
            let at = (row + i, base, key);
            soften::<N, R>(
                scratch, read.0, read.1, block, scalars, rule, at, full, pass,
            );
        }
        let to = (block.first + row) * comptime!(spec.padded_head);
        let to = base + comptime!(spec.query_sums()) + to;
        let keys = (head * scalars.keys + key) * comptime!(spec.padded_head / width);
        let sizes = comptime!((STRIP, spec.padded_head, spec.tile, 1));
        let at = (to, gradients, keys);
        add_product::<N>(scratch, key_rows, at, count, odd && !full, sizes);
    } else {
        clear::<N>(scratch, weights, comptime!(STRIP * spec.tile));
        clear::<N>(scratch, gradients, comptime!(STRIP * spec.tile));
    }
}

/// Adds what a block of rows gives to dk and dv of a tile; `base` is where the task's scratch begins.
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
    let rows = comptime!(tile_rows(spec));
    let view = block_rows.with_vector_size::<N>();
    let odd = any_infinite::<N>(view, block.base / width, comptime!(spec.block() / width));
    if comptime!(!pass.through_lse) {
        let at = (
            base + comptime!(spec.value_sums()),
            base + comptime!(spec.weights()),
            (block.base + comptime!(ROWS * spec.padded_head)) / width,
        );
        let sizes = comptime!((rows, spec.padded_value, 1, spec.tile));
        add_product::<N>(scratch, view, at, comptime!(ROWS).runtime(), odd, sizes);
    }
    let at = (base, base + comptime!(spec.gradients()), block.base / width);
    let sizes = comptime!((rows, spec.padded_head, 1, spec.tile));
    add_product::<N>(scratch, view, at, comptime!(ROWS).runtime(), odd, sizes);
}

/// `count` rows of sums from `from` on, times `factor`, to row `to` of `out`.
#[cube]
fn write<F: Float>(
    scratch: &mut [Vector<f32, Const<1>>],
    out: &mut [F],
    at: (usize, usize),
    count: usize,
    factor: f32,
    #[comptime] dims: (usize, usize),
) {
    let (dim, padded) = comptime!(dims);
    for row in 0..count {
        for d in 0..dim {
            let sum = scratch[at.0 + row * padded + d].extract(0usize);
            out[(at.1 + row) * dim + d] = F::cast_from(sum * factor);
        }
    }
}

/// dq of a head, from its sums at `base`.
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
        let dims = comptime!((spec.head_dim, spec.padded_head));
        write::<F>(
            scratch,
            dq,
            (from, to),
            1usize.runtime(),
            scalars.scale,
            dims,
        );
    }
}

/// All blocks that see a tile of keys: dk and dv of the tile, in scratch. `at` is the key head, where the task's scratch begins, and
/// the first key.
#[cube]
fn tile<F: Float, N: Size, R: ScoreRule>(
    inputs: (&[F], &[F]),
    key_panels: &[Vector<f32, N>],
    value_panels: &[Vector<f32, N>],
    key_rows: &[Vector<f32, N>],
    read: (&[f32], &[u32]),
    scratch: &mut [Vector<f32, Const<1>>],
    block_rows: &mut [Vector<f32, Const<1>>],
    scalars: &Scalars,
    rule: &R::Args,
    at: (usize, usize, usize),
    #[comptime] pass: Pass,
) {
    let spec = comptime!(pass.spec);
    let (head, base, key) = at;
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
        let span = span(block.batch, top, bottom, scalars, read.1, kinds);
        if tables_show(&span, key, last, scalars, read.1, kinds) > 0 {
            load::<F>(inputs.0, inputs.1, block_rows, &block, scalars, pass);
            for row in range_stepped(0usize, comptime!(ROWS), comptime!(STRIP)) {
                strip::<N, R>(
                    key_panels,
                    value_panels,
                    key_rows,
                    (read.0, read.1),
                    scratch,
                    block_rows,
                    &block,
                    scalars,
                    rule,
                    (row, base, key),
                    odd,
                    pass,
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
    // f32s of a task's scratch.
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
            let inputs = (q, d_o);
            let read = (statistics, tables);
            let at = (head, base, key);
            tile::<F, N, R>(
                inputs,
                key_panels,
                value_panels,
                key_rows,
                read,
                scratch,
                block_rows,
                &scalars,
                &rule,
                at,
                pass,
            );
            let to = head * scalars.keys + key;
            let count = min(comptime!(spec.tile), scalars.keys - key);
            let dims = comptime!((spec.head_dim, spec.padded_head));
            write::<F>(scratch, dk, (base, to), count, scalars.scale, dims);
            if comptime!(!pass.through_lse) {
                let from = base + comptime!(spec.value_sums());
                let dims = comptime!((spec.value_dim, spec.padded_value));
                write::<F>(scratch, dv, (from, to), count, 1.0f32.runtime(), dims);
            }
        }
        write_queries::<F>(scratch, dq, head, base, &scalars, spec);
    }
}

/// Enqueues the gradients of queries, keys and values: what the pass reads packed, and the pass. There are queries.
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
        // Without keys none is read, and something else is bound.
        0 => bind(scratch.clone()),
        _ => bind(buffer.clone()),
    };
    let (d_o, v, dv, value_dim) = match &b.through {
        Through::Output { d_o, dv, .. } => (d_o, &b.v, dv, s.value_dim),
        // No values take part: what is bound in their places isn't used.
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

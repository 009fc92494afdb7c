//! The `tile` and `rows` variants: a unit keeps several queries and their sums in registers, so that each vector of a key or
//! value that it reads serves all of them.
//!
//! `tile` is for GPUs: the units of a cube share tiles of keys and values in workgroup memory, with a barrier before and after
//! each load, and all read the same vector at once. `rows` is for software adapters, where reading either memory takes as long as
//! tens of multiply-adds: each unit has more queries, and reads the vectors directly from the buffers. Tiles start at multiples
//! of their size. A tile is skipped if no query of the cube may see its keys; this follows from the cube's index and from
//! scalars, so it is the same for all units. In other tiles, a hidden key changes no bit of a query's result.

mod sums;

use super::operands::{Layout, LayoutLaunch, Strides, head_at};
use super::rules::{Scalars, Site, keys_of, scalars, seen, site, trace};
use super::shape::{LANES, Shape, Tiling};
use super::softmax::{ended, factors, highest, row_of};
use super::visits::{met_of, span};
use super::{Form, ForwardBuffers, Plan};
use crate::prelude::*;
use cubecl::prelude::*;
use sums::{weigh, weigh_all};

/// Compile-time parameters of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Spec {
    form: Form,
    shape: Shape,
}

/// The queries of a head that a cube takes, from `first` to `last` inclusive.
#[derive(CubeType, Clone, Copy)]
pub(super) struct Block {
    pub(super) batch: usize,
    pub(super) head: usize,
    pub(super) first: usize,
    pub(super) last: usize,
    /// The offsets of the head's keys and values.
    pub(super) keys: usize,
    pub(super) values: usize,
}

/// The state of a unit's queries.
#[derive(CubeType)]
struct Rows<N: Size> {
    /// The scaled queries.
    queries: Array<Vector<f32, N>>,
    /// The sums of probabilities times values.
    sums: Array<Vector<f32, N>>,
    /// The largest score of each query so far.
    largest: Array<f32>,
    /// The sum of exponentials of each query; 0 until a key is seen.
    totals: Array<f32>,
}

/// Where units read keys and values: from a tile with the keys first, or from the buffers.
#[derive(CubeType, Clone, Copy)]
struct Source {
    /// The first key's index in the tile, and in the head.
    in_tile: usize,
    key: usize,
    /// The last key of the head.
    last: usize,
    /// The offsets of the head's keys and values, and the strides of their rows.
    keys: usize,
    values: usize,
    key_step: usize,
    value_step: usize,
}

/// The unit's query number `row`, or the block's last query if that lies past it.
#[cube]
fn query_of(block: &Block, row: usize, #[comptime] shape: Shape) -> usize {
    let query = block.first + UNIT_POS as usize + row * comptime!(shape.units);
    min(query, block.last)
}

/// The unit's query number `row`, with the keys from `key` on.
#[cube]
fn site_of<N: Size>(block: &Block, row: usize, key: usize, #[comptime] shape: Shape) -> Site<N> {
    let mut site = site::<N>(block.batch, block.head, query_of(block, row, shape));
    site.key = key;
    site
}

/// The scaled queries of a unit, with an empty softmax for each.
#[cube]
fn begin<F: Float, N: Size>(
    q: &[Vector<F, N>],
    block: &Block,
    scalars: &Scalars,
    strides: &Strides,
    #[comptime] spec: Spec,
) -> Rows<N> {
    let (rows, vectors) = comptime!((spec.shape.rows, spec.form.vectors));
    let value_vectors = comptime!(spec.form.value_vectors);
    let mut queries = Array::<Vector<f32, N>>::new(comptime!(rows * vectors));
    let mut sums = Array::<Vector<f32, N>>::new(comptime!(rows * value_vectors));
    let mut largest = Array::<f32>::new(rows);
    let mut totals = Array::<f32>::new(rows);
    let head = head_at(strides, block.batch, block.head);
    #[unroll]
    for row in 0..rows {
        let from = head + query_of(block, row, spec.shape) * strides.row;
        #[unroll]
        for d in 0..vectors {
            queries[row * vectors + d] =
                Vector::<f32, N>::cast_from(q[from + d]) * Vector::new(scalars.scale);
        }
        #[unroll]
        for d in 0..value_vectors {
            sums[row * value_vectors + d] = Vector::new(0.0f32);
        }
        largest[row] = f32::min_value();
        totals[row] = 0.0f32;
    }
    Rows::<N> {
        queries,
        sums,
        largest,
        totals,
    }
}

/// Copies rows of `width` vectors into the tile from vector `to` on: `held` vectors, of rows from `first` on that are `step`
/// apart, followed by zeros up to `count` vectors.
#[cube]
fn load<F: Float, N: Size>(
    from: &[Vector<F, N>],
    tile: &mut Shared<[Vector<f32, N>]>,
    first: usize,
    step: usize,
    held: usize,
    #[comptime] to: usize,
    #[comptime] count: usize,
    #[comptime] units: usize,
    #[comptime] width: usize,
) {
    for round in 0..comptime!(count.div_ceil(units)) {
        let i = UNIT_POS as usize + round * units;
        if i < count {
            let mut vector = Vector::<f32, N>::new(0.0f32);
            if i < held {
                vector = Vector::cast_from(from[first + i / width * step + i % width]);
            }
            tile[to + i] = vector;
        }
    }
}

/// Loads a tile: `held` keys and their values from key `key` on, and zeros for the rest of the tile.
#[cube]
fn load_tile<F: Float, N: Size>(
    k: &[Vector<F, N>],
    v: &[Vector<F, N>],
    tile: &mut Shared<[Vector<f32, N>]>,
    block: &Block,
    layout: &Layout,
    key: usize,
    held: usize,
    #[comptime] spec: Spec,
) {
    let (size, units) = comptime!((spec.shape.keys, spec.shape.units));
    let (vectors, value_vectors) = comptime!((spec.form.vectors, spec.form.value_vectors));
    let (of_keys, of_values) = comptime!((size * vectors, size * value_vectors));
    let (first, step) = (block.keys + key * layout.k.row, layout.k.row);
    let count = held * vectors;
    load::<F, N>(k, tile, first, step, count, 0usize, of_keys, units, vectors);
    let (first, step) = (block.values + key * layout.v.row, layout.v.row);
    let count = held * value_vectors;
    load::<F, N>(
        v,
        tile,
        first,
        step,
        count,
        of_keys,
        of_values,
        units,
        value_vectors,
    );
}

/// The scores of the unit's queries with N keys.
#[cube]
fn score<F: Float, N: Size>(
    queries: &Array<Vector<f32, N>>,
    tile: &Shared<[Vector<f32, N>]>,
    k: &[Vector<F, N>],
    source: &Source,
    lanes: Vector<i32, N>,
    #[comptime] spec: Spec,
) -> Array<Vector<f32, N>> {
    let (rows, vectors) = comptime!((spec.shape.rows, spec.form.vectors));
    let mut scores = Array::<Vector<f32, N>>::new(rows);
    #[unroll]
    for row in 0..rows {
        scores[row] = Vector::new(0.0f32);
    }
    // A loop, because the unrolled code takes four times as long to compile.
    for lane in 0..comptime!(LANES) {
        let mut dots = Array::<f32>::new(rows);
        #[unroll]
        for row in 0..rows {
            dots[row] = 0.0f32;
        }
        #[unroll]
        for d in 0..vectors {
            let key = if comptime!(spec.shape.staged) {
                tile[(source.in_tile + lane) * vectors + d]
            } else {
                let key = min(source.key + lane, source.last);
                Vector::cast_from(k[source.keys + key * source.key_step + d])
            };
            #[unroll]
            for row in 0..rows {
                let query = queries[row * vectors + d];
                #[unroll]
                for element in 0..comptime!(LANES) {
                    dots[row] = fma(query.extract(element), key.extract(element), dots[row]);
                }
            }
        }
        let own = lanes.equal(&Vector::new(lane as i32));
        #[unroll]
        for row in 0..rows {
            scores[row] = select_many(own, Vector::new(dots[row]), scores[row]);
        }
    }
    scores
}

/// A row's scores after the rules; those of hidden keys are the smallest finite f32, whose exponential is 0 as that of −∞ is.
#[cube]
fn ruled<N: Size>(
    raw: Vector<f32, N>,
    tables: &[u32],
    site: &Site<N>,
    scalars: &Scalars,
    full: bool,
    #[comptime] spec: Spec,
) -> Vector<f32, N> {
    let kinds = comptime!(spec.form.kinds);
    let mut scores = raw;
    if comptime!(kinds.change_scores()) {
        let (changed, _) = trace::<N>(raw, site, scalars, tables, kinds, 0usize);
        scores = changed;
    }
    if !full {
        let held = Vector::<i32, N>::new(scalars.keys as i32 - site.key as i32);
        let seen = seen::<N>(site, scalars, tables, kinds).vec_and(site.lanes.less_than(&held));
        scores = select_many(seen, scores, Vector::new(f32::min_value()));
    }
    scores
}

/// Turns scores with the keys from `key` on into probabilities. Returns the factor by which each row's sums shrink, less than 1
/// if a new score is the largest so far; with tiles in workgroup memory, it already shrinks the sums.
#[cube]
fn soften<N: Size>(
    rows: &mut Rows<N>,
    scores: &mut Array<Vector<f32, N>>,
    tables: &[u32],
    scalars: &Scalars,
    block: &Block,
    key: usize,
    full: bool,
    #[comptime] spec: Spec,
) -> Array<f32> {
    let value_vectors = comptime!(spec.form.value_vectors);
    let mut shrinks = Array::<f32>::new(comptime!(spec.shape.rows));
    let lowest = Vector::<f32, N>::new(f32::min_value());
    // Not unrolled with table lookups: SwiftShader compiled eight unrolled rows for minutes, using 17 GB.
    #[unroll(spec.shape.staged || !spec.form.kinds.read_tables())]
    for row in 0..comptime!(spec.shape.rows) {
        let site = site_of::<N>(block, row, key, spec.shape);
        scores[row] = ruled::<N>(scores[row], tables, &site, scalars, full, spec);
    }
    #[unroll]
    for row in 0..comptime!(spec.shape.rows) {
        let s = scores[row];
        let before = rows.largest[row];
        let top = highest::<N>(s, before);
        let p = (s - Vector::new(top)).exp();
        let p = select_many(s.equal(&lowest), Vector::new(0.0f32), p);
        let shrink = (before - top).exp();
        scores[row] = p;
        if comptime!(spec.form.dropout) {
            let site = site_of::<N>(block, row, key, spec.shape);
            scores[row] = p * factors::<N>(&row_of::<N>(&site, tables), &site);
        }
        rows.largest[row] = top;
        rows.totals[row] = fma(rows.totals[row], shrink, p.vector_sum());
        shrinks[row] = shrink;
        if comptime!(spec.shape.staged) {
            #[unroll]
            for d in 0..value_vectors {
                rows.sums[row * value_vectors + d] *= Vector::new(shrink);
            }
        }
    }
    shrinks
}

/// Processes the unit's queries with the tile of keys that starts at `key`; `full` says that every query sees every key.
#[cube]
fn meet<F: Float, N: Size>(
    rows: &mut Rows<N>,
    tile: &Shared<[Vector<f32, N>]>,
    k: &[Vector<F, N>],
    v: &[Vector<F, N>],
    tables: &[u32],
    scalars: &Scalars,
    layout: &Layout,
    block: &Block,
    key: usize,
    full: bool,
    #[comptime] spec: Spec,
) {
    let lanes = site::<N>(block.batch, block.head, block.first).lanes;
    for step in 0..comptime!(spec.shape.keys / LANES) {
        let source = Source {
            in_tile: step * comptime!(LANES),
            key: key + step * comptime!(LANES),
            last: scalars.keys - 1,
            keys: block.keys,
            values: block.values,
            key_step: layout.k.row,
            value_step: layout.v.row,
        };
        let mut scores = score::<F, N>(&rows.queries, tile, k, &source, lanes, spec);
        let first = key + step * comptime!(LANES);
        let shrinks = soften::<N>(rows, &mut scores, tables, scalars, block, first, full, spec);
        if comptime!(spec.shape.staged) {
            let plain = select(full, comptime!(LANES).runtime(), 0usize.runtime());
            let none = 0usize.runtime();
            weigh::<N>(
                rows, tile, &source, lanes, none, plain, &scores, false, spec,
            );
            let all = comptime!(LANES).runtime();
            weigh::<N>(rows, tile, &source, lanes, plain, all, &scores, true, spec);
        } else {
            // A software adapter executes both branches of a condition, and even an empty loop once, so there is a single form.
            weigh_all::<F, N>(rows, v, &source, &scores, &shrinks, spec);
        }
    }
}

/// The block of queries of cube `cube`: later queries come first, because they see more keys under a causal rule.
#[cube]
pub(super) fn block_of(
    cube: usize,
    heads: usize,
    scalars: &Scalars,
    layout: &Layout,
    #[comptime] shape: Shape,
) -> Block {
    let head = cube % heads;
    let blocks = scalars.queries.div_ceil(comptime!(shape.queries()));
    let first = (blocks - 1 - cube / heads) * comptime!(shape.queries());
    let (batch, in_batch) = (head / scalars.heads, head % scalars.heads);
    Block {
        batch,
        head: in_batch,
        first,
        last: min(first + comptime!(shape.queries()), scalars.queries) - 1,
        keys: head_at(&layout.k, batch, in_batch / scalars.group),
        values: head_at(&layout.v, batch, in_batch / scalars.group),
    }
}

#[cube(launch_unchecked)]
fn attention_tile<F: Float, N: Size>(
    q: &[Vector<F, N>],
    k: &[Vector<F, N>],
    v: &[Vector<F, N>],
    tables: &[u32],
    o: &mut [Vector<F, N>],
    lse: &mut [f32],
    scalars: Scalars,
    layout: Layout,
    #[comptime] spec: Spec,
    #[define(F)] _element: ElemType,
) {
    let (shape, kinds) = comptime!((spec.shape, spec.form.kinds));
    let (vectors, value_vectors) = comptime!((spec.form.vectors, spec.form.value_vectors));
    let (size, count) = comptime!((shape.keys, shape.keys * (vectors + value_vectors)));
    let mut tile =
        Shared::<[Vector<f32, N>]>::new_slice(comptime!(if shape.staged { count } else { 1 }));
    let heads = lse.len() / scalars.queries;
    if CUBE_POS < heads * scalars.queries.div_ceil(comptime!(shape.queries())) {
        let block = block_of(CUBE_POS, heads, &scalars, &layout, shape);
        let mut rows = begin::<F, N>(q, &block, &scalars, &layout.q, spec);
        let span = span(
            block.batch,
            block.first,
            block.last,
            &scalars,
            tables,
            kinds,
        );
        let (near, far) = keys_of(block.first, block.last, &scalars, kinds);
        let mut visits = 0u32;
        for at in near / size..far.div_ceil(size) {
            let key = at * size;
            let held = min(size, scalars.keys - key);
            let met = met_of(&span, key, key + held - 1, &scalars, tables, kinds);
            // `met` is the same for the whole cube, so either all units or none reach the barriers inside.
            if met > 0 {
                if comptime!(shape.staged) {
                    sync_cube();
                    load_tile::<F, N>(k, v, &mut tile, &block, &layout, key, held, spec);
                    sync_cube();
                }
                if comptime!(spec.form.counted) {
                    visits += 1;
                }
                let full = met == 2 && held == size;
                meet::<F, N>(
                    &mut rows, &tile, k, v, tables, &scalars, &layout, &block, key, full, spec,
                );
            }
        }
        finish::<F, N>(&rows, tables, o, lse, &block, &scalars, visits, spec);
    }
}

/// Writes o and lse.
#[cube]
fn finish<F: Float, N: Size>(
    rows: &Rows<N>,
    tables: &[u32],
    o: &mut [Vector<F, N>],
    lse: &mut [f32],
    block: &Block,
    scalars: &Scalars,
    visits: u32,
    #[comptime] spec: Spec,
) {
    let vectors = comptime!(spec.form.value_vectors);
    let head = (block.batch * scalars.heads + block.head) * scalars.queries;
    #[unroll]
    for row in 0..comptime!(spec.shape.rows) {
        let query = block.first + UNIT_POS as usize + comptime!(row * spec.shape.units);
        if query <= block.last {
            let (top, total) = (rows.largest[row], rows.totals[row]);
            let (share, mut log) = ended(top, total, block.head, scalars, tables, spec.form);
            if comptime!(spec.form.counted) {
                log = f32::cast_from(visits);
            }
            lse[head + query] = log;
            let to = (head + query) * vectors;
            #[unroll]
            for d in 0..vectors {
                let sum = rows.sums[row * vectors + d];
                o[to + d] = Vector::cast_from(sum * Vector::<f32, N>::new(share));
            }
        }
    }
}

pub(super) fn launch(
    client: &Client,
    plan: &Plan,
    tiling: Tiling,
    buffers: ForwardBuffers,
    tables: Handle,
) {
    let p = &plan.problem;
    let [(q, of_q), (k, of_k), (v, of_v)] = buffers.operands(plan);
    let Tiling { shape, grid } = tiling;
    launched::note(|| {
        plan.name(if shape.staged {
            "attention_tile"
        } else {
            "attention_rows"
        })
    });
    let spec = Spec {
        form: plan.form(),
        shape,
    };
    let (count, dim, lanes) = (grid.count(), grid.dim(), plan.lanes);
    let [tables, o, lse] = [tables, buffers.o, buffers.lse].map(bind);
    let (scalars, layout) = (scalars(p), LayoutLaunch::new(of_q, of_k, of_v));
    let element = p.element().elem_type();
    // SAFETY: the buffers are as long as they are described; keys and table entries lie inside of them; cubes past the last return,
    // and units past the last query store nothing.
    unsafe {
        attention_tile::launch_unchecked(
            client, count, dim, lanes, q, k, v, tables, o, lse, scalars, layout, spec, element,
        );
    }
}

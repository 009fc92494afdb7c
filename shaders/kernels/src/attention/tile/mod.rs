//! The `tile` and `rows` variants: a unit keeps queries and their sums in registers, so that each vector of a key or value that
//! it reads serves all of them.
//!
//! `tile` is for GPUs: the units of a cube share tiles of keys and values in workgroup memory, with a barrier before and after
//! their load, and all read the same vector at once. `rows` is for software adapters, where a read of either memory takes as
//! long as tens of multiply-adds: more queries to a unit, which reads the vectors where they are. Tiles start at multiples of
//! their size. Those without a key that some query of the cube may see are skipped: which ones follows from the cube's place
//! and from scalars, the same for all its units. In the others, a key that a query doesn't see changes no bit of its results.

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

/// What the kernel is specialised on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Spec {
    form: Form,
    shape: Shape,
}

/// Queries of a head that a cube takes, from `first` to `last`.
#[derive(CubeType, Clone, Copy)]
pub(super) struct Block {
    pub(super) batch: usize,
    pub(super) head: usize,
    pub(super) first: usize,
    pub(super) last: usize,
    /// Where the head's keys and values begin.
    pub(super) keys: usize,
    pub(super) values: usize,
}

/// What a unit has of its queries.
#[derive(CubeType)]
struct Rows<N: Size> {
    /// Scaled.
    queries: Array<Vector<f32, N>>,
    /// Of probabilities times values.
    sums: Array<Vector<f32, N>>,
    /// The largest scores so far.
    largest: Array<f32>,
    /// The sums of exponentials, 0 until a key is seen.
    totals: Array<f32>,
}

/// Where units read keys and values: tiles of them, the keys first, or all of them.
#[derive(CubeType, Clone, Copy)]
struct Source {
    /// The first key in the tile, and of the head.
    in_tile: usize,
    key: usize,
    /// The last key of the head.
    last: usize,
    /// Where the head's keys and values begin, and from one to the next.
    keys: usize,
    values: usize,
    key_step: usize,
    value_step: usize,
}

/// The unit's query number `row`; past the last one of the block, that one.
#[cube]
fn query_of(block: &Block, row: usize, #[comptime] shape: Shape) -> usize {
    let query = block.first + UNIT_POS as usize + row * comptime!(shape.units);
    min(query, block.last)
}

/// That query, and the keys from `key` on.
#[cube]
fn site_of<N: Size>(block: &Block, row: usize, key: usize, #[comptime] shape: Shape) -> Site<N> {
    let mut site = site::<N>(block.batch, block.head, query_of(block, row, shape));
    site.key = key;
    site
}

/// The scaled queries of a unit, and an empty softmax for each.
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

/// Copies rows of `width` vectors to the tile from its vector `to` on: `held` vectors of the rows from `first` on, `step` apart, and zeros
/// up to `count`.
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

/// Copies `held` keys and their values from a key on; the tile is whole.
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

/// Scores of the unit's queries with N keys.
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
    // A loop, because an unrolled one would be four times as long to compile.
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

/// A row's scores as the rules make them; those of keys it doesn't see are f32's least number, which no exponential tells
/// from −∞.
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

/// Makes scores with keys from `key` on probabilities. The result is what each row's sums shrink by, which is less than 1 where one
/// of the scores is the largest so far; those of a tile in workgroup memory do so here.
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
    // SwiftShader compiled eight unrolled rows of lookups in tables for minutes, with 17 GB.
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

/// The unit's queries meet the keys of the tile that starts at `key`; `full` where they see all of them.
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
            // A software adapter computes both branches of a condition, and an empty loop once: so there is one form for all.
            weigh_all::<F, N>(rows, v, &source, &scores, &shrinks, spec);
        }
    }
}

/// The cube's queries: later ones, which see more keys where a rule is causal, come first.
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
            // The same for the whole cube, so the barriers inside are reached by all its units or none.
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

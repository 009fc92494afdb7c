//! Attention over a cache: the softmax of rows of queries over each part of the tokens, and the merge of the parts in ascending
//! order.

use super::rows::{Rows, Softmax, add_block, nothing, rows_of, tensor_row};
use super::{Buffers, PART, Plan, Pool, Spec, block_at, place_of, pool, units};
use crate::attention::operands::gather_tables;
use crate::attention::rules::{Scalars, keys_of, scalars, tile_of};
use crate::prelude::*;
use cubecl::prelude::*;
use moebius_ops::kv_cache::BLOCK;

/// The distribution of the work over units.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
struct Walk {
    /// Units of rows times splits.
    items: usize,
    splits: usize,
    /// Parts per split.
    parts: usize,
    units: usize,
}

/// The softmax of some rows over the visible tokens of one part, from `begin` to before `end`.
#[cube]
fn part<F: Float, N: Size>(
    q: &[F],
    words: &[Vector<u32, N>],
    table: &[u32],
    tables: &[u32],
    rows: &Rows,
    scalars: &Scalars,
    pool: &Pool,
    begin: usize,
    end: usize,
    #[comptime] spec: Spec,
) -> Softmax<N> {
    let mut softmax = nothing::<N>(spec);
    let last_row = min(rows.first + comptime!(spec.rows), rows.end) - 1;
    let (first_query, last_query) = (rows.first / scalars.group, last_row / scalars.group);
    let all_there = last_query as i32 + scalars.shift < scalars.keys as i32;
    // The place is advanced from block to block, because a division takes as long as the products of several tokens.
    let mut place = place_of(pool, begin);
    for at in begin / comptime!(BLOCK)..end.div_ceil(comptime!(BLOCK)) {
        let token = at * comptime!(BLOCK);
        let last = token + comptime!(BLOCK - 1);
        let met = tile_of(first_query, last_query, token, last, scalars, spec.kinds);
        let (page, block) = block_at(table, pool, rows.batch, rows.kv_head, &place, spec);
        if met > 0 && page < pool.pages {
            let full = met == 2 && last < scalars.keys && all_there;
            add_block::<F, N>(
                q,
                words,
                tables,
                &mut softmax,
                rows,
                scalars,
                block,
                token,
                full,
                spec,
            );
        }
        place.in_page += 1;
        if place.in_page == pool.page / comptime!(BLOCK) {
            place.in_page = 0usize.runtime();
            place.column += 1;
        }
    }
    softmax
}

/// Merges a part into the softmax of earlier parts, which keeps its totals in lane 0.
#[cube]
fn join<N: Size>(all: &mut Softmax<N>, part: &Softmax<N>, #[comptime] spec: Spec) {
    let width = N::value();
    let registers = comptime!(spec.value_dim / width);
    #[unroll(!spec.cpu)]
    for r in 0..comptime!(spec.rows) {
        let total = part.totals[r].vector_sum();
        let (top, before, own) = joined(all.largest[r], part.largest[r]);
        all.largest[r] = top;
        let sum = all.totals[r].extract(0usize) * before + total * own;
        all.totals[r] = Vector::new(sum);
        #[unroll(spec.in_registers(width))]
        for i in 0..registers {
            let at = r * registers + i;
            all.sums[at] = sum_of_parts::<N>(all.sums[at], part.sums[at], before, own);
        }
    }
}

#[cube(launch_unchecked)]
fn cache_attention<F: Float, N: Size>(
    q: &[F],
    words: &[Vector<u32, N>],
    table: &[u32],
    spans: &[u32],
    tables: &[u32],
    sums: &mut [Vector<f32, N>],
    stats: &mut [f32],
    scalars: Scalars,
    pool: Pool,
    walk: Walk,
    #[comptime] spec: Spec,
    #[define(F)] _element: ElemType,
) {
    let width = N::value();
    let registers = comptime!(spec.value_dim / width);
    let mut own = scalars;
    let of_head = own.queries * own.group;
    let across = of_head.div_ceil(comptime!(spec.rows));
    for item in range_stepped(ABSOLUTE_POS, walk.items, walk.units) {
        let split = item / across % walk.splits;
        let head = item / across / walk.splits;
        let (batch, kv_head) = (head / own.kv_heads, head % own.kv_heads);
        let first = item % across * comptime!(spec.rows);
        let rows = rows_of::<F>(q, batch, kv_head, first, of_head, &own, spec);
        // Position and number of tokens come from the sequence's span.
        own.shift = spans[2 * rows.batch] as i32;
        own.keys = min(spans[2 * rows.batch + 1] as usize, pool.table * pool.page);
        let last = (min(rows.first + comptime!(spec.rows), of_head) - 1) / own.group;
        let (near, far) = keys_of(rows.first / own.group, last, &own, spec.kinds);
        let mut all = nothing::<N>(spec);
        let first = max(split * walk.parts, near / comptime!(PART));
        let end = min((split + 1) * walk.parts, far.div_ceil(comptime!(PART)));
        for at in first..end {
            let begin = at * comptime!(PART);
            let (from, to) = (max(near, begin), min(far, begin + comptime!(PART)));
            let found = part::<F, N>(q, words, table, tables, &rows, &own, &pool, from, to, spec);
            join::<N>(&mut all, &found, spec);
        }
        #[unroll(!spec.cpu)]
        for r in 0..comptime!(spec.rows) {
            if rows.first + r < of_head {
                let to = tensor_row(&rows, r, &own) * walk.splits + split;
                stats[2 * to] = all.largest[r];
                stats[2 * to + 1] = all.totals[r].extract(0usize);
                #[unroll(spec.in_registers(width))]
                for i in 0..registers {
                    sums[to * registers + i] = all.sums[r * registers + i];
                }
            }
        }
    }
}

/// Enqueues the attention: two launches, and one per table if there are several.
///
/// # Panics
/// If the table of a rule is missing.
pub fn launch(client: &Client, plan: &Plan, buffers: Buffers) {
    let (p, layout) = (plan.problem.attention(), plan.problem.layout());
    let s = *p.sizes();
    let rows = p.query_rows();
    if rows == 0 {
        return;
    }
    let gathered = gather_tables(client, p, plan.tables, &buffers.tables);
    let spec = plan.spec();
    let partial = rows * plan.splits;
    let sums = empty_words(client, partial * s.value_dim);
    let stats = empty_words(client, 2 * partial);
    let of_head = s.queries * p.group();
    let walk = WalkLaunch::new(
        s.batch * s.kv_heads * of_head.div_ceil(plan.rows) * plan.splits,
        plan.splits,
        s.keys.div_ceil(PART).div_ceil(plan.splits),
        units(&plan.grid),
    );
    let pages = plan.pages();
    // Without pages nothing is read, and other buffers fill the bindings.
    let [words, table] = match pages {
        0 => [&sums, &sums],
        _ => [&buffers.pool, &buffers.table],
    };
    launched::note(|| super::name(&plan.problem));
    let (count, dim, lanes) = (plan.grid.count(), plan.grid.dim(), plan.lanes);
    let read = [&buffers.q, words, table, &buffers.spans, &gathered];
    let [q, words, table, spans, tables] = read.map(|buffer| bind(buffer.clone()));
    let [all, parts] = [&sums, &stats].map(|buffer| bind(buffer.clone()));
    let (scalars, pool, element) = (scalars(p), pool(layout, pages), p.element().elem_type());
    // SAFETY: the buffers are as long as they are described; blocks lie in pages that the pool has, and tokens before the end of
    // the table; a unit's parts of the sums are its own.
    unsafe {
        cache_attention::launch_unchecked(
            client, count, dim, lanes, q, words, table, spans, tables, all, parts, scalars, pool,
            walk, spec, element,
        );
    }
    launch_merge(client, plan, [sums, stats, gathered], buffers);
}

/// The largest score of two parts, and the factors of the first and the second part's sums.
#[cube]
fn joined(before: f32, own: f32) -> (f32, f32, f32) {
    let top = max(before, own);
    (top, (before - top).exp(), (own - top).exp())
}

/// The merged sums of two parts, given the factor of each.
#[cube]
fn sum_of_parts<N: Size>(
    all: Vector<f32, N>,
    part: Vector<f32, N>,
    before: f32,
    own: f32,
) -> Vector<f32, N> {
    fma(part, Vector::new(own), all * Vector::new(before))
}

#[cube(launch_unchecked)]
fn cache_merge<F: Float, N: Size>(
    sums: &[Vector<f32, N>],
    stats: &[f32],
    spans: &[u32],
    tables: &[u32],
    o: &mut [Vector<F, N>],
    lse: &mut [f32],
    scalars: Scalars,
    registers: usize,
    splits: usize,
    #[comptime] sinks: bool,
    #[define(F)] _element: ElemType,
) {
    if ABSOLUTE_POS < o.len() {
        let (row, register) = (ABSOLUTE_POS / registers, ABSOLUTE_POS % registers);
        let mut top = f32::min_value();
        let mut total = 0.0f32;
        let mut all = Vector::<f32, N>::new(0.0f32);
        for part in row * splits..(row + 1) * splits {
            let of_part = stats[2 * part + 1];
            // Compares bits, because a NaN sum is also a sum of some tokens.
            if u32::reinterpret(of_part) != 0u32 {
                let (largest, before, own) = joined(top, stats[2 * part]);
                top = largest;
                total = total * before + of_part * own;
                all = sum_of_parts::<N>(all, sums[part * registers + register], before, own);
            }
        }
        if comptime!(sinks) {
            let sequence = row / scalars.queries / scalars.heads;
            let position = spans[2 * sequence] as usize + row % scalars.queries;
            if position < spans[2 * sequence + 1] as usize {
                let sink = tables[scalars.sinks + row / scalars.queries % scalars.heads];
                let (largest, before, own) = joined(top, f32::reinterpret(sink));
                top = largest;
                total = total * before + own;
                all *= Vector::new(before);
            }
        }
        let mut share = 0.0f32;
        let mut log = f32::min_value();
        if u32::reinterpret(total) != 0u32 {
            share = 1.0f32 / total;
            log = top + total.ln();
        }
        o[ABSOLUTE_POS] = Vector::cast_from(all * Vector::new(share));
        if register == 0 {
            lse[row] = log;
        }
    }
}

/// Enqueues the merge of partial sums; the buffers are the sums, the statistics (largest score and total), and the tables.
fn launch_merge(
    client: &Client,
    plan: &Plan,
    [sums, stats, gathered]: [Handle; 3],
    buffers: Buffers,
) {
    let p = plan.problem.attention();
    launched::note(|| super::merge_name(p));
    let (count, dim, lanes) = (plan.merge.count(), plan.merge.dim(), plan.lanes);
    let [sums, stats, tables] = [sums, stats, gathered].map(bind);
    let [spans, o, lse] = [buffers.spans, buffers.o, buffers.lse].map(bind);
    let (scalars, sinks, element) = (scalars(p), p.sinks(), p.element().elem_type());
    let (registers, splits) = (p.sizes().value_dim / lanes, plan.splits);
    // SAFETY: the buffers are as long as they are described; units past the last return.
    unsafe {
        cache_merge::launch_unchecked(
            client, count, dim, lanes, sums, stats, spans, tables, o, lse, scalars, registers,
            splits, sinks, element,
        );
    }
}

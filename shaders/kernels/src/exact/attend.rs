//! Attention over a cache: the scores of all pairs, the softmax of each query's, and the sums of values, one launch after the other.

use super::functions::{add, exp, most, mul, reciprocal, settled, sub, tanh};
use crate::prelude::*;
use crate::rounds::{fits_rounds, looped};
use cubecl::prelude::*;
use moebius_ops::exact::Seen;
use moebius_ops::kv_cache::{Attend, BLOCK};

const KERNEL: &str = "exact attention";

/// An attention, planned for a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttendPlan {
    /// The attention.
    pub problem: Attend,
    seen: Seen,
    /// One unit per pair of a query and a token that the table has room for.
    scores: Grid,
    /// One unit per query of a head.
    rows: Grid,
    /// One unit per element of o.
    values: Grid,
}

/// Plans an attention.
///
/// # Errors
/// [`PlanError`] for an attention that [`Seen::of`] refuses, for scores of all pairs or operands that don't fit one binding, and for more than
/// a grid or the rounds of an invocation's loops hold.
pub fn plan_attend(problem: Attend, device: &Capability) -> Result<AttendPlan, PlanError> {
    let (p, seen) = (problem.attention(), Seen::of(&problem)?);
    let (s, rows) = (*p.sizes(), p.query_rows());
    let pairs = rows.saturating_mul(s.keys);
    let widest = s.head_dim.max(s.value_dim);
    for elements in [pairs, problem.layout().words(), rows * widest] {
        crate::fits_binding(KERNEL, elements.saturating_mul(4), device)?;
    }
    let rounds = looped(s.head_dim, 0).max(2 * looped(s.keys, 0));
    fits_rounds(KERNEL, rounds, device)?;
    let grid = |units| Grid::elementwise(KERNEL, units, device);
    Ok(AttendPlan {
        problem,
        seen,
        scores: grid(pairs)?,
        rows: grid(rows)?,
        values: grid(rows * s.value_dim)?,
    })
}

/// Sizes of an attention.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
struct Shape {
    heads: usize,
    kv_heads: usize,
    queries: usize,
    /// Tokens that the table has room for.
    keys: usize,
    head_dim: usize,
    value_dim: usize,
    /// Pages of the pool, tokens of a page, and pages of a row of the table.
    pages: usize,
    page: usize,
    table: usize,
    /// The number of last keys that a query sees.
    window: usize,
}

impl AttendPlan {
    fn shape(&self) -> ShapeLaunch {
        let (p, layout) = (self.problem.attention(), self.problem.layout());
        let s = p.sizes();
        ShapeLaunch::new(
            s.heads,
            s.kv_heads,
            s.queries,
            s.keys,
            s.head_dim,
            s.value_dim,
            layout.pages(),
            layout.page(),
            self.problem.table(),
            // More keys than there are, so that positions stay numbers of 31 bits.
            (self.seen.window as usize).min(1 << 30),
        )
    }

    fn rows(&self) -> usize {
        self.problem.attention().query_rows()
    }
}

/// The first key that row `row` of q sees, and one past its last; equal for a query without a token.
#[cube]
fn visible(spans: &[u32], shape: &Shape, row: usize) -> (usize, usize) {
    let sequence = row / shape.queries / shape.heads;
    let position = spans[2usize * sequence] as usize + row % shape.queries;
    let end = min(spans[2usize * sequence + 1usize] as usize, shape.keys);
    let last = select(position < end, position + 1usize, 0usize);
    (last - min(last, shape.window), last)
}

/// The first word of the block of a token of the key head of row `row`, and whether the pool has it.
#[cube]
fn block_of(table: &[u32], shape: &Shape, row: usize, token: usize) -> (usize, u32) {
    let head = row / shape.queries;
    let kv_head = head % shape.heads / (shape.heads / shape.kv_heads);
    let own = table[head / shape.heads * shape.table + token / shape.page] as usize;
    let page = min(own, shape.pages - 1usize);
    let blocks = shape.page / comptime!(BLOCK);
    let in_page = token % shape.page / comptime!(BLOCK);
    let block = (page * shape.kv_heads + kv_head) * blocks + in_page;
    let words = (shape.head_dim + shape.value_dim) * comptime!(BLOCK);
    (block * words, select(own < shape.pages, 1u32, 0u32))
}

#[cube(launch_unchecked)]
fn exact_scores(
    q: &[f32],
    pool: &[f32],
    table: &[u32],
    spans: &[u32],
    scores: &mut [f32],
    shape: Shape,
    scale: f32,
    cap: f32,
    uncap: f32,
    zero: u32,
    #[comptime] capped: bool,
) {
    if ABSOLUTE_POS < scores.len() {
        let row = ABSOLUTE_POS / shape.keys;
        let token = ABSOLUTE_POS % shape.keys;
        let (first, last) = visible(spans, &shape, row);
        // What no key has: a score that is never compared or summed.
        let mut score = f32::min_value();
        if token >= first && token < last {
            let (block, there) = block_of(table, &shape, row, token);
            if there != 0u32 {
                let mut sum = 0.0f32;
                for d in 0..shape.head_dim {
                    let key = pool[block + d * comptime!(BLOCK) + token % comptime!(BLOCK)];
                    let product = mul(settled(q[row * shape.head_dim + d]), settled(key), zero);
                    sum = add(sum, product, zero);
                }
                score = settled(mul(settled(sum), scale, zero));
                if comptime!(capped) {
                    let bent = tanh(settled(mul(score, uncap, zero)), zero);
                    score = settled(mul(cap, bent, zero));
                }
            }
        }
        scores[ABSOLUTE_POS] = score;
    }
}

/// Turns the scores of each query into shares of their sum before the division, and writes the reciprocals of the sums, 0 for a query that sees
/// no key.
#[cube(launch_unchecked)]
fn exact_softmax(
    spans: &[u32],
    sinks: ComptimeOption<&[f32]>,
    scores: &mut [f32],
    factors: &mut [f32],
    shape: Shape,
    zero: u32,
) {
    if ABSOLUTE_POS < factors.len() {
        let row = ABSOLUTE_POS;
        let (first, last) = visible(spans, &shape, row);
        let mut top = f32::min_value();
        #[comptime]
        if let ComptimeOption::Some(sinks) = &sinks {
            top = settled(sinks[row / shape.queries % shape.heads]);
        }
        for token in first..last {
            top = most(top, scores[row * shape.keys + token]);
        }
        let mut sum = 0.0f32;
        let mut count = 0u32;
        for token in first..last {
            let at = row * shape.keys + token;
            let score = scores[at];
            let seen = u32::reinterpret(score) != comptime!(f32::MIN.to_bits());
            let share = select(seen, exp(sub(score, top, zero), zero), 0.0f32);
            sum = add(sum, share, zero);
            count += select(seen, 1u32, 0u32);
            scores[at] = share;
        }
        #[comptime]
        if let ComptimeOption::Some(sinks) = &sinks {
            let sink = settled(sinks[row / shape.queries % shape.heads]);
            sum = add(sum, exp(sub(sink, top, zero), zero), zero);
        }
        factors[row] = select(count != 0u32, reciprocal(sum, zero), 0.0f32);
    }
}

#[cube(launch_unchecked)]
fn exact_values(
    pool: &[f32],
    table: &[u32],
    spans: &[u32],
    shares: &[f32],
    factors: &[f32],
    o: &mut [f32],
    shape: Shape,
    zero: u32,
) {
    if ABSOLUTE_POS < o.len() {
        let row = ABSOLUTE_POS / shape.value_dim;
        let d = ABSOLUTE_POS % shape.value_dim;
        let (first, last) = visible(spans, &shape, row);
        let mut sum = 0.0f32;
        for token in first..last {
            let (block, there) = block_of(table, &shape, row, token);
            if there != 0u32 {
                let keys = shape.head_dim * comptime!(BLOCK);
                let at = block + keys + token % comptime!(BLOCK) * shape.value_dim + d;
                let share = settled(shares[row * shape.keys + token]);
                sum = add(sum, mul(share, settled(pool[at]), zero), zero);
            }
        }
        o[ABSOLUTE_POS] = settled(mul(settled(sum), factors[row], zero));
    }
}

buffers! {
    /// Buffers of an attention.
    pub struct AttendBuffers {
        pub q: Handle => "[B, Hq, Sq, D]" read,
        pub pool: Handle => "[pages, words]" read,
        pub table: Handle => "[B, M] u32" read,
        pub spans: Handle => "[B, 2] u32" read,
        pub sinks: Option<Handle> => "[Hq]" read,
        pub o: Handle => "[B, Hq, Sq, Dv]" written,
    }
}

pub(crate) fn name(kernel: &str, problem: &Attend) -> String {
    let capped = Seen::of(problem).is_ok_and(|seen| seen.softcap.is_some());
    let suffix = match kernel {
        "exact_scores" => launched::suffix(capped, "_softcap"),
        "exact_softmax" => launched::suffix(problem.attention().sinks(), "_sinks"),
        _ => "",
    };
    format!("{kernel}{suffix}")
}

/// Enqueues an attention: three launches, or none without queries or room for tokens.
pub fn launch_attend(client: &Client, plan: &AttendPlan, b: AttendBuffers) {
    let keys = plan.problem.attention().sizes().keys;
    if plan.rows() * keys == 0 {
        return;
    }
    let scores = empty_words(client, plan.rows() * keys);
    let factors = empty_words(client, plan.rows());
    launch_scores(client, plan, &b, &scores);
    launched::note(|| name("exact_softmax", &plan.problem));
    let [spans, shares, sums] = [&b.spans, &scores, &factors].map(|buffer| bind(buffer.clone()));
    let sinks = b.sinks.map(bind).into();
    let (count, dim) = (plan.rows.count(), plan.rows.dim());
    // SAFETY: the buffers are as long as they are described; units past the last row return, and ranges end within the room for tokens.
    unsafe {
        exact_softmax::launch_unchecked(
            client,
            count,
            dim,
            spans,
            sinks,
            shares,
            sums,
            plan.shape(),
            0,
        );
    }
    launched::note(|| name("exact_values", &plan.problem));
    let [pool, table, spans] = [b.pool, b.table, b.spans].map(bind);
    let [shares, sums, o] = [scores, factors, b.o].map(bind);
    let (count, dim) = (plan.values.count(), plan.values.dim());
    // SAFETY: as above; a block lies in the pool, which has a page.
    unsafe {
        exact_values::launch_unchecked(
            client,
            count,
            dim,
            pool,
            table,
            spans,
            shares,
            sums,
            o,
            plan.shape(),
            0,
        );
    }
}

/// Enqueues the scores.
fn launch_scores(client: &Client, plan: &AttendPlan, b: &AttendBuffers, scores: &Handle) {
    launched::note(|| name("exact_scores", &plan.problem));
    let [q, pool, table] = [&b.q, &b.pool, &b.table].map(|buffer| bind(buffer.clone()));
    let [spans, scores] = [&b.spans, scores].map(|buffer| bind(buffer.clone()));
    let (count, dim) = (plan.scores.count(), plan.scores.dim());
    let scale = plan.problem.attention().scale();
    let capped = plan.seen.cap();
    let [cap, uncap] = capped.unwrap_or([1.0; 2]);
    // SAFETY: the buffers are as long as they are described; units past the last pair return, and a block lies in the pool, which has a page.
    unsafe {
        exact_scores::launch_unchecked(
            client,
            count,
            dim,
            q,
            pool,
            table,
            spans,
            scores,
            plan.shape(),
            scale,
            cap,
            uncap,
            0,
            capped.is_some(),
        );
    }
}

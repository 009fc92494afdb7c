//! Appends tokens to their pages.

use super::{KERNEL, Pool, Spec, block_at, code_of, place_of, pool};
use crate::attention::rules::Kinds;
use crate::prelude::*;
use crate::quantize::{e8m0_scale, magnitude};
use crate::rounds::{fits_rounds, looped};
use cubecl::prelude::*;
use moebius_ops::fp8::Fp8Format;
use moebius_ops::kv_cache::{Append, BLOCK};

buffers! {
    /// Buffers of an append; shapes as in [`moebius_ops::kv_cache`].
    pub struct AppendBuffers {
        pub k: Handle => "[B, Hkv, T, D]" read,
        pub v: Handle => "[B, Hkv, T, Dv]" read,
        pub pool: Handle => "[pages, words]" changed,
        pub table: Handle => "u32 [B, M]" read,
        pub spans: Handle => "u32 [B, 2]" read,
    }
}

/// An append, planned for a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AppendPlan {
    /// The append.
    pub problem: Append,
    /// One unit per token and head.
    grid: Grid,
}

/// Plans an append.
///
/// # Errors
/// [`Unsupported`] for an element type the device lacks, and for more than a binding or a grid holds.
pub fn plan_append(problem: Append, device: &Capability) -> Result<AppendPlan, Unsupported> {
    let layout = &problem.layout;
    problem.element.supported(KERNEL, device)?;
    let rows = problem.batch * layout.kv_heads() * problem.tokens;
    let widest = layout.head_dim().max(layout.value_dim());
    let bindings = [
        layout.bytes(),
        rows * widest * problem.element.bytes(),
        problem.batch * problem.table * 4,
    ];
    for bytes in bindings {
        crate::fits_binding(KERNEL, bytes, device)?;
    }
    let dims = [layout.head_dim(), layout.value_dim()];
    // A word has at least one value; scales take one more walk.
    let rounds = dims.into_iter().map(|dim| 2 * looped(dim, 0)).sum();
    fits_rounds(KERNEL, rounds, device)?;
    let grid = Grid::elementwise(KERNEL, rows, device)?;
    Ok(AppendPlan { problem, grid })
}

/// The bits of a row's scale, and the reciprocal of the scale.
#[cube]
fn scale_of<F: Float>(row: &[F], first: usize, #[comptime] dim: usize) -> (u32, f32) {
    let mut largest = 0u32;
    for d in 0..dim {
        let value = f32::cast_from(row[first + d]);
        largest = max(largest, magnitude(u32::reinterpret(value)));
    }
    let byte = e8m0_scale(largest, 0i32, Fp8Format::E4M3);
    (byte << 23, f32::reinterpret((254 - byte) << 23))
}

/// Packs a word of codes from elements of `row` that are `step` apart, from element `first` on.
#[cube]
fn word_of<F: Float>(
    row: &[F],
    first: usize,
    factor: f32,
    #[comptime] step: usize,
    #[comptime] spec: Spec,
) -> u32 {
    let mut word = 0u32;
    #[unroll]
    for place in 0..comptime!(spec.per_word()) {
        let mut value = f32::cast_from(row[first + comptime!(place * step)]);
        if comptime!(spec.scaled()) {
            value *= factor;
        }
        let shift = comptime!((32 / spec.per_word() * place) as u32);
        word |= code_of(value, spec.format) << shift;
    }
    word
}

#[cube(launch_unchecked)]
fn cache_append<F: Float>(
    k: &[F],
    v: &[F],
    words: &mut [u32],
    table: &[u32],
    spans: &[u32],
    pool: Pool,
    tokens: usize,
    rows: usize,
    #[comptime] spec: Spec,
    #[define(F)] _element: ElemType,
) {
    if ABSOLUTE_POS < rows {
        let sequence = ABSOLUTE_POS / tokens / pool.kv_heads;
        let head = ABSOLUTE_POS / tokens % pool.kv_heads;
        let token = spans[2 * sequence] as usize + ABSOLUTE_POS % tokens;
        let place = place_of(&pool, token);
        let (page, block) = block_at(table, &pool, sequence, head, &place, spec);
        if token < spans[2 * sequence + 1] as usize && page < pool.pages {
            let column = token % comptime!(BLOCK);
            let keys = ABSOLUTE_POS * comptime!(spec.head_dim);
            let values = ABSOLUTE_POS * comptime!(spec.value_dim);
            let mut factors = (1.0f32.runtime(), 1.0f32.runtime());
            if comptime!(spec.scaled()) {
                let (key_scale, key_factor) = scale_of::<F>(k, keys, spec.head_dim);
                let (value_scale, value_factor) = scale_of::<F>(v, values, spec.value_dim);
                let scales = block + comptime!(spec.scales()) + column;
                words[scales] = key_scale;
                words[scales + comptime!(BLOCK)] = value_scale;
                factors = (key_factor, value_factor);
            }
            let per = comptime!(spec.per_word());
            for word in 0..comptime!(spec.key_words()) {
                let found = word_of::<F>(k, keys + word * per, factors.0, 1usize, spec);
                words[block + word * comptime!(BLOCK) + column] = found;
            }
            let of_value = comptime!(spec.value_words());
            let row = block + comptime!(spec.values()) + column * of_value;
            for word in 0..of_value {
                words[row + word] = word_of::<F>(v, values + word, factors.1, of_value, spec);
            }
        }
    }
}

/// Enqueues the append: one launch.
pub fn launch_append(client: &Client, plan: &AppendPlan, buffers: AppendBuffers) {
    let p = &plan.problem;
    let layout = &p.layout;
    let rows = p.batch * layout.kv_heads() * p.tokens;
    if rows == 0 || layout.words() == 0 || p.table == 0 {
        return;
    }
    let spec = Spec {
        kinds: Kinds::default(),
        format: layout.format(),
        head_dim: layout.head_dim(),
        value_dim: layout.value_dim(),
        rows: 1,
        cpu: false,
    };
    launched::note(|| super::append_name(p));
    let (count, dim, element) = (plan.grid.count(), plan.grid.dim(), p.element.elem_type());
    let [k, v, words] = [buffers.k, buffers.v, buffers.pool].map(bind);
    let [table, spans] = [buffers.table, buffers.spans].map(bind);
    let pool = pool(layout, p.table);
    // SAFETY: the buffers are as long as they are described; a unit writes words of its own token, in a page that the pool has;
    // units past the last return.
    unsafe {
        cache_append::launch_unchecked(
            client, count, dim, k, v, words, table, spans, pool, p.tokens, rows, spec, element,
        );
    }
}

//! Keys and values as the register tile reads them: keys in panels of two registers (their transpose, as the grouped GEMM packs
//! weights), rows as f32s up to whole pairs of registers.

use crate::attention::strided::{Strided, Strides, StridesLaunch, head_at};
use crate::attention::{Plan, name};
use crate::bound::{bind, empty_words};
use crate::element::DeviceElement;
use crate::launched;
use cubecl::prelude::*;
use cubecl::server::Handle;
use moebius_ops::Element;

/// packed\[head\]\[panel\]\[d\]\[2\] = the rows of the panel at column d; rows past the last repeat it.
#[cube(launch_unchecked)]
fn attention_pack_panels<F: Float, N: Size>(
    x: &[F],
    packed: &mut [Vector<f32, N>],
    rows: usize,
    heads: usize,
    of_sequence: usize,
    strides: Strides,
    cores: usize,
    #[comptime] dim: usize,
    #[define(F)] _element: ElemType,
) {
    let width = N::value();
    let panels = rows.div_ceil(comptime!(2 * width));
    for at in range_stepped(ABSOLUTE_POS, panels * heads, cores) {
        let first = at % panels * comptime!(2 * width);
        let head = at / panels;
        let before = head_at(&strides, head / of_sequence, head % of_sequence);
        for d in 0..dim {
            #[unroll]
            for half in 0..2usize {
                let mut column = Vector::<f32, N>::new(0.0f32);
                #[unroll]
                for lane in 0..width {
                    let row = min(first + half * width + lane, rows - 1);
                    column.insert(lane, f32::cast_from(x[before + row * strides.row + d]));
                }
                packed[(at * dim + d) * 2 + half] = column;
            }
        }
    }
}

/// Rows in f32, filled up with zeros to `padded`.
#[cube(launch_unchecked)]
fn attention_pack_rows<F: Float>(
    x: &[F],
    packed: &mut [f32],
    rows: usize,
    of_head: usize,
    heads: usize,
    strides: Strides,
    cores: usize,
    #[comptime] dim: usize,
    #[comptime] padded: usize,
    #[define(F)] _element: ElemType,
) {
    for row in range_stepped(ABSOLUTE_POS, rows, cores) {
        let head = row / of_head;
        let from = head_at(&strides, head / heads, head % heads) + row % of_head * strides.row;
        for d in 0..dim {
            packed[row * padded + d] = f32::cast_from(x[from + d]);
        }
        for d in dim..padded {
            packed[row * padded + d] = 0.0f32;
        }
    }
}

/// Panels of k or v, whose rows have `dim` values.
pub(super) fn panels(client: &Client, plan: &Plan, x: &Strided, dim: usize) -> Handle {
    let (p, s, width) = (&plan.problem, plan.problem.sizes(), plan.register);
    let keys = s.keys.next_multiple_of(2 * width);
    let words = s.batch * s.kv_heads * keys * dim;
    let packed = empty_words(client, words);
    if words == 0 {
        return packed;
    }
    let (x, of_x) = elements(plan, x, dim, &packed);
    launched::note(|| name(p, "attention_cpu"));
    // SAFETY: the buffers hold the rows and their panels; rows past the last repeat it.
    unsafe {
        attention_pack_panels::launch_unchecked(
            client,
            CubeCount::Static(1, 1, 1),
            CubeDim::new_1d(plan.cores as u32),
            width,
            x,
            bind(packed.clone()),
            s.keys,
            s.batch * s.kv_heads,
            s.kv_heads,
            of_x,
            plan.cores,
            dim,
            p.element().elem_type(),
        );
    }
    packed
}

/// k or v, whose rows have `dim` values, as elements.
fn elements(plan: &Plan, x: &Strided, dim: usize, other: &Handle) -> (BufferArg, StridesLaunch) {
    let s = plan.problem.sizes();
    let shape = [s.batch, s.kv_heads, s.keys, dim];
    x.bind(shape, 1, plan.problem.element().bytes(), other)
}

/// Rows of k or v, of `dim` values, as f32s to whole pairs of registers: the tensor itself where it is that.
pub(super) fn rows(client: &Client, plan: &Plan, x: &Strided, dim: usize, padded: usize) -> Handle {
    let p = &plan.problem;
    if p.element() == Element::F32 && padded == dim && x.strides.is_none() {
        return x.buffer.clone();
    }
    let words = p.key_rows() * padded;
    let packed = empty_words(client, words);
    if words == 0 {
        return packed;
    }
    let (x, of_x) = elements(plan, x, dim, &packed);
    launched::note(|| name(p, "attention_cpu"));
    // SAFETY: the buffers hold the rows, as they are and filled up.
    unsafe {
        attention_pack_rows::launch_unchecked(
            client,
            CubeCount::Static(1, 1, 1),
            CubeDim::new_1d(plan.cores as u32),
            x,
            bind(packed.clone()),
            p.key_rows(),
            p.sizes().keys,
            p.sizes().kv_heads,
            of_x,
            plan.cores,
            dim,
            padded,
            p.element().elem_type(),
        );
    }
    packed
}

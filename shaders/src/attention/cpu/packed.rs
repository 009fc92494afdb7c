//! Keys and values as the register tile reads them: keys in panels of two registers (their transpose, as the grouped GEMM packs
//! weights), rows as f32s up to whole pairs of registers.

use crate::attention::{Plan, name};
use crate::bound::{bind, bind_words};
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
    cores: usize,
    #[comptime] dim: usize,
    #[define(F)] _element: ElemType,
) {
    let width = N::value();
    let panels = rows.div_ceil(comptime!(2 * width));
    for at in range_stepped(ABSOLUTE_POS, panels * heads, cores) {
        let first = at % panels * comptime!(2 * width);
        let before = at / panels * rows;
        for d in 0..dim {
            #[unroll]
            for half in 0..2usize {
                let mut column = Vector::<f32, N>::new(0.0f32);
                #[unroll]
                for lane in 0..width {
                    let row = min(first + half * width + lane, rows - 1);
                    column.insert(lane, f32::cast_from(x[(before + row) * dim + d]));
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
    cores: usize,
    #[comptime] dim: usize,
    #[comptime] padded: usize,
    #[define(F)] _element: ElemType,
) {
    for row in range_stepped(ABSOLUTE_POS, rows, cores) {
        for d in 0..dim {
            packed[row * padded + d] = f32::cast_from(x[row * dim + d]);
        }
        for d in dim..padded {
            packed[row * padded + d] = 0.0f32;
        }
    }
}

/// f32s of the panels of k or v, whose rows have `dim` values.
pub(super) fn panel_words(plan: &Plan, dim: usize) -> usize {
    let s = plan.problem.sizes();
    let keys = s.keys.next_multiple_of(2 * plan.register);
    s.batch * s.kv_heads * keys * dim
}

/// Panels of k or v.
pub(super) fn panels(client: &Client, plan: &Plan, x: Handle, dim: usize) -> Handle {
    let (p, s, width) = (&plan.problem, plan.problem.sizes(), plan.register);
    let words = panel_words(plan, dim);
    let packed = client.empty((words * 4).max(4));
    if words == 0 {
        return packed;
    }
    // SAFETY: the buffers hold the rows and their panels; rows past the last repeat it.
    unsafe {
        launched::note(|| name(p, "attention_cpu"));
        attention_pack_panels::launch_unchecked(
            client,
            CubeCount::Static(1, 1, 1),
            CubeDim::new_1d(plan.cores as u32),
            width,
            bind(x, p.key_rows() * dim, p.element().bytes()),
            bind(packed.clone(), words / width, 4 * width),
            s.keys,
            s.batch * s.kv_heads,
            plan.cores,
            dim,
            p.element().elem_type(),
        );
    }
    packed
}

/// Rows of k or v, of `dim` values, as f32s to whole pairs of registers: the tensor itself where it is that.
pub(super) fn rows(
    client: &Client,
    plan: &Plan,
    x: Handle,
    (dim, padded): (usize, usize),
) -> Handle {
    let p = &plan.problem;
    if p.element() == Element::F32 && padded == dim {
        return x;
    }
    let words = p.key_rows() * padded;
    let packed = client.empty((words * 4).max(4));
    if words == 0 {
        return packed;
    }
    // SAFETY: the buffers hold the rows, as they are and filled up.
    unsafe {
        launched::note(|| name(p, "attention_cpu"));
        attention_pack_rows::launch_unchecked(
            client,
            CubeCount::Static(1, 1, 1),
            CubeDim::new_1d(plan.cores as u32),
            bind(x, p.key_rows() * dim, p.element().bytes()),
            bind_words(packed.clone(), words),
            p.key_rows(),
            plan.cores,
            dim,
            padded,
            p.element().elem_type(),
        );
    }
    packed
}

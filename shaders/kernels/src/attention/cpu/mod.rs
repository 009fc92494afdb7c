//! The `cpu` variant: one task per core, no barriers, no workgroup memory.
//!
//! | file | what |
//! |---|---|
//! | `packed.rs` | keys as panels of two registers, rows as f32s |
//! | `product.rs` | the register tile that both passes are made of |
//! | `forward.rs` | o and lse |
//! | `backward.rs` | dq, dk and dv |
//!
//! A row's sums take what they meet in ascending order, whatever rows are beside it.

mod backward;
mod forward;
mod packed;
mod product;

pub(super) use backward::launch as launch_backward;
pub(super) use forward::launch;

use super::{Form, Plan};
use std::ops::Range;

/// Query rows of a block: enough for a tile of keys and values to pay for its way into the cache.
const ROWS: usize = 96;

/// Rows of the register tile, as in the grouped GEMM.
const STRIP: usize = 6;

/// The rows of row `row`'s block, and of its strip, of so many rows of a key head.
pub(super) fn shared_with(row: usize, rows: usize) -> [Range<usize>; 2] {
    let block = row / ROWS * ROWS;
    let strip = block + (row - block) / STRIP * STRIP;
    [
        block..(block + ROWS).min(rows),
        strip..(strip + STRIP).min(rows),
    ]
}

/// Keys of a tile.
pub(super) fn tile_keys(plan: &Plan) -> usize {
    Spec::of(plan).tile
}

/// What the kernels are specialised on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Spec {
    form: Form,
    head_dim: usize,
    value_dim: usize,
    /// f32s of a row of keys and of values, up to whole pairs of registers.
    padded_head: usize,
    padded_value: usize,
    /// Keys of a tile: with their values they fit the nearest cache.
    tile: usize,
}

impl Spec {
    fn of(plan: &Plan) -> Self {
        let (s, pair) = (plan.problem.sizes(), 2 * plan.register);
        let narrow = s.head_dim.max(s.value_dim) <= 64;
        Self {
            form: plan.form(),
            head_dim: s.head_dim,
            value_dim: s.value_dim,
            padded_head: s.head_dim.next_multiple_of(pair),
            padded_value: s.value_dim.next_multiple_of(pair),
            tile: if narrow { 64 } else { 32 },
        }
    }
}

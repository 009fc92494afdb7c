//! How CubeCL computes [`moebius_ops::quantize`].
//!
//! [`launch`] takes one launch if a cube (on a CPU: one unit) can own a block; it then reads x twice, the second time from a
//! cache. Few large blocks, and blocks whose columns end inside words, take at most three launches: largest magnitudes of parts,
//! then of blocks, then codes. The maximum of integers doesn't depend on the order, so the same x gives the same bits everywhere,
//! except for the rounding of divisions. No atomics are used.

mod amax;
mod apply;
mod block;
#[cfg(feature = "emit")]
mod entries;
mod plan;
mod word;

pub(crate) use word::{e8m0_scale, magnitude};

pub use amax::{Reduction, launch_amax, plan_amax};
pub use apply::{launch_by, launch_dequantize};
pub use block::launch;
#[cfg(feature = "emit")]
pub use entries::entries;
pub use plan::{Plan, check_kept, plan};

use crate::prelude::*;
use cubecl::prelude::*;
use moebius_ops::fp8::{LANES_PER_WORD, Overflow};
use moebius_ops::quantize::Problem;
use moebius_ops::scaling::Granularity;

const KERNEL: &str = "fp8_quantize";

/// Sizes given at launch.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
struct Sizes {
    rows: usize,
    columns: usize,
    /// Words per row.
    row_words: usize,
    /// Rows, columns and words per block.
    block_rows: usize,
    block_columns: usize,
    block_words: usize,
    /// Blocks of a matrix, down and across, the latter with and without those that pad a word of scales.
    down: usize,
    across: usize,
    padded: usize,
    /// Rows of blocks in all matrices.
    lines: usize,
}

buffers! {
    /// Buffers of a quantisation or a dequantisation.
    pub struct Buffers {
        /// Values \[M, rows, columns\]: x, read, or y, written by a dequantisation.
        pub values: Handle = "x" | "y",
        /// Words of the codes \[M, rows, ⌈columns/4⌉\], written, or read by a dequantisation.
        pub words: Handle = "codes",
        /// Scales in the shape [`Problem::scales_shape`], written unless they are given.
        pub scales: Handle,
    }
}

fn name(problem: &Problem, kernel: &str, kind: &str) -> String {
    let mode = launched::suffix(problem.overflow() == Overflow::Ieee, "_ieee");
    let format = problem.format().name();
    format!("{kernel}_{format}{mode}_{}{kind}", problem.element())
}

fn quantize_name(problem: &Problem) -> String {
    const LARGE: Granularity = Granularity::of_blocks(128, 128);
    let kind = match problem.granularity() {
        Granularity::Mx => "_mx",
        LARGE => "_block128",
        _ => "",
    };
    name(problem, "fp8_quantize", kind)
}

fn apply_kind(problem: &Problem) -> &'static str {
    match problem.granularity() {
        Granularity::Mx => "_mx",
        _ => launched::suffix(problem.cuts_words(), "_cut"),
    }
}

fn quantize_by_name(problem: &Problem) -> String {
    name(problem, "fp8_quantize_by", apply_kind(problem))
}

/// The name of the dequantisation kernel; decoding doesn't depend on the overflow mode.
fn dequantize_name(problem: &Problem) -> String {
    let saturating = problem.with_overflow(Overflow::Saturate);
    name(&saturating, "fp8_dequantize", apply_kind(problem))
}

fn sizes(problem: &Problem) -> SizesLaunch {
    let [matrices, rows, columns] = problem.shape();
    let [block_rows, block_columns] = problem.block();
    let [down, across] = problem.blocks();
    SizesLaunch::new(
        rows,
        columns,
        columns.div_ceil(LANES_PER_WORD),
        block_rows,
        block_columns,
        block_columns.div_ceil(LANES_PER_WORD),
        down,
        across,
        problem.padded_across(),
        matrices * down,
    )
}

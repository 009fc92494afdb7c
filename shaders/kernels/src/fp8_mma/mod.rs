//! How CubeCL computes [`moebius_ops::fp8_mma`]: `mma.m16n8k32` multiplies codes exactly and sums in f32.
//!
//! [Unproven](crate#unproven): the kernel compiles for sm_89 and newer, and an H100 and an H200 are the only such GPUs that have run it.
//! [`plan()`] refuses it unless allowed, and nothing chooses it automatically. Only CubeCL's CUDA C++ compiler supports it. The
//! kernel contains the instruction as text, because CubeCL 0.11.3 spells FP8 products `.kind::f8f6f4`, which ptxas accepts for
//! sm_120a but neither for sm_89 nor sm_90. Source: PTX ISA, "Matrix fragments for mma.m16n8k32". x is read ⌈n/64⌉ times, and W
//! once per 64 rows, through the caches.

#[cfg(feature = "emit")]
mod entries;
mod kernel;

#[cfg(feature = "emit")]
pub use entries::entries;
pub use kernel::launch;

use crate::grouped_gemm::{Segments, max_tiles, rows_name};
use crate::prelude::*;
use moebius_device::Runtime;
use moebius_ops::fp8::Fp8Format;
use moebius_ops::fp8_mma::{Problem, STEP};
use moebius_ops::grouped_gemm::fp8::{PANEL, expert_words, scale_words};

const KERNEL: &str = "fp8_mma";

/// Rows per tile of a cube; the sort must cut segments into tiles of this size.
pub const TILE_ROWS: usize = 64;

/// Planes per cube, with 16 rows each, and units per plane.
const PLANES: usize = TILE_ROWS / 16;

const PLANE: u32 = 32;

fn name(problem: &Problem) -> String {
    let [of_x, of_w] = [problem.x, problem.w].map(|codes| codes.format.name());
    let formats = if of_x == of_w {
        of_x.to_owned()
    } else {
        format!("{of_x}_{of_w}")
    };
    let (scales, rows) = (problem.w.granularity.name(), rows_name(&problem.product));
    let bias = launched::suffix(problem.product.bias, "_bias");
    format!("fp8_gemm_mma_{formats}_{scales}_{rows}{bias}")
}

/// A [`Problem`], planned for a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The problem.
    pub problem: Problem,
}

impl Plan {
    /// The number of tiles of the worst routing.
    pub fn max_tiles(&self) -> usize {
        max_tiles(&self.problem.product, TILE_ROWS)
    }

    /// Cubes along x, one per tile of rows, and along y, one per panel of columns.
    fn cubes(&self) -> [usize; 2] {
        [self.max_tiles(), self.problem.product.n.div_ceil(PANEL)]
    }
}

buffers! {
    /// Buffers of one product of codes.
    pub struct Operands {
        pub x: Handle => "[T or R, ⌈k/4⌉]" read: "codes",
        pub x_scales: Handle => "f32" read,
        /// The segments of the experts, read; absent in a dense product. Tiles have [`TILE_ROWS`] rows.
        pub segments: Option<Segments> = "offsets",
        pub weights: Handle = "codes" => "panels of codes" read,
        pub w_scales: Handle = "scales" => "f32" read,
        pub bias: Option<Handle> = "b" => "[E, n] f32" read: "present when the problem has a bias",
        pub out: Handle = "y" => "[R, n] f32" written,
    }
}

/// Plans `problem` on `device`.
///
/// # Errors
/// [`Unsupported`] unless `allow_unproven`; without FP8 instructions of 16 × 8 × 32 in CubeCL's CUDA C++ compiler (its LLVM
/// compiler has none); and for buffers or grids beyond the device's limits.
pub fn plan(
    problem: Problem,
    device: &Capability,
    allow_unproven: bool,
) -> Result<Plan, Unsupported> {
    let has = |format: Fp8Format| device.has_mma((16, 8, 32), input(format), "f32");
    let instructions = has(problem.x.format) && has(problem.w.format);
    let planes = device.runtime == Runtime::Cuda && device.subgroup == Some((PLANE, PLANE));
    let needs = "16 x 8 x 32 FP8 matrix instructions through the CUDA C++ compiler";
    let have = format_args!("{} without them", device.name);
    Unsupported::unless(instructions && planes, KERNEL, needs, have)?;
    let needs = "leave to use an unproven kernel";
    let have = format_args!("{} and no such leave", device.name);
    Unsupported::unless(allow_unproven, KERNEL, needs, have)?;
    let p = &problem.product;
    let [down, across] = problem.x_scale_shape();
    let words = [
        p.input_rows() * problem.row_words(),
        down * across,
        p.experts * expert_words(p),
        scale_words(p),
        p.row_bound * p.n,
    ];
    for words in words {
        crate::fits_binding(KERNEL, words * 4, device)?;
    }
    let plan = Plan { problem };
    let ([x, y], limits) = (plan.cubes(), device.limits);
    let units = PLANE * PLANES as u32;
    let [most_x, most_y, _] = limits.max_cube_count;
    let most = limits.max_units_per_cube;
    let fits = x <= most_x as usize && y <= most_y as usize && units <= most;
    let needs = format_args!("{x} x {y} cubes of {units} units");
    let have = format_args!("{most_x} x {most_y} of {most}");
    Unsupported::unless(fits, KERNEL, needs, have)?;
    Ok(plan)
}

/// The name of a format in [`Capability::mma`] and in PTX.
const fn input(format: Fp8Format) -> &'static str {
    match format {
        Fp8Format::E4M3 => "e4m3",
        Fp8Format::E5M2 => "e5m2",
    }
}

#[cfg(test)]
mod tests;

//! W8A8 with FP8 matrix instructions: codes of x times codes of W, without decoding either.
//!
//! out\[r\] = Σ_k (sx · x_k) · (sw · w_k), where x and w are FP8 codes and sx, sw their scales; rows and
//! experts as in [`grouped_gemm`], panels of W as in [`grouped_gemm::fp8`]. `mma.m16n8k32` multiplies
//! codes exactly and sums in f32, 128 inner columns at most: those sums are added in f32 outside the
//! instruction (Hopper's keeps some 14 bits of a sum), times their scales where scales change along
//! k. Other scales multiply once, at the end.
//!
//! Shapes: x u32 \[T or R, ⌈k/4⌉\], four codes along k to a word, missing ones zero codes; its scales f32
//! as [`Granularity`] has them for \[T or R, k\]; W panels \[E, 1, ⌈n/64⌉, ⌈k/4⌉, 64\], its scales f32; out
//! \[R, n\] f32. A block of scales has a multiple of 32 inner columns, those of one instruction, or all.
//! Rows no slot is sorted to are left as they are. The hardware chooses the order of a sum.
//!
//! [Unproven](crate#unproven): it compiles for sm_89 and newer and has run on no such GPU, so [`plan()`] refuses it
//! unless asked, and nothing chooses it. Only CubeCL's CUDA C++ compiler has it. The instruction is
//! written out, because CubeCL 0.11.3 spells FP8 products `.kind::f8f6f4`, which ptxas takes for
//! sm_120a but neither for sm_89 nor sm_90. Sources: PTX ISA, "Matrix fragments for mma.m16n8k32";
//! sums of 128 columns as in DeepSeek-V3, 3.3.2.
//!
//! FLOPs 2·R·n·k. Bytes at least R·k + E·n·k + 4·R·n; x is read ⌈n/64⌉ times and W once for 64 rows,
//! through the caches.

#[cfg(feature = "emit")]
mod entries;
mod kernel;
mod oracle;

#[cfg(feature = "emit")]
pub(crate) use entries::entries;
pub use kernel::launch;
pub use oracle::reference;

use crate::element::Element;
use crate::error::{ShapeError, Unsupported};
use crate::fp8::{Fp8Format, LANES_PER_WORD};
use crate::grouped_gemm::fp8::{PANEL, expert_words, scale_words};
use crate::grouped_gemm::{self, Fp8Weights, Segments, Source, WeightLayout};
use crate::permute;
use crate::scaling::Granularity;
use cubecl::server::Handle;
use moebius_device::{Capability, Runtime};

const KERNEL: &str = "fp8_mma";

/// Rows of a cube's tile, which the sort must cut segments into.
pub const TILE_ROWS: usize = 64;
/// Inner columns of one instruction.
const STEP: usize = 32;
/// The most inner columns that are summed by instructions alone.
const PROMOTED: usize = 128;
/// Planes of a cube, 16 rows each, and the units of a plane.
const PLANES: usize = TILE_ROWS / 16;
const PLANE: u32 = 32;

/// One product of codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Rows, experts and sizes, and what the codes of W are.
    pub product: grouped_gemm::Problem,
    /// What the codes of x are; the formats may differ.
    pub x: Fp8Weights,
    /// What the codes of W are.
    pub w: Fp8Weights,
}

impl Problem {
    /// `product`, whose weights are codes, with rows that are codes as `x` says.
    ///
    /// # Errors
    /// [`ShapeError`] for weights that aren't codes in \[E, n, k\], a product that is more than one
    /// (gate, bias, activation) or not f32, MX scales, or scale blocks that cut the inner columns of
    /// an instruction.
    pub fn new(product: grouped_gemm::Problem, x: Fp8Weights) -> Result<Self, ShapeError> {
        let refuse = |expected: &str, got: String| Err(ShapeError::new(KERNEL, expected, got));
        let Some(w) = product
            .fp8
            .filter(|_| product.layout == WeightLayout::OutIn)
        else {
            return refuse("weights as codes of [E, n, k]", format!("{product:?}"));
        };
        let plain = !product.gated && !product.bias && product.activation.is_none();
        if !plain || product.element != Element::F32 {
            return refuse("a plain product into f32", format!("{product:?}"));
        }
        for codes in [x, w] {
            let whole = match codes.granularity {
                Granularity::Tensor | Granularity::Row => true,
                Granularity::Mx => false,
                Granularity::Block { rows, columns } => {
                    let steps = columns.is_multiple_of(STEP) || columns >= product.k;
                    rows > 0 && columns > 0 && steps
                }
            };
            if !whole {
                let expected = "f32 scales of rows or of blocks of a multiple of 32 inner columns";
                return refuse(expected, format!("{:?}", codes.granularity));
            }
        }
        Ok(Self { product, x, w })
    }

    /// What its kernel is called.
    fn name(&self) -> String {
        let [x, w] = [self.x, self.w].map(|codes| codes.format.name());
        let formats = if x == w {
            x.to_owned()
        } else {
            format!("{x}_{w}")
        };
        let rows = match self.product.rows {
            _ if self.product.dense => "dense",
            Source::Tokens => "gather",
            Source::Sorted => "sorted",
        };
        format!(
            "fp8_gemm_mma_{formats}_{}_{rows}",
            self.w.granularity.name()
        )
    }

    /// Words of a row of x, and of a column of W.
    pub fn row_words(&self) -> usize {
        self.product.k.div_ceil(LANES_PER_WORD)
    }

    /// Scales of x, down and across.
    pub fn x_scale_shape(&self) -> [usize; 2] {
        let (rows, k) = (self.product.input_rows(), self.product.k);
        self.x.granularity.scale_shape(rows, k)
    }

    /// Whether a scale changes along k.
    fn scales_along_k(&self) -> bool {
        [self.x, self.w]
            .iter()
            .any(|codes| self.along_k(*codes).is_some())
    }

    /// Inner columns under one scale, where they are fewer than all.
    fn along_k(&self, codes: Fp8Weights) -> Option<usize> {
        match codes.granularity {
            Granularity::Block { columns, .. } => Some(columns).filter(|c| *c < self.product.k),
            _ => None,
        }
    }

    /// Inner columns whose sums are added at once: under one scale of x and one of W, at most 128.
    fn segment(&self) -> usize {
        let columns = [self.x, self.w].map(|codes| self.along_k(codes).unwrap_or(PROMOTED));
        columns.into_iter().fold(PROMOTED, greatest_common_divisor)
    }
}

fn greatest_common_divisor(a: usize, b: usize) -> usize {
    if b == 0 {
        a
    } else {
        greatest_common_divisor(b, a % b)
    }
}

/// A [`Problem`] this device can run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What is computed.
    pub problem: Problem,
}

impl Plan {
    /// Tiles of the worst routing.
    pub fn max_tiles(&self) -> usize {
        let p = &self.problem.product;
        if p.dense {
            return p.row_bound.div_ceil(TILE_ROWS);
        }
        permute::Problem::new(p.row_bound, p.experts, TILE_ROWS).map_or(0, |sort| sort.max_tiles())
    }

    /// Cubes along x and y: one tile of rows each, a panel of columns each.
    fn cubes(&self) -> [usize; 2] {
        [self.max_tiles(), self.problem.product.n.div_ceil(PANEL)]
    }
}

/// Buffers of one product of codes.
#[derive(Clone)]
pub struct Operands {
    /// Codes \[T or R, ⌈k/4⌉\], read.
    pub x: Handle,
    /// f32, read.
    pub x_scales: Handle,
    /// Read; absent in a dense product. Its tiles are of [`TILE_ROWS`] rows.
    pub segments: Option<Segments>,
    /// Panels of codes, read.
    pub weights: Handle,
    /// f32, read.
    pub w_scales: Handle,
    /// \[R, n\] f32, written.
    pub out: Handle,
}

/// Plans `problem` on `device`.
///
/// # Errors
/// [`Unsupported`] unless `allow_unproven`, without FP8 instructions of 16 × 8 × 32 in CubeCL's CUDA
/// C++ compiler (its LLVM compiler has none), and for buffers or grids beyond the device's limits.
pub fn plan(
    problem: Problem,
    device: &Capability,
    allow_unproven: bool,
) -> Result<Plan, Unsupported> {
    let refuse = |needs: &str, have: String| Err(Unsupported::new(KERNEL, needs, have));
    let has = |format: Fp8Format| device.has_mma((16, 8, 32), input(format), "f32");
    let instructions = has(problem.x.format) && has(problem.w.format);
    if device.runtime != Runtime::Cuda || !instructions || device.subgroup != Some((PLANE, PLANE)) {
        let needs = "16 x 8 x 32 FP8 matrix instructions through the CUDA C++ compiler";
        return refuse(needs, format!("{} without them", device.name));
    }
    if !allow_unproven {
        let needs = "leave to use a kernel that has never run on its hardware";
        return refuse(needs, format!("{} and no such leave", device.name));
    }
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
    if x > most_x as usize || y > most_y as usize || units > limits.max_units_per_cube {
        let have = format!("{most_x} x {most_y} of {}", limits.max_units_per_cube);
        return refuse(&format!("{x} x {y} cubes of {units} units"), have);
    }
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
mod tests {
    use super::*;
    use moebius_device::profiles;

    fn codes(granularity: Granularity) -> Fp8Weights {
        Fp8Weights {
            format: Fp8Format::E4M3,
            granularity,
        }
    }

    const fn block(rows: usize, columns: usize) -> Granularity {
        Granularity::Block { rows, columns }
    }

    fn problem(x: Granularity, w: Granularity) -> Result<Problem, ShapeError> {
        let product = grouped_gemm::Problem {
            fp8: Some(codes(w)),
            ..grouped_gemm::Problem::dense(100, 70, 500)?
        };
        Problem::new(product, codes(x))
    }

    #[test]
    fn only_who_asks_gets_it_and_only_where_it_compiles() {
        let problem = problem(Granularity::Row, Granularity::Row).unwrap();
        for device in [profiles::h100(), profiles::l4()] {
            assert!(plan(problem, &device, true).is_ok(), "{}", device.name);
            let refused = plan(problem, &device, false).unwrap_err();
            assert!(refused.needs.contains("never run"), "{refused}");
        }
        let mut vulkan = profiles::h100();
        vulkan.runtime = Runtime::Vulkan;
        let mut llvm = profiles::h100();
        llvm.mma.retain(|shape| shape.input != "e4m3");
        let others = [
            profiles::a100(),
            profiles::mi300x(),
            profiles::rdna4(),
            profiles::apple_m(),
            profiles::lavapipe(),
            profiles::webgpu_default(),
            profiles::cpu_2core_avx512(),
            vulkan,
            llvm,
        ];
        for device in others {
            let refused = plan(problem, &device, true).unwrap_err();
            assert!(refused.needs.contains("16 x 8 x 32"), "{refused}");
        }
    }

    #[test]
    fn limits_are_refused() {
        let problem = problem(Granularity::Row, Granularity::Row).unwrap();
        let mut small = profiles::h100();
        small.limits.max_cube_count[1] = 1;
        assert!(
            plan(problem, &small, true)
                .unwrap_err()
                .needs
                .contains("2 x 2 cubes")
        );
        let mut small = profiles::h100();
        small.limits.max_binding_bytes = 128 * 500 - 1;
        assert!(
            plan(problem, &small, true).is_err(),
            "panels of 128 columns"
        );
    }

    #[test]
    fn sums_end_where_scales_do() {
        let segment = |x, w| problem(x, w).map(|p| (p.segment(), p.scales_along_k()));
        assert_eq!(
            segment(Granularity::Row, Granularity::Tensor),
            Ok((128, false))
        );
        assert_eq!(segment(block(1, 128), block(128, 128)), Ok((128, true)));
        assert_eq!(segment(block(1, 128), Granularity::Row), Ok((128, true)));
        assert_eq!(segment(block(1, 128), block(64, 96)), Ok((32, true)));
        assert_eq!(segment(Granularity::Row, block(1, 256)), Ok((128, true)));
        assert_eq!(segment(block(1, 512), block(1, 501)), Ok((128, false)));
    }

    #[test]
    fn what_the_instructions_cannot_do_is_refused() {
        for bad in [Granularity::Mx, block(1, 48), block(0, 32), block(1, 0)] {
            assert!(problem(bad, Granularity::Row).is_err(), "x {bad:?}");
            assert!(problem(Granularity::Row, bad).is_err(), "w {bad:?}");
        }
        let plain = problem(Granularity::Row, Granularity::Row).unwrap().product;
        let others = [
            grouped_gemm::Problem { fp8: None, ..plain },
            grouped_gemm::Problem {
                bias: true,
                ..plain
            },
            grouped_gemm::Problem {
                gated: true,
                ..plain
            },
            grouped_gemm::Problem {
                element: Element::F16,
                ..plain
            },
            grouped_gemm::Problem {
                layout: WeightLayout::InOut,
                ..plain
            },
        ];
        for product in others {
            assert!(Problem::new(product, codes(Granularity::Row)).is_err());
        }
    }
}

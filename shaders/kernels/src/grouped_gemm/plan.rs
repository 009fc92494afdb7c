//! Which variant runs a grouped GEMM on which device, with what tiles.

use super::fragments::Fragments;
use super::tile::TileShape;
use super::{KERNEL, Problem, WeightLayout, cpu, naive, tensor_core};
use crate::fp8::Conversion;
use crate::prelude::*;
use serde::Serialize;

moebius_ops::named! {
    /// How a grouped GEMM is computed.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Variant {
        /// Register tile over tiles in workgroup memory; WebGPU's default limits suffice.
        Unit = "unit",
        /// The tiles of `unit` with four rows to a tile, for few tokens per expert.
        Gemv = "gemv",
        /// One task per core: weights packed into panels, a register tile, no barriers.
        Cpu = "cpu",
        /// Matrix-multiply-accumulate instructions on tiles of 16 × 16 × 16 or 8 × 8 × 8. Unproven.
        TensorCore = "tensor_core",
        /// One unit per output: the baseline that benchmarks compare with.
        Naive = "naive",
    }
}

impl Variant {
    /// Whether a plan may choose the variant by itself; if not, it is unproven as the
    /// [crate's documentation](crate#unproven) has it.
    pub fn proven(self) -> bool {
        self != Self::TensorCore
    }

    /// The fastest without matrix instructions, for at most `rows` sorted rows.
    pub fn portable(rows: usize, experts: usize, device: &Capability) -> Self {
        if device.cpu_cores.is_some() {
            return Self::Cpu;
        }
        if rows <= experts * GEMV_ROWS_PER_EXPERT {
            return Self::Gemv;
        }
        Self::Unit
    }

    /// The variant that is named, or the portable one.
    pub fn or_portable(
        named: Option<Self>,
        rows: usize,
        experts: usize,
        device: &Capability,
    ) -> Self {
        named.unwrap_or_else(|| Self::portable(rows, experts, device))
    }

    /// Rows per tile the sort must cut segments into; both products of an expert share one list of tiles.
    pub fn tile_rows(self) -> usize {
        match self {
            Self::Unit => TileShape::UNIT.rows(),
            Self::Gemv => TileShape::GEMV.rows(),
            Self::Cpu => cpu::ROWS,
            Self::TensorCore => tensor_core::ROWS,
            Self::Naive => 1,
        }
    }
}

/// What the caller wants of the choice of variant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// This one, or an error; `None` leaves it to the plan.
    pub variant: Option<Variant>,
    /// The plan may choose variants that are [unproven](crate#unproven).
    pub allow_unproven: bool,
}

impl Choice {
    /// `variant`, or an error, unproven or not.
    pub const fn of(variant: Variant) -> Self {
        Self {
            variant: Some(variant),
            allow_unproven: true,
        }
    }

    /// Whether the plan may choose `variant` by itself.
    pub(super) fn may_take(self, variant: Variant) -> bool {
        variant.proven() || self.allow_unproven
    }
}

/// A range of experts whose weights are bound together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slab {
    /// First expert.
    pub first: u32,
    /// One past the last expert.
    pub last: u32,
}

/// A [`Problem`] this device can run, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What is computed.
    pub problem: Problem,
    /// How.
    pub variant: Variant,
    /// Elements per vector load along k (GPU), or per register (CPU).
    pub lanes: usize,
    /// Tile of the `Unit` and `Gemv` variants.
    pub tile: TileShape,
    /// Weights bound per launch.
    pub slabs: Vec<Slab>,
    /// Parallel tasks of the `Cpu` variant.
    pub cores: usize,
    /// The device's matrix instructions, for the `TensorCore` variant.
    pub(super) fragments: Option<Fragments>,
    pub(super) conversion: Conversion,
}

impl Plan {
    /// Decodes codes so.
    ///
    /// # Errors
    /// As [`Conversion::supported`], and for the `Cpu` and `Naive` variants, which have integer arithmetic only.
    pub fn by(self, conversion: Conversion, device: &Capability) -> Result<Self, Unsupported> {
        conversion.supported(KERNEL, device)?;
        let arithmetic = matches!(self.variant, Variant::Cpu | Variant::Naive);
        let can = conversion == Conversion::Bits || !arithmetic;
        let needs = "a variant that decodes by instructions";
        Unsupported::unless(can, KERNEL, needs, self.variant.name())?;
        Ok(Self { conversion, ..self })
    }

    /// Rows per tile the sort must cut segments into.
    pub fn tile_rows(&self) -> usize {
        self.variant.tile_rows()
    }

    /// Tiles of the worst routing.
    pub fn max_tiles(&self) -> usize {
        super::max_tiles(&self.problem, self.tile_rows())
    }

    /// Cubes along x, of a tile of rows each, and along y, of a block of columns each.
    pub(super) fn cubes(&self) -> [usize; 3] {
        let columns = match self.variant {
            Variant::Cpu => return [1; 3],
            Variant::Unit | Variant::Gemv => self.tile.columns(),
            Variant::TensorCore => tensor_core::COLUMNS,
            Variant::Naive => naive::UNITS as usize,
        };
        [self.max_tiles(), self.problem.n.div_ceil(columns), 1]
    }

    /// Launches this plan enqueues.
    pub fn launches(&self) -> usize {
        launches(self.problem.row_bound, &self.slabs)
    }
}

/// Rows per expert up to which [`Variant::Gemv`] wastes fewer rows than [`Variant::Unit`].
const GEMV_ROWS_PER_EXPERT: usize = 4;

/// Plans `problem` on `device`.
///
/// # Errors
/// [`PlanError`] with the size that is wrong, or what the variant needs and what the device has: element type, workgroup
/// size and memory, bindings, a single expert larger than a binding, or gated weights of
/// [`WeightLayout::InOut`].
pub fn plan(problem: Problem, device: &Capability, choice: Choice) -> Result<Plan, PlanError> {
    // Without rows nothing is launched.
    if problem.row_bound > 0 {
        problem.check()?;
    }
    problem.element.supported(KERNEL, device)?;
    let variant = match choice.variant {
        Some(variant) => variant,
        None => best_variant(&problem, device, choice),
    };
    let tile = match variant {
        Variant::Gemv => TileShape::GEMV,
        _ => TileShape::UNIT,
    };
    check_variant(variant, &problem, &tile, device)?;
    let fragments = match variant {
        Variant::TensorCore => Some(tensor_core::supported(&problem, device)?),
        _ => None,
    };
    let bytes = problem.element.bytes();
    crate::fits_binding(KERNEL, problem.input_rows() * problem.k * bytes, device)?;
    crate::fits_binding(KERNEL, problem.row_bound * problem.n * bytes, device)?;
    let lanes = match variant {
        Variant::Cpu => (device.load_width_bits as usize / 32).max(1),
        Variant::Naive => 1,
        _ if lanes(problem.k, 4, device).is_multiple_of(4) => 4,
        _ => 1,
    };
    let (elements, of_element) = problem.expert_elements();
    let plan = Plan {
        slabs: slabs(KERNEL, problem.experts, elements, of_element, device)?,
        cores: device.cpu_cores.unwrap_or(1) as usize,
        fragments,
        conversion: Conversion::Bits,
        problem,
        variant,
        lanes,
        tile,
    };
    crate::fits_grid(KERNEL, plan.cubes(), device)?;
    Ok(plan)
}

/// Plans `problem` over the tiles that `variant` has: those of matrix instructions are the `Unit` variant's, which takes what the
/// instructions don't.
///
/// # Errors
/// As [`plan`].
pub(crate) fn plan_over_tiles(
    problem: Problem,
    device: &Capability,
    variant: Variant,
) -> Result<Plan, PlanError> {
    let other = match variant {
        Variant::TensorCore => tensor_core::supported(&problem, device).is_err(),
        _ => false,
    };
    let variant = if other { Variant::Unit } else { variant };
    plan(problem, device, Choice::of(variant))
}

/// The fastest variant that is proven, or allowed, on this device.
fn best_variant(problem: &Problem, device: &Capability, choice: Choice) -> Variant {
    if choice.may_take(Variant::TensorCore) && tensor_core::supported(problem, device).is_ok() {
        return Variant::TensorCore;
    }
    Variant::portable(problem.row_bound, problem.experts, device)
}

fn check_variant(
    variant: Variant,
    problem: &Problem,
    tile: &TileShape,
    device: &Capability,
) -> Result<(), Unsupported> {
    let plain = problem.layout == WeightLayout::OutIn || !problem.gated;
    let needs = "weights of [E, 2n, k] for a gated product";
    Unsupported::unless(plain, KERNEL, needs, "weights of [E, k, n]")?;
    super::fp8::supported(problem, device)?;
    match variant {
        // Its own check finds the device's fragments.
        Variant::TensorCore => Ok(()),
        Variant::Cpu => {
            let needs = "a CPU runtime for the cpu variant";
            Unsupported::unless(device.cpu_cores.is_some(), KERNEL, needs, &device.name)
        }
        Variant::Unit | Variant::Gemv => {
            let memory = tile.shared_bytes(problem.parts());
            crate::fits_cube(KERNEL, tile.units(), memory, device)
        }
        // A CPU starts more tasks than it has cores.
        Variant::Naive if device.cpu_cores.is_none() => {
            crate::fits_cube(KERNEL, naive::UNITS, 0, device)
        }
        Variant::Naive => Ok(()),
    }
}

/// One for each slab, or none without rows.
pub(super) fn launches(rows: usize, slabs: &[Slab]) -> usize {
    if rows == 0 { 0 } else { slabs.len() }
}

/// Cuts `experts` experts into slabs whose weights, so many elements of so many bytes each, fit one
/// binding, at offsets a binding may start at.
pub(super) fn slabs(
    kernel: &'static str,
    experts: usize,
    elements: usize,
    bytes: usize,
    device: &Capability,
) -> Result<Vec<Slab>, Unsupported> {
    crate::fits_buffer(kernel, experts * elements * bytes, device)?;
    let limits = &device.limits;
    let (experts, elements) = (experts as u64, elements as u64);
    let expert = elements * bytes as u64;
    // Kernels index a slab with 32 bits.
    let most = (limits.max_binding_bytes / expert)
        .min(i32::MAX as u64 / elements)
        .min(experts);
    let aligned = |count: &u64| (count * expert).is_multiple_of(limits.binding_alignment.max(1));
    let per_slab = if most == experts {
        Some(experts)
    } else {
        (1..=most).rev().find(aligned)
    };
    let Some(per_slab) = per_slab else {
        let (largest, step) = (limits.max_binding_bytes, limits.binding_alignment);
        let of = "the weights of one expert";
        let (needs, have) = match most {
            0 => (
                format!("a binding of {expert} bytes for {of}"),
                format!("bindings of at most {largest} bytes"),
            ),
            _ => (
                format!("bindings that start at multiples of {expert} bytes, {of}"),
                format!("bindings that start at multiples of {step} bytes"),
            ),
        };
        return Err(Unsupported::new(kernel, needs, have));
    };
    let slab = |first: u64| Slab {
        first: first as u32,
        last: (first + per_slab).min(experts) as u32,
    };
    Ok((0..experts).step_by(per_slab as usize).map(slab).collect())
}

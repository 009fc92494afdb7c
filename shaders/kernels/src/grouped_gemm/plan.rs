//! The choice of a variant, tiles and slabs of a grouped GEMM for a device.

use super::fragments::Fragments;
use super::pipeline::{self, Pipeline};
use super::tile::TileShape;
use super::{KERNEL, Problem, Stored, WeightLayout, cpu, naive, pipelined, tensor_core};
use crate::fp8::Conversion;
use crate::prelude::*;
use crate::rounds::{fits_rounds, looped};
use moebius_device::{Runtime, Vendor};
use serde::Serialize;

moebius_ops::named! {
    /// The method of a grouped GEMM.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Variant {
        /// A register tile over tiles in workgroup memory; needs only WebGPU's default limits.
        Unit = "unit",
        /// Like `unit` with four rows per tile, for few tokens per expert.
        Gemv = "gemv",
        /// One task per core: weights packed into panels, a register tile, no barriers.
        Cpu = "cpu",
        /// Matrix instructions on fragments of 16 × 16 × 16 or 8 × 8 × 8. Unproven but on NVIDIA's cards.
        TensorCore = "tensor_core",
        /// Matrix instructions of NVIDIA's cards from Ampere on, fed by asynchronous copies. Unproven but on Hopper.
        Pipelined = "pipelined",
        /// One unit per output: the baseline of the benchmarks.
        Naive = "naive",
    }
}

impl Variant {
    /// Whether a plan may choose the variant by itself on any device; if not, it is unproven, as the
    /// [crate's documentation](crate#unproven) explains.
    pub fn proven(self) -> bool {
        !self.of_matrices()
    }

    /// Whether the variant uses matrix instructions.
    pub fn of_matrices(self) -> bool {
        Self::OF_MATRICES.contains(&self)
    }

    /// Whether a plan may choose the variant by itself on `device`: cards of the maker have computed it correctly.
    pub fn proven_on(self, device: &Capability) -> bool {
        let nvidia = device.vendor == Vendor::Nvidia;
        self.proven()
            || match self {
                Self::Pipelined => nvidia && pipeline::of_hopper(device),
                _ => nvidia && matches!(device.runtime, Runtime::Cuda | Runtime::Vulkan),
            }
    }

    /// The variants of matrix instructions, the fastest first. They have the tiles of [`Variant::Unit`].
    const OF_MATRICES: [Self; 2] = [Self::Pipelined, Self::TensorCore];

    /// The variant, or if it can't, which only one of matrix instructions may, the next slower one that can.
    pub(super) fn or_slower(self, can: impl Fn(Self) -> bool) -> Self {
        if !self.of_matrices() {
            return self;
        }
        let from = Self::OF_MATRICES
            .into_iter()
            .skip_while(|variant| *variant != self);
        from.into_iter()
            .find(|variant| can(*variant))
            .unwrap_or(Self::Unit)
    }

    /// The fastest variant for `problem` that is proven on `device`.
    pub fn best(problem: &Problem, device: &Capability) -> Self {
        best_variant(problem, device, Choice::default())
    }

    /// The fastest variant without matrix instructions for at most `rows` sorted rows.
    pub fn portable(rows: usize, experts: usize, device: &Capability) -> Self {
        if device.cpu_cores.is_some() {
            return Self::Cpu;
        }
        if rows <= experts * GEMV_ROWS_PER_EXPERT {
            return Self::Gemv;
        }
        Self::Unit
    }

    /// Returns the variant `named`, or the portable one.
    pub fn or_portable(
        named: Option<Self>,
        rows: usize,
        experts: usize,
        device: &Capability,
    ) -> Self {
        named.unwrap_or_else(|| Self::portable(rows, experts, device))
    }

    /// Rows per tile, into which the sort must cut segments; both products of an expert share one list of tiles.
    pub fn tile_rows(self) -> usize {
        match self {
            Self::Unit => TileShape::UNIT.rows(),
            Self::Gemv => TileShape::GEMV.rows(),
            Self::Cpu => cpu::ROWS,
            Self::TensorCore | Self::Pipelined => tensor_core::ROWS,
            Self::Naive => 1,
        }
    }
}

/// The caller's constraints on the choice of a variant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// The required variant; `None` leaves the choice to the plan.
    pub variant: Option<Variant>,
    /// Whether the plan may choose variants that are [unproven](crate#unproven) on the device.
    pub allow_unproven: bool,
}

impl Choice {
    /// A choice of exactly `variant`, whether unproven or not.
    pub const fn of(variant: Variant) -> Self {
        Self {
            variant: Some(variant),
            allow_unproven: true,
        }
    }

    /// The fastest variant of matrix instructions that the plan may choose by itself for `element` on `device`, and that `can`.
    pub(super) fn by_matrices(
        self,
        element: Element,
        device: &Capability,
        can: impl Fn(Variant) -> bool,
    ) -> Option<Variant> {
        let may = |variant: Variant| variant.proven_on(device) || self.allow_unproven;
        let all = Variant::OF_MATRICES.into_iter();
        all.filter(|_| element != Element::F32)
            .find(|variant| may(*variant) && can(*variant))
    }
}

/// A range of experts whose weights are bound together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slab {
    /// The first expert.
    pub first: u32,
    /// One past the last expert.
    pub last: u32,
}

/// What a device has for the variants of matrix instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Matrices {
    /// Of the `TensorCore` variant.
    Fragments(Fragments),
    /// Of the `Pipelined` variant.
    Pipeline(Pipeline),
}

impl Matrices {
    /// What `variant` uses, as the function for it finds; `None` for a variant without matrix instructions.
    pub(super) fn of(
        variant: Variant,
        fragments: impl FnOnce() -> Result<Fragments, Unsupported>,
        pipeline: impl FnOnce() -> Result<Pipeline, Unsupported>,
    ) -> Result<Option<Self>, Unsupported> {
        Ok(match variant {
            Variant::TensorCore => Some(Self::Fragments(fragments()?)),
            Variant::Pipelined => Some(Self::Pipeline(pipeline()?)),
            _ => None,
        })
    }

    /// The part of a kernel's name for its instructions.
    pub(super) fn suffix(self) -> &'static str {
        match self {
            Self::Fragments(_) => "",
            Self::Pipeline(of) => of.by.suffix(),
        }
    }

    /// Cubes over the rows of `problem`, and columns of a tile.
    fn tiles(self, problem: &Problem) -> [usize; 2] {
        match self {
            Self::Pipeline(of) => pipelined::tiles(of, problem),
            Self::Fragments(_) => {
                let rows = super::max_tiles(problem, tensor_core::ROWS);
                [rows, tensor_core::COLUMNS]
            }
        }
    }

    /// Rounds of loops of one invocation over `k` inner columns.
    fn rounds(self, k: usize) -> usize {
        match self {
            Self::Pipeline(of) => looped(of.steps(k), 0),
            Self::Fragments(fragments) => {
                let stores = tensor_core::COLUMNS / fragments.edge * fragments.store_rounds();
                looped(k.div_ceil(fragments.edge), 0) + stores
            }
        }
    }
}

/// A [`Problem`], planned for a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The problem.
    pub problem: Problem,
    /// The variant.
    pub variant: Variant,
    /// Elements per vector load along k (GPU) or per register (CPU).
    pub lanes: usize,
    /// The tile of the `Unit` and `Gemv` variants.
    pub tile: TileShape,
    /// The experts bound by each launch.
    pub slabs: Vec<Slab>,
    /// The number of parallel tasks of the `Cpu` variant.
    pub cores: usize,
    /// The device's matrix instructions, for the variants that use them.
    pub(super) matrices: Option<Matrices>,
    pub(super) conversion: Conversion,
}

impl Plan {
    /// A copy that decodes FP8 weights by `conversion`.
    ///
    /// # Errors
    /// [`Unsupported`] under the conditions of [`Conversion::supported`], and for instructions in the `Cpu` and `Naive` variants.
    pub fn by(self, conversion: Conversion, device: &Capability) -> Result<Self, Unsupported> {
        conversion.supported(KERNEL, device)?;
        let arithmetic = matches!(self.variant, Variant::Cpu | Variant::Naive);
        let can = conversion == Conversion::Bits || !arithmetic;
        let needs = "a variant that decodes by instructions";
        Unsupported::unless(can, KERNEL, needs, self.variant.name())?;
        Ok(Self { conversion, ..self })
    }

    /// Rows per tile, into which the sort must cut segments.
    pub fn tile_rows(&self) -> usize {
        self.variant.tile_rows()
    }

    /// The number of tiles of the worst routing.
    pub fn max_tiles(&self) -> usize {
        super::max_tiles(&self.problem, self.tile_rows())
    }

    /// Cubes along x (one per tile of rows), along y (one per block of columns), and along z (1).
    pub(super) fn cubes(&self) -> [usize; 3] {
        let [rows, columns] = match (self.variant, self.matrices) {
            (Variant::Cpu, _) => return [1; 3],
            (Variant::Naive, _) => [self.max_tiles(), naive::UNITS as usize],
            (_, Some(matrices)) => matrices.tiles(&self.problem),
            _ => [self.max_tiles(), self.tile.columns()],
        };
        [rows, self.problem.n.div_ceil(columns), 1]
    }

    /// Rounds of loops of one invocation.
    fn rounds(&self) -> usize {
        let p = &self.problem;
        match (self.variant, self.matrices) {
            (Variant::Cpu, _) => 0,
            (Variant::Naive, _) => p.parts() * looped(p.k, 0),
            (_, Some(matrices)) => matrices.rounds(p.k),
            _ => self.tile.rounds(p.k),
        }
    }

    /// The number of launches of this plan.
    pub fn launches(&self) -> usize {
        launches(self.problem.row_bound, &self.slabs)
    }
}

/// The largest number of rows per expert for which [`Variant::Gemv`] wastes fewer rows than [`Variant::Unit`].
const GEMV_ROWS_PER_EXPERT: usize = 4;

/// Plans `problem` on `device`.
///
/// # Errors
/// [`PlanError`] with the size that is wrong, or with what the variant needs and what the device has: element type, workgroup
/// size and memory, bindings, a single expert larger than a binding, or gated weights of [`WeightLayout::InOut`].
pub fn plan(problem: Problem, device: &Capability, choice: Choice) -> Result<Plan, PlanError> {
    // Without rows nothing is launched.
    if problem.row_bound > 0 {
        problem.check()?;
    }
    problem.element.supported(KERNEL, device)?;
    if problem.interleaved {
        return Err(Unsupported::new(KERNEL, "words of blocks in rows", "interleaved rows").into());
    }
    let variant = match choice.variant {
        Some(variant) => variant,
        None => best_variant(&problem, device, choice),
    };
    let tile = match variant {
        Variant::Gemv => TileShape::GEMV,
        _ => TileShape::UNIT,
    };
    check_variant(variant, &problem, &tile, device)?;
    let matrices = matrices(variant, &problem, device)?;
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
        matrices,
        conversion: Conversion::Bits,
        problem,
        variant,
        lanes,
        tile,
    };
    crate::fits_grid(KERNEL, plan.cubes(), device)?;
    if plan.problem.row_bound > 0 {
        fits_rounds(KERNEL, plan.rounds(), device)?;
    }
    Ok(plan)
}

/// Plans `problem` over the tiles of `variant`. Variants of matrix instructions have the tiles of [`Variant::Unit`], which also computes
/// problems that the instructions can't.
///
/// # Errors
/// [`PlanError`] under the conditions of [`plan`].
pub(crate) fn plan_over_tiles(
    problem: Problem,
    device: &Capability,
    variant: Variant,
) -> Result<Plan, PlanError> {
    let can = |variant: Variant| matrices(variant, &problem, device).is_ok();
    plan(problem, device, Choice::of(variant.or_slower(can)))
}

/// What `variant` uses for `problem` on `device`; `None` for a variant without matrix instructions.
fn matrices(
    variant: Variant,
    problem: &Problem,
    device: &Capability,
) -> Result<Option<Matrices>, Unsupported> {
    let fragments = || tensor_core::supported(problem, device);
    Matrices::of(variant, fragments, || pipelined::supported(problem, device))
}

/// The fastest variant on this device that is proven or allowed.
fn best_variant(problem: &Problem, device: &Capability, choice: Choice) -> Variant {
    let can = |variant| matrices(variant, problem, device).is_ok();
    let best = choice.by_matrices(problem.element, device, can);
    best.unwrap_or_else(|| Variant::portable(problem.row_bound, problem.experts, device))
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
    super::sparse24::supported(problem, device)?;
    match variant {
        // `matrices` checks these.
        Variant::TensorCore | Variant::Pipelined => Ok(()),
        Variant::Cpu => {
            let needs = "a CPU runtime for the cpu variant";
            Unsupported::unless(device.cpu_cores.is_some(), KERNEL, needs, &device.name)?;
            // Codes are decoded four neighbours at a time.
            let coded = matches!(problem.stored, Stored::Fp8(_) | Stored::Blocks(_));
            let turned = coded && problem.layout == WeightLayout::InOut;
            let wide = !turned || device.load_width_bits >= 128;
            let needs = "registers of at least 128 bits for codes of [E, k, n]";
            let have = format_args!("{} bits", device.load_width_bits);
            Unsupported::unless(wide, KERNEL, needs, have)
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

/// The number of launches: one per slab, or none without rows.
pub(super) fn launches(rows: usize, slabs: &[Slab]) -> usize {
    if rows == 0 { 0 } else { slabs.len() }
}

/// Cuts `experts` experts into slabs whose weights, `elements` elements of `bytes` bytes per expert, fit one binding and begin at
/// valid binding offsets.
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

//! How CubeCL computes [`moebius_ops::grouped_gemm::weight_gradient`].

mod cpu;
#[cfg(feature = "emit")]
mod entries;
mod pipelined;
mod tensor_core;
mod tile;

#[cfg(feature = "emit")]
pub use entries::entries;

#[cfg(any(test, feature = "emit"))]
use super::Problem as Product;
use super::plan::Matrices;
use super::plan::{launches, slabs};
use super::{Choice, Segments, Slab, Source, Variant, input_row, segment};
use crate::prelude::*;
use crate::rounds::{fits_rounds, looped};
use cubecl::prelude::*;
use moebius_ops::grouped_gemm::weight_gradient::Problem;

const KERNEL: &str = "weight_gradient";

/// The name of `variant`'s kernel; "ragged" if vectors would cross the ends of rows.
fn name(problem: &Problem, variant: Variant) -> String {
    let (variant, element) = (variant.name(), problem.product.element);
    let whole = problem.columns().map(|columns| columns.is_multiple_of(4));
    let ragged = launched::suffix(whole != [true; 2], "_ragged");
    let dense = launched::suffix(problem.product.dense, "_dense");
    format!("weight_gradient_{variant}_{element}{dense}{ragged}")
}

/// A [`Problem`], planned for a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The problem.
    pub problem: Problem,
    /// The variant, never `Gemv`.
    pub variant: Variant,
    /// The experts whose gradients each launch binds.
    pub slabs: Vec<Slab>,
    /// Elements per load of a, and of b and dW; per register in the `Cpu` variant.
    pub lanes: [usize; 2],
    /// The number of parallel tasks of the `Cpu` variant.
    pub cores: usize,
    /// The device's matrix instructions, for the variants that use them.
    matrices: Option<Matrices>,
}

impl Plan {
    /// Rounds of loops of one invocation, if one expert has all rows.
    fn rounds(&self) -> usize {
        let rows = self.problem.product.row_bound;
        match (self.variant, self.matrices) {
            (Variant::Cpu, _) => 0,
            (Variant::Naive, _) => looped(rows, 0),
            (_, Some(Matrices::Pipeline(of))) => looped(of.steps(rows), 0),
            (_, Some(Matrices::Fragments(fragments))) => {
                let stores = tensor_core::EDGE / fragments.edge * fragments.store_rounds();
                looped(rows.div_ceil(fragments.edge), 0) + stores
            }
            _ => looped(rows.div_ceil(tile::STEP), 0),
        }
    }

    /// The number of launches of this plan.
    pub fn launches(&self) -> usize {
        launches(self.problem.product.row_bound, &self.slabs)
    }
}

/// Plans `problem` on `device`.
///
/// # Errors
/// [`PlanError`] with the size that is wrong, or with what the variant needs and what the device has: element type, workgroup
/// size and memory, bindings, cube counts, or a single expert larger than a binding. There is no `Gemv` variant.
pub fn plan(problem: Problem, device: &Capability, choice: Choice) -> Result<Plan, PlanError> {
    let (product, [m, n]) = (&problem.product, problem.columns());
    // Without rows nothing is launched.
    if product.row_bound > 0 {
        problem.check()?;
    }
    product.element.supported(KERNEL, device)?;
    let variant = choice.variant.unwrap_or(match device.cpu_cores {
        Some(_) => Variant::Cpu,
        None => {
            let can = |variant| matrices(variant, &problem, device).is_ok();
            let best = choice.by_matrices(product.element, device, can);
            best.unwrap_or(Variant::Unit)
        }
    });
    check_variant(variant, device)?;
    let matrices = matrices(variant, &problem, device)?;
    let bytes = product.element.bytes();
    crate::fits_binding(KERNEL, problem.rows(problem.a) * m * bytes, device)?;
    crate::fits_binding(KERNEL, problem.rows(problem.b) * n * bytes, device)?;
    let four = |columns: usize| match lanes(columns, 4, device) {
        lanes if lanes.is_multiple_of(4) => 4,
        _ => 1,
    };
    let plan = Plan {
        slabs: slabs(KERNEL, product.experts, m * n, 4, device)?,
        lanes: match variant {
            Variant::Cpu => [(device.load_width_bits as usize / 32).max(1); 2],
            Variant::Unit => [four(m), four(n)],
            Variant::TensorCore => [4, 4],
            _ => [1, 1],
        },
        matrices,
        cores: device.cpu_cores.unwrap_or(1) as usize,
        problem,
        variant,
    };
    if let Some(first) = plan.slabs.first() {
        crate::fits_grid(KERNEL, cubes(&plan, first), device)?;
    }
    fits_rounds(KERNEL, plan.rounds(), device)?;
    Ok(plan)
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

/// Plans weight gradients beside products by `variant`: by the same matrix instructions, by slower ones that take the problem, or by
/// none.
///
/// # Errors
/// As [`plan`].
pub(crate) fn plan_beside(
    problem: Problem,
    device: &Capability,
    variant: Variant,
) -> Result<Plan, PlanError> {
    let can = |variant| matrices(variant, &problem, device).is_ok();
    let variant = match device.cpu_cores {
        Some(_) => Variant::Cpu,
        None if variant.of_matrices() => variant.or_slower(can),
        None => Variant::Unit,
    };
    plan(problem, device, Choice::of(variant))
}

fn check_variant(variant: Variant, device: &Capability) -> Result<(), Unsupported> {
    let (units, memory) = match variant {
        Variant::Cpu if device.cpu_cores.is_none() => {
            let needs = "a CPU runtime for the cpu variant";
            return Err(Unsupported::new(KERNEL, needs, &device.name));
        }
        Variant::Gemv => {
            let have = format!("the {} variant asked for", variant.name());
            return Err(Unsupported::new(KERNEL, "another variant", have));
        }
        // `matrices` checks these.
        Variant::TensorCore | Variant::Pipelined => (0, 0),
        Variant::Unit => (tile::UNITS, tile::SHARED_BYTES),
        // A CPU starts more tasks than it has cores.
        Variant::Naive if device.cpu_cores.is_none() => (NAIVE_UNITS, 0),
        Variant::Naive | Variant::Cpu => (0, 0),
    };
    crate::fits_cube(KERNEL, units, memory, device)
}

/// The number of cubes along m, along n, and over the experts of a slab.
fn cubes(plan: &Plan, slab: &Slab) -> [usize; 3] {
    let [m, n] = plan.problem.columns();
    let [m, n] = match plan.variant {
        Variant::Unit => [m.div_ceil(tile::EDGE), n.div_ceil(tile::EDGE)],
        Variant::TensorCore => [m, n].map(|columns| columns.div_ceil(tensor_core::EDGE)),
        Variant::Pipelined => match plan.matrices {
            Some(Matrices::Pipeline(of)) => [m.div_ceil(of.tile()[0]), n.div_ceil(of.tile()[1])],
            _ => return [1; 3],
        },
        Variant::Naive => [n.div_ceil(NAIVE_UNITS as usize), m],
        _ => return [1; 3],
    };
    [m, n, (slab.last - slab.first) as usize]
}

buffers! {
    /// Buffers of one weight gradient.
    pub struct Operands {
        pub a: Handle => "[T,m] or [R,m]" read,
        pub b: Handle => "[T,n] or [R,n]" read,
        /// The segments of the experts, read; absent in a dense product. The tiles aren't used.
        pub segments: Option<Segments> = "offsets",
        pub out: Handle => "[E,m,n] f32" written,
    }
}

/// Enqueues the gradient: one launch per slab, or none without slots; the caller must then write the zeros itself.
pub fn launch(client: &Client, plan: &Plan, operands: Operands) {
    if plan.problem.product.row_bound == 0 {
        return;
    }
    for slab in &plan.slabs {
        launched::note(|| {
            let instructions = plan.matrices.map_or("", Matrices::suffix);
            name(&plan.problem, plan.variant) + instructions
        });
        match plan.variant {
            Variant::Cpu | Variant::TensorCore | Variant::Pipelined if BROWSER => {
                not_in_a_browser()
            }
            Variant::Cpu => cpu::launch(client, plan, slab, &operands),
            Variant::Naive => launch_naive(client, plan, slab, &operands),
            Variant::TensorCore => tensor_core::launch(client, plan, slab, &operands),
            Variant::Pipelined => pipelined::launch(client, plan, slab, &operands),
            _ => tile::launch(client, plan, slab, &operands),
        }
    }
}

/// Which rows the kernel reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Spec {
    a: Source,
    b: Source,
}

impl Spec {
    fn of(problem: &Problem) -> Self {
        Self {
            a: problem.a,
            b: problem.b,
        }
    }
}

/// The part of an operand that a step reads: rows (the first, and one past the expert's last), and columns from `first` out of
/// all columns.
#[derive(CubeType, Clone, Copy)]
struct Step {
    row: usize,
    end: usize,
    first: usize,
    columns: usize,
}

/// Sizes given at launch to the variants with a cube for each part of a gradient.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
struct Sizes {
    m: usize,
    n: usize,
    top_k: usize,
    /// The number of rows of a dense product.
    rows: usize,
    slab_first: usize,
}

fn sizes(plan: &Plan, slab: &Slab) -> SizesLaunch {
    let (p, [m, n]) = (&plan.problem.product, plan.problem.columns());
    SizesLaunch::new(m, n, p.top_k, p.row_bound, slab.first as usize)
}

/// The buffer arguments that every variant binds, in binding order.
struct Bindings {
    a: BufferArg,
    b: BufferArg,
    order: Option<BufferArg>,
    offsets: Option<BufferArg>,
    out: BufferArg,
}

impl Bindings {
    /// Binds `operands`, with only the gradients of `slab`.
    fn new(problem: &Problem, slab: &Slab, operands: &Operands) -> Self {
        let operands = operands.clone();
        let others = [
            slab.first as usize,
            problem.product.experts - slab.last as usize,
        ];
        let [m, n] = problem.columns();
        let ends = others.map(|experts| 4 * experts * m * n);
        let [order, offsets, _] = super::bind_segments(operands.segments);
        Self {
            a: bind(operands.a),
            b: bind(operands.b),
            order,
            offsets,
            out: bind(part(operands.out, ends)),
        }
    }
}

/// Units per cube of the `naive` variant, one per column of b.
const NAIVE_UNITS: u32 = 64;

/// The `naive` variant: one unit per element of a gradient.
#[cube(launch_unchecked)]
fn weight_gradient_naive<F: Float>(
    a: &[F],
    b: &[F],
    order: ComptimeOption<&[u32]>,
    offsets: ComptimeOption<&[u32]>,
    out: &mut [f32],
    sizes: Sizes,
    #[comptime] spec: Spec,
    #[define(F)] _element: ElemType,
) {
    let column = (CUBE_POS_X * CUBE_DIM_X + UNIT_POS_X) as usize;
    let line = CUBE_POS_Y as usize;
    let expert = sizes.slab_first + CUBE_POS_Z as usize;
    if column < sizes.n {
        let mut sum = 0.0f32;
        let (begin, end) = segment(&offsets, expert, sizes.rows);
        for row in begin..end {
            // Mesa's software driver runs one more round of a loop in which no unit counts, and still reads whatever is the same
            // for all units: a row past the end would lead it to any address.
            let row = min(row, end - 1);
            let a_row = input_row(&order, row, sizes.top_k, comptime!(spec.a));
            let b_row = input_row(&order, row, sizes.top_k, comptime!(spec.b));
            let left = f32::cast_from(a[a_row * sizes.m + line]);
            sum = fma(left, f32::cast_from(b[b_row * sizes.n + column]), sum);
        }
        out[(CUBE_POS_Z as usize * sizes.m + line) * sizes.n + column] = sum;
    }
}

fn launch_naive(client: &Client, plan: &Plan, slab: &Slab, operands: &Operands) {
    let bound = Bindings::new(&plan.problem, slab, operands);
    let (count, dim) = (count(cubes(plan, slab)), CubeDim::new_1d(NAIVE_UNITS));
    let sizes = sizes(plan, slab);
    let (order, offsets) = (bound.order.into(), bound.offsets.into());
    let spec = Spec::of(&plan.problem);
    let element = plan.problem.product.element.elem_type();
    // SAFETY: `plan` checked the shapes; a cube's line and expert exist, columns are guarded.
    unsafe {
        weight_gradient_naive::launch_unchecked(
            client, count, dim, bound.a, bound.b, order, offsets, bound.out, sizes, spec, element,
        );
    }
}

#[cfg(test)]
mod tests;

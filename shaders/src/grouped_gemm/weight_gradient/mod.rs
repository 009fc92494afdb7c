//! Gradient of an expert's weights: dW_e = Σ_r a\[r\] ⊗ b\[r\] over the rows r of expert e.
//!
//! For out = x · Wᵀ the gradient of W \[E, m, n\] has a = the gradient of out (m = output columns) and
//! b = x (n = input columns). Either operand has one row per sorted row, or one per token that is
//! found through the sort ([`Source`]), so nothing is copied into expert order. [`Problem::dense`] is
//! the gradient of one matrix from all rows, and nothing is sorted.
//!
//! Shapes: a \[T,m\] or \[R,m\], b \[T,n\] or \[R,n\] of f32, f16 or bf16; dW \[E, m, n\] is f32 whatever
//! they are, because it is added to f32 master weights or rounded once by the caller. Experts
//! without rows get zeros; rows no slot is sorted to are not read. Every variant sums over the rows
//! in order with fused multiply-adds, so variants agree to the last bit.
//!
//! FLOPs 2·R·m·n. Bytes at least R·(m + n) elements and 4·E·m·n bytes.

mod cpu;
#[cfg(feature = "emit")]
mod entries;
mod naive;
mod tile;

#[cfg(feature = "emit")]
pub(crate) use entries::entries;

use super::{Choice, Segments, Slab, Source, Variant, plan::slabs};
use crate::element::Element;
use crate::error::{ShapeError, Unsupported};
use crate::grid::lanes;
use crate::launched;
use cubecl::prelude::*;
use cubecl::server::Handle;
use moebius_device::Capability;

const KERNEL: &str = "weight_gradient";

/// One weight gradient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Slots S.
    pub slots: usize,
    /// The most sorted rows R any routing produces, at most S.
    pub row_bound: usize,
    /// Experts E.
    pub experts: usize,
    /// Slots per token K.
    pub top_k: usize,
    /// Columns of a.
    pub m: usize,
    /// Columns of b.
    pub n: usize,
    /// Type of a and b.
    pub element: Element,
    /// Which rows of a are read.
    pub a: Source,
    /// Which rows of b are read.
    pub b: Source,
    /// One expert has all rows, in their order; there is no sort.
    pub dense: bool,
}

impl Problem {
    /// aᵀ · b of a \[`rows`, `m`\] and b \[`rows`, `n`\].
    ///
    /// # Errors
    /// As [`Problem::new`].
    pub fn dense(rows: usize, m: usize, n: usize) -> Result<Self, ShapeError> {
        Ok(Self {
            dense: true,
            ..Self::new(rows, 1, 1, m, n)?
        })
    }

    /// The gradient of \[`experts`, `m`, `n`\] weights from sorted rows of `slots` = T·`top_k` slots.
    ///
    /// # Errors
    /// [`ShapeError`] when a size is 0 or an index would not fit 31 bits.
    pub fn new(
        slots: usize,
        experts: usize,
        top_k: usize,
        m: usize,
        n: usize,
    ) -> Result<Self, ShapeError> {
        // The product whose weights these are.
        let product = super::Problem::new(slots, experts, top_k, m, n)?;
        Ok(Self {
            slots,
            row_bound: slots,
            experts,
            top_k,
            m,
            n,
            element: product.element,
            a: Source::Sorted,
            b: Source::Sorted,
            dense: false,
        })
    }

    /// What its kernel of `variant` is called; ragged where vectors cross the ends of rows.
    fn name(&self, variant: Variant) -> String {
        let (variant, element) = (variant.name(), self.element);
        let ragged = !self.m.is_multiple_of(4) || !self.n.is_multiple_of(4);
        let ragged = launched::suffix(ragged, "_ragged");
        let dense = launched::suffix(self.dense, "_dense");
        format!("weight_gradient_{variant}_{element}{dense}{ragged}")
    }

    /// Rows of an operand.
    pub fn rows(&self, source: Source) -> usize {
        match source {
            Source::Tokens => self.slots / self.top_k,
            Source::Sorted => self.row_bound,
        }
    }

    /// Floating-point operations when every sorted row has an expert.
    pub fn flops(&self) -> u64 {
        2 * self.row_bound as u64 * self.m as u64 * self.n as u64
    }
}

/// A [`Problem`] this device can run, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What is computed.
    pub problem: Problem,
    /// How: `Unit`, `Cpu` or `Naive`.
    pub variant: Variant,
    /// Gradients bound per launch.
    pub slabs: Vec<Slab>,
    /// Elements per load of a, and of b and dW; of the `Cpu` variant, per register.
    pub lanes: [usize; 2],
    /// Parallel tasks of the `Cpu` variant.
    pub cores: usize,
}

impl Plan {
    /// Launches this plan enqueues.
    pub fn launches(&self) -> usize {
        if self.problem.row_bound == 0 {
            0
        } else {
            self.slabs.len()
        }
    }
}

/// Plans `problem` on `device`.
///
/// # Errors
/// [`Unsupported`] with what the variant needs and what the device has: element type, workgroup
/// size and memory, bindings, cube counts, or a single expert larger than a binding. There is no
/// `Gemv` and no `TensorCore` variant.
pub fn plan(problem: Problem, device: &Capability, choice: Choice) -> Result<Plan, Unsupported> {
    problem.element.supported(KERNEL, device)?;
    let variant = choice.variant.unwrap_or(match device.cpu_cores {
        Some(_) => Variant::Cpu,
        None => Variant::Unit,
    });
    check_variant(variant, device)?;
    let bytes = problem.element.bytes();
    crate::fits_binding(KERNEL, problem.rows(problem.a) * problem.m * bytes, device)?;
    crate::fits_binding(KERNEL, problem.rows(problem.b) * problem.n * bytes, device)?;
    let four = |columns: usize| match lanes(columns, 4, device) {
        lanes if lanes.is_multiple_of(4) => 4,
        _ => 1,
    };
    let plan = Plan {
        slabs: slabs(KERNEL, problem.experts, (problem.m * problem.n, 4), device)?,
        lanes: match variant {
            Variant::Cpu => [(device.load_width_bits as usize / 32).max(1); 2],
            Variant::Unit => [four(problem.m), four(problem.n)],
            _ => [1, 1],
        },
        cores: device.cpu_cores.unwrap_or(1) as usize,
        problem,
        variant,
    };
    check_grid(&plan, device)?;
    Ok(plan)
}

fn check_variant(variant: Variant, device: &Capability) -> Result<(), Unsupported> {
    let limits = &device.limits;
    let (units, memory) = match variant {
        Variant::Cpu if device.cpu_cores.is_none() => {
            let needs = "a CPU runtime for the cpu variant";
            return Err(Unsupported::new(KERNEL, needs, &device.name));
        }
        Variant::Gemv | Variant::TensorCore => {
            let have = format!("the {} variant asked for", variant.name());
            return Err(Unsupported::new(KERNEL, "unit, cpu or naive", have));
        }
        Variant::Unit => (tile::UNITS, tile::SHARED_BYTES),
        // A CPU starts more tasks than it has cores.
        Variant::Naive if device.cpu_cores.is_none() => (naive::UNITS, 0),
        Variant::Naive | Variant::Cpu => (0, 0),
    };
    if units <= limits.max_units_per_cube && memory <= limits.max_shared_memory {
        return Ok(());
    }
    let (most, largest) = (limits.max_units_per_cube, limits.max_shared_memory);
    let needs = format!("{units} units and {memory} bytes of workgroup memory");
    let have = format!("{most} units and {largest} bytes");
    Err(Unsupported::new(KERNEL, needs, have))
}

/// Cubes along m, n and the experts of a slab.
fn cubes(plan: &Plan, slab: &Slab) -> [u32; 3] {
    let p = &plan.problem;
    let [m, n] = match plan.variant {
        Variant::Unit => [p.m.div_ceil(tile::EDGE), p.n.div_ceil(tile::EDGE)],
        Variant::Naive => [p.n.div_ceil(naive::UNITS as usize), p.m],
        _ => return [1; 3],
    };
    [m as u32, n as u32, slab.last - slab.first]
}

fn check_grid(plan: &Plan, device: &Capability) -> Result<(), Unsupported> {
    let most = device.limits.max_cube_count;
    let Some(first) = plan.slabs.first() else {
        return Ok(());
    };
    let needs = cubes(plan, first);
    if needs.iter().zip(most).all(|(needs, most)| *needs <= most) {
        return Ok(());
    }
    let needs = format!("{needs:?} cubes");
    Err(Unsupported::new(KERNEL, needs, format!("at most {most:?}")))
}

/// Buffers of one weight gradient.
#[derive(Clone)]
pub struct Operands {
    /// \[T,m\] or \[R,m\], read.
    pub a: Handle,
    /// \[T,n\] or \[R,n\], read.
    pub b: Handle,
    /// Read; absent in a dense product. Its tiles aren't used.
    pub segments: Option<Segments>,
    /// \[E,m,n\] f32, written.
    pub out: Handle,
}

/// Enqueues the gradient: one launch, or one per slab; none for a batch without slots, whose
/// gradient of zeros is the caller's.
pub fn launch(client: &Client, plan: &Plan, operands: &Operands) {
    if plan.problem.row_bound == 0 {
        return;
    }
    for slab in &plan.slabs {
        launched::note(|| plan.problem.name(plan.variant));
        match plan.variant {
            Variant::Cpu => cpu::launch(client, plan, slab, operands),
            Variant::Naive => naive::launch(client, plan, slab, operands),
            _ => tile::launch(client, plan, slab, operands),
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

/// The buffer arguments every variant binds, in binding order.
struct Bindings {
    a: BufferArg,
    b: BufferArg,
    order: Option<BufferArg>,
    offsets: Option<BufferArg>,
    out: BufferArg,
}

impl Bindings {
    /// Binds `operands` with so many elements of a, b and dW to a vector, and the gradients of `slab`.
    ///
    /// # Safety
    /// The operands must have the shapes of the plan's problem.
    unsafe fn new(plan: &Plan, slab: &Slab, operands: &Operands, lanes: [usize; 3]) -> Self {
        let p = &plan.problem;
        let [a_lanes, b_lanes, out_lanes] = lanes;
        let operands = operands.clone();
        let bytes = |experts: u32| u64::from(experts) * (p.m * p.n * 4) as u64;
        let out = operands
            .out
            .offset_start(bytes(slab.first))
            .offset_end(bytes(p.experts as u32 - slab.last));
        let len = (slab.last - slab.first) as usize * p.m * p.n;
        let (order, offsets) = operands.segments.map(|s| (s.order, s.offsets)).unzip();
        // SAFETY: lengths follow from the problem's shapes, which the caller vouches for.
        unsafe {
            let bind =
                |buffer: Option<Handle>, len| buffer.map(|b| BufferArg::from_raw_parts(b, len));
            Self {
                a: BufferArg::from_raw_parts(operands.a, p.rows(p.a) * p.m / a_lanes),
                b: BufferArg::from_raw_parts(operands.b, p.rows(p.b) * p.n / b_lanes),
                order: bind(order, p.slots),
                offsets: bind(offsets, p.experts + 1),
                out: BufferArg::from_raw_parts(out, len / out_lanes),
            }
        }
    }
}

/// The oracle, in f64; `order` and `offsets` come from the sort, a and b are as in [`Operands`].
pub fn reference(
    problem: &Problem,
    sorted: &crate::permute::Sorted,
    a: &[f64],
    b: &[f64],
) -> Vec<f64> {
    let Problem { m, n, top_k, .. } = *problem;
    let mut out = vec![0.0; problem.experts * m * n];
    for (e, out) in out.chunks_mut(m * n).enumerate() {
        for row in sorted.offsets[e] as usize..sorted.offsets[e + 1] as usize {
            let at = |source: Source| match source {
                Source::Tokens => sorted.order[row] as usize / top_k,
                Source::Sorted => row,
            };
            let b = &b[at(problem.b) * n..][..n];
            for (out, a) in out.chunks_mut(n).zip(&a[at(problem.a) * m..][..m]) {
                out.iter_mut().zip(b).for_each(|(out, b)| *out += a * b);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use moebius_device::profiles;

    /// Two tokens, two experts each; expert 1 gets slots 0 and 3, expert 0 slot 1, nobody slot 2.
    #[test]
    fn reference_sums_the_rows_of_an_expert() {
        let sorted = crate::permute::reference(&[1, 0, 3, 1], 3);
        let problem = Problem {
            a: Source::Tokens,
            ..Problem::new(4, 3, 2, 1, 2).unwrap()
        };
        let a = [2.0, 3.0];
        let b = [1.0, 10.0, 2.0, 20.0, 4.0, 40.0, f64::NAN, f64::NAN];
        let got = reference(&problem, &sorted, &a, &b);
        assert_eq!(got, [2.0, 20.0, 16.0, 160.0, 0.0, 0.0]);
    }

    #[test]
    fn refuses_what_it_has_no_variant_for() {
        let problem = Problem::new(64, 8, 2, 128, 128).unwrap();
        let choice = |variant| Choice {
            variant: Some(variant),
            allow_unproven: true,
        };
        for variant in [Variant::Gemv, Variant::TensorCore] {
            let error = plan(problem, &profiles::h100(), choice(variant)).unwrap_err();
            assert!(error.to_string().contains(variant.name()), "{error}");
        }
        assert!(plan(problem, &profiles::h100(), choice(Variant::Cpu)).is_err());
        let automatic = |device| plan(problem, &device, Choice::default()).unwrap().variant;
        assert_eq!(automatic(profiles::webgpu_default()), Variant::Unit);
        assert_eq!(automatic(profiles::cpu_neon()), Variant::Cpu);
    }

    /// 8 gradients of 16 MiB are one binding of WebGPU's 128 MiB, 8 of 32 MiB are two.
    #[test]
    fn gradients_beyond_a_binding_are_split() {
        let device = profiles::webgpu_default();
        let slabs = |n| {
            let problem = Problem::new(64, 8, 2, 2048, n).unwrap();
            plan(problem, &device, Choice::default()).unwrap().slabs
        };
        assert_eq!(slabs(2048).len(), 1);
        assert_eq!(slabs(4096).len(), 2);
    }
}

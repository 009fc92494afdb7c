//! How CubeCL computes [`moebius_ops::expert_activation`].

mod backward;
#[cfg(feature = "emit")]
mod entries;
mod forward;
pub mod output_bias;

pub use backward::{BackwardBuffers, GradientBuffers, launch_backward, launch_gradient};
#[cfg(feature = "emit")]
pub(crate) use entries::entries;
pub use forward::{ForwardBuffers, launch};

use crate::grouped_gemm::activation::{activate, activation_gradient};
use crate::prelude::*;
use cubecl::prelude::*;
use moebius_ops::expert_activation::Problem;
use moebius_ops::grouped_gemm::Activation;

/// What one of the kernels is called for `problem`.
fn name(problem: &Problem, kernel: &str) -> String {
    let gated = launched::suffix(problem.gated, "_gated");
    let activation = problem
        .activation
        .map(|activation| format!("_{activation}"));
    let activation = activation.unwrap_or_default();
    format!("{kernel}_{}{gated}{activation}", problem.element)
}

fn form(problem: &Problem) -> Form {
    Form {
        gated: problem.gated,
        activation: problem.activation,
    }
}

/// What the kernels are specialised on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Form {
    gated: bool,
    activation: Option<Activation>,
}

impl Form {
    const fn parts(&self) -> usize {
        if self.gated { 2 } else { 1 }
    }
}

/// A [`Problem`] this device can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What is computed.
    pub problem: Problem,
    lanes: usize,
    vectors: Grid,
    per_slot: RowGrid,
}

/// Plans the activation, its backward pass and its gradient.
///
/// # Errors
/// [`Unsupported`] for an element type the device lacks, or more than a binding or a grid holds.
pub fn plan(problem: Problem, device: &Capability) -> Result<Plan, Unsupported> {
    let kernel = "expert_activation";
    let bytes = problem.element.bytes();
    problem.element.supported(kernel, device)?;
    crate::fits_binding(kernel, problem.pre_len() * bytes, device)?;
    crate::fits_binding(kernel, problem.slots() * 4, device)?;
    let lanes = lanes(problem.inter(), bytes, device);
    Ok(Plan {
        problem,
        lanes,
        vectors: Grid::elementwise(kernel, problem.hidden_len() / lanes, device)?,
        per_slot: RowGrid::new(kernel, problem.slots(), device)?,
    })
}

/// Units that share one row: a whole cube on a GPU, one unit on a CPU, which would spin at barriers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RowGrid {
    grid: Grid,
    /// Units of a row, a power of two.
    units: usize,
}

impl RowGrid {
    fn new(kernel: &'static str, rows: usize, device: &Capability) -> Result<Self, Unsupported> {
        if device.cpu_cores.is_some() {
            let grid = Grid::elementwise(kernel, rows, device)?;
            return Ok(Self { grid, units: 1 });
        }
        let units = Grid::elementwise(kernel, 1, device)?.units[0] as usize;
        let grid = Grid::elementwise(kernel, rows.saturating_mul(units), device)?;
        Ok(Self { grid, units })
    }
}

/// Sum over the units of a row by a fixed tree; the whole cube calls it, once in a kernel.
#[cube]
fn row_sum(value: f32, #[comptime] units: usize) -> f32 {
    if comptime!(units == 1) {
        value
    } else {
        let unit = UNIT_POS as usize;
        let mut partial = Shared::<[f32]>::new_slice(units);
        partial[unit] = value;
        sync_cube();
        #[unroll]
        for step in 0..comptime!(units.ilog2() as usize) {
            let half = comptime!(units >> (step + 1));
            if unit < half {
                partial[unit] += partial[unit + half];
            }
            sync_cube();
        }
        partial[0]
    }
}

/// The expert that owns sorted row `row`, which must lie below offsets\[E\].
#[cube]
pub(crate) fn expert_of(offsets: &[u32], row: usize, experts: usize) -> usize {
    // The last expert that starts at or before the row: those without rows start where it does.
    let mut expert = 0usize;
    let mut beyond = experts;
    while expert + 1 < beyond {
        let middle = (expert + beyond) / 2;
        if offsets[middle] as usize <= row {
            expert = middle;
        } else {
            beyond = middle;
        }
    }
    expert
}

#[cfg(test)]
mod tests;

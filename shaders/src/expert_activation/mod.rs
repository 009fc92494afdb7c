//! The activation of an expert's rows as launches of their own, forward and backward, for training.
//!
//! Inference applies the activation inside the first product ([`crate::grouped_gemm`]); training
//! keeps `pre`, the rows before it. Rows are sorted by expert ([`crate::permute`]), R of them.
//! - forward: hidden = act(pre), gated hidden = act(gate) · up;
//! - backward, in one pass over `pre` and `dhidden`: with the gradient d of a row's hidden values
//!   before the weight w of its slot, d_s = ⟨d, hidden⟩ is the gradient of w, dpre the gradient of
//!   `pre` for w · d, and w · hidden takes the place of d, which is the operand of the second
//!   product's weight gradient;
//! - gradient: dpre for d, without weights.
//!
//! Shapes: pre and dpre \[R, F or 2F (gate columns, then up columns)\], hidden and dhidden \[R,F\] of
//! the element type; order u32 \[S\], offsets u32 \[E+1\], weights and dweights f32 \[S\]. Sums are
//! f32, in a fixed order. Rows from offsets\[E\] on are not read and written as 0; every slot gets a
//! dweight, 0 without an expert. The derivative of relu at 0 is 0.
//!
//! FLOPs: some 10 per element. Bytes: (parts + 1)·R·F elements forward, 2·(parts + 1)·R·F backward.

mod backward;
mod forward;
pub mod output_bias;

pub use backward::{
    BackwardBuffers, GradientBuffers, Gradients, launch_backward, launch_gradient,
    reference_backward,
};
pub use forward::{ForwardBuffers, launch, reference};

use crate::element::Element;
use crate::error::{ShapeError, Unsupported};
use crate::grid::{Grid, lanes};
use crate::grouped_gemm::Activation;
use crate::grouped_gemm::activation::{activate, activation_gradient};
use crate::launched;
use crate::permute::check_row_bound;
use cubecl::prelude::*;
use moebius_device::Capability;

/// Activations of the rows of all experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Problem {
    slots: usize,
    row_bound: usize,
    experts: usize,
    inter: usize,
    /// Type of the rows.
    pub element: Element,
    /// Two parts, multiplied after the activation of the first.
    pub gated: bool,
    /// Identity for `None`.
    pub activation: Option<Activation>,
}

impl Problem {
    /// What one of the kernels is called for it.
    fn name(&self, kernel: &str) -> String {
        let gated = launched::suffix(self.gated, "_gated");
        let activation = self.activation.map(|activation| format!("_{activation}"));
        let activation = activation.unwrap_or_default();
        format!("{kernel}_{}{gated}{activation}", self.element)
    }

    /// Rows of `inter` hidden values in f32, one for each of `slots` slots; ungated identity.
    ///
    /// # Errors
    /// [`ShapeError`] when a size is 0 or an index would not fit 31 bits.
    pub fn new(slots: usize, experts: usize, inter: usize) -> Result<Self, ShapeError> {
        for (what, size) in [("experts", experts), ("hidden values", inter)] {
            if size == 0 {
                return Err(ShapeError::new(what, "at least 1", size));
            }
        }
        let elements = slots.checked_mul(inter).and_then(|n| n.checked_mul(2));
        if elements.is_none_or(|n| n > i32::MAX as usize) {
            let got = format!("{slots} x {inter}");
            return Err(ShapeError::new(
                "slots x hidden values",
                "fewer than 2^30",
                got,
            ));
        }
        Ok(Self {
            slots,
            row_bound: slots,
            experts,
            inter,
            element: Element::F32,
            gated: false,
            activation: None,
        })
    }

    /// A copy with at most `rows` sorted rows, whatever the routing.
    ///
    /// # Errors
    /// [`ShapeError`] unless 1 ≤ `rows` ≤ S.
    pub fn with_row_bound(self, rows: usize) -> Result<Self, ShapeError> {
        check_row_bound(rows, self.slots)?;
        Ok(Self {
            row_bound: rows,
            ..self
        })
    }

    /// A copy with rows of `element`.
    pub fn with_element(self, element: Element) -> Self {
        Self { element, ..self }
    }

    /// A copy with an activation, and with a gate that it applies to.
    pub fn with_activation(self, activation: Option<Activation>, gated: bool) -> Self {
        Self {
            gated,
            activation,
            ..self
        }
    }

    /// Slots S.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// Sorted rows R.
    pub fn rows(&self) -> usize {
        self.row_bound
    }

    /// Elements of `hidden`.
    pub fn hidden_len(&self) -> usize {
        self.row_bound * self.inter
    }

    /// Elements of `pre`.
    pub fn pre_len(&self) -> usize {
        self.hidden_len() * self.form().parts()
    }

    fn form(&self) -> Form {
        Form {
            gated: self.gated,
            activation: self.activation,
        }
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
    crate::fits_binding(kernel, problem.slots * 4, device)?;
    let lanes = lanes(problem.inter, bytes, device);
    Ok(Plan {
        problem,
        lanes,
        vectors: Grid::elementwise(kernel, problem.hidden_len() / lanes, device)?,
        per_slot: RowGrid::new(kernel, problem.slots, device)?,
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

/// Every kernel of the family.
#[cfg(feature = "emit")]
pub(crate) fn entries() -> Vec<crate::emit::KernelEntry> {
    let mut entries = forward::entries();
    entries.extend(backward::entries());
    entries.extend(output_bias::entries());
    entries
}

/// What is compiled: every type gated with silu, as most models have it, and the other activations in f32.
#[cfg(feature = "emit")]
fn emitted() -> Vec<Problem> {
    let problem = |element, gated, activation| Problem {
        slots: 2048,
        row_bound: 2048,
        experts: 8,
        inter: 512,
        element,
        gated,
        activation: Some(activation),
    };
    let gated = Element::ALL.map(|element| problem(element, true, Activation::Silu));
    let plain = [Activation::Relu, Activation::Gelu, Activation::Mish]
        .map(|activation| problem(Element::F32, false, activation));
    gated.into_iter().chain(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::permute;
    use moebius_device::profiles;

    const ALL: [Option<Activation>; 5] = [
        None,
        Some(Activation::Relu),
        Some(Activation::Gelu),
        Some(Activation::Silu),
        Some(Activation::Mish),
    ];

    fn problem(gated: bool, activation: Option<Activation>) -> Problem {
        let problem = Problem::new(4, 2, 3).unwrap().with_row_bound(3).unwrap();
        problem.with_activation(activation, gated)
    }

    /// Values in ±2 that avoid 0, where relu has no derivative.
    fn wave(len: usize, phase: f64) -> Vec<f64> {
        (0..len)
            .map(|i| 2.0 * (1.7 * i as f64 + phase).sin() + 0.01)
            .collect()
    }

    /// The loss Σ_s w_s ⟨d_s, hidden_s⟩ has the gradients that `reference_backward` returns.
    #[test]
    fn backward_matches_differences_of_the_loss() {
        // Slot 2 goes nowhere, and expert 0 comes last in slot order.
        let sorted = permute::reference(&[1, 1, 2, 0], 2);
        let weights = [0.3, -0.7, 0.9, 1.1];
        for gated in [false, true] {
            for activation in ALL {
                let problem = problem(gated, activation);
                let pre = wave(problem.pre_len(), 0.4);
                let d = wave(problem.hidden_len(), 1.9);
                let loss = |pre: &[f64], weights: &[f64]| -> f64 {
                    let hidden = reference(&problem, &sorted, pre);
                    let terms = hidden.iter().zip(&d).enumerate();
                    terms
                        .map(|(i, (h, d))| weights[sorted.order[i / 3] as usize] * h * d)
                        .sum()
                };
                let got = reference_backward(&problem, &sorted, &weights, &pre, &d);
                let step = 1e-6;
                for i in 0..pre.len() {
                    let (mut up, mut down) = (pre.clone(), pre.clone());
                    up[i] += step;
                    down[i] -= step;
                    let slope = (loss(&up, &weights) - loss(&down, &weights)) / (2.0 * step);
                    assert!((got.dpre[i] - slope).abs() < 1e-8, "{problem:?} at {i}");
                }
                for s in 0..weights.len() {
                    let (mut up, mut down) = (weights, weights);
                    up[s] += 0.5;
                    down[s] -= 0.5;
                    let slope = loss(&pre, &up) - loss(&pre, &down);
                    assert!((got.dweights[s] - slope).abs() < 1e-12, "slot {s}");
                }
                let hidden = reference(&problem, &sorted, &pre);
                let weighted = weights[3] * hidden[1];
                assert!((got.weighted[1] - weighted).abs() < 1e-15, "{problem:?}");
            }
        }
    }

    #[test]
    fn a_row_takes_a_cube_of_a_gpu_and_a_unit_of_a_cpu() {
        let problem = problem(true, Some(Activation::Silu));
        let gpu = plan(problem, &profiles::webgpu_default()).unwrap();
        assert_eq!(
            (gpu.per_slot.units, gpu.per_slot.grid.cubes),
            (64, [4, 1, 1])
        );
        let cpu = plan(problem, &profiles::cpu_2core_avx512()).unwrap();
        assert_eq!(
            (cpu.per_slot.units, cpu.per_slot.grid.cubes),
            (1, [2, 1, 1])
        );
        let many = Problem::new(1 << 20, 2, 4).unwrap();
        let gpu = plan(many, &profiles::webgpu_default()).unwrap();
        assert!(gpu.per_slot.grid.cubes[1] > 1, "{gpu:?}");
    }

    #[test]
    fn a_plan_refuses_what_the_device_lacks() {
        let device = profiles::webgpu_default();
        let half = problem(true, None).with_element(Element::F16);
        assert!(plan(half, &device).is_err());
        // A row of 2 · 4096 values takes 32 KiB, so 128 MiB are 4096 rows.
        let gated = |slots| {
            Problem::new(slots, 2, 1 << 12)
                .unwrap()
                .with_activation(None, true)
        };
        assert!(plan(gated(1 << 12), &device).is_ok());
        assert!(plan(gated((1 << 12) + 1), &device).is_err());
    }

    #[test]
    fn shapes_are_checked() {
        assert!(Problem::new(4, 0, 3).is_err());
        assert!(Problem::new(4, 2, 0).is_err());
        assert!(Problem::new(1 << 20, 2, 1 << 10).is_err());
        let problem = Problem::new(4, 2, 3).unwrap();
        assert!(problem.with_row_bound(5).is_err());
        assert!(problem.with_row_bound(0).is_err());
        assert!(Problem::new(0, 2, 3).unwrap().with_row_bound(0).is_ok());
    }
}

//! How CubeCL computes [`moebius_ops::expert_activation`].

#[cfg(feature = "emit")]
mod entries;
pub mod output_bias;

#[cfg(feature = "emit")]
pub use entries::entries;

use crate::grouped_gemm::activation::{activate, activation_gradient, gated, gated_gradient};
use crate::prelude::*;
use crate::rounds::{fits_rounds, looped};
use cubecl::prelude::*;
use moebius_ops::expert_activation::Problem;
use moebius_ops::grouped_gemm::Activation;

/// The name of kernel `kernel` for `problem`, over sorted rows, or over all rows of a `dense` network.
fn name(problem: &Problem, kernel: &str, dense: bool) -> String {
    let dense = launched::suffix(dense, "_dense");
    let gated = launched::suffix(problem.gated(), "_gated");
    let activation = problem.activation();
    let activation = activation.map_or_else(String::new, |activation| format!("_{activation}"));
    format!("{kernel}_{}{gated}{activation}{dense}", problem.element())
}

/// Compile-time parameters of the kernels.
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

/// A [`Problem`], planned for a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The problem.
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
    let bytes = problem.element().bytes();
    problem.element().supported(kernel, device)?;
    crate::fits_binding(kernel, problem.pre_len() * bytes, device)?;
    crate::fits_binding(kernel, problem.slots() * 4, device)?;
    let lanes = lanes(problem.inter(), bytes, device);
    let per_slot = RowGrid::new(kernel, problem.slots(), device)?;
    // The backward pass has a loop for rows with an expert, and one for others.
    let walk = looped((problem.inter() / lanes).div_ceil(per_slot.units), 0);
    fits_rounds(kernel, 2 * walk, device)?;
    Ok(Plan {
        problem,
        lanes,
        vectors: Grid::elementwise(kernel, problem.hidden_len() / lanes, device)?,
        per_slot,
    })
}

/// The units that share a row: a whole cube on a GPU, a single unit on a CPU, which would spin at barriers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RowGrid {
    grid: Grid,
    /// Units per row, a power of two.
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

/// Sums `value` over the units of a row in a fixed tree; the whole cube must call it, once per kernel.
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

/// The expert that owns sorted row `row`, which must be below offsets\[E\].
#[cube]
pub(crate) fn expert_of(offsets: &[u32], row: usize, experts: usize) -> usize {
    // The last expert that starts at or before the row; experts without rows before it start there, too.
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

/// The hidden values of vector `column` of sorted row `sorted`, whose rows have `row` vectors.
#[cube]
fn hidden_of<F: Float, N: Size>(
    pre: &[Vector<F, N>],
    sorted: usize,
    column: usize,
    row: usize,
    #[comptime] form: Form,
) -> Vector<f32, N> {
    let gate = sorted * row * comptime!(form.parts()) + column;
    let value = activate::<N>(Vector::<f32, N>::cast_from(pre[gate]), form.activation);
    if comptime!(form.gated) {
        let up = Vector::<f32, N>::cast_from(pre[gate + row]);
        value * gated::<N>(up, form.activation)
    } else {
        value
    }
}

/// Computes `hidden`; one unit per vector.
#[cube(launch_unchecked)]
fn expert_activation<F: Float, N: Size>(
    pre: &[Vector<F, N>],
    offsets: ComptimeOption<&[u32]>,
    hidden: &mut [Vector<F, N>],
    experts: usize,
    row: usize,
    #[comptime] form: Form,
    #[define(F)] _element: ElemType,
) {
    if ABSOLUTE_POS < hidden.len() {
        let sorted = ABSOLUTE_POS / row;
        let column = ABSOLUTE_POS % row;
        let mut value = Vector::<f32, N>::new(0.0f32);
        #[comptime]
        match &offsets {
            ComptimeOption::Some(offsets) => {
                if sorted < offsets[experts] as usize {
                    value = hidden_of::<F, N>(pre, sorted, column, row, form);
                }
            }
            ComptimeOption::None => {
                value = hidden_of::<F, N>(pre, sorted, column, row, form);
            }
        }
        hidden[ABSOLUTE_POS] = Vector::cast_from(value);
    }
}

buffers! {
    /// Buffers of the forward pass.
    pub struct ForwardBuffers {
        pub pre: Handle => "[R, F or 2F]" read,
        pub offsets: Option<Handle> => "[E+1] u32" read: "absent in a dense network, whose rows are all read",
        pub hidden: Handle => "[R,F]" written,
    }
}

impl Plan {
    /// The number of experts, the vectors per row, the kernels' compile-time parameters, and the element type.
    fn sizes(&self) -> (usize, usize, Form, ElemType) {
        let p = &self.problem;
        let form = Form {
            gated: p.gated(),
            activation: p.activation(),
        };
        let row = p.inter() / self.lanes;
        (p.experts(), row, form, p.element().elem_type())
    }
}

/// Enqueues the activation: one launch.
pub fn launch(client: &Client, plan: &Plan, buffers: ForwardBuffers) {
    let p = &plan.problem;
    if p.slots() == 0 {
        return;
    }
    let (count, dim, lanes) = (plan.vectors.count(), plan.vectors.dim(), plan.lanes);
    let (experts, row, form, element) = plan.sizes();
    let [pre, hidden] = [buffers.pre, buffers.hidden].map(bind);
    launched::note(|| name(p, "expert_activation", buffers.offsets.is_none()));
    let offsets = buffers.offsets.map(bind).into();
    // SAFETY: the buffers are as long as they are described; units past the last vector return.
    unsafe {
        expert_activation::launch_unchecked(
            client, count, dim, lanes, pre, offsets, hidden, experts, row, form, element,
        );
    }
}

/// Writes dpre of the vector at `gate` for the gradient `d` of its hidden values; returns the hidden values.
#[cube]
fn differentiate<F: Float, N: Size>(
    pre: &[Vector<F, N>],
    dpre: &mut [Vector<F, N>],
    gate: usize,
    row: usize,
    d: Vector<f32, N>,
    #[comptime] form: Form,
) -> Vector<f32, N> {
    let x = Vector::<f32, N>::cast_from(pre[gate]);
    let value = activate::<N>(x, form.activation);
    let slope = d * activation_gradient::<N>(x, form.activation);
    if comptime!(form.gated) {
        let up = Vector::<f32, N>::cast_from(pre[gate + row]);
        let rise = gated_gradient::<N>(up, d * value, form.activation);
        let up = gated::<N>(up, form.activation);
        dpre[gate] = Vector::cast_from(slope * up);
        dpre[gate + row] = Vector::cast_from(rise);
        value * up
    } else {
        dpre[gate] = Vector::cast_from(slope);
        value
    }
}

/// Sets dpre of the vector at `gate` to 0.
#[cube]
fn clear<F: Float, N: Size>(
    dpre: &mut [Vector<F, N>],
    gate: usize,
    row: usize,
    #[comptime] form: Form,
) {
    #[unroll]
    for part in 0..comptime!(form.parts()) {
        dpre[gate + part * row] = Vector::cast_from(Vector::<f32, N>::new(0.0f32));
    }
}

/// Computes dpre, w · hidden and dweights; `units` units per entry of `order`. The first R entries are sorted rows; later entries
/// get a dweight of 0.
#[cube(launch_unchecked)]
fn expert_activation_backward<F: Float, N: Size>(
    pre: &[Vector<F, N>],
    dhidden: &mut [Vector<F, N>],
    order: &[u32],
    offsets: &[u32],
    weights: &[f32],
    dpre: &mut [Vector<F, N>],
    dweights: &mut [f32],
    experts: usize,
    slots: usize,
    rows: usize,
    row: usize,
    #[comptime] form: Form,
    #[comptime] units: usize,
    #[define(F)] _element: ElemType,
) {
    let sorted = ABSOLUTE_POS / units;
    let unit = ABSOLUTE_POS % units;
    let slot = order[min(sorted, slots - 1)] as usize;
    let gate = sorted * row * comptime!(form.parts());
    let mut sum = Vector::<f32, N>::new(0.0f32);
    if sorted < offsets[experts] as usize {
        let weight = Vector::<f32, N>::new(weights[slot]);
        for column in range_stepped(unit, row, units) {
            let d = Vector::<f32, N>::cast_from(dhidden[sorted * row + column]);
            let hidden = differentiate::<F, N>(pre, dpre, gate + column, row, weight * d, form);
            dhidden[sorted * row + column] = Vector::cast_from(weight * hidden);
            sum = fma(d, hidden, sum);
        }
    } else if sorted < rows {
        for column in range_stepped(unit, row, units) {
            dhidden[sorted * row + column] = Vector::cast_from(Vector::<f32, N>::new(0.0f32));
            clear::<F, N>(dpre, gate + column, row, form);
        }
    }
    let total = row_sum(sum.vector_sum(), units);
    if unit == 0 && sorted < slots {
        dweights[slot] = total;
    }
}

/// Computes dpre without weights; one unit per vector of `dhidden`.
#[cube(launch_unchecked)]
fn expert_activation_gradient<F: Float, N: Size>(
    pre: &[Vector<F, N>],
    dhidden: &[Vector<F, N>],
    offsets: ComptimeOption<&[u32]>,
    dpre: &mut [Vector<F, N>],
    experts: usize,
    row: usize,
    #[comptime] form: Form,
    #[define(F)] _element: ElemType,
) {
    if ABSOLUTE_POS < dhidden.len() {
        let sorted = ABSOLUTE_POS / row;
        let gate = sorted * row * comptime!(form.parts()) + ABSOLUTE_POS % row;
        #[comptime]
        match &offsets {
            ComptimeOption::Some(offsets) => {
                if sorted < offsets[experts] as usize {
                    let d = Vector::<f32, N>::cast_from(dhidden[ABSOLUTE_POS]);
                    differentiate::<F, N>(pre, dpre, gate, row, d, form);
                } else {
                    clear::<F, N>(dpre, gate, row, form);
                }
            }
            ComptimeOption::None => {
                let d = Vector::<f32, N>::cast_from(dhidden[ABSOLUTE_POS]);
                differentiate::<F, N>(pre, dpre, gate, row, d, form);
            }
        }
    }
}

buffers! {
    /// Buffers of the backward pass.
    pub struct BackwardBuffers {
        pub pre: Handle => "[R, F or 2F]" read,
        pub dhidden: Handle => "[R,F]" read: "the gradient before the weights, overwritten by w · hidden",
        pub order: Handle => "[S] u32" read,
        pub offsets: Handle => "[E+1] u32" read,
        pub weights: Handle => "[S] f32" read,
        pub dpre: Handle => "[R, F or 2F]" written,
        pub dweights: Handle => "[S] f32" written,
    }
}

/// Enqueues the backward pass: one launch.
pub fn launch_backward(client: &Client, plan: &Plan, buffers: BackwardBuffers) {
    let p = &plan.problem;
    if p.slots() == 0 {
        return;
    }
    let RowGrid { grid, units } = plan.per_slot;
    let (count, dim, lanes) = (grid.count(), grid.dim(), plan.lanes);
    let (experts, row, form, element) = plan.sizes();
    let (slots, bound) = (p.slots(), p.row_bound());
    let [pre, dhidden, dpre] = [buffers.pre, buffers.dhidden, buffers.dpre].map(bind);
    let [order, offsets] = [buffers.order, buffers.offsets].map(bind);
    let [weights, dweights] = [buffers.weights, buffers.dweights].map(bind);
    launched::note(|| name(p, "expert_activation_backward", false));
    // SAFETY: the buffers are as long as they are described, and the row bound bounds offsets[E];
    // units past the last slot write nothing.
    unsafe {
        expert_activation_backward::launch_unchecked(
            client, count, dim, lanes, pre, dhidden, order, offsets, weights, dpre, dweights,
            experts, slots, bound, row, form, units, element,
        );
    }
}

buffers! {
    /// Buffers of the gradient without weights.
    pub struct GradientBuffers {
        pub pre: Handle => "[R, F or 2F]" read,
        pub dhidden: Handle => "[R,F]" read,
        pub offsets: Option<Handle> => "[E+1] u32" read: "absent in a dense network, whose rows are all read",
        pub dpre: Handle => "[R, F or 2F]" written,
    }
}

/// Enqueues the gradient without weights: one launch.
pub fn launch_gradient(client: &Client, plan: &Plan, buffers: GradientBuffers) {
    let p = &plan.problem;
    if p.slots() == 0 {
        return;
    }
    let (count, dim, lanes) = (plan.vectors.count(), plan.vectors.dim(), plan.lanes);
    let (experts, row, form, element) = plan.sizes();
    let [pre, dhidden, dpre] = [buffers.pre, buffers.dhidden, buffers.dpre].map(bind);
    launched::note(|| name(p, "expert_activation_gradient", buffers.offsets.is_none()));
    let offsets = buffers.offsets.map(bind).into();
    // SAFETY: the buffers are as long as they are described; units past the last vector return.
    unsafe {
        expert_activation_gradient::launch_unchecked(
            client, count, dim, lanes, pre, dhidden, offsets, dpre, experts, row, form, element,
        );
    }
}

#[cfg(test)]
mod tests;

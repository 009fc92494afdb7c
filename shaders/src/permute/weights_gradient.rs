//! The gradient of [`super::combine`] for its weights: dw\[s\] = ⟨dy\[s / K\], rows\[positions\[s\]\]⟩.
//!
//! Shapes: dy \[T,H\] and sorted rows \[R,H\] of the element type, positions u32 \[S\], dw f32 \[S\]; 0 for
//! a slot whose position is [`super::NOWHERE`]. On a GPU some units share a slot: each sums every
//! n-th vector in order, lane by lane, and neighbours are added pairwise, so the order is fixed by
//! the plan. On a CPU one unit takes a slot. FLOPs 2·S·H; bytes 2·S·H elements.

use super::rows::{RowsPlan, RowsProblem};
use crate::error::ShapeError;
use crate::launched;
use cubecl::prelude::*;
use cubecl::server::Handle;

/// One row of units per slot.
#[cube(launch_unchecked)]
fn combine_weights_gradient<F: Float, N: Size>(
    positions: &[u32],
    dy: &[Vector<F, N>],
    rows: &[Vector<F, N>],
    dweights: &mut [f32],
    vectors: usize,
    row_bound: u32,
    top_k: usize,
    #[comptime] units: [u32; 2],
    #[define(F)] _element: ElemType,
) {
    let (along, across) = comptime!((units[0] as usize, units[1] as usize));
    let unit = UNIT_POS_X as usize;
    let slot = CUBE_POS * across + UNIT_POS_Y as usize;
    let mut sum = Vector::<f32, N>::new(0.0f32);
    if slot < dweights.len() {
        let row = positions[slot];
        if row < row_bound {
            let from = slot / top_k * vectors;
            let to = row as usize * vectors;
            for i in range_stepped(unit, vectors, along) {
                let a = Vector::<f32, N>::cast_from(dy[from + i]);
                sum = fma(a, Vector::<f32, N>::cast_from(rows[to + i]), sum);
            }
        }
    }
    let total = row_sum(sum.vector_sum(), along, across);
    if unit == 0 && slot < dweights.len() {
        dweights[slot] = total;
    }
}

/// The sum of `value` over the units along x; `along` is a power of two.
#[cube]
fn row_sum(value: f32, #[comptime] along: usize, #[comptime] across: usize) -> f32 {
    if comptime!(along == 1) {
        value
    } else {
        let mut partial = Shared::<[f32]>::new_slice(comptime!(along * across));
        let unit = UNIT_POS_X as usize;
        let own = UNIT_POS_Y as usize * along + unit;
        partial[own] = value;
        #[unroll]
        for level in 0..comptime!(along.ilog2()) {
            let half = comptime!(along >> (level + 1));
            sync_cube();
            if unit < half {
                let other = partial[own + half];
                partial[own] += other;
            }
        }
        // Only unit 0 asks, and it wrote the last sum itself.
        partial[own]
    }
}

/// Buffers of a gradient for weights.
pub struct WeightsGradientBuffers {
    /// \[S\] u32, read.
    pub positions: Handle,
    /// \[T,H\], read.
    pub dy: Handle,
    /// \[R,H\], read.
    pub rows: Handle,
    /// \[S\] f32, written.
    pub dweights: Handle,
}

/// Enqueues the gradient: one launch, or none for no tokens.
pub fn launch(client: &Client, plan: &RowsPlan, buffers: WeightsGradientBuffers) {
    let p = &plan.problem;
    let (slots, vectors) = (p.slots(), plan.vectors());
    if slots == 0 {
        return;
    }
    // SAFETY: the caller's buffers have the planned shapes; no slot past the last is written, and
    // no row past the bound is read.
    unsafe {
        launched::note(|| format!("combine_weights_gradient_{}", p.element()));
        combine_weights_gradient::launch_unchecked(
            client,
            plan.slots.count(),
            plan.slots.dim(),
            plan.lanes,
            BufferArg::from_raw_parts(buffers.positions, slots),
            BufferArg::from_raw_parts(buffers.dy, p.tokens() * vectors),
            BufferArg::from_raw_parts(buffers.rows, p.row_bound() * vectors),
            BufferArg::from_raw_parts(buffers.dweights, slots),
            vectors,
            p.row_bound() as u32,
            p.top_k(),
            plan.slots.units,
            p.element().elem_type(),
        );
    }
}

/// The oracle, in f64.
///
/// # Errors
/// [`ShapeError`] when a slice isn't as long as the problem says.
pub fn reference(
    problem: &RowsProblem,
    positions: &[u32],
    dy: &[f64],
    rows: &[f64],
) -> Result<Vec<f64>, ShapeError> {
    let width = problem.width();
    ShapeError::check("positions", problem.slots(), positions.len())?;
    ShapeError::check("dy", problem.tokens() * width, dy.len())?;
    ShapeError::check("rows", problem.row_bound() * width, rows.len())?;
    let dot = |(slot, row): (usize, &u32)| -> f64 {
        let row = *row as usize;
        if row >= problem.row_bound() {
            return 0.0;
        }
        let dy = &dy[slot / problem.top_k() * width..][..width];
        dy.iter()
            .zip(&rows[row * width..])
            .map(|(a, b)| a * b)
            .sum()
    };
    Ok(positions.iter().enumerate().map(dot).collect())
}

/// The gradient of every element type.
#[cfg(feature = "emit")]
pub(super) fn entries() -> [crate::emit::KernelEntry; 3] {
    use super::rows::sample;
    use crate::emit::{KernelEntry, Machine, Planned, buffer};
    crate::Element::ALL.map(|element| {
        let build = move |at: &Machine| -> Planned {
            let plan = sample(element, &at.capability)?;
            let (settings, device, target) = at.parts(plan.slots.dim());
            let kernel = combine_weights_gradient::CombineWeightsGradient::new(
                settings,
                device,
                target,
                buffer(),
                buffer(),
                buffer(),
                buffer(),
                (),
                (),
                (),
                plan.lanes,
                plan.slots.units,
                element.elem_type(),
            );
            Ok(Box::new(kernel))
        };
        let name = format!("combine_weights_gradient_{element}");
        KernelEntry::new(("permute", "weights gradient"), name, build).of(element)
    })
}

#[cfg(test)]
mod tests {
    use super::reference;
    use crate::permute::{NOWHERE, RowsProblem};
    use crate::{Element, routing};

    #[test]
    fn a_weight_moves_y_by_its_row() {
        let routing = routing::Problem::new(2, 3, 2).unwrap();
        let problem = RowsProblem::new(&routing, 3, 2, Element::F32).unwrap();
        let rows = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        let dy = [10.0, 1.0, 100.0, 1000.0];
        let got = reference(&problem, &[2, 0, NOWHERE, 1], &dy, &rows).unwrap();
        assert_eq!(got, [56.0, 12.0, 0.0, 4300.0]);
    }
}

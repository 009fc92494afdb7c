//! Combine: y_t = Σ_k w_tk · out_(t,k), summed in slot order in f32.
//!
//! Shapes: slot outputs \[S,H\] and y \[T,H\] of the element type, weights f32 \[S\], keys u32 \[S\].
//! A slot whose key is E contributes nothing, whatever its output buffer holds.
//! FLOPs 2·S·H; bytes (S + T)·H elements.

use crate::element::Element;
use crate::error::{ShapeError, Unsupported};
use crate::grid::{Grid, lanes};
use crate::routing;
use cubecl::prelude::*;
use cubecl::server::Handle;
use moebius_device::Capability;

/// A combination this device can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CombinePlan {
    problem: routing::Problem,
    hidden: usize,
    element: Element,
    lanes: usize,
    grid: Grid,
}

/// Plans the combination of rows of `hidden` elements.
///
/// # Errors
/// [`Unsupported`] for an element type the device lacks, or more than a binding or a grid holds.
pub fn plan(
    problem: routing::Problem,
    hidden: usize,
    element: Element,
    device: &Capability,
) -> Result<CombinePlan, Unsupported> {
    element.supported("combine", device)?;
    crate::fits_binding(
        "combine",
        problem.slots() * hidden * element.bytes(),
        device,
    )?;
    let lanes = lanes(hidden, element.bytes(), device);
    Ok(CombinePlan {
        problem,
        hidden,
        element,
        lanes,
        grid: Grid::elementwise("combine", problem.tokens() * (hidden / lanes), device)?,
    })
}

/// One unit per vector of y.
#[cube(launch_unchecked)]
fn combine<F: Float, N: Size>(
    keys: &[u32],
    weights: &[f32],
    slots: &[Vector<F, N>],
    y: &mut [Vector<F, N>],
    row: usize,
    experts: u32,
    top_k: usize,
    #[define(F)] _element: ElemType,
) {
    if ABSOLUTE_POS < y.len() {
        let token = ABSOLUTE_POS / row;
        let column = ABSOLUTE_POS % row;
        let mut sum = Vector::<f32, N>::new(0.0f32);
        for k in 0..top_k {
            let slot = token * top_k + k;
            if keys[slot] < experts {
                let value = Vector::<f32, N>::cast_from(slots[slot * row + column]);
                sum = fma(Vector::<f32, N>::new(weights[slot]), value, sum);
            }
        }
        y[ABSOLUTE_POS] = Vector::cast_from(sum);
    }
}

/// Buffers of a combination.
pub struct CombineBuffers {
    /// \[S\] u32, read.
    pub keys: Handle,
    /// \[S\] f32, read.
    pub weights: Handle,
    /// \[S,H\], read.
    pub slots: Handle,
    /// \[T,H\], written.
    pub y: Handle,
}

/// Enqueues a combination: one launch.
pub fn launch(client: &Client, plan: &CombinePlan, buffers: CombineBuffers) {
    let (slots, row) = (plan.problem.slots(), plan.hidden / plan.lanes);
    if slots == 0 {
        return;
    }
    // SAFETY: the caller's buffers have the planned shapes; units past the last vector return.
    unsafe {
        combine::launch_unchecked(
            client,
            plan.grid.count(),
            plan.grid.dim(),
            plan.lanes,
            BufferArg::from_raw_parts(buffers.keys, slots),
            BufferArg::from_raw_parts(buffers.weights, slots),
            BufferArg::from_raw_parts(buffers.slots, slots * row),
            BufferArg::from_raw_parts(buffers.y, plan.problem.tokens() * row),
            row,
            plan.problem.experts() as u32,
            plan.problem.top_k(),
            plan.element.elem_type(),
        );
    }
}

/// The oracle, in f64.
///
/// # Errors
/// [`ShapeError`] when a slice isn't as long as the slots need.
pub fn reference(
    problem: &routing::Problem,
    keys: &[u32],
    weights: &[f64],
    slots: &[f64],
    hidden: usize,
) -> Result<Vec<f64>, ShapeError> {
    ShapeError::check("keys", problem.slots(), keys.len())?;
    ShapeError::check("weights", problem.slots(), weights.len())?;
    ShapeError::check("slot outputs", problem.slots() * hidden, slots.len())?;
    let mut y = vec![0.0; problem.tokens() * hidden];
    for (slot, key) in keys.iter().enumerate() {
        if (*key as usize) < problem.experts() {
            let row = &mut y[slot / problem.top_k() * hidden..][..hidden];
            for (sum, value) in row.iter_mut().zip(&slots[slot * hidden..]) {
                *sum += weights[slot] * value;
            }
        }
    }
    Ok(y)
}

/// The combination of every element type.
#[cfg(feature = "emit")]
pub(super) fn entries() -> [crate::emit::KernelEntry; 3] {
    use crate::emit::{KernelEntry, Machine, Planned, buffer};
    Element::ALL.map(|element| {
        let build = move |at: &Machine| -> Planned {
            let problem = routing::Problem::new(1024, 8, 2)?;
            let plan = plan(problem, 512, element, &at.capability)?;
            let (settings, device, target) = at.parts(plan.grid.dim());
            Ok(Box::new(combine::Combine::new(
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
                element.elem_type(),
            )))
        };
        KernelEntry::new(("permute", "combine"), format!("combine_{element}"), build).of(element)
    })
}

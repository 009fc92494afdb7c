//! Dispatch: rows\[r\] = w · x of the token of sorted row r.
//!
//! rows\[r\] = w\[order\[r\]\] · x\[order\[r\] / K\] for r < offsets\[E\], 0 for the rest. Shapes: x \[T,H\] and
//! rows \[R,H\] of the element type, weights f32 \[S\] (1 without), order u32 \[S\], offsets u32 \[E+1\].
//! Weighted it is the gradient of [`super::combine`] for its rows, given that of y.
//! FLOPs R·H; bytes 2·R·H elements.

use super::rows::{RowsPlan, RowsProblem, weight_of};
use crate::error::ShapeError;
use crate::launched;
use cubecl::prelude::*;
use cubecl::server::Handle;

/// One unit per vector of the sorted rows.
#[cube(launch_unchecked)]
fn dispatch<F: Float, N: Size>(
    order: &[u32],
    offsets: &[u32],
    weights: ComptimeOption<&[f32]>,
    x: &[Vector<F, N>],
    rows: &mut [Vector<F, N>],
    vectors: usize,
    experts: usize,
    top_k: usize,
    #[define(F)] _element: ElemType,
) {
    if ABSOLUTE_POS < rows.len() {
        let row = ABSOLUTE_POS / vectors;
        let column = ABSOLUTE_POS % vectors;
        let mut value = Vector::<f32, N>::new(0.0f32);
        if row < offsets[experts] as usize {
            let slot = order[row] as usize;
            let weight = Vector::<f32, N>::new(weight_of(&weights, slot));
            value = weight * Vector::<f32, N>::cast_from(x[slot / top_k * vectors + column]);
        }
        rows[ABSOLUTE_POS] = Vector::cast_from(value);
    }
}

/// Buffers of a dispatch.
pub struct DispatchBuffers {
    /// \[S\] u32, read.
    pub order: Handle,
    /// \[E+1\] u32, read.
    pub offsets: Handle,
    /// \[S\] f32, read.
    pub weights: Option<Handle>,
    /// \[T,H\], read.
    pub x: Handle,
    /// \[R,H\], written.
    pub rows: Handle,
}

/// Enqueues a dispatch: one launch, or none for no rows.
pub fn launch(client: &Client, plan: &RowsPlan, buffers: DispatchBuffers) {
    let p = &plan.problem;
    let (slots, vectors) = (p.slots(), plan.vectors());
    if p.row_bound() == 0 {
        return;
    }
    let weighted = buffers.weights.is_some();
    // SAFETY: the caller's buffers have the planned shapes; units past the last vector return.
    unsafe {
        let weights = buffers
            .weights
            .map(|weights| BufferArg::from_raw_parts(weights, slots));
        launched::note(|| super::rows::name("dispatch", p.element(), weighted));
        dispatch::launch_unchecked(
            client,
            plan.rows.count(),
            plan.rows.dim(),
            plan.lanes,
            BufferArg::from_raw_parts(buffers.order, slots),
            BufferArg::from_raw_parts(buffers.offsets, p.experts() + 1),
            weights.into(),
            BufferArg::from_raw_parts(buffers.x, p.tokens() * vectors),
            BufferArg::from_raw_parts(buffers.rows, p.row_bound() * vectors),
            vectors,
            p.experts(),
            p.top_k(),
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
    sorted: &super::Sorted,
    weights: Option<&[f64]>,
    x: &[f64],
) -> Result<Vec<f64>, ShapeError> {
    let (slots, width) = (problem.slots(), problem.width());
    ShapeError::check("order", slots, sorted.order.len())?;
    ShapeError::check("offsets", problem.experts() + 1, sorted.offsets.len())?;
    ShapeError::check("weights", slots, weights.map_or(slots, <[f64]>::len))?;
    ShapeError::check("x", problem.tokens() * width, x.len())?;
    let mut rows = vec![0.0; problem.row_bound() * width];
    let used = sorted.offsets[problem.experts()] as usize;
    for (row, slot) in rows.chunks_mut(width).zip(&sorted.order[..used]) {
        let weight = weights.map_or(1.0, |weights| weights[*slot as usize]);
        let token = *slot as usize / problem.top_k();
        for (value, x) in row.iter_mut().zip(&x[token * width..]) {
            *value = weight * x;
        }
    }
    Ok(rows)
}

/// The dispatch of every element type, weighted and not.
#[cfg(feature = "emit")]
pub(super) fn entries() -> Vec<crate::emit::KernelEntry> {
    use super::rows::{sample, variants, weights_argument};
    use crate::emit::{KernelEntry, Machine, Planned, buffer};
    let entry = |(name, element, weighted): (String, crate::Element, bool)| {
        let build = move |at: &Machine| -> Planned {
            let plan = sample(element, &at.capability)?;
            let (settings, device, target) = at.parts(plan.rows.dim());
            Ok(Box::new(dispatch::Dispatch::new(
                settings,
                device,
                target,
                buffer(),
                buffer(),
                weights_argument(weighted),
                buffer(),
                buffer(),
                (),
                (),
                (),
                plan.lanes,
                element.elem_type(),
            )))
        };
        KernelEntry::new(("permute", "dispatch"), name, build).of(element)
    };
    variants("dispatch").into_iter().map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::reference;
    use crate::permute::{self, RowsProblem};
    use crate::{Element, routing};

    #[test]
    fn a_row_is_its_token_times_its_weight() {
        let routing = routing::Problem::new(2, 2, 2).unwrap();
        let problem = RowsProblem::new(&routing, 4, 2, Element::F32).unwrap();
        // Slots 1 and 2 go to expert 0, slot 0 to expert 1, slot 3 nowhere.
        let sorted = permute::reference(&[1, 0, 0, 2], 2);
        let x = [1.0, 2.0, 30.0, 40.0];
        let plain = reference(&problem, &sorted, None, &x).unwrap();
        assert_eq!(plain, [1.0, 2.0, 30.0, 40.0, 1.0, 2.0, 0.0, 0.0]);
        let weights = [5.0, 2.0, 0.1, f64::NAN];
        let weighted = reference(&problem, &sorted, Some(&weights), &x).unwrap();
        assert_eq!(weighted, [2.0, 4.0, 3.0, 4.0, 5.0, 10.0, 0.0, 0.0]);
    }
}

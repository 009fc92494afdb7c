//! Combine: y_t = Σ_k w_tk · rows\[positions(t,k)\], summed in slot order in f32.
//!
//! Shapes: sorted rows \[R,H\] and y \[T,H\] of the element type, weights f32 \[S\] (1 without),
//! positions u32 \[S\]. A slot whose position is [`super::NOWHERE`] contributes nothing, whatever its
//! weight. It is the gradient of an unweighted [`super::dispatch`], too.
//! FLOPs 2·S·H; bytes (S + T)·H elements.

use super::rows::{RowsPlan, RowsProblem, weight_of};
use crate::error::ShapeError;
use crate::launched;
use cubecl::prelude::*;
use cubecl::server::Handle;

/// One unit per vector of y.
#[cube(launch_unchecked)]
fn combine<F: Float, N: Size>(
    positions: &[u32],
    weights: ComptimeOption<&[f32]>,
    rows: &[Vector<F, N>],
    y: &mut [Vector<F, N>],
    vectors: usize,
    row_bound: u32,
    top_k: usize,
    #[define(F)] _element: ElemType,
) {
    if ABSOLUTE_POS < y.len() {
        let token = ABSOLUTE_POS / vectors;
        let column = ABSOLUTE_POS % vectors;
        let mut sum = Vector::<f32, N>::new(0.0f32);
        for k in 0..top_k {
            let slot = token * top_k + k;
            let row = positions[slot];
            if row < row_bound {
                let value = Vector::<f32, N>::cast_from(rows[row as usize * vectors + column]);
                sum = fma(Vector::<f32, N>::new(weight_of(&weights, slot)), value, sum);
            }
        }
        y[ABSOLUTE_POS] = Vector::cast_from(sum);
    }
}

/// Buffers of a combination.
pub struct CombineBuffers {
    /// \[S\] u32, read.
    pub positions: Handle,
    /// \[S\] f32, read.
    pub weights: Option<Handle>,
    /// \[R,H\], read.
    pub rows: Handle,
    /// \[T,H\], written.
    pub y: Handle,
}

/// Enqueues a combination: one launch, or none for no tokens.
pub fn launch(client: &Client, plan: &RowsPlan, buffers: CombineBuffers) {
    let p = &plan.problem;
    let (slots, vectors) = (p.slots(), plan.vectors());
    if slots == 0 {
        return;
    }
    let weighted = buffers.weights.is_some();
    // SAFETY: the caller's buffers have the planned shapes; units past the last vector return, and
    // no row past the bound is read.
    unsafe {
        let weights = buffers
            .weights
            .map(|weights| BufferArg::from_raw_parts(weights, slots));
        launched::note(|| super::rows::name("combine", p.element(), weighted));
        combine::launch_unchecked(
            client,
            plan.tokens.count(),
            plan.tokens.dim(),
            plan.lanes,
            BufferArg::from_raw_parts(buffers.positions, slots),
            weights.into(),
            BufferArg::from_raw_parts(buffers.rows, p.row_bound() * vectors),
            BufferArg::from_raw_parts(buffers.y, p.tokens() * vectors),
            vectors,
            p.row_bound() as u32,
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
    positions: &[u32],
    weights: Option<&[f64]>,
    rows: &[f64],
) -> Result<Vec<f64>, ShapeError> {
    let (slots, width) = (problem.slots(), problem.width());
    ShapeError::check("positions", slots, positions.len())?;
    ShapeError::check("weights", slots, weights.map_or(slots, <[f64]>::len))?;
    ShapeError::check("rows", problem.row_bound() * width, rows.len())?;
    let mut y = vec![0.0; problem.tokens() * width];
    for (slot, row) in positions.iter().enumerate() {
        if (*row as usize) < problem.row_bound() {
            let weight = weights.map_or(1.0, |weights| weights[slot]);
            let sums = &mut y[slot / problem.top_k() * width..][..width];
            for (sum, value) in sums.iter_mut().zip(&rows[*row as usize * width..]) {
                *sum += weight * value;
            }
        }
    }
    Ok(y)
}

/// The combination of every element type, weighted and not.
#[cfg(feature = "emit")]
pub(super) fn entries() -> Vec<crate::emit::KernelEntry> {
    use super::rows::{sample, variants, weights_argument};
    use crate::emit::{KernelEntry, Machine, Planned, buffer};
    let entry = |(name, element, weighted): (String, crate::Element, bool)| {
        let build = move |at: &Machine| -> Planned {
            let plan = sample(element, &at.capability)?;
            let (settings, device, target) = at.parts(plan.tokens.dim());
            Ok(Box::new(combine::Combine::new(
                settings,
                device,
                target,
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
        KernelEntry::new(("permute", "combine"), name, build).of(element)
    };
    variants("combine").into_iter().map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::reference;
    use crate::permute::{NOWHERE, RowsProblem};
    use crate::{Element, routing};

    #[test]
    fn a_token_is_the_weighted_sum_of_its_rows() {
        let routing = routing::Problem::new(2, 3, 2).unwrap();
        let problem = RowsProblem::new(&routing, 3, 2, Element::F32).unwrap();
        let rows = [1.0, 2.0, 10.0, 20.0, 100.0, 200.0];
        let positions = [2, 0, NOWHERE, 1];
        let weights = [0.5, 3.0, f64::NAN, 0.25];
        let weighted = reference(&problem, &positions, Some(&weights), &rows).unwrap();
        assert_eq!(weighted, [53.0, 106.0, 2.5, 5.0]);
        let plain = reference(&problem, &positions, None, &rows).unwrap();
        assert_eq!(plain, [101.0, 202.0, 10.0, 20.0]);
        assert!(reference(&problem, &positions[1..], None, &rows).is_err());
    }
}

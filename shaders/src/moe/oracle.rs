//! The experts of a layer in f64.

use super::Problem;
use crate::error::ShapeError;
use crate::grouped_gemm;
use crate::permute::{self, capacity, combine};

/// Inputs of [`reference()`]: f32 copies of the buffers of the same names.
pub struct ReferenceInputs<'a> {
    /// \[T,H\].
    pub x: &'a [f32],
    /// \[T,K\].
    pub indices: &'a [u32],
    /// \[T,K\].
    pub weights: &'a [f64],
    /// \[E, F or 2F, H\].
    pub w_in: &'a [f32],
    /// \[E, F or 2F\].
    pub b_in: Option<&'a [f32]>,
    /// \[E,H,F\].
    pub w_out: &'a [f32],
    /// \[E,H\].
    pub b_out: Option<&'a [f32]>,
}

/// The oracle, in f64: y \[T,H\] and the number of slots that reached no expert.
///
/// # Errors
/// [`ShapeError`] when the problem's sizes are wrong.
pub fn reference(
    problem: &Problem,
    inputs: &ReferenceInputs,
) -> Result<(Vec<f64>, usize), ShapeError> {
    let r = &problem.routing;
    let weights: Vec<f32> = inputs.weights.iter().map(|w| *w as f32).collect();
    let keys = match problem.capacity {
        Some(capacity) => {
            let limit = capacity.slots_per_expert(r.slots(), r.experts()) as u32;
            capacity::reference(inputs.indices, &weights, &vec![limit; r.experts()])
        }
        None => inputs.indices.to_vec(),
    };
    let sorted = permute::reference(&keys, r.experts());
    let x: Vec<f64> = inputs.x.iter().map(|x| f64::from(*x)).collect();
    let hidden = grouped_gemm::reference(&problem.up()?, &sorted, &x, inputs.w_in, inputs.b_in);
    let down = problem.down()?;
    let rows = grouped_gemm::reference(&down, &sorted, &hidden, inputs.w_out, inputs.b_out);
    let shape = super::rows(problem)?;
    let y = combine::reference(&shape, &sorted.positions, Some(inputs.weights), &rows)?;
    let dropped = keys.iter().filter(|key| **key as usize >= r.experts());
    Ok((y, dropped.count()))
}

//! Combine: y_t = Σ_k w_tk · rows\[positions(t,k)\], summed in slot order in f32.
//!
//! Shapes: sorted rows \[R,H\] and y \[T,H\] of the element type, weights f32 \[S\] (1 if absent), positions u32 \[S\]. A slot
//! whose position is [`super::NOWHERE`] contributes nothing, whatever its weight. Combine is also the gradient of an unweighted
//! [`super::dispatch`]. FLOPs: 2·S·H. Bytes: (S + T)·H elements.

use super::RowsProblem;
use crate::error::Mismatch;

/// The oracle, in f64.
///
/// # Errors
/// [`Mismatch`] when the length of a slice differs from the problem's.
pub fn reference(
    problem: &RowsProblem,
    positions: &[u32],
    weights: Option<&[f64]>,
    rows: &[f64],
) -> Result<Vec<f64>, Mismatch> {
    let (slots, width) = (problem.slots(), problem.width());
    Mismatch::check("positions", slots, positions.len())?;
    Mismatch::check("weights", slots, weights.map_or(slots, <[f64]>::len))?;
    Mismatch::check("rows", problem.row_bound() * width, rows.len())?;
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

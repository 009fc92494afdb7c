//! The gradient of [`super::combine`] with respect to its weights: dw\[s\] = ⟨dy\[s / K\], rows\[positions\[s\]\]⟩.
//!
//! Shapes: dy \[T,H\] and sorted rows \[R,H\] of the element type, positions u32 \[S\], dw f32 \[S\]; 0 for
//! a slot whose position is [`super::NOWHERE`]. FLOPs 2·S·H; bytes 2·S·H elements.

use super::RowsProblem;
use crate::error::Mismatch;

/// The oracle, in f64.
///
/// # Errors
/// [`Mismatch`] when the length of a slice differs from the problem's.
pub fn reference(
    problem: &RowsProblem,
    positions: &[u32],
    dy: &[f64],
    rows: &[f64],
) -> Result<Vec<f64>, Mismatch> {
    let width = problem.width();
    Mismatch::check("positions", problem.slots(), positions.len())?;
    Mismatch::check("dy", problem.tokens() * width, dy.len())?;
    Mismatch::check("rows", problem.row_bound() * width, rows.len())?;
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

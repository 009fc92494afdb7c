//! Dispatch: rows\[r\] = w · x of the token of sorted row r.
//!
//! rows\[r\] = w\[order\[r\]\] · x\[order\[r\] / K\] for r < offsets\[E\], 0 for later rows. Shapes: x \[T,H\] and rows \[R,H\]
//! of the element type, weights f32 \[S\] (1 if absent), order u32 \[S\], offsets u32 \[E+1\]. A weighted dispatch of dy is the
//! gradient of [`super::combine`] with respect to its rows. FLOPs: R·H. Bytes: 2·R·H elements.

use super::RowsProblem;
use crate::error::Mismatch;

/// The oracle, in f64.
///
/// # Errors
/// [`Mismatch`] when the length of a slice differs from the problem's.
pub fn reference(
    problem: &RowsProblem,
    sorted: &super::Sorted,
    weights: Option<&[f64]>,
    x: &[f64],
) -> Result<Vec<f64>, Mismatch> {
    let (slots, width) = (problem.slots(), problem.width());
    Mismatch::check("order", slots, sorted.order.len())?;
    Mismatch::check("offsets", problem.experts() + 1, sorted.offsets.len())?;
    Mismatch::check("weights", slots, weights.map_or(slots, <[f64]>::len))?;
    Mismatch::check("x", problem.tokens() * width, x.len())?;
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

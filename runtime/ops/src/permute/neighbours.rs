//! Sorted rows beside their neighbours, which a convolution over a sequence multiplies, and back.
//!
//! Forward: out\[r\] = (x\[r−1\], x\[r\], x\[r+1\]), causal (x\[r−2\], x\[r−1\], x\[r\]), for the rows r that have
//! an expert. A neighbour counts when it is of the same expert and the same sequence, the token of
//! sorted row r being order\[r\] / K and a sequence L tokens; for any other there are zeros, and the
//! rows from offsets\[E\] on are zeros. Backward: dx\[r\] = Σ_j dout\[r − shift_j, j\] over the three
//! places j where row r was put, summed in f32 in their order; 0 for rows without an expert.
//!
//! Shapes: x \[R,n\] and out \[R,3n\] of the element type, order u32 \[S\], offsets u32 \[E+1\].
//! Within an expert rows are in slot order, so those of a sequence lie together. No FLOPs forward,
//! 2·R·n backward; bytes 4·R·n elements.

use crate::error::ShapeError;
use serde::{Deserialize, Serialize};

/// Rows side by side: the kernel size of a convolution over them.
pub const PLACES: usize = 3;

/// Rows and the sequences they belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    sort: super::Problem,
    width: usize,
    top_k: usize,
    sequence: usize,
    causal: bool,
}

impl Problem {
    /// Rows of `width` elements sorted by `sort`, of tokens in sequences of `sequence` tokens.
    ///
    /// # Errors
    /// [`ShapeError`] when a size is 0 or an index would not fit 31 bits.
    pub fn new(
        sort: super::Problem,
        width: usize,
        top_k: usize,
        sequence: usize,
        causal: bool,
    ) -> Result<Self, ShapeError> {
        for (what, size) in [("width", width), ("top_k", top_k), ("sequence", sequence)] {
            if size == 0 {
                return Err(ShapeError::new(what, "at least 1", size));
            }
        }
        let fits = |a: usize, b: usize| a.checked_mul(b).is_some_and(|n| n <= i32::MAX as usize);
        if !fits(sort.row_bound(), PLACES.saturating_mul(width)) {
            let got = format!("{} x {PLACES} x {width}", sort.row_bound());
            return Err(ShapeError::new(
                "neighbours",
                "at most 2^31 - 1 elements",
                got,
            ));
        }
        if !fits(sequence, top_k) {
            let got = format!("{sequence} x {top_k}");
            return Err(ShapeError::new("sequence x top_k", "at most 2^31 - 1", got));
        }
        Ok(Self {
            sort,
            width,
            top_k,
            sequence,
            causal,
        })
    }

    /// Checks what the constructor does, of a problem that was read.
    pub(crate) fn check(&self) -> Result<(), ShapeError> {
        self.sort.check()?;
        Self::new(
            self.sort,
            self.width,
            self.top_k,
            self.sequence,
            self.causal,
        )
        .map(drop)
    }

    /// Rows of a sorted buffer R.
    pub fn row_bound(&self) -> usize {
        self.sort.row_bound()
    }

    /// Elements of a row n.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Slots per token K.
    pub fn top_k(&self) -> usize {
        self.top_k
    }

    /// Tokens of a sequence L.
    pub fn sequence(&self) -> usize {
        self.sequence
    }

    /// Whether no row sees one behind it.
    pub fn causal(&self) -> bool {
        self.causal
    }

    /// Rows before a row that it sees; its first place is for the first of them.
    pub fn back(&self) -> usize {
        if self.causal { PLACES - 1 } else { PLACES / 2 }
    }

    /// The sort of the slots.
    pub fn sort(&self) -> super::Problem {
        self.sort
    }
}

/// (row, place, the row it sees there), rows and places in order.
fn pairs(problem: &Problem, sorted: &super::Sorted) -> Vec<(usize, usize, usize)> {
    let mut pairs = Vec::new();
    let sequence = |row: usize| sorted.order[row] as usize / problem.top_k / problem.sequence;
    for segment in sorted.offsets.windows(2) {
        let segment = segment[0] as usize..segment[1] as usize;
        for row in segment.clone() {
            for place in 0..PLACES {
                let other = (row + place).wrapping_sub(problem.back());
                if segment.contains(&other) && sequence(other) == sequence(row) {
                    pairs.push((row, place, other));
                }
            }
        }
    }
    pairs
}

/// The oracle: out \[R,3n\].
///
/// # Errors
/// [`ShapeError`] when x isn't \[R,n\].
pub fn reference(
    problem: &Problem,
    sorted: &super::Sorted,
    x: &[f64],
) -> Result<Vec<f64>, ShapeError> {
    let width = problem.width;
    ShapeError::check("x", problem.row_bound() * width, x.len())?;
    let mut out = vec![0.0; problem.row_bound() * PLACES * width];
    for (row, place, other) in pairs(problem, sorted) {
        out[(row * PLACES + place) * width..][..width]
            .copy_from_slice(&x[other * width..][..width]);
    }
    Ok(out)
}

/// The oracle of the gradient: dx \[R,n\].
///
/// # Errors
/// [`ShapeError`] when dout isn't \[R,3n\].
pub fn reference_backward(
    problem: &Problem,
    sorted: &super::Sorted,
    dout: &[f64],
) -> Result<Vec<f64>, ShapeError> {
    let width = problem.width;
    let rows = problem.row_bound();
    ShapeError::check("gradient of neighbours", rows * PLACES * width, dout.len())?;
    let mut dx = vec![0.0; rows * width];
    for (row, place, other) in pairs(problem, sorted) {
        let sums = &mut dx[other * width..][..width];
        for (sum, value) in sums.iter_mut().zip(&dout[(row * PLACES + place) * width..]) {
            *sum += value;
        }
    }
    Ok(dx)
}

#[cfg(test)]
mod tests {
    use super::{Problem, reference, reference_backward};
    use crate::permute;

    /// Six tokens in sequences of 3; tokens 0, 1, 2 and 4 go to expert 0, 3 to expert 1, 5 nowhere.
    fn rows(causal: bool) -> (Problem, permute::Sorted) {
        let sort = permute::Problem::new(6, 2, 4).unwrap();
        let problem = Problem::new(sort, 1, 1, 3, causal).unwrap();
        (problem, permute::reference(&[0, 0, 0, 1, 0, 2], 2))
    }

    #[test]
    fn a_row_sees_its_sequence_in_its_expert() {
        let x = [1.0, 2.0, 3.0, 5.0, 4.0, f64::NAN];
        let (problem, sorted) = rows(false);
        let out = reference(&problem, &sorted, &x).unwrap();
        let want = [
            [0.0, 1.0, 2.0],
            [1.0, 2.0, 3.0],
            [2.0, 3.0, 0.0],
            [0.0, 5.0, 0.0],
            [0.0, 4.0, 0.0],
            [0.0; 3],
        ];
        assert_eq!(out, want.concat());
        let (problem, sorted) = rows(true);
        let out = reference(&problem, &sorted, &x).unwrap();
        let want = [
            [0.0, 0.0, 1.0],
            [0.0, 1.0, 2.0],
            [1.0, 2.0, 3.0],
            [0.0, 0.0, 5.0],
            [0.0, 0.0, 4.0],
            [0.0; 3],
        ];
        assert_eq!(out, want.concat());
    }

    /// ⟨neighbours(x), d⟩ = ⟨x, backward(d)⟩.
    #[test]
    fn the_backward_pass_is_the_adjoint() {
        for causal in [false, true] {
            let (problem, sorted) = rows(causal);
            let x: Vec<f64> = (0..6).map(|i| f64::from(i * i + 1)).collect();
            let d: Vec<f64> = (0..18).map(|i| f64::from(i * 7 % 11) - 4.0).collect();
            let out = reference(&problem, &sorted, &x).unwrap();
            let dx = reference_backward(&problem, &sorted, &d).unwrap();
            let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
            assert_eq!(dot(&out, &d), dot(&x, &dx));
        }
    }

    #[test]
    fn sizes_that_make_no_sense_are_shape_errors() {
        let sort = permute::Problem::new(6, 2, 4).unwrap();
        for (width, top_k, sequence) in [(0, 1, 3), (1, 0, 3), (1, 1, 0), (1 << 30, 1, 3)] {
            assert!(Problem::new(sort, width, top_k, sequence, false).is_err());
        }
    }
}

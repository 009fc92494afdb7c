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

getters! {
    /// Rows and the sequences they belong to.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Problem {
        /// The sort of the slots.
        sort: super::Problem,
        /// Elements of a row n.
        width: usize,
        /// Slots per token K.
        top_k: usize,
        /// Tokens of a sequence L.
        sequence: usize,
        /// Whether no row sees one behind it.
        causal: bool,
    }
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
        ShapeError::positive(&[("width", width), ("top_k", top_k), ("sequence", sequence)])?;
        ShapeError::index("elements of neighbours", &[sort.row_bound(), PLACES, width])?;
        ShapeError::index("sequence x top_k", &[sequence, top_k])?;
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
        let (top_k, sequence) = (self.top_k, self.sequence);
        Self::new(self.sort, self.width, top_k, sequence, self.causal).map(drop)
    }

    /// Rows of a sorted buffer R.
    pub fn row_bound(&self) -> usize {
        self.sort.row_bound()
    }

    /// Rows before a row that it sees; its first place is for the first of them.
    pub fn back(&self) -> usize {
        if self.causal { PLACES - 1 } else { PLACES / 2 }
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
#[path = "neighbours_tests.rs"]
mod tests;

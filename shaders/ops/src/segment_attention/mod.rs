//! Attention among the rows of a segment: the tokens of one sequence that went to one expert.
//!
//! Rows are sorted by expert ([`crate::permute`]) and the slots of an expert ascend, so the rows of a
//! sequence (L tokens each) are neighbours. Within a segment, for each head of D values,
//! - s_ij = ⟨q_i, k_j⟩ / √D, p_ij = exp(s_ij − lse_i), lse_i = ln Σ_j exp(s_ij), o_i = Σ_j p_ij · v_j,
//!   over the rows j of the segment, or j ≤ i when causal;
//! - backward, with ds_ij = p_ij · (⟨do_i, v_j⟩ − ⟨do_i, o_i⟩): dq_i = Σ_j ds_ij · k_j / √D,
//!   dk_j = Σ_i ds_ij · q_i / √D, dv_j = Σ_i p_ij · do_i.
//!
//! Shapes: q, k, v, o and their gradients \[R, heads·D\] of the element type, lse f32 \[R, heads\],
//! segments u32 \[R,2\] (first row, and one past the last), order u32 \[S\], offsets u32 \[E+1\].
//! Rows from offsets\[E\] on belong to no segment; their values don't matter, their outputs are 0.
//! D is at most 128.
//!
//! With P = Σ over segments of length², half of it when causal: FLOPs 4·P·heads·D forward, 16
//! backward. Bytes: 4·R·heads·D elements forward, and the rows of a segment again from cache.

mod backward;
mod forward;
mod segments;

pub use backward::{Gradients, reference_backward};
pub use forward::{Attended, Inputs, reference};
pub use segments::{Segments, reference_segments};

use crate::element::Element;
use crate::error::{Mismatch, fits};
use serde::{Deserialize, Serialize};

/// The largest head: a unit keeps up to three rows of it.
pub const MAX_HEAD_DIM: usize = 128;

getters! {
    /// Attention of some heads over [`Segments`].
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Problem {
        /// Which rows belong together.
        segments: Segments,
        /// Heads.
        heads: usize,
        /// Values of a head D.
        head_dim: usize,
        /// Type of the rows.
        element: Element => with_element,
        /// A row attends to itself and the rows before it.
        causal: bool => with_causal,
    }
}

impl Problem {
    /// `heads` heads of `head_dim` values in f32, not causal.
    ///
    /// # Errors
    /// [`Mismatch`] when a size is 0, the head exceeds 128 or an index would not fit 31 bits.
    pub fn new(segments: Segments, heads: usize, head_dim: usize) -> Result<Self, Mismatch> {
        Mismatch::positive(&[("heads", heads)])?;
        let right = (1..=MAX_HEAD_DIM).contains(&head_dim);
        let expected = format_args!("1 to {MAX_HEAD_DIM}");
        Mismatch::unless(right, "head size", expected, head_dim)?;
        let right = fits(&[heads, head_dim.max(2), segments.rows()]);
        let expected = "matrices of at most 2^31 - 1 elements";
        let got = format_args!("{} rows, {heads} heads of {head_dim}", segments.rows());
        Mismatch::unless(right, "segment attention", expected, got)?;
        Ok(Self {
            segments,
            heads,
            head_dim,
            element: Element::F32,
            causal: false,
        })
    }

    /// Checks what the constructors do, of a problem that was read.
    pub(crate) fn check(&self) -> Result<(), Mismatch> {
        self.segments.check()?;
        Self::new(self.segments, self.heads, self.head_dim).map(drop)
    }

    /// Sorted rows R.
    pub fn rows(&self) -> usize {
        self.segments.rows()
    }

    /// Elements of q, k, v and o.
    pub fn elements(&self) -> usize {
        self.heads_of_rows() * self.head_dim
    }

    /// (row, head) pairs, the elements of lse.
    pub fn heads_of_rows(&self) -> usize {
        self.rows() * self.heads
    }
}

#[cfg(test)]
mod tests;

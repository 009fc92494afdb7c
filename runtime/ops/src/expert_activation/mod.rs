//! The activation of an expert's rows as launches of their own, forward and backward, for training.
//!
//! Inference applies the activation inside the first product ([`crate::grouped_gemm`]); training
//! keeps `pre`, the rows before it. Rows are sorted by expert ([`crate::permute`]), R of them.
//! - forward: hidden = act(pre), gated hidden = act(gate) · up;
//! - backward, in one pass over `pre` and `dhidden`: with the gradient d of a row's hidden values
//!   before the weight w of its slot, d_s = ⟨d, hidden⟩ is the gradient of w, dpre the gradient of
//!   `pre` for w · d, and w · hidden takes the place of d, which is the operand of the second
//!   product's weight gradient;
//! - gradient: dpre for d, without weights.
//!
//! Shapes: pre and dpre \[R, F or 2F (gate columns, then up columns)\], hidden and dhidden \[R,F\] of
//! the element type; order u32 \[S\], offsets u32 \[E+1\], weights and dweights f32 \[S\]. Sums are
//! f32, in a fixed order. Rows from offsets\[E\] on are not read and written as 0; every slot gets a
//! dweight, 0 without an expert. The derivative of relu at 0 is 0.
//!
//! FLOPs: some 10 per element. Bytes: (parts + 1)·R·F elements forward, 2·(parts + 1)·R·F backward.

mod backward;
mod forward;
pub mod output_bias;

pub use backward::{Gradients, reference_backward};
pub use forward::reference;

use crate::element::Element;
use crate::error::{ShapeError, fits};
use crate::grouped_gemm::Activation;
use crate::permute::check_row_bound;

/// Activations of the rows of all experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Problem {
    slots: usize,
    row_bound: usize,
    experts: usize,
    inter: usize,
    /// Type of the rows.
    pub element: Element,
    /// Two parts, multiplied after the activation of the first.
    pub gated: bool,
    /// Identity for `None`.
    pub activation: Option<Activation>,
}

impl Problem {
    /// Rows of `inter` hidden values in f32, one for each of `slots` slots; ungated identity.
    ///
    /// # Errors
    /// [`ShapeError`] when a size is 0 or an index would not fit 31 bits.
    pub fn new(slots: usize, experts: usize, inter: usize) -> Result<Self, ShapeError> {
        ShapeError::positive(&[("experts", experts), ("hidden values", inter)])?;
        if !fits(&[slots, inter, 2]) {
            let (what, got) = ("slots x hidden values", format!("{slots} x {inter}"));
            return Err(ShapeError::new(what, "fewer than 2^30", got));
        }
        Ok(Self {
            slots,
            row_bound: slots,
            experts,
            inter,
            element: Element::F32,
            gated: false,
            activation: None,
        })
    }

    /// A copy with at most `rows` sorted rows, whatever the routing.
    ///
    /// # Errors
    /// [`ShapeError`] unless 1 ≤ `rows` ≤ S.
    pub fn with_row_bound(self, rows: usize) -> Result<Self, ShapeError> {
        check_row_bound(rows, self.slots)?;
        Ok(Self {
            row_bound: rows,
            ..self
        })
    }

    /// A copy with rows of `element`.
    pub fn with_element(self, element: Element) -> Self {
        Self { element, ..self }
    }

    /// A copy with an activation, and with a gate that it applies to.
    pub fn with_activation(self, activation: Option<Activation>, gated: bool) -> Self {
        Self {
            gated,
            activation,
            ..self
        }
    }

    /// Elements of `hidden`.
    pub fn hidden_len(&self) -> usize {
        self.row_bound * self.inter
    }

    /// Parts of a row of `pre`: gate and up, or one.
    pub fn parts(&self) -> usize {
        if self.gated { 2 } else { 1 }
    }

    /// Elements of `pre`.
    pub fn pre_len(&self) -> usize {
        self.hidden_len() * self.parts()
    }
}

getters! { Problem:
    /// Slots S.
    slots: usize,
    /// Experts E.
    experts: usize,
    /// Hidden values F.
    inter: usize,
    /// The most sorted rows R.
    row_bound: usize,
}

#[cfg(test)]
mod tests;

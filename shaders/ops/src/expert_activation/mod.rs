//! The activation of an expert's rows as separate launches, forward and backward, for training.
//!
//! Inference applies the activation inside the first product ([`crate::grouped_gemm`]); training keeps `pre`, the rows before the
//! activation. There are R rows, sorted by expert ([`crate::permute`]).
//! - forward: hidden = act(pre), or gated hidden = act(gate) · up, where [`Activation::reference_gated`] may change up first;
//! - backward, in one pass over `pre` and `dhidden`: d is the gradient of a row's hidden values before they are multiplied by the
//!   weight w of the row's slot. The pass computes the gradient of w, d_s = ⟨d, hidden⟩, and the gradient dpre of `pre` for w ·
//!   d, and overwrites d by w · hidden, an operand of the second product's weight gradient;
//! - gradient: dpre for d, without weights.
//!
//! Shapes: pre and dpre \[R, F or 2F (gate columns, then up columns)\], hidden and dhidden \[R,F\] of the element type; order u32
//! \[S\], offsets u32 \[E+1\], weights and dweights f32 \[S\]. Sums are f32, in a fixed order. Rows from offsets\[E\] on are not
//! read and are written as 0; every slot gets a dweight, 0 for a slot without an expert. Without offsets (a dense network),
//! forward and gradient read all R rows. The derivative of relu at 0 is 0.
//!
//! FLOPs: about 10 per element. Bytes: (parts + 1)·R·F elements forward, 2·(parts + 1)·R·F backward.

pub mod output_bias;

use crate::element::Element;
use crate::error::{Mismatch, fits};
use crate::grouped_gemm::Activation;
use crate::permute::{Sorted, check_row_bound};

getters! {
    /// The activation of the rows of all experts.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Problem {
        /// Slots S.
        slots: usize,
        /// The largest number of sorted rows R.
        row_bound: usize,
        /// Experts E.
        experts: usize,
        /// Hidden values per row F.
        inter: usize,
        /// Type of the rows.
        element: Element => with_element,
        /// Whether a row has two parts, gate and up, that are multiplied after the gate's activation.
        gated: bool,
        /// The activation; `None` is the identity.
        activation: Option<Activation>,
    }
}

impl Problem {
    /// An ungated identity over rows of `inter` hidden values in f32, one row for each of `slots` slots.
    ///
    /// # Errors
    /// [`Mismatch`] when a size is 0 or an index would not fit 31 bits.
    pub fn new(slots: usize, experts: usize, inter: usize) -> Result<Self, Mismatch> {
        Mismatch::positive(&[("experts", experts), ("hidden values", inter)])?;
        let (right, got) = (fits(&[slots, inter, 2]), format_args!("{slots} x {inter}"));
        Mismatch::unless(right, "slots x hidden values", "fewer than 2^30", got)?;
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

    /// A copy with at most `rows` sorted rows for every routing.
    ///
    /// # Errors
    /// [`Mismatch`] unless 1 ≤ `rows` ≤ S.
    pub fn with_row_bound(self, rows: usize) -> Result<Self, Mismatch> {
        check_row_bound(rows, self.slots)?;
        Ok(Self {
            row_bound: rows,
            ..self
        })
    }

    /// A copy with an activation, applied to a gate if `gated`.
    pub fn with_activation(self, activation: Option<Activation>, gated: bool) -> Self {
        Self {
            gated,
            activation,
            ..self
        }
    }

    /// The number of elements of `hidden`.
    pub fn hidden_len(&self) -> usize {
        self.row_bound * self.inter
    }

    /// The number of parts of a row of `pre`: 2 (gate and up) when gated, else 1.
    pub fn parts(&self) -> usize {
        if self.gated { 2 } else { 1 }
    }

    /// The number of elements of `pre`.
    pub fn pre_len(&self) -> usize {
        self.hidden_len() * self.parts()
    }
}

/// The oracle of the forward pass, in f64: hidden \[R,F\] for `pre` \[R, F or 2F\].
pub fn reference(problem: &Problem, sorted: &Sorted, pre: &[f64]) -> Vec<f64> {
    let (inter, columns) = (problem.inter, problem.inter * problem.parts());
    let mut hidden = vec![0.0; problem.hidden_len()];
    for row in 0..sorted.offsets[problem.experts] as usize {
        for column in 0..inter {
            let gate = pre[row * columns + column];
            let up = if problem.gated {
                gated(problem, pre[row * columns + inter + column])
            } else {
                1.0
            };
            let value = problem.activation.map_or(gate, |a| a.reference(gate));
            hidden[row * inter + column] = value * up;
        }
    }
    hidden
}

/// The factor that up contributes to a gated hidden value.
fn gated(problem: &Problem, up: f64) -> f64 {
    problem.activation.map_or(up, |a| a.reference_gated(up))
}

/// The results of [`reference_backward()`].
#[derive(Clone, Debug, PartialEq)]
pub struct Gradients {
    /// Gradient of `pre` \[R, F or 2F\].
    pub dpre: Vec<f64>,
    /// Weighted hidden values w · hidden \[R,F\].
    pub weighted: Vec<f64>,
    /// Gradients of the weights \[S\].
    pub dweights: Vec<f64>,
}

/// The oracle of the backward pass, in f64; with all weights 1, its `dpre` is the gradient without weights.
pub fn reference_backward(
    problem: &Problem,
    sorted: &Sorted,
    weights: &[f64],
    pre: &[f64],
    dhidden: &[f64],
) -> Gradients {
    let (inter, columns) = (problem.inter, problem.inter * problem.parts());
    let mut weighted = reference(problem, sorted, pre);
    let mut dpre = vec![0.0; problem.pre_len()];
    let mut dweights = vec![0.0; problem.slots];
    for row in 0..sorted.offsets[problem.experts] as usize {
        let slot = sorted.order[row] as usize;
        for column in 0..inter {
            let (at, gate) = (row * inter + column, row * columns + column);
            let (x, d) = (pre[gate], weights[slot] * dhidden[at]);
            let slope = d * problem.activation.map_or(1.0, |a| a.reference_gradient(x));
            dpre[gate] = slope;
            if problem.gated {
                let up = pre[gate + inter];
                dpre[gate] = slope * gated(problem, up);
                let slope = problem.activation;
                let slope = slope.map_or(1.0, |a| a.reference_gated_gradient(up));
                dpre[gate + inter] = d * slope * problem.activation.map_or(x, |a| a.reference(x));
            }
            dweights[slot] += dhidden[at] * weighted[at];
            weighted[at] *= weights[slot];
        }
    }
    Gradients {
        dpre,
        weighted,
        dweights,
    }
}

#[cfg(test)]
mod tests;

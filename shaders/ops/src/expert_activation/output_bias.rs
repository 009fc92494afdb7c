//! The output bias's share of the gradient of the routing weights: dweights\[s\] += ⟨dy_t, b_e⟩.
//!
//! y_t = Σ_k w_tk · (W_e · hidden + b_e), so the gradient of the weight of slot s = t·K + k gets ⟨dy_t, b_e⟩ in addition to the
//! result of [`super::reference_backward`]. Slots without an expert are left unchanged.
//! Shapes: dy \[T,H\] and b \[E,H\] of the element type, dweights f32 \[S\]; sums are f32.
//! FLOPs 2·S·H; bytes 2·S·H elements, from cache if K > 1.

use crate::element::Element;
use crate::error::{Mismatch, fits};
use crate::permute::Sorted;

getters! {
    /// The dot products of dy and the output bias.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Problem {
        /// Slots S.
        slots: usize,
        /// Experts E.
        experts: usize,
        /// Slots per token K.
        top_k: usize,
        /// Values of a row H.
        hidden: usize,
        /// Type of dy and the bias.
        element: Element => with_element,
    }
}

impl Problem {
    /// A problem of `slots` = T·`top_k` slots and rows of `hidden` values in f32.
    ///
    /// # Errors
    /// [`Mismatch`] when a size is 0, `slots` isn't a multiple of `top_k`, or an index would not fit 31 bits.
    pub fn new(
        slots: usize,
        experts: usize,
        top_k: usize,
        hidden: usize,
    ) -> Result<Self, Mismatch> {
        Mismatch::positive(&[("experts", experts), ("top_k", top_k), ("hidden", hidden)])?;
        Mismatch::of_tokens(slots, top_k)?;
        let right = fits(&[slots.max(experts), hidden]);
        let expected = "matrices of at most 2^31 - 1 elements";
        let got = format_args!("{slots} slots, {experts} experts, {hidden} values");
        Mismatch::unless(right, "output bias", expected, got)?;
        Ok(Self {
            slots,
            experts,
            top_k,
            hidden,
            element: Element::F32,
        })
    }
}

/// The oracle, in f64: the values added to dweights \[S\].
pub fn reference(problem: &Problem, sorted: &Sorted, dy: &[f64], bias: &[f64]) -> Vec<f64> {
    let hidden = problem.hidden;
    let mut added = vec![0.0; problem.slots];
    for e in 0..problem.experts {
        let rows = sorted.offsets[e] as usize..sorted.offsets[e + 1] as usize;
        for slot in &sorted.order[rows] {
            let slot = *slot as usize;
            let dy = &dy[slot / problem.top_k * hidden..][..hidden];
            let products = dy.iter().zip(&bias[e * hidden..]).map(|(a, b)| a * b);
            added[slot] = products.sum();
        }
    }
    added
}

#[cfg(test)]
#[path = "output_bias_tests.rs"]
mod tests;

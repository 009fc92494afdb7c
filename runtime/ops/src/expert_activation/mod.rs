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
use crate::error::ShapeError;
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
        for (what, size) in [("experts", experts), ("hidden values", inter)] {
            if size == 0 {
                return Err(ShapeError::new(what, "at least 1", size));
            }
        }
        let elements = slots.checked_mul(inter).and_then(|n| n.checked_mul(2));
        if elements.is_none_or(|n| n > i32::MAX as usize) {
            let got = format!("{slots} x {inter}");
            return Err(ShapeError::new(
                "slots x hidden values",
                "fewer than 2^30",
                got,
            ));
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

    /// Slots S.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// Sorted rows R.
    pub fn rows(&self) -> usize {
        self.row_bound
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

    /// Experts E.
    pub fn experts(&self) -> usize {
        self.experts
    }

    /// Hidden values F.
    pub fn inter(&self) -> usize {
        self.inter
    }

    /// The most sorted rows R.
    pub fn row_bound(&self) -> usize {
        self.row_bound
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::permute;

    const ALL: [Option<Activation>; 5] = [
        None,
        Some(Activation::Relu),
        Some(Activation::Gelu),
        Some(Activation::Silu),
        Some(Activation::Mish),
    ];

    fn problem(gated: bool, activation: Option<Activation>) -> Problem {
        let problem = Problem::new(4, 2, 3).unwrap().with_row_bound(3).unwrap();
        problem.with_activation(activation, gated)
    }

    /// Values in ±2 that avoid 0, where relu has no derivative.
    fn wave(len: usize, phase: f64) -> Vec<f64> {
        (0..len)
            .map(|i| 2.0 * (1.7 * i as f64 + phase).sin() + 0.01)
            .collect()
    }

    /// The loss Σ_s w_s ⟨d_s, hidden_s⟩ has the gradients that `reference_backward` returns.
    #[test]
    fn backward_matches_differences_of_the_loss() {
        // Slot 2 goes nowhere, and expert 0 comes last in slot order.
        let sorted = permute::reference(&[1, 1, 2, 0], 2);
        let weights = [0.3, -0.7, 0.9, 1.1];
        for gated in [false, true] {
            for activation in ALL {
                let problem = problem(gated, activation);
                let pre = wave(problem.pre_len(), 0.4);
                let d = wave(problem.hidden_len(), 1.9);
                let loss = |pre: &[f64], weights: &[f64]| -> f64 {
                    let hidden = reference(&problem, &sorted, pre);
                    let terms = hidden.iter().zip(&d).enumerate();
                    terms
                        .map(|(i, (h, d))| weights[sorted.order[i / 3] as usize] * h * d)
                        .sum()
                };
                let got = reference_backward(&problem, &sorted, &weights, &pre, &d);
                let step = 1e-6;
                for i in 0..pre.len() {
                    let (mut up, mut down) = (pre.clone(), pre.clone());
                    up[i] += step;
                    down[i] -= step;
                    let slope = (loss(&up, &weights) - loss(&down, &weights)) / (2.0 * step);
                    assert!((got.dpre[i] - slope).abs() < 1e-8, "{problem:?} at {i}");
                }
                for s in 0..weights.len() {
                    let (mut up, mut down) = (weights, weights);
                    up[s] += 0.5;
                    down[s] -= 0.5;
                    let slope = loss(&pre, &up) - loss(&pre, &down);
                    assert!((got.dweights[s] - slope).abs() < 1e-12, "slot {s}");
                }
                let hidden = reference(&problem, &sorted, &pre);
                let weighted = weights[3] * hidden[1];
                assert!((got.weighted[1] - weighted).abs() < 1e-15, "{problem:?}");
            }
        }
    }

    #[test]
    fn shapes_are_checked() {
        assert!(Problem::new(4, 0, 3).is_err());
        assert!(Problem::new(4, 2, 0).is_err());
        assert!(Problem::new(1 << 20, 2, 1 << 10).is_err());
        let problem = Problem::new(4, 2, 3).unwrap();
        assert!(problem.with_row_bound(5).is_err());
        assert!(problem.with_row_bound(0).is_err());
        assert!(Problem::new(0, 2, 3).unwrap().with_row_bound(0).is_ok());
    }
}

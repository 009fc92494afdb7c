//! Delayed scaling on the host: the oracle of [`Fp8State`](super::Fp8State).
//!
//! A history holds an amax a step. Slot 0 is staging: it holds the amax of the step that runs, and 0
//! between steps. After a step
//!
//! 1. amax = the largest of all slots, or slot 0's for the most recent;
//! 2. slots move down by one, slot 0 to the end; then slot 0 is set to 0 (so the oldest goes);
//! 3. scale = amax · 2^margin / MAX; it stays as it was when amax is 0 or not finite.
//!
//! A step's own scale is that of the steps before it, 1 at first. Source: Transformer Engine 2,
//! `transformer_engine/pytorch/fp8.py` and `common/recipe/delayed_scaling.cu`, whose scale is the
//! reciprocal of ours.

use crate::fp8::recipe::{AmaxAlgorithm, Fp8Recipe, Fp8Scaling};
use moebius_ops::fp8::Fp8Format;
use moebius_ops::scaling::scale_host;

/// The history and the scale of one tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct DelayedScale {
    /// Slot 0 is staging.
    pub history: Vec<f32>,
    /// Of the next step.
    pub scale: f32,
    algorithm: AmaxAlgorithm,
    margin: i32,
    format: Fp8Format,
}

impl DelayedScale {
    /// Before the first step of a tensor in `format`; `None` for a recipe without history.
    pub fn new(recipe: &Fp8Recipe, format: Fp8Format) -> Option<Self> {
        let Fp8Scaling::Delayed {
            history_len,
            algorithm,
        } = recipe.scaling
        else {
            return None;
        };
        Some(Self {
            history: vec![0.0; history_len],
            scale: 1.0,
            algorithm,
            margin: recipe.margin,
            format,
        })
    }

    /// After a step in which the tensor's amax was `amax`.
    pub fn step(&mut self, amax: f32) {
        self.history[0] = amax;
        let amax = match self.algorithm {
            AmaxAlgorithm::MostRecent => amax,
            AmaxAlgorithm::Max => self.history.iter().copied().fold(0.0, f32::max),
        };
        self.history.rotate_left(1);
        self.history[0] = 0.0;
        if amax > 0.0 && amax.is_finite() {
            self.scale = scale_host(amax, self.format, self.margin);
        }
    }
}

#[cfg(test)]
#[path = "reference_tests.rs"]
mod tests;

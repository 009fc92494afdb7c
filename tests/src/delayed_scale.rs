//! Delayed scaling on the host: the oracle of [`Fp8State`](moebius::fp8::training::Fp8State), which documents the rules.

use moebius::fp8::training::{AmaxAlgorithm, Fp8Recipe, Fp8Scaling};
use moebius_ops::fp8::Fp8Format;
use moebius_ops::scaling::scale_host;

/// The amax history and the scale of one tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct DelayedScale {
    /// The amax history; slot 0 is for staging.
    pub history: Vec<f32>,
    /// The scale of the next step.
    pub scale: f32,
    algorithm: AmaxAlgorithm,
    margin: i32,
    format: Fp8Format,
}

impl DelayedScale {
    /// The state before a tensor's first step in `format`; `None` for a recipe without history.
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

    /// Updates the state after a step in which the tensor's amax was `amax`.
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
#[path = "delayed_scale_tests.rs"]
mod tests;

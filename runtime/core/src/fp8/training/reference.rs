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

use super::recipe::{AmaxAlgorithm, Fp8Recipe, Fp8Scaling};
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
mod tests {
    use super::*;

    fn run(algorithm: AmaxAlgorithm, history_len: usize, amaxes: &[f32]) -> Vec<(Vec<f32>, f32)> {
        let scaling = Fp8Scaling::Delayed {
            history_len,
            algorithm,
        };
        let recipe = Fp8Recipe::delayed().with_scaling(scaling);
        let mut state = DelayedScale::new(&recipe, Fp8Format::E4M3).unwrap();
        let after = |amax: &f32| {
            state.step(*amax);
            (state.history.clone(), state.scale)
        };
        amaxes.iter().map(after).collect()
    }

    /// What Transformer Engine's `_default_get_amax_and_update_history` and `_default_sf_compute`
    /// do, step by step; scales are its reciprocals. With three slots an amax counts in its own step
    /// and the two after it.
    #[test]
    fn the_largest_of_a_history_counts_until_it_leaves() {
        let inf = f32::INFINITY;
        let got = run(
            AmaxAlgorithm::Max,
            3,
            &[448.0, 896.0, 224.0, 112.0, 0.0, inf, 56.0, 0.0, 0.0, 28.0],
        );
        let want = [
            (vec![0.0, 0.0, 448.0], 1.0),
            (vec![0.0, 448.0, 896.0], 2.0),
            (vec![0.0, 896.0, 224.0], 2.0),
            (vec![0.0, 224.0, 112.0], 2.0),
            (vec![0.0, 112.0, 0.0], 0.5),
            // An infinite amax keeps the scale as long as it is remembered.
            (vec![0.0, 0.0, inf], 0.5),
            (vec![0.0, inf, 56.0], 0.5),
            (vec![0.0, 56.0, 0.0], 0.5),
            (vec![0.0, 0.0, 0.0], 0.125),
            (vec![0.0, 0.0, 28.0], 0.0625),
        ];
        assert_eq!(got, want);
    }

    #[test]
    fn the_most_recent_counts_alone_and_zero_keeps_the_scale() {
        let got = run(AmaxAlgorithm::MostRecent, 2, &[448.0, 112.0, 0.0, 224.0]);
        let want = [
            (vec![0.0, 448.0], 1.0),
            (vec![0.0, 112.0], 0.25),
            (vec![0.0, 0.0], 0.25),
            (vec![0.0, 224.0], 0.5),
        ];
        assert_eq!(got, want);
    }

    #[test]
    fn one_slot_remembers_nothing() {
        for algorithm in [AmaxAlgorithm::Max, AmaxAlgorithm::MostRecent] {
            let got = run(algorithm, 1, &[896.0, 448.0, 0.0]);
            let want = [(vec![0.0], 2.0), (vec![0.0], 1.0), (vec![0.0], 1.0)];
            assert_eq!(got, want);
        }
    }
}

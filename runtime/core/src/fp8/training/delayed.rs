//! What a step does to the states of delayed scaling.

use super::loss_scale::Finite;
use crate::fp8::recipe::{AmaxAlgorithm, Fp8Recipe, Fp8Scaling};
use crate::fp8::state::{Fp8State, value};
use crate::state::set;
use burn::module::RunningState;
use burn::tensor::Tensor;
use moebius_ops::fp8::Fp8Format;

/// After a step with amaxes \[3\] of each state, unless its gradients weren't finite: a step that is
/// skipped leaves no trace, so that no huge amax outlives it. All states are of one recipe and device:
/// they are updated together, in as many operations as one.
pub(super) fn step(states: &[(&Fp8State, Tensor<1>)], recipe: &Fp8Recipe, finite: Option<&Finite>) {
    let all = |of: fn(&Fp8State) -> &RunningState<Tensor<1>>| {
        Tensor::cat(
            states.iter().map(|(state, _)| value(of(state))).collect(),
            0,
        )
    };
    let histories = states.iter().map(|(state, _)| value(&state.history));
    let old = Numbers {
        history: Tensor::cat(histories.collect(), 0),
        scales: all(|state| &state.scales),
        saturated: all(|state| &state.saturated),
    };
    let amaxes = states.iter().map(|(_, amaxes)| amaxes.clone());
    let new = old.clone().after(Tensor::cat(amaxes.collect(), 0), recipe);
    let new = match finite {
        None => new,
        Some(finite) => Numbers {
            history: finite.choose(new.history, old.history),
            scales: finite.choose(new.scales, old.scales),
            saturated: finite.choose(new.saturated, old.saturated),
        },
    };
    for (at, (state, _)) in states.iter().enumerate() {
        set(&state.history, new.history.clone().narrow(0, 3 * at, 3));
        set(&state.scales, new.scales.clone().narrow(0, 3 * at, 3));
        set(&state.saturated, new.saturated.clone().narrow(0, 3 * at, 3));
    }
}

/// The numbers of n states, one after the other.
#[derive(Clone)]
struct Numbers {
    /// \[3n, history\].
    history: Tensor<2>,
    /// \[3n\].
    scales: Tensor<1>,
    /// \[3n\].
    saturated: Tensor<1>,
}

impl Numbers {
    /// After a step with these amaxes \[3n\].
    fn after(self, amaxes: Tensor<1>, recipe: &Fp8Recipe) -> Self {
        let [count, history_len] = self.history.dims();
        // What depends on the format repeats for every state.
        let each = |of: [f32; 3]| {
            let values: Vec<f32> = of.iter().copied().cycle().take(count).collect();
            Tensor::<1>::from_floats(&values[..], &amaxes.device())
        };
        let ranges = each(recipe.formats().map(first_beyond));
        let beyond = amaxes.clone().greater(self.scales.clone() * ranges);
        let staged = amaxes.clone().reshape([count, 1]);
        let mut slots = vec![Tensor::zeros_like(&staged)];
        let mut amax = amaxes.clone();
        if history_len > 1 {
            let kept = self.history.narrow(1, 1, history_len - 1);
            if algorithm(recipe) == AmaxAlgorithm::Max {
                amax = amax.max_pair(kept.clone().max_dim(1).reshape([count]));
            }
            if history_len > 2 {
                slots.push(kept.narrow(1, 1, history_len - 2));
            }
            slots.push(staged);
        }
        // One division, so that it is `scale_host` bit for bit where division is IEEE's.
        let divisors = each(
            recipe
                .formats()
                .map(|format| divisor(format, recipe.margin)),
        );
        let scales = amax.clone() / divisors;
        let scales = scales.clamp(f64::from(f32::MIN_POSITIVE), f64::from(f32::MAX));
        let finite = amax.clone().lower_equal_scalar(f32::MAX);
        let known = amax.greater_scalar(0.0).bool_and(finite);
        Self {
            history: Tensor::cat(slots, 1),
            scales: self.scales.mask_where(known, scales),
            saturated: self.saturated + beyond.float(),
        }
    }
}

fn algorithm(recipe: &Fp8Recipe) -> AmaxAlgorithm {
    match recipe.scaling {
        Fp8Scaling::Delayed { algorithm, .. } => algorithm,
        // Such a recipe has no state.
        Fp8Scaling::Current => AmaxAlgorithm::MostRecent,
    }
}

/// The tie between the largest value and the next there would be: what is above it saturates.
fn first_beyond(format: Fp8Format) -> f32 {
    let max = format.max();
    let unit = (max.log2().floor() - format.mantissa_bits() as f32).exp2();
    max + unit / 2.0
}

/// MAX / 2^margin, exact.
fn divisor(format: Fp8Format, margin: i32) -> f32 {
    format.max() * (-margin as f32).exp2()
}

//! Delayed scaling on the device: histories and scales as state that records hold.

use super::loss_scale::Finite;
use super::recipe::{AmaxAlgorithm, Fp8Recipe, Fp8Scaling};
use burn::module::{Module, RunningState};
use burn::tensor::{DType, Device, Tensor};
use moebius_shaders::ShapeError;
use moebius_shaders::fp8::Fp8Format;

/// The histories and scales of a product's inputs, weights and gradients, in this order; the rules are
/// those of [`DelayedScale`](super::reference::DelayedScale).
///
/// Nothing is read back: an update is a few operations on the device.
#[derive(Module, Debug)]
pub struct Fp8State {
    /// \[3, history\]: amaxes, slot 0 for the step that runs.
    pub history: RunningState<Tensor<2>>,
    /// \[3\]: the scales of the next step.
    pub scales: RunningState<Tensor<1>>,
    /// \[3\]: steps in which a value was beyond the range of its scale by more than rounding takes.
    pub saturated: RunningState<Tensor<1>>,
}

impl Fp8State {
    pub(crate) fn new(history_len: usize, device: &Device) -> Self {
        let options = || (device, DType::F32);
        Self {
            history: RunningState::new(Tensor::zeros([3, history_len], options())),
            scales: RunningState::new(Tensor::ones([3], options())),
            saturated: RunningState::new(Tensor::zeros([3], options())),
        }
    }

    /// \[1\]: the scale of the inputs (0), weights (1) or gradients (2) now.
    pub(crate) fn scale(&self, of: usize) -> Tensor<1> {
        let scales = self.scales.value_sync().detach();
        scales.cast(DType::F32).narrow(0, of, 1)
    }

    /// After a step with amaxes \[3\], unless its gradients weren't finite: a step that is skipped
    /// leaves no trace, so that no huge amax outlives it.
    pub(crate) fn step(&self, amaxes: Tensor<1>, recipe: &Fp8Recipe, finite: Option<&Finite>) {
        let Fp8Scaling::Delayed {
            history_len,
            algorithm,
        } = recipe.scaling
        else {
            return;
        };
        let old = self.history.value_sync().detach().cast(DType::F32);
        let scales = self.scales.value_sync().detach().cast(DType::F32);
        let range = recipe.formats().map(first_beyond);
        let range = Tensor::<1>::from_floats(range, &old.device());
        let beyond = amaxes.clone().greater(scales.clone() * range);
        let staged = amaxes.clone().reshape([3, 1]);
        let mut slots = vec![Tensor::zeros_like(&staged)];
        let mut amax = amaxes;
        if history_len > 1 {
            let kept = old.clone().narrow(1, 1, history_len - 1);
            if algorithm == AmaxAlgorithm::Max {
                amax = amax.max_pair(kept.clone().max_dim(1).reshape([3]));
            }
            if history_len > 2 {
                slots.push(kept.narrow(1, 1, history_len - 2));
            }
            slots.push(staged);
        }
        let history = Tensor::cat(slots, 1);
        let new = scale_of(amax.clone(), recipe);
        let finite_amax = amax.clone().lower_equal_scalar(f32::MAX);
        let known = amax.greater_scalar(0.0).bool_and(finite_amax);
        let new = scales.clone().mask_where(known, new);
        let count = self.saturated.value_sync().detach().cast(DType::F32);
        let more = count.clone() + beyond.float();
        let (history, new, more) = match finite {
            Some(finite) => (
                finite.choose(history, old),
                finite.choose(new, scales),
                finite.choose(more, count),
            ),
            None => (history, new, more),
        };
        self.history.update(history);
        self.history.value_sync();
        for (state, value) in [(&self.scales, new), (&self.saturated, more)] {
            state.update(value);
            state.value_sync();
        }
    }

    pub(crate) fn check(&self, history_len: usize) -> Result<(), ShapeError> {
        let (history, scales) = (self.history.value_sync(), self.scales.value_sync());
        let counts = self.saturated.value_sync();
        if history.dims() != [3, history_len] || scales.dims() != [3] || counts.dims() != [3] {
            let got = format!("{:?} and {:?}", history.dims(), scales.dims());
            let expected = format!("[3, {history_len}] and [3]");
            return Err(ShapeError::new("fp8 histories and scales", expected, got));
        }
        Ok(())
    }
}

/// \[3\]: amax · 2^margin / MAX of inputs, weights and gradients: one division, so that it is
/// [`scale_host`](moebius_shaders::scaling::scale_host) bit for bit where division is IEEE's.
fn scale_of(amaxes: Tensor<1>, recipe: &Fp8Recipe) -> Tensor<1> {
    let divisors = recipe
        .formats()
        .map(|format| divisor(format.max(), recipe.margin));
    let divisors = Tensor::<1>::from_floats(divisors, &amaxes.device());
    (amaxes / divisors).clamp(f64::from(f32::MIN_POSITIVE), f64::from(f32::MAX))
}

/// The tie between the largest value and the next there would be: what is above it saturates.
fn first_beyond(format: Fp8Format) -> f32 {
    let max = format.max();
    let unit = (max.log2().floor() - format.mantissa_bits() as f32).exp2();
    max + unit / 2.0
}

/// MAX / 2^margin, exact.
fn divisor(max: f32, margin: i32) -> f32 {
    max * (-margin as f32).exp2()
}

//! Loss scaling: lifts small gradients into the range of the format, and skips steps whose gradients overflow.

use crate::Error;
use crate::parameters::{set, value};
use burn::module::{Module, RunningState};
use burn::tensor::{Bool, DType, Device, Tensor};
use moebius_ops::Fault;
use serde::{Deserialize, Serialize};

/// The factor by which the loss is multiplied before the backward pass.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum LossScaling {
    /// No factor; no step is skipped.
    Off,
    /// The same factor in every step; steps with non-finite gradients are skipped.
    Static {
        /// The factor.
        scale: f32,
    },
    /// A factor that follows the gradients: a step with a non-finite gradient (infinity or NaN) is skipped and halves the factor;
    /// `interval` clean steps in a row double it once.
    Dynamic {
        /// The first factor.
        initial: f32,
        /// The number of clean steps before the factor doubles.
        interval: u32,
        /// The lower bound of the factor.
        min: f32,
        /// The upper bound of the factor.
        max: f32,
    },
}

impl LossScaling {
    /// The usual dynamic scaling: a first factor of 2¹⁶, doubled after 2000 clean steps, within 1 and 2²⁴.
    pub fn dynamic() -> Self {
        Self::Dynamic {
            initial: 65536.0,
            interval: 2000,
            min: 1.0,
            max: 16_777_216.0,
        }
    }

    /// Checks the numbers, which may come from a file.
    ///
    /// # Errors
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) for a factor that isn't finite and positive or
    /// lies outside its bounds, or an interval outside 1..=2²⁴.
    pub fn validate(&self) -> Result<(), Error> {
        let positive = |what, scale: f32| {
            let right = scale.is_normal() && scale > 0.0;
            Fault::Config.unless(right, what, "a positive number", scale)
        };
        match *self {
            Self::Off => {}
            Self::Static { scale } => positive("loss scale", scale)?,
            Self::Dynamic {
                initial,
                interval,
                min,
                max,
            } => {
                positive("least loss scale", min)?;
                positive("largest loss scale", max)?;
                let right = (min..=max).contains(&initial);
                let expected = format_args!("{min} to {max}");
                Fault::Config.unless(right, "first loss scale", expected, initial)?;
                // A step count in f32 is exact up to 2²⁴.
                let right = (1..=1 << 24).contains(&interval);
                Fault::Config.unless(right, "clean steps", "1 to 2^24", interval)?;
            }
        }
        Ok(())
    }

    fn initial(&self) -> f32 {
        match *self {
            Self::Off => 1.0,
            Self::Static { scale } => scale,
            Self::Dynamic { initial, .. } => initial,
        }
    }
}

impl Default for LossScaling {
    fn default() -> Self {
        Self::dynamic()
    }
}

/// Whether all gradients of a step are finite, as a flag on the device, which the host reads on request.
#[derive(Clone, Debug)]
pub struct Finite(pub(super) Tensor<1, Bool>);

impl Finite {
    /// Returns `new` after a step with finite gradients, else `old`: how an optimizer's step is undone without waiting for the device. The
    /// tensor that isn't chosen may hold anything, NaN included.
    pub fn choose<const D: usize>(&self, new: Tensor<D>, old: Tensor<D>) -> Tensor<D> {
        let mask = if new.is_autodiff() {
            self.0.clone().autodiff()
        } else {
            self.0.clone().without_autodiff()
        };
        let mask = mask.reshape([1; D]).expand(new.shape());
        old.mask_where(mask, new)
    }

    /// Whether the gradients of both are finite, for a step that adds up those of several batches.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self(self.0.clone().bool_and(other.0.clone()))
    }

    /// Reads the flag; waits for the device.
    ///
    /// # Errors
    /// [`ErrorKind::Device`](crate::ErrorKind::Device) when the device failed.
    pub fn read(&self) -> Result<bool, Error> {
        let all = self.0.clone().int().try_into_vec_as::<i32>();
        Ok(all
            .map_err(Error::device)?
            .iter()
            .all(|&finite| finite != 0))
    }
}

/// The numbers of a [`LossScaler`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LossScale {
    /// The factor of the next loss.
    pub scale: f32,
    /// Clean steps since the last skipped step, or since the factor was last due to grow.
    pub clean_steps: u32,
    /// The number of steps skipped so far.
    pub skipped_steps: u32,
}

/// Loss scaling as a module: multiplies a loss before its backward pass, and divides the gradients after it.
///
/// The state stays on the device, which also knows whether a step counts ([`Finite`]), so that a training loop needn't wait. Records hold
/// the state.
///
/// ```no_run
/// # use burn::{module::Module, tensor::{Device, Tensor}};
/// # use moebius::fp8::training::{LossScaler, LossScaling};
/// # fn step(model: impl Module, loss: Tensor<1>, device: &Device) -> Result<(), moebius::Error> {
/// let scaler = LossScaler::new(LossScaling::dynamic(), device)?;
/// let mut gradients = scaler.scale(loss).backward();
/// let finite = scaler.unscale(&mut gradients, &model);
/// // ... a step of the optimizer, kept where `finite` is true ...
/// scaler.update(&finite);
/// # Ok(())
/// # }
/// ```
#[derive(Module, Debug)]
pub struct LossScaler {
    /// \[3\]: the factor, clean steps, skipped steps.
    pub state: RunningState<Tensor<1>>,
    #[module(skip)]
    scaling: LossScaling,
}

impl LossScaler {
    /// A scaler before its first step.
    ///
    /// # Errors
    /// As [`LossScaling::validate`].
    pub fn new(scaling: LossScaling, device: &Device) -> Result<Self, Error> {
        scaling.validate()?;
        let state = [scaling.initial(), 0.0, 0.0];
        // Like the parameters of a module, the state is on the device as given, whether or not that records gradients.
        let state = Tensor::from_floats(state, device);
        Ok(Self {
            state: RunningState::new(state),
            scaling,
        })
    }

    /// The scaling that this scaler follows.
    pub fn scaling(&self) -> LossScaling {
        self.scaling
    }

    pub(super) fn numbers(&self) -> [Tensor<1>; 3] {
        let state = value(&self.state);
        [0, 1, 2].map(|at| state.clone().narrow(0, at, 1))
    }

    /// Multiplies the loss by the scale.
    pub fn scale(&self, loss: Tensor<1>) -> Tensor<1> {
        if self.scaling == LossScaling::Off {
            return loss;
        }
        let [scale, _, _] = self.numbers();
        let dtype = loss.dtype();
        loss * scale.cast(dtype)
    }

    /// Updates the state after a step, by the rule of [`LossScaling`].
    pub fn update(&self, finite: &Finite) {
        let [scale, clean, skipped] = self.numbers();
        let one_more = clean.clone().add_scalar(1.0);
        let none = Tensor::zeros_like(&clean);
        let state = match self.scaling {
            LossScaling::Off => return,
            LossScaling::Static { .. } => [scale, finite.choose(one_more, none)],
            LossScaling::Dynamic {
                interval, min, max, ..
            } => {
                let full = one_more.clone().greater_equal_scalar(interval);
                let doubled = scale.clone().mul_scalar(2.0).clamp_max(max);
                let halved = scale.clone().mul_scalar(0.5).clamp_min(min);
                let grown = scale.mask_where(full.clone(), doubled);
                let counted = one_more.mask_where(full, none.clone());
                [finite.choose(grown, halved), finite.choose(counted, none)]
            }
        };
        let [scale, clean] = state;
        let skipped = finite.choose(skipped.clone(), skipped.add_scalar(1.0));
        set(&self.state, Tensor::cat(vec![scale, clean, skipped], 0));
    }

    /// Reads the numbers; waits for the device.
    ///
    /// # Errors
    /// [`ErrorKind::Device`](crate::ErrorKind::Device) when the device failed.
    pub fn read(&self) -> Result<LossScale, Error> {
        let state = self.state.value_sync().cast(DType::F32);
        let state = state.try_into_vec_as::<f32>().map_err(Error::device)?;
        Ok(LossScale {
            scale: state[0],
            clean_steps: state[1] as u32,
            skipped_steps: state[2] as u32,
        })
    }

    /// Replaces the state by numbers that were [read](LossScaler::read) before.
    ///
    /// # Errors
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) for a scale that isn't finite and positive.
    pub fn restore(&self, numbers: LossScale) -> Result<(), Error> {
        LossScaling::Static {
            scale: numbers.scale,
        }
        .validate()?;
        let state = [
            numbers.scale,
            numbers.clean_steps as f32,
            numbers.skipped_steps as f32,
        ];
        let device = self.state.value_sync().device();
        set(&self.state, Tensor::from_floats(state, &device));
        Ok(())
    }
}

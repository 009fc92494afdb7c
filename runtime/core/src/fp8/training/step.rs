//! A step of training in FP8 as one call.

use super::loss_scale::{LossScaler, LossScaling};
use super::optimizer::StepGuard;
use super::update::update;
use crate::Error;
use burn::lr_scheduler::module_lr_scheduler::ModuleLearningRate;
use burn::module::Module;
use burn::optim::{GradientsParams, ModuleOptimizer};
use burn::tensor::{Device, Tensor};

/// Training with loss scaling and FP8 scales by any of Burn's optimizers, one call a step.
///
/// A step scales the loss, computes the gradients, divides them by the scale, moves the FP8 scales of the
/// module's weights, steps the optimizer if all gradients are finite, and moves the loss scale. Whether they are
/// finite is read from the device, which waits for the backward pass; with [`Fp8Training::with_guard`], or without
/// loss scaling, nothing waits.
///
/// ```
/// # #[cfg(feature = "flex")] {
/// use burn::optim::SgdConfig;
/// use burn::tensor::{Device, Tensor};
/// use moebius::fp8::training::{Fp8Recipe, Fp8Training, LossScaling};
/// use moebius::nn::LinearConfig;
///
/// let device = Device::flex().autodiff();
/// let config = LinearConfig::new(4, 2).with_fp8(Some(Fp8Recipe::delayed()));
/// let mut layer = config.init(&device)?;
/// let mut optimizer = SgdConfig::new().init();
/// let training = Fp8Training::new(LossScaling::default(), &device)?;
/// for _ in 0..3 {
///     let y = layer.forward(Tensor::<2>::ones([8, 4], &device))?;
///     let loss = y.powi_scalar(2).mean();
///     layer = training.step(loss, &mut optimizer, 1e-3, layer)?;
/// }
/// assert_eq!(training.scaler().read()?.skipped_steps, 0);
/// # }
/// # Ok::<(), moebius::Error>(())
/// ```
#[derive(Clone)]
pub struct Fp8Training {
    scaler: LossScaler,
    guard: Option<StepGuard>,
}

impl From<LossScaler> for Fp8Training {
    /// Goes on with a scaler, such as one of a record.
    fn from(scaler: LossScaler) -> Self {
        Self {
            scaler,
            guard: None,
        }
    }
}

impl Fp8Training {
    /// Before the first step.
    ///
    /// # Errors
    /// As [`LossScaling::validate`].
    pub fn new(scaling: LossScaling, device: &Device) -> Result<Self, Error> {
        LossScaler::new(scaling, device).map(Self::from)
    }

    /// With the guard of the [`GuardedAdamW`](super::GuardedAdamW) that steps will be given: the device leaves out
    /// steps by itself, and the host doesn't wait to learn which.
    #[must_use]
    pub fn with_guard(self, guard: StepGuard) -> Self {
        Self {
            guard: Some(guard),
            ..self
        }
    }

    /// The loss scale, for reports, records and checkpoints.
    pub fn scaler(&self) -> &LossScaler {
        &self.scaler
    }

    /// `module` after a step of `optimizer` along the gradients of `loss` \[1\], or as it was where one of them isn't
    /// finite.
    ///
    /// # Errors
    /// [`ErrorKind::Device`](crate::ErrorKind::Device) when the device failed before it said whether gradients are finite.
    pub fn step<M: Module>(
        &self,
        loss: Tensor<1>,
        optimizer: &mut ModuleOptimizer,
        rate: impl Into<ModuleLearningRate>,
        module: M,
    ) -> Result<M, Error> {
        if self.scaler.scaling() == LossScaling::Off {
            let gradients = loss.backward();
            update(&module, &gradients, None);
            let gradients = GradientsParams::from_grads(gradients, &module);
            return Ok(optimizer.step(rate, module, gradients));
        }
        let mut gradients = self.scaler.scale(loss).backward();
        let finite = self.scaler.unscale(&mut gradients, &module);
        update(&module, &gradients, Some(&finite));
        self.scaler.update(&finite);
        let counts = match &self.guard {
            Some(guard) => {
                guard.set(&finite);
                true
            }
            None => finite.read()?,
        };
        if !counts {
            return Ok(module);
        }
        let gradients = GradientsParams::from_grads(gradients, &module);
        Ok(optimizer.step(rate, module, gradients))
    }
}

#[cfg(test)]
#[cfg(feature = "flex")]
#[path = "step_tests.rs"]
mod tests;

//! AdamW whose steps the device can skip, and whose records load without Burn's default device.

use super::loss_scale::Finite;
use super::moments::{MomentStore, Moments};
use crate::Error;
use burn::optim::{AdamW, AdamWConfig, AdamWState, AdaptiveMomentumState, LearningRate, Optimizer};
use burn::tensor::{Device, Tensor};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The hyperparameters of a [`GuardedAdamW`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GuardedAdamWConfig {
    /// β₁, the decay rate of the first moment, in \[0, 1).
    pub beta_1: f32,
    /// β₂, the decay rate of the second moment, in \[0, 1).
    pub beta_2: f32,
    /// ε, added to the root of the second moment.
    pub epsilon: f32,
    /// The weight decay: each step multiplies a parameter by 1 − learning rate · decay.
    pub weight_decay: f32,
}

impl Default for GuardedAdamWConfig {
    /// The usual 0.9, 0.999 and 1e-8, without decay.
    fn default() -> Self {
        Self {
            beta_1: 0.9,
            beta_2: 0.999,
            epsilon: 1e-8,
            weight_decay: 0.0,
        }
    }
}

/// [`AdamW`] (Loshchilov and Hutter 2019) with two differences.
///
/// First, once a guard is set, a step counts only if its gradients are finite: the device chooses between the parameters and moments before
/// and after the step without a wait, as [`super::LossScaler`] needs it. Second, records load where Burn's default device can't be opened:
/// Burn puts an optimizer's record on its default device, a GPU wherever support for one is built in, and panics without a driver. Here
/// loaded moments stay on the host until the first step shows the device of their gradients.
///
/// ```
/// # #[cfg(feature = "flex")] {
/// use burn::nn::{Linear, LinearConfig};
/// use burn::optim::{GradientsParams, ModuleOptimizer};
/// use burn::tensor::{Device, Tensor};
/// use moebius::fp8::training::{GuardedAdamW, LossScaler, LossScaling};
///
/// let device = Device::flex().autodiff();
/// let mut layer: Linear = LinearConfig::new(4, 2).init(&device);
/// let (adam, guard) = GuardedAdamW::new(Default::default());
/// let mut optimizer = ModuleOptimizer::from(adam);
/// let scaler = LossScaler::new(LossScaling::default(), &device)?;
/// for _ in 0..3 {
///     let x = Tensor::<2>::ones([8, 4], &device);
///     let loss = layer.forward(x).powi_scalar(2).mean();
///     let mut gradients = scaler.scale(loss).backward();
///     let finite = scaler.unscale(&mut gradients, &layer);
///     guard.set(&finite);
///     let gradients = GradientsParams::from_grads(gradients, &layer);
///     layer = optimizer.step(1e-3, layer, gradients);
///     scaler.update(&finite);
/// }
/// # }
/// # Ok::<(), moebius::Error>(())
/// ```
#[derive(Clone)]
pub struct GuardedAdamW {
    plain: AdamW,
    guard: StepGuard,
}

/// The guard of a [`GuardedAdamW`], which decides which of its steps count and where its moments are in between; shared by all copies.
#[derive(Clone)]
pub struct StepGuard {
    config: GuardedAdamWConfig,
    state: Arc<Mutex<GuardState>>,
}

#[derive(Default)]
struct GuardState {
    /// β₁ᵗ and β₂ᵗ after the t steps that counted, \[2\]. Burn counts steps on the host, which doesn't know which steps counted.
    powers: Option<Tensor<1>>,
    step: Option<GuardedStep>,
    store: Option<MomentStore>,
}

/// A step that counts only if its gradients are finite.
#[derive(Clone)]
struct GuardedStep {
    finite: Finite,
    /// 1 − β₁ᵗ and 1 − β₂ᵗ of the steps that counted, this one included, \[1\] each.
    corrections: [Tensor<1>; 2],
}

impl StepGuard {
    /// Makes the next step of the optimizer count only if `finite`.
    pub fn set(&self, finite: &Finite) {
        let mut state = self.state();
        let device = finite.0.device().inner();
        let betas = Tensor::<1>::from_floats([self.config.beta_1, self.config.beta_2], &device);
        let before = state.powers.take();
        let before = before.unwrap_or_else(|| Tensor::ones([2], &device));
        let powers = finite.choose(before.clone() * betas, before);
        let rest = powers.clone().neg().add_scalar(1.0);
        let corrections = [0, 1].map(|at| rest.clone().narrow(0, at, 1));
        state.powers = Some(powers);
        state.step = Some(GuardedStep {
            finite: finite.clone(),
            corrections,
        });
    }

    /// Reads β₁ᵗ and β₂ᵗ after the t steps that counted, for a checkpoint; waits for the device.
    ///
    /// # Errors
    /// [`ErrorKind::Device`](crate::ErrorKind::Device) when the device failed.
    pub fn powers(&self) -> Result<[f32; 2], Error> {
        let powers = self.state().powers.clone();
        let Some(powers) = powers else {
            return Ok([1.0, 1.0]);
        };
        let values = powers.try_into_vec_as::<f32>();
        let values = values.map_err(Error::device)?;
        Ok([values[0], values[1]])
    }

    /// Sets β₁ᵗ and β₂ᵗ from a checkpoint, to go on after its steps.
    pub fn set_powers(&self, powers: [f32; 2], device: &Device) {
        let powers = Tensor::from_floats(powers, &device.clone().inner());
        self.state().powers = Some(powers);
    }

    /// Keeps the optimizer's moments in `store` between steps, from the next step on. [`Self::settle`] belongs after each step then.
    pub fn keep_moments_in(&self, store: MomentStore) {
        self.state().store = Some(store);
    }

    /// Reads the moments that a step has left on the device, if a store keeps them, and waits for the device and for the file then, which reads
    /// ahead for the next step afterwards.
    ///
    /// # Errors
    /// [`ErrorKind::Device`](crate::ErrorKind::Device) when the device failed, [`ErrorKind::State`](crate::ErrorKind::State) when a file
    /// couldn't be written or read. Parameters and moments are worth nothing then, and all later calls return the error, too.
    pub fn settle(&self) -> Result<(), Error> {
        let store = self.state().store.clone();
        store.map_or(Ok(()), |store| store.settle())
    }

    fn state(&self) -> MutexGuard<'_, GuardState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl GuardedAdamW {
    /// An optimizer and the guard of its steps. All steps count until the guard is set for the first time.
    pub fn new(config: GuardedAdamWConfig) -> (Self, StepGuard) {
        let plain = AdamWConfig::new()
            .with_beta_1(config.beta_1)
            .with_beta_2(config.beta_2)
            .with_epsilon(config.epsilon)
            .with_weight_decay(config.weight_decay)
            .build();
        let guard = StepGuard {
            config,
            state: Arc::default(),
        };
        let adam = Self {
            plain,
            guard: guard.clone(),
        };
        (adam, guard)
    }

    /// Computes AdamW's step; keeps parameter and moments as they were if the step doesn't count.
    fn guarded<const D: usize>(
        &self,
        rate: LearningRate,
        (tensor, gradient): (Tensor<D>, Tensor<D>),
        state: Option<AdamWState<D>>,
        step: &GuardedStep,
    ) -> (Tensor<D>, AdamWState<D>) {
        let config = self.guard.config;
        let old = state.map_or_else(
            || {
                let zeros = Tensor::zeros_like(&gradient);
                AdaptiveMomentumState::new(0, zeros.clone(), zeros)
            },
            |state| state.momentum,
        );
        let moment = |old: &Tensor<D>, new: Tensor<D>, beta: f32| {
            let new = old.clone().mul_scalar(beta) + new.mul_scalar(1.0 - beta);
            step.finite.choose(new, old.clone())
        };
        let first = moment(&old.moment_1, gradient.clone(), config.beta_1);
        let second = moment(&old.moment_2, gradient.square(), config.beta_2);
        let [c1, c2] = step.corrections.clone().map(|c| c.reshape([1; D]));
        let scale = (second.clone() / c2).sqrt().add_scalar(config.epsilon);
        let delta = first.clone() / c1 / scale;
        let decay = 1.0 - rate * f64::from(config.weight_decay);
        let stepped = tensor.clone().mul_scalar(decay) - delta.mul_scalar(rate);
        let state = AdaptiveMomentumState::new(old.time + 1, first, second);
        let tensor = step.finite.choose(stepped, tensor);
        (tensor, AdamWState::new(state))
    }
}

impl Optimizer for GuardedAdamW {
    type State<const D: usize> = Moments<D>;

    fn step<const D: usize>(
        &self,
        rate: LearningRate,
        tensor: Tensor<D>,
        gradient: Tensor<D>,
        state: Option<Moments<D>>,
    ) -> (Tensor<D>, Option<Moments<D>>) {
        let device = gradient.device();
        // If the device failed, the next read of its tensors reports the error.
        let _ = crate::device::keep_pace(&device);
        let (state, began) = state.map(|state| state.on(&device)).unzip();
        let (step, store) = {
            let guard = self.guard.state();
            (guard.step.clone(), guard.store.clone())
        };
        let (tensor, state) = match step {
            Some(step) => {
                let (tensor, state) = self.guarded(rate, (tensor, gradient), state, &step);
                (tensor, Some(state))
            }
            None => self.plain.step(rate, tensor, gradient, state),
        };
        let moments = state.map(|state| Moments::live(state, began.unwrap_or_default()));
        if let (Some(store), Some(moments)) = (store, &moments) {
            store.take(moments);
        }
        (tensor, moments)
    }

    fn to_device<const D: usize>(state: Moments<D>, device: &Device) -> Moments<D> {
        let (state, began) = state.on(device);
        Moments::live(state, began)
    }
}

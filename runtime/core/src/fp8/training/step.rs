//! A step of training in FP8 as one call, and what it does to gradients, and to the histories and scales of all weights of a module.

use super::loss_scale::{Finite, LossScaler, LossScaling};
use super::optimizer::StepGuard;
use super::products;
use crate::Error;
use crate::fp8::product::{AmaxAlgorithm, Fp8Product, Fp8Recipe, Fp8Scaling, Fp8State, value};
use crate::parameters::set;
use burn::lr_scheduler::module_lr_scheduler::ModuleLearningRate;
use burn::module::{Module, ModuleVisitor, Param, RunningState};
use burn::optim::{GradientsParams, ModuleOptimizer};
use burn::tensor::{DType, Device, Gradients, Tensor};
use moebius_ops::fp8::Fp8Format;

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

impl LossScaler {
    /// Divides the gradients of all parameters of `module` by the scale; returns whether they all
    /// were finite. The state doesn't change.
    pub fn unscale<M: Module>(&self, gradients: &mut Gradients, module: &M) -> Finite {
        let [scale, _, _] = self.numbers();
        let factor = scale.without_autodiff().recip();
        let mut visitor = Unscale {
            gradients,
            factor: (self.scaling() != LossScaling::Off).then_some(factor.clone()),
            zero: Tensor::zeros([1], (&factor.device(), DType::F32)),
        };
        module.visit(&mut visitor);
        Finite(visitor.zero.is_nan().bool_not())
    }
}

/// Divides gradients and looks for what isn't finite: ±inf · 0 and NaN · 0 are NaN, and so is every sum
/// with one. Two launches a gradient, where asking every element takes seven.
struct Unscale<'a> {
    gradients: &'a mut Gradients,
    factor: Option<Tensor<1>>,
    /// \[1\]: 0, or NaN.
    zero: Tensor<1>,
}

impl ModuleVisitor for Unscale<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let param = param.val();
        let (Some(gradient), Some(factor)) = (param.grad(self.gradients), &self.factor) else {
            return;
        };
        let elements = gradient.shape().num_elements();
        let zeros = gradient.clone().mul_scalar(0.0).reshape([1, elements]);
        // Along an axis, because a sum of everything adds atomically on some devices.
        let zero = zeros.sum_dim(1).reshape([1]).cast(DType::F32);
        self.zero = self.zero.clone() + zero;
        let factor = factor.clone().cast(gradient.dtype()).reshape([1; D]);
        param.grad_replace(self.gradients, gradient * factor);
    }
}

/// After a backward pass: moves the amaxes of all uses of a module's weights whose gradients are here
/// into their histories, so that the next forward has new scales. `finite` is what loss scaling found,
/// and a step that it skips changes nothing.
///
/// Nothing is read back, and all products take about as many launches as one. Without effect on
/// weights that don't train in FP8, or whose every tensor is scaled by itself.
pub fn update<M: Module>(module: &M, gradients: &Gradients, finite: Option<&Finite>) {
    let products = products(module);
    let mut rest: Vec<(&Fp8Product, &Fp8State, Tensor<1>)> = Vec::new();
    for product in &products {
        if let (Some(state), Some(amaxes)) = (&product.state, product.measured(gradients)) {
            rest.push((product, state, amaxes));
        }
    }
    while let Some((first, _, amaxes)) = rest.first() {
        let (recipe, device) = (first.recipe(), amaxes.device());
        let alike = |(product, _, amaxes): &(&Fp8Product, &Fp8State, Tensor<1>)| {
            product.recipe() == recipe && amaxes.device() == device
        };
        let (same, others): (Vec<_>, Vec<_>) = rest.into_iter().partition(alike);
        let same = same.into_iter().map(|(_, state, amaxes)| (state, amaxes));
        move_scales(&same.collect::<Vec<_>>(), &recipe, finite);
        rest = others;
    }
}

/// After a step with amaxes \[3\] of each state, unless its gradients weren't finite: a step that is
/// skipped leaves no trace, so that no huge amax outlives it. All states are of one recipe and device:
/// they are updated together, in as many operations as one.
fn move_scales(states: &[(&Fp8State, Tensor<1>)], recipe: &Fp8Recipe, finite: Option<&Finite>) {
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
        // Of inputs, weights and gradients, in the order of all states.
        let formats = [recipe.forward, recipe.forward, recipe.backward];
        let ranges = each(formats.map(first_beyond));
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
        let divisors = each(formats.map(|format| divisor(format, recipe.margin)));
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

#[cfg(test)]
#[cfg(feature = "flex")]
#[path = "step_tests.rs"]
mod tests;

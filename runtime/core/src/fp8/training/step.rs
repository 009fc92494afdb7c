//! A step of FP8 training in one call, with the updates of gradients, histories and scales that it makes.

use super::loss_scale::{Finite, LossScaler, LossScaling};
use super::optimizer::StepGuard;
use super::products;
use crate::Error;
use crate::fp8::product::{AmaxAlgorithm, Fp8Product, Fp8Recipe, Fp8Scaling, Fp8State, value};
use crate::parameters::set;
use crate::reduce::sum_dim;
use burn::lr_scheduler::module_lr_scheduler::ModuleLearningRate;
use burn::module::{Module, ModuleVisitor, Param, RunningState};
use burn::optim::{GradientsParams, ModuleOptimizer};
use burn::tensor::{DType, Device, Gradients, Tensor};
use moebius_ops::fp8::Fp8Format;

/// Training with loss scaling and FP8 scales by any of Burn's optimizers, in one call per step.
///
/// A step scales the loss, computes the gradients, divides them by the scale, updates the FP8 scales of the module's weights, steps the
/// optimizer if all gradients are finite, and updates the loss scale. To learn whether the gradients are finite, the host waits for the
/// backward pass; with [`Fp8Training::with_guard`], or without loss scaling, nothing waits.
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
    /// Training that continues with an existing scaler, such as one of a record.
    fn from(scaler: LossScaler) -> Self {
        Self {
            scaler,
            guard: None,
        }
    }
}

impl Fp8Training {
    /// Training before its first step.
    ///
    /// # Errors
    /// As [`LossScaling::validate`].
    pub fn new(scaling: LossScaling, device: &Device) -> Result<Self, Error> {
        LossScaler::new(scaling, device).map(Self::from)
    }

    /// Sets the guard of the [`GuardedAdamW`](super::GuardedAdamW) that steps the module: the device then skips steps by itself, and the
    /// host doesn't wait to learn which.
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

    /// Returns `module` after a step of `optimizer` along the gradients of `loss` \[1\], or unchanged if a gradient isn't finite.
    ///
    /// # Errors
    /// [`ErrorKind::Device`](crate::ErrorKind::Device) when the device failed before it reported whether the gradients are finite.
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
    /// Divides the gradients of all parameters of `module` by the scale; returns whether all of them were finite. The scaler's state
    /// doesn't change.
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

/// A walk that divides gradients and finds non-finite ones: ±inf · 0 and NaN · 0 are NaN, and so is every sum with a NaN. This takes two
/// launches per gradient, where a test of every element takes seven.
struct Unscale<'a> {
    gradients: &'a mut Gradients,
    factor: Option<Tensor<1>>,
    /// The sum \[1\] of all gradients times 0: 0, or NaN if one isn't finite.
    zero: Tensor<1>,
}

impl ModuleVisitor for Unscale<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let param = param.val();
        let (Some(gradient), Some(factor)) = (param.grad(self.gradients), &self.factor) else {
            return;
        };
        let elements = gradient.shape().num_elements();
        if elements == 0 {
            return;
        }
        let zeros: Tensor<2> = gradient.clone().mul_scalar(0.0).reshape([1, elements]);
        // The sum is along an axis, because a sum over all axes adds atomically on some devices.
        let zero = sum_dim(zeros, 1).reshape([1]).cast(DType::F32);
        self.zero = self.zero.clone() + zero;
        let factor = factor.clone().cast(gradient.dtype()).reshape([1; D]);
        param.grad_replace(self.gradients, gradient * factor);
    }
}

/// Updates the FP8 scales after a backward pass: moves the amaxes of all uses of a module's weights whose gradients are in `gradients` into
/// their histories. `finite` is the result of loss scaling; a step that it skips changes nothing.
///
/// Nothing is read back, and the launches for all products are about as many as for one. Weights that don't train in FP8, or that use
/// current scaling, are unchanged.
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

/// Updates each state after a step with its amaxes \[3\]. A step with non-finite gradients changes nothing, so that no huge amax stays in a
/// history. All states have the same recipe and device: they are updated together, in as many operations as one.
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

/// The numbers of n states, concatenated.
#[derive(Clone)]
struct Numbers {
    /// The amaxes, \[3n, history\].
    history: Tensor<2>,
    /// The scales, \[3n\].
    scales: Tensor<1>,
    /// The counts of saturated steps, \[3n\].
    saturated: Tensor<1>,
}

impl Numbers {
    /// Returns the numbers after a step with amaxes \[3n\].
    fn after(self, amaxes: Tensor<1>, recipe: &Fp8Recipe) -> Self {
        let [count, history_len] = self.history.dims();
        // Numbers that depend on the format repeat for every state.
        let each = |of: [f32; 3]| {
            let values: Vec<f32> = of.iter().copied().cycle().take(count).collect();
            Tensor::<1>::from_floats(&values[..], &amaxes.device())
        };
        // The formats of inputs, weights and gradients, in the order within each state.
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
        // A single division, so that the scale equals `scale_host` bit for bit where division follows IEEE 754.
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
        // A recipe with current scaling has no state, so this is never used.
        Fp8Scaling::Current => AmaxAlgorithm::MostRecent,
    }
}

/// The midpoint between the largest value and the value that would follow it: larger numbers saturate.
fn first_beyond(format: Fp8Format) -> f32 {
    let max = format.max();
    let unit = (max.log2().floor() - format.mantissa_bits() as f32).exp2();
    max + unit / 2.0
}

/// MAX / 2^margin, computed exactly.
fn divisor(format: Fp8Format, margin: i32) -> f32 {
    format.max() * (-margin as f32).exp2()
}

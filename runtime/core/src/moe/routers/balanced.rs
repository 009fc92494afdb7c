//! Routers that balance the number of tokens per expert: by running usage, by a bias, or by letting experts choose.

use super::{
    Batch, DynamicConfig, ExpertChoiceConfig, Routed, RouterConfig, RouterLinear, Routes,
    SigmoidBiasConfig, Sizes, matrix,
};
use crate::Error;
use crate::moe::check::Like;
use crate::moe::route::{Routing, check_mask, choose};
use crate::moe::running::{Follow, check_state, constant, follow, relative_load, total};
use crate::ops::routing::router_logits;
use crate::ops::{Assignment, CapacityRule};
use crate::parameters::{cast_all, cast_param, set, value};
use burn::module::{Module, Param, RunningState};
use burn::tensor::activation::{relu, sigmoid};
use burn::tensor::{Bool, DType, Device, FloatDType, Int, Tensor};
use moebius_ops::Mismatch;

/// The weight of an expert's usage in its logits.
const USAGE_PENALTY: f64 = 0.1;

/// A router that chooses the top k of logits_te = x_t · Wg_e + c_t · (1 − u_e) − 0.1 · u_e.
///
/// c_t = σ(MLP(x_t)), H → ⌈H/4⌉ → 1 with ReLU, is the token's demand for capacity; u_e is the running share of slots that chose expert e.
/// Capacity factors follow each expert's load relative to an even one; the layer drops slots by them. Usage and factors change only in
/// training, after a forward has used them.
#[derive(Module, Debug)]
pub struct DynamicRouter {
    /// Wg \[E,H\].
    pub weight: Param<Tensor<2>>,
    /// The first layer of the demand MLP, H → ⌈H/4⌉.
    pub demand_in: RouterLinear,
    /// The second layer of the demand MLP, ⌈H/4⌉ → 1.
    pub demand_out: RouterLinear,
    /// The usage u \[E\], at first 1/E.
    pub usage: RunningState<Tensor<1>>,
    /// The capacity factors \[E\]. They start with the factor of the layer's capacity, or with 1.
    pub factors: RunningState<Tensor<1>>,
    #[module(skip)]
    pub(super) config: DynamicConfig,
    #[module(skip)]
    pub(super) sizes: Sizes,
}

impl DynamicRouter {
    pub(super) fn new(config: DynamicConfig, sizes: Sizes, device: &Device) -> Self {
        let Sizes { hidden, experts } = sizes;
        Self {
            weight: matrix(sizes, device),
            demand_in: RouterLinear::new([hidden.div_ceil(4), hidden], device),
            demand_out: RouterLinear::new([1, hidden.div_ceil(4)], device),
            usage: constant(1.0 / experts as f64, experts, device),
            factors: constant(1.0, experts, device),
            config,
            sizes,
        }
    }

    /// The current capacity factors, \[E\].
    pub fn capacity_factors(&self) -> Tensor<1> {
        value(&self.factors)
    }

    /// Computes the demand c \[T,1\] in f32.
    fn demand(&self, x: Tensor<2>) -> Result<Tensor<2>, Error> {
        let hidden = relu(self.demand_in.forward(x)?);
        let demand = self.demand_out.forward(hidden)?;
        Ok(sigmoid(demand.cast(DType::F32)))
    }
}

impl Routes for DynamicRouter {
    fn route(&self, batch: Batch) -> Result<Routed, Error> {
        let training = batch.training();
        let logits = router_logits(batch.x.clone(), self.weight.val())?;
        let usage = value(&self.usage).unsqueeze::<2>();
        let free = usage.clone().neg() + 1.0;
        let logits = logits + self.demand(batch.x)? * free - usage * USAGE_PENALTY;
        let routing = choose(logits, batch.mask, None, batch.along, &self.config.route)?;
        let routing = routing.with_counts(batch.counts);
        if training {
            let load = relative_load(routing.load()?);
            let how = &self.config.follow;
            let share = load.clone() / self.sizes.experts as f64;
            follow(&self.usage, share, &Follow::new(how.rate, 0.0, 1.0));
            follow(&self.factors, load, how);
        }
        Ok(routing.into())
    }

    fn check(&self, like: &Like) -> Result<(), Mismatch> {
        let Sizes { hidden, experts } = self.sizes;
        for (what, state) in [
            ("usage of the router [E]", &self.usage),
            ("factors of the router [E]", &self.factors),
        ] {
            check_state(what, state, experts, &like.device)?;
        }
        self.demand_in.check(like, [hidden.div_ceil(4), hidden])?;
        self.demand_out.check(like, [1, hidden.div_ceil(4)])
    }

    fn cast(self, dtype: DType) -> Self {
        Self {
            weight: cast_param(self.weight, dtype),
            demand_in: cast_all(self.demand_in, dtype),
            demand_out: cast_all(self.demand_out, dtype),
            ..self
        }
    }
}

/// A router that chooses by s_e + b_e, optionally within the best groups, with s_e = σ(x · Wg_e) or the softmax of x · Wgᵀ; weights are the
/// scores s without b. After every training forward, b_e moves by `rate` towards an even load.
#[derive(Module, Debug)]
pub struct SigmoidBiasRouter {
    /// Wg \[E,H\].
    pub weight: Param<Tensor<2>>,
    /// The bias b \[E\], at first 0.
    pub bias: RunningState<Tensor<1>>,
    #[module(skip)]
    pub(super) config: SigmoidBiasConfig,
    #[module(skip)]
    pub(super) sizes: Sizes,
}

impl SigmoidBiasRouter {
    pub(super) fn new(config: SigmoidBiasConfig, sizes: Sizes, device: &Device) -> Self {
        Self {
            weight: matrix(sizes, device),
            bias: constant(0.0, sizes.experts, device),
            config,
            sizes,
        }
    }

    /// Moves the bias once more, by a load \[E\] that the caller measured, for example over all devices: b_e += rate · sign(mean load −
    /// load_e). Masked experts keep their bias and don't count in the mean.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) for a load or a mask of another length.
    pub fn update_bias(
        &self,
        load: Tensor<1, Int>,
        expert_mask: Option<Tensor<1, Bool>>,
    ) -> Result<(), Error> {
        Mismatch::check("load", self.sizes.experts, load.dims()[0])?;
        let bias = value(&self.bias);
        check_mask(expert_mask.as_ref(), self.sizes.experts, &bias.device())?;
        let load = load.cast(FloatDType::F32);
        let available = match expert_mask {
            Some(mask) => mask.int().cast(FloatDType::F32),
            None => load.ones_like(),
        };
        let sum = |x: &Tensor<1>| total(x.clone().unsqueeze());
        // load < mean, computed without a quotient, because WGSL lets 28 / 7 be less than 4.
        let (all, count) = (sum(&load), sum(&available));
        let step = (all - load * count).sign() * available * self.config.rate;
        set(&self.bias, bias + step);
        Ok(())
    }
}

impl Routes for SigmoidBiasRouter {
    fn route(&self, batch: Batch) -> Result<Routed, Error> {
        let training = batch.training();
        let logits = router_logits(batch.x, self.weight.val())?;
        let bias = value(&self.bias);
        let (mask, along) = (batch.mask.clone(), batch.along);
        let routing = choose(logits, mask, Some(bias), along, &self.config.route)?;
        let routing = routing.with_counts(batch.counts);
        if training {
            self.update_bias(routing.load()?, batch.mask)?;
        }
        Ok(routing.into())
    }

    fn check(&self, like: &Like) -> Result<(), Mismatch> {
        let experts = self.sizes.experts;
        check_state("bias of the router [E]", &self.bias, experts, &like.device)
    }

    fn cast(self, dtype: DType) -> Self {
        Self {
            weight: cast_param(self.weight, dtype),
            ..self
        }
    }
}

/// A router in which every expert takes its C = min(T, ⌈T · factor / E⌉) most probable tokens; a token may get any number of experts,
/// including none.
///
/// A token has E slots: slot e holds expert e if the expert took the token, else E, and the probability as weight. The tokens that an
/// expert takes depend on the whole batch, so this router suits neither decoding token by token nor causal training.
#[derive(Module, Debug)]
pub struct ExpertChoiceRouter {
    /// Wg \[E,H\].
    pub weight: Param<Tensor<2>>,
    #[module(skip)]
    pub(super) config: ExpertChoiceConfig,
    #[module(skip)]
    pub(super) sizes: Sizes,
}

impl ExpertChoiceRouter {
    pub(super) fn new(config: ExpertChoiceConfig, sizes: Sizes, device: &Device) -> Self {
        Self {
            weight: matrix(sizes, device),
            config,
            sizes,
        }
    }

    /// The capacity rule with all (token, expert) pairs as slots, of which each expert keeps its C heaviest; changing factors multiply the
    /// configured one.
    fn rule(&self, tokens: usize, batch: &Batch) -> CapacityRule {
        let experts = self.sizes.experts;
        // Factors of a capacity are relative to S / E = T slots; the configured factor is relative to T / E tokens.
        let share = self.config.factor / experts as f64;
        let factors = batch.factors.clone().map(|factors| factors * share);
        let changing = factors.is_some();
        CapacityRule {
            capacity: Some(self.config.capacity(tokens, experts, changing)),
            factors,
            mask: batch.mask.clone(),
        }
    }
}

impl Routes for ExpertChoiceRouter {
    fn route(&self, batch: Batch) -> Result<Routed, Error> {
        let (tokens, experts) = (batch.x.dims()[0], self.sizes.experts);
        let device = batch.x.device();
        let logits = router_logits(batch.x.clone(), self.weight.val())?;
        let softmax = RouterConfig::ExpertChoice(self.config).route();
        let scored = choose(logits, batch.mask.clone(), None, None, &softmax)?;
        let column = Tensor::<1, Int>::arange(0..experts as i64, &device);
        let column = column.unsqueeze::<2>().expand([tokens, experts]);
        let assignment = Assignment::new(
            column.clone(),
            scored.probs.clone(),
            experts,
            self.rule(tokens, &batch),
            batch.variant,
        )?;
        let left = assignment.positions().lower_elem(0);
        let routing = Routing {
            indices: column.mask_fill(left.clone(), experts as i64),
            weights: scored.probs.clone().mask_fill(left, 0.0),
            ..scored
        };
        Ok(Routed {
            routing,
            assignment: Some(assignment),
        })
    }
}

//! Top-k that evens out usage, most for tokens that ask for capacity.

use super::learned::RouterLinear;
use super::{
    Batch, DType, Device, DynamicConfig, Error, Like, Mismatch, Module, Param, Routed, Routes,
    RunningState, Sizes, Tensor, cast_all, cast_param, check_state, choose, constant, matrix,
    router_logits, value,
};
use crate::moe::running::{Follow, follow, relative_load};
use burn::tensor::activation::{relu, sigmoid};

/// Pull of the usage on the logits of every token.
const USAGE_PENALTY: f64 = 0.1;

/// logits_te = x_t · Wg_e + c_t · (1 − u_e) − 0.1 · u_e, then top-k.
///
/// c_t = σ(MLP(x_t)), H → ⌈H/4⌉ → 1 with ReLU, is the token's demand for capacity; u_e the running
/// share of slots that chose expert e. Capacity factors follow each expert's load relative to an
/// even one; the layer drops by them. Both change in training only, after they were used.
#[derive(Module, Debug)]
pub struct DynamicRouter {
    /// Wg \[E,H\].
    pub weight: Param<Tensor<2>>,
    /// H → ⌈H/4⌉.
    pub demand_in: RouterLinear,
    /// ⌈H/4⌉ → 1.
    pub demand_out: RouterLinear,
    /// u \[E\], at first 1/E.
    pub usage: RunningState<Tensor<1>>,
    /// \[E\]: capacity factors, at first 1, in a layer with a capacity that capacity's factor.
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

    /// \[E\]: the capacity factors now.
    pub fn capacity_factors(&self) -> Tensor<1> {
        value(&self.factors)
    }

    /// c \[T,1\] in f32.
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
        let routing = choose(logits, batch.mask, None, &self.config.route)?;
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

//! The configuration of a layer, and its weights.

use super::experts::{ExpertKind, Experts, FeedForwardExperts, FeedForwardShape};
use super::factors::{CapacityFactors, FactorsConfig};
use super::layer::MoeLayer;
use super::route::RouteConfig;
use super::routers::{Router, RouterConfig, TopKConfig};
use super::running::constant;
use super::shared::SharedExpertConfig;
use crate::Error;
use crate::check::{check_positive, check_probability, check_within};
use crate::fp8::Weight;
use crate::fp8::training::Fp8Recipe;
use burn::module::Param;
use burn::tensor::{Device, Tensor};
use moebius_ops::ShapeError;
use moebius_ops::grouped_gemm::Activation;
use moebius_ops::moe::Keep;
use moebius_ops::permute::Capacity;
use serde::{Deserialize, Serialize};

/// Shape and behaviour of a mixture-of-experts layer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MoeConfig {
    /// Width of a token H.
    pub hidden: usize,
    /// Width of an expert F.
    pub inter: usize,
    /// Number of experts E.
    pub experts: usize,
    /// How tokens choose experts.
    #[serde(default)]
    pub router: RouterConfig,
    /// What an expert computes.
    #[serde(default)]
    pub kind: ExpertKind,
    /// Between the two products of an expert; attention experts have none, and take only the default
    /// unless a shared expert is beside them.
    pub activation: Activation,
    /// SwiGLU-style experts: act(G x) ∘ (U x) instead of act(W x).
    #[serde(default)]
    pub gated: bool,
    /// Experts have biases.
    #[serde(default)]
    pub bias: bool,
    /// Slots an expert takes at most; `None` never drops. Where factors change (a dynamic router's, or
    /// `factors`) its factor is the one they start with, and must lie within their bounds. Experts
    /// that choose have a factor of their own, and none here.
    #[serde(default)]
    pub capacity: Option<Capacity>,
    /// What capacity factors follow. Without a `capacity` the least is 4 slots, the first factor 1, or
    /// a scheduler's headroom.
    #[serde(default)]
    pub factors: Option<FactorsConfig>,
    /// Probability with which an expert is not available to a training forward; at least as many
    /// as a token chooses always stay, though not in every group of a router with groups.
    #[serde(default)]
    pub expert_dropout: f64,
    /// Probability with which a training forward sets an element to 0 after the activation of an
    /// expert, a shared one too; the others are divided by 1 − p. Such a forward isn't fused: it
    /// keeps what Burn's operations keep.
    #[serde(default)]
    pub activation_dropout: f64,
    /// An expert for every token, beside those it chooses.
    #[serde(default)]
    pub shared: Option<SharedExpertConfig>,
    /// What a training forward of fused experts keeps for its backward pass: feed-forward ones that
    /// aren't in FP8 and drop nothing after the activation.
    #[serde(default)]
    pub keep: Keep,
    /// Feed-forward experts multiply in FP8; a shared expert and the router don't.
    #[serde(default)]
    pub fp8: Option<Fp8Recipe>,
}

/// The weights of a layer with feed-forward experts, stacked by expert.
#[derive(Clone, Debug)]
pub struct MoeWeights {
    /// \[E,H\].
    pub router: Tensor<2>,
    /// \[E,F,H\]; gated \[E,2F,H\], the gate's rows before the up projection's.
    pub w_in: Tensor<3>,
    /// \[E,F\] or \[E,2F\].
    pub b_in: Option<Tensor<2>>,
    /// \[E,H,F\].
    pub w_out: Tensor<3>,
    /// \[E,H\].
    pub b_out: Option<Tensor<2>>,
}

impl MoeConfig {
    /// Top-2 of `experts` ungated relu experts, dropless, no biases.
    pub fn new(hidden: usize, inter: usize, experts: usize) -> Self {
        Self {
            hidden,
            inter,
            experts,
            router: RouterConfig::default(),
            kind: ExpertKind::default(),
            activation: Activation::Relu,
            gated: false,
            bias: false,
            capacity: None,
            factors: None,
            expert_dropout: 0.0,
            activation_dropout: 0.0,
            shared: None,
            keep: Keep::default(),
            fp8: None,
        }
    }

    /// Sets the router.
    pub fn with_router(mut self, router: RouterConfig) -> Self {
        self.router = router;
        self
    }

    /// Sets the number of experts per token; see [`RouterConfig::with_top_k`], which may change
    /// the kind of router.
    pub fn with_top_k(mut self, top_k: usize) -> Self {
        self.router = self.router.with_top_k(top_k);
        self
    }

    /// Sets a top-k router with this choice of experts.
    pub fn with_route(mut self, route: RouteConfig) -> Self {
        let old = match self.router {
            RouterConfig::TopK(config) => config,
            _ => TopKConfig::default(),
        };
        self.router = RouterConfig::TopK(TopKConfig { route, ..old });
        self
    }

    /// Sets the kind of the experts.
    pub fn with_experts(mut self, kind: ExpertKind) -> Self {
        self.kind = kind;
        self
    }

    /// Sets the experts' activation.
    pub fn with_activation(mut self, activation: Activation) -> Self {
        self.activation = activation;
        self
    }

    /// Sets whether experts are gated.
    pub fn with_gated(mut self, gated: bool) -> Self {
        self.gated = gated;
        self
    }

    /// Sets whether experts have biases.
    pub fn with_bias(mut self, bias: bool) -> Self {
        self.bias = bias;
        self
    }

    /// Sets the capacity limit, or removes it.
    pub fn with_capacity(mut self, capacity: Option<Capacity>) -> Self {
        self.capacity = capacity;
        self
    }

    /// Sets capacity factors that change, or removes them.
    pub fn with_factors(mut self, factors: Option<FactorsConfig>) -> Self {
        self.factors = factors;
        self
    }

    /// Sets the probability of leaving an expert out.
    pub fn with_expert_dropout(mut self, probability: f64) -> Self {
        self.expert_dropout = probability;
        self
    }

    /// Sets the probability of dropping an element after an expert's activation.
    pub fn with_activation_dropout(mut self, probability: f64) -> Self {
        self.activation_dropout = probability;
        self
    }

    /// Sets the shared expert, or removes it.
    pub fn with_shared(mut self, shared: Option<SharedExpertConfig>) -> Self {
        self.shared = shared;
        self
    }

    /// Sets the balance of memory and time in training.
    pub fn with_keep(mut self, keep: Keep) -> Self {
        self.keep = keep;
        self
    }

    /// Sets how experts train in FP8, or that they don't; see [`crate::fp8::training`], whose `update`
    /// follows every backward pass.
    pub fn with_fp8(mut self, recipe: Option<Fp8Recipe>) -> Self {
        self.fp8 = recipe;
        self
    }

    /// Slots of a token K.
    pub fn top_k(&self) -> usize {
        self.router.choices(self.experts)
    }

    /// Columns of the first product: F, or 2F when gated.
    pub(crate) fn columns_in(&self) -> usize {
        self.feed_forward().columns_in()
    }

    /// E, H, F and the columns of the first product.
    pub(super) fn sizes(&self) -> (usize, usize, usize, usize) {
        (self.experts, self.hidden, self.inter, self.columns_in())
    }

    /// The shape of the layer's feed-forward experts.
    pub(super) fn feed_forward(&self) -> FeedForwardShape {
        FeedForwardShape {
            hidden: self.hidden,
            inter: self.inter,
            activation: self.activation,
            gated: self.gated,
            bias: self.bias,
            dropout: self.activation_dropout,
        }
    }

    /// Whether dispatch takes its factors from the device.
    pub(super) fn factors_change(&self) -> bool {
        self.factors.is_some() || matches!(self.router, RouterConfig::Dynamic(_))
    }

    /// The limit that dispatch obeys for a batch of `tokens` tokens.
    pub(super) fn limit(&self, tokens: usize) -> Option<Capacity> {
        if let RouterConfig::ExpertChoice(config) = &self.router {
            return Some(config.capacity(tokens, self.experts, self.factors.is_some()));
        }
        let default = Capacity {
            factor: 1.0,
            min: DEFAULT_MIN_CAPACITY,
        };
        self.capacity.or(self.factors_change().then_some(default))
    }

    pub(super) fn check(&self) -> Result<(), ShapeError> {
        check_positive("hidden", self.hidden)?;
        check_positive("inter", self.inter)?;
        check_positive("experts", self.experts)?;
        self.check_size(self.inter, self.experts)?;
        if let Some(capacity) = self.capacity {
            Capacity::new(capacity.factor, capacity.min)?;
            self.check_capacity(capacity.factor)?;
        }
        if let Some(factors) = &self.factors {
            factors.check(&self.router)?;
        }
        if let Some(shared) = &self.shared {
            shared.check()?;
            self.check_size(shared.inter, 1)?;
        }
        if let Some(recipe) = &self.fp8 {
            recipe.valid()?;
            if self.kind != ExpertKind::FeedForward {
                let got = format!("{:?}", self.kind);
                return Err(ShapeError::new("experts in FP8", "feed-forward", got));
            }
        }
        check_probability("expert_dropout", self.expert_dropout)?;
        check_probability("activation_dropout", self.activation_dropout)?;
        self.check_effects()?;
        self.kind.check(self)?;
        self.router.check(self.experts)
    }

    /// Checks that a capacity has an effect, and can be what factors start with.
    fn check_capacity(&self, factor: f64) -> Result<(), ShapeError> {
        let follow = match (&self.router, &self.factors) {
            (RouterConfig::ExpertChoice(_), _) => {
                let expected = "none, because experts that choose have their own";
                return Err(ShapeError::new("capacity", expected, factor));
            }
            (RouterConfig::Dynamic(config), _) => config.follow,
            (_, Some(factors)) => *factors.follow(),
            _ => return Ok(()),
        };
        let what = "capacity factor that changing ones start with";
        check_within(what, factor, follow.min, follow.max)
    }

    /// Refuses options that nothing in the layer would follow.
    fn check_effects(&self) -> Result<(), ShapeError> {
        let (shared, p) = (self.shared.is_some(), self.activation_dropout);
        if matches!(self.kind, ExpertKind::Attention { .. }) && !shared {
            let default = Self::new(1, 1, 1).activation;
            if self.activation != default {
                let expected = "the default: attention experts have none";
                let got = format!("{:?}", self.activation);
                return Err(ShapeError::new("activation", expected, got));
            }
            if p != 0.0 {
                let expected = "0: attention experts have no activation";
                return Err(ShapeError::new("activation_dropout", expected, p));
            }
        }
        let fused = shared || (self.kind == ExpertKind::FeedForward && self.fp8.is_none());
        if self.keep != Keep::default() && !(fused && p == 0.0) {
            let expected = "the default: no training forward of these experts is fused";
            let got = format!("{:?}", self.keep);
            return Err(ShapeError::new("keep", expected, got));
        }
        Ok(())
    }

    /// The router, and the factors of the layer's capacities.
    fn dispatcher(&self, device: &Device) -> Result<(Router, Option<CapacityFactors>), Error> {
        let mut router = self.router.init(self.hidden, self.experts, device)?;
        let first = self.capacity.map(|capacity| capacity.factor);
        if let (Router::Dynamic(router), Some(first)) = (&mut router, first) {
            router.factors = constant(first, self.experts, device);
        }
        let factors = self.factors;
        let factors = factors.map(|factors| factors.init(first, self.experts, device));
        Ok((router, factors))
    }

    /// Checks that `experts` experts of width `inter` can be counted.
    pub(super) fn check_size(&self, inter: usize, experts: usize) -> Result<(), ShapeError> {
        let columns = inter.checked_mul(if self.gated { 2 } else { 1 });
        let expert = columns.and_then(|columns| columns.checked_mul(self.hidden));
        let all = expert.and_then(|expert| expert.checked_mul(experts.checked_mul(4)?));
        if expert.is_none_or(|n| n > i32::MAX as usize)
            || all.is_none_or(|n| n > isize::MAX as usize)
        {
            let got = format!("{experts} experts of {inter} x {}", self.hidden);
            let expected = "at most 2^31 - 1 elements an expert";
            return Err(ShapeError::new("expert weights", expected, got));
        }
        Ok(())
    }

    /// A layer with weights uniform in ±1/√fan_in, as PyTorch's `Linear`; biases likewise.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) for a size of 0, a `top_k` outside
    /// 1..=experts, a capacity factor that isn't finite and positive, another value out of its
    /// range, or an option that would have no effect.
    pub fn init(&self, device: &Device) -> Result<MoeLayer, Error> {
        self.check()?;
        let dispatcher = self.dispatcher(device)?;
        let experts = self.kind.init(self, device)?;
        let shared = self.shared.map(|shared| shared.init(self, device));
        Ok(MoeLayer::new(*self, dispatcher, experts, shared))
    }

    /// A layer with these weights; a shared expert is initialised like [`MoeConfig::init`]'s.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) as [`MoeConfig::init`], for weights of other
    /// shapes than the configuration's or of several dtypes or devices, for biases that are
    /// missing or unexpected, and for a router that learns more than one matrix or experts that
    /// aren't feed-forward: [`MoeLayer`]'s fields take those.
    pub fn with_weights(&self, weights: MoeWeights) -> Result<MoeLayer, Error> {
        self.check()?;
        if self.kind != ExpertKind::FeedForward {
            let got = format!("{:?}", self.kind);
            return Err(ShapeError::new("experts with weights", "feed-forward", got).into());
        }
        let (device, dtype) = (weights.router.device(), weights.router.dtype());
        let (router, factors) = self.dispatcher(&device)?;
        let shared = self.shared.map(|shared| shared.init(self, &device));
        let experts = FeedForwardExperts {
            w_in: Weight::from(Param::from_tensor(weights.w_in))
                .with_parts(self.feed_forward().parts()),
            b_in: weights.b_in.map(Param::from_tensor),
            w_out: Param::from_tensor(weights.w_out).into(),
            b_out: weights.b_out.map(Param::from_tensor),
        };
        let experts = Experts::feed_forward(experts, self)?;
        let router = router.with_matrix(weights.router)?;
        let shared = shared.map(|shared| shared.cast(dtype));
        let layer = MoeLayer::new(*self, (router, factors), experts, shared);
        layer.check()?;
        Ok(layer)
    }
}

/// Least capacity of an expert where only factors are given.
const DEFAULT_MIN_CAPACITY: usize = 4;

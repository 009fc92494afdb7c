//! The configuration of a mixture-of-experts layer.

use super::factors::FactorsConfig;
use super::route::RouteConfig;
use super::routers::{RouterConfig, SwitchConfig};
use crate::check::{check_positive, check_probability, check_within, element};
use crate::fp8::training::Fp8Recipe;
use burn::tensor::DType;
use moebius_ops::experts::{self, Keep};
use moebius_ops::grouped_gemm::Activation;
use moebius_ops::permute::Capacity;
use moebius_ops::permute::sorting;
use moebius_ops::segment_attention::MAX_HEAD_DIM;
use moebius_ops::{Fault, Mismatch, routing};
use serde::{Deserialize, Serialize};

/// Shape and behaviour of a mixture-of-experts layer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MoeConfig {
    /// The width H of a token.
    pub hidden: usize,
    /// The width F of an expert.
    pub inter: usize,
    /// The number E of experts.
    pub experts: usize,
    /// How experts are chosen for tokens.
    #[serde(default)]
    pub router: RouterConfig,
    /// The kind of network that an expert is.
    #[serde(default)]
    pub kind: ExpertKind,
    /// The activation between the two products of an expert. Attention experts have none: their layer takes only the default unless it has
    /// a shared expert.
    pub activation: Activation,
    /// Whether experts are SwiGLU-style: act(G x) ∘ (U x) instead of act(W x).
    #[serde(default)]
    pub gated: bool,
    /// Whether experts have biases.
    #[serde(default)]
    pub bias: bool,
    /// The most slots that an expert takes; `None` never drops a slot. Where factors change (a dynamic router's, or `factors`), they start
    /// with this capacity's factor, which must lie within their bounds. A router whose experts choose tokens has a factor of its own and
    /// takes no capacity here.
    #[serde(default)]
    pub capacity: Option<Capacity>,
    /// The quantity that changing capacity factors follow. Without a `capacity`, the least capacity is 4 slots and the first factor is 1,
    /// or a scheduler's headroom.
    #[serde(default)]
    pub factors: Option<FactorsConfig>,
    /// The probability that an expert is unavailable in a training forward. At least as many experts as a token chooses always stay, though
    /// not in every group of a router with groups.
    #[serde(default)]
    pub expert_dropout: f64,
    /// The probability that a training forward sets an element to 0 after the activation of an expert, including a shared one; the other
    /// elements are divided by 1 − p. Such a forward isn't fused: it keeps what Burn's operations keep.
    #[serde(default)]
    pub activation_dropout: f64,
    /// An expert that every token goes through in addition to its chosen experts.
    #[serde(default)]
    pub shared: Option<SharedExpertConfig>,
    /// The tensors that a training forward of fused experts keeps for its backward pass. Fused experts are feed-forward, not in FP8, and
    /// without dropout after the activation.
    #[serde(default)]
    pub keep: Keep,
    /// The recipe by which feed-forward experts multiply in FP8; a shared expert and the router never do.
    #[serde(default)]
    pub fp8: Option<Fp8Recipe>,
    /// Whether the router's weight multiplies an expert's input instead of its output (Llama 4, 2025): y_t = expert(w_t · x_t). Only for
    /// feed-forward experts of which each token chooses one.
    #[serde(default)]
    pub weighted_input: bool,
}

/// The kinds of experts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ExpertKind {
    /// Two products with the activation between them, or three products if gated.
    #[default]
    FeedForward,
    /// Two convolutions of width 3 along the tokens of a sequence that were routed to the expert.
    Convolutional {
        /// Whether a token sees itself and the two tokens before it, instead of one before and one after.
        causal: bool,
    },
    /// Self-attention among the tokens of a sequence that were routed to the expert.
    Attention {
        /// The number of heads, a divisor of the width of an expert.
        heads: usize,
        /// Whether a token sees only itself and the tokens before it.
        causal: bool,
    },
    /// A frozen network that all experts share, with a few trained weights per expert.
    ParameterEfficient {
        /// The form of the trained weights.
        form: Adapted,
        /// The rank of a low-rank change, or the width of an adapter.
        rank: usize,
    },
}

/// The trained weights that an expert adds to the frozen network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Adapted {
    /// Low-rank changes of both products (LoRA).
    Lora,
    /// A small network after the frozen one.
    Adapter,
}

impl ExpertKind {
    /// LoRA of rank 32.
    pub fn lora() -> Self {
        Self::ParameterEfficient {
            form: Adapted::Lora,
            rank: 32,
        }
    }

    /// Adapters of width 32.
    pub fn adapter() -> Self {
        Self::ParameterEfficient {
            form: Adapted::Adapter,
            rank: 32,
        }
    }

    fn check(&self, config: &MoeConfig) -> Result<(), Mismatch> {
        match *self {
            Self::FeedForward | Self::Convolutional { .. } => Ok(()),
            Self::Attention { heads, .. } => {
                let right = heads > 0 && config.inter.is_multiple_of(heads);
                let expected = format_args!("a divisor of {} (inter)", config.inter);
                Fault::Config.unless(right, "attention heads", expected, heads)?;
                let (head, expected) =
                    (config.inter / heads, format_args!("at most {MAX_HEAD_DIM}"));
                Fault::Config.unless(head <= MAX_HEAD_DIM, "inter / heads", expected, head)?;
                Fault::Config.unless(!config.gated, "gated", "false for attention", true)
            }
            Self::ParameterEfficient { form, rank } => {
                check_positive("rank", rank)?;
                let (h, f, columns) = (config.hidden, config.inter, config.columns_in());
                let trained = match form {
                    Adapted::Lora => rank.saturating_mul(2 * h + columns + f),
                    Adapted::Adapter => rank.saturating_mul(2 * h),
                };
                let whole = h * (columns + f);
                let expected = format_args!("less than {whole} trained weights an expert");
                let got = format_args!("{trained} with rank {rank}");
                let what = "parameter-efficient experts";
                Fault::Config.unless(trained < whole, what, expected, got)
            }
        }
    }
}

/// The configuration of a [`SharedExpert`](super::SharedExpert); its activation, gate and biases are those of the layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedExpertConfig {
    /// The width of the shared expert.
    pub inter: usize,
    /// Whether the output is multiplied by σ(x · g).
    pub sigmoid_gate: bool,
}

impl SharedExpertConfig {
    /// A shared expert of width `inter` without a sigmoid gate.
    pub fn new(inter: usize) -> Self {
        Self {
            inter,
            sigmoid_gate: false,
        }
    }

    /// A copy with or without the sigmoid gate.
    pub fn with_sigmoid_gate(mut self, sigmoid_gate: bool) -> Self {
        self.sigmoid_gate = sigmoid_gate;
        self
    }

    /// The configuration of a layer that consists of this expert only.
    pub(super) fn alone(&self, config: &MoeConfig) -> MoeConfig {
        let inter = self.inter;
        MoeConfig { inter, ..*config }
    }

    fn check(&self) -> Result<(), Mismatch> {
        check_positive("inter of the shared expert", self.inter)
    }
}

setters! { MoeConfig:
    /// Sets the kind of the experts.
    with_kind: kind: ExpertKind,
    /// Sets the experts' activation.
    with_activation: activation: Activation,
    /// Sets whether experts are gated.
    with_gated: gated: bool,
    /// Sets whether experts have biases.
    with_bias: bias: bool,
    /// Sets the capacity limit, or removes it.
    with_capacity: capacity: Option<Capacity>,
    /// Sets capacity factors that change, or removes them.
    with_factors: factors: Option<FactorsConfig>,
    /// Sets the probability of leaving an expert out.
    with_expert_dropout: expert_dropout: f64,
    /// Sets the probability of dropping an element after an expert's activation.
    with_activation_dropout: activation_dropout: f64,
    /// Sets the shared expert, or removes it.
    with_shared: shared: Option<SharedExpertConfig>,
    /// Sets the balance of memory and time in training.
    with_keep: keep: Keep,
    /// Sets how experts train in FP8, or that they don't; see [`crate::fp8::training`], whose `update`
    /// follows every backward pass.
    with_fp8: fp8: Option<Fp8Recipe>,
    /// Sets whether the router's weight multiplies an expert's input instead of its output.
    with_weighted_input: weighted_input: bool,
}

impl MoeConfig {
    /// Top-2 routing to `experts` ReLU experts without gates and biases, without a capacity limit.
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
            weighted_input: false,
        }
    }

    /// Sets the router from a [`RouterConfig`], the configuration of any router, or a [`RouteConfig`] for a top-k router.
    pub fn with_router(mut self, router: impl Into<RouterConfig>) -> Self {
        self.router = router.into();
        self
    }

    /// The number K of slots of a token.
    pub fn top_k(&self) -> usize {
        self.router.choices(self.experts)
    }

    /// The number of projections in the first product: 2 (gate and up) if gated, else 1.
    pub(super) fn parts(&self) -> usize {
        if self.gated { 2 } else { 1 }
    }

    /// The number of columns of the first product: F, or 2F if gated.
    pub(crate) fn columns_in(&self) -> usize {
        self.inter.saturating_mul(self.parts())
    }

    /// Returns E, H, F and the number of columns of the first product.
    pub(super) fn sizes(&self) -> (usize, usize, usize, usize) {
        (self.experts, self.hidden, self.inter, self.columns_in())
    }

    /// Describes the computation of the feed-forward experts for `tokens` tokens.
    pub(super) fn problem(
        &self,
        tokens: usize,
        dtype: DType,
    ) -> Result<experts::Problem, Mismatch> {
        let routing = self.router.problem(tokens, self.experts)?;
        let capacity = self.limit(tokens);
        let sort = sorting::Problem::new(&routing, capacity, self.factors_change())?;
        Ok(experts::Problem {
            capacity,
            row_bound: sort.row_bound(),
            ..self.fused(routing, dtype)?
        })
    }

    /// Describes the feed-forward experts for the slots of `routing`, without a capacity limit.
    pub(super) fn fused(
        &self,
        routing: routing::Problem,
        dtype: DType,
    ) -> Result<experts::Problem, Mismatch> {
        Ok(experts::Problem {
            routing,
            hidden: self.hidden,
            inter: self.inter,
            element: element(dtype)?,
            gated: self.gated,
            activation: self.activation,
            bias: self.bias,
            capacity: None,
            row_bound: routing.slots(),
            dense: false,
        })
    }

    /// Whether capacity factors change, so that dispatch reads them from the device.
    pub(super) fn factors_change(&self) -> bool {
        self.factors.is_some() || matches!(self.router, RouterConfig::Dynamic(_))
    }

    /// The capacity limit of a batch of `tokens` tokens.
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

    pub(super) fn check(&self) -> Result<(), Mismatch> {
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
            recipe.check()?;
            let right = self.kind == ExpertKind::FeedForward;
            let got = format_args!("{:?}", self.kind);
            Fault::Config.unless(right, "experts in FP8", "feed-forward", got)?;
        }
        check_probability("expert_dropout", self.expert_dropout)?;
        check_probability("activation_dropout", self.activation_dropout)?;
        self.check_effects()?;
        self.kind.check(self)?;
        self.router.check(self.experts)
    }

    /// Checks that a capacity has an effect, and that changing factors can start with its factor.
    fn check_capacity(&self, factor: f64) -> Result<(), Mismatch> {
        let follow = match (&self.router, &self.factors) {
            (RouterConfig::ExpertChoice(_), _) => {
                let expected = "none, because experts that choose have their own";
                return Err(Fault::Config.error("capacity", expected, factor));
            }
            (RouterConfig::Dynamic(config), _) => config.follow,
            (_, Some(factors)) => *factors.follow(),
            _ => return Ok(()),
        };
        let what = "capacity factor that changing ones start with";
        check_within(what, factor, follow.min, follow.max)
    }

    /// Refuses options that have no effect on the layer.
    fn check_effects(&self) -> Result<(), Mismatch> {
        let (shared, p) = (self.shared.is_some(), self.activation_dropout);
        if matches!(self.kind, ExpertKind::Attention { .. }) && !shared {
            let default = Self::new(1, 1, 1).activation;
            let right = self.activation == default;
            let got = format_args!("{:?}", self.activation);
            let expected = "the default: attention experts have none";
            Fault::Config.unless(right, "activation", expected, got)?;
            let expected = "0: attention experts have no activation";
            Fault::Config.unless(p == 0.0, "activation_dropout", expected, p)?;
        }
        let right = self.kind == ExpertKind::FeedForward && self.top_k() == 1;
        let got = format_args!("{:?} experts, {} a token", self.kind, self.top_k());
        let expected = "feed-forward experts, one a token";
        let right = right || !self.weighted_input;
        Fault::Config.unless(right, "experts with a weighted input", expected, got)?;
        let fused = shared || (self.kind == ExpertKind::FeedForward && self.fp8.is_none());
        let right = self.keep == Keep::default() || (fused && p == 0.0);
        let expected = "the default: no training forward of these experts is fused";
        Fault::Config.unless(right, "keep", expected, format_args!("{:?}", self.keep))
    }

    /// Checks that the elements of `experts` experts of width `inter` fit an index.
    pub(super) fn check_size(&self, inter: usize, experts: usize) -> Result<(), Mismatch> {
        let columns = inter.checked_mul(self.parts());
        let expert = columns.and_then(|columns| columns.checked_mul(self.hidden));
        let all = expert.and_then(|expert| expert.checked_mul(experts.checked_mul(4)?));
        let fits = |n: Option<usize>, most| n.is_some_and(|n| n <= most);
        let right = fits(expert, i32::MAX as usize) && fits(all, isize::MAX as usize);
        let got = format_args!("{experts} experts of {inter} x {}", self.hidden);
        let expected = "at most 2^31 - 1 elements an expert";
        Fault::Config.unless(right, "expert weights", expected, got)
    }
}

/// The least capacity of an expert, in slots, if only factors are configured.
const DEFAULT_MIN_CAPACITY: usize = 4;

/// Capacity of the five layers: 1.25 times the even load, at least 4 slots.
const CAPACITY: Capacity = Capacity {
    factor: 1.25,
    min: 4,
};

/// The five named layers: one struct in five configurations.
impl MoeConfig {
    /// Top-2, capacity factor 1.25 (at least 4 slots), expert dropout 0.1.
    pub fn standard(hidden: usize, inter: usize, experts: usize) -> Self {
        Self::new(hidden, inter, experts)
            .with_capacity(Some(CAPACITY))
            .with_expert_dropout(0.1)
    }

    /// [`MoeConfig::standard`] with K = ⌊E · sparsity⌋ experts per token, at least 1 and at most
    /// 2. For another upper bound see [`RouteConfig::sparse`].
    pub fn sparse(hidden: usize, inter: usize, experts: usize, sparsity: f64) -> Self {
        let route = RouteConfig::sparse(experts, sparsity, 2);
        Self::standard(hidden, inter, experts).with_router(route)
    }

    /// [`MoeConfig::standard`] with the switch router, one expert per token, and capacity factor
    /// 1.0 (Fedus et al. 2022).
    pub fn switch(hidden: usize, inter: usize, experts: usize) -> Self {
        Self::standard(hidden, inter, experts)
            .with_router(SwitchConfig::default())
            .with_capacity(Some(Capacity {
                factor: 1.0,
                ..CAPACITY
            }))
    }

    /// [`MoeConfig::standard`] with top-2 experts of width ⌊`inter` / 2⌋: a token's two experts
    /// cost as much as one dense network of width `inter` (Du et al. 2022). See
    /// [`GlamConfig`](super::GlamConfig) for the alternation with dense blocks.
    pub fn glam(hidden: usize, inter: usize, experts: usize) -> Self {
        Self::standard(hidden, inter / 2, experts)
    }

    /// [`MoeConfig::standard`] with a capacity factor that starts at 1.25 and follows the variance of
    /// the input (rate 0.01, 0.5 to 2.0).
    pub fn adaptive(hidden: usize, inter: usize, experts: usize) -> Self {
        Self::standard(hidden, inter, experts).with_factors(Some(FactorsConfig::variance()))
    }
}

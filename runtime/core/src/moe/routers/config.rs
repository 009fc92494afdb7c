//! Configurations of the routers.

use super::{
    DynamicRouter, ExpertChoiceRouter, HashRouter, LearnedRouter, Router, SigmoidBiasRouter, Sizes,
    SwitchRouter, TopKRouter,
};
use crate::Error;
use crate::check::{check_positive, check_probability, check_size, check_within};
use crate::moe::route::RouteConfig;
use crate::moe::running::Follow;
use burn::tensor::Device;
use moebius_ops::permute::Capacity;
use moebius_ops::routing::{self, Score};
use moebius_ops::{Fault, Mismatch};
use serde::{Deserialize, Serialize};

/// The kind of router of a layer, with its settings.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RouterConfig {
    /// The K largest logits.
    TopK(TopKConfig),
    /// The expert of the largest logit.
    Switch(SwitchConfig),
    /// K experts by a hash of the token.
    Hash(HashConfig),
    /// The K largest logits of an MLP.
    Learned(LearnedConfig),
    /// The K largest logits, corrected by usage and by the token's demand for capacity.
    Dynamic(DynamicConfig),
    /// The K largest scores, sigmoids unless configured otherwise, plus a balancing bias.
    SigmoidBias(SigmoidBiasConfig),
    /// Experts that choose tokens.
    ExpertChoice(ExpertChoiceConfig),
}

/// The configuration of a [`TopKRouter`]: the K largest of x · Wgᵀ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TopKConfig {
    /// The number of experts per token, their scores and their order.
    pub route: RouteConfig,
    /// The probability that training sets an element of x to 0 before the logits are computed.
    pub dropout: f64,
    /// Standard deviation of the normal noise that training adds to the logits.
    pub noise_std: f64,
    /// Whether the logits have a bias \[E\] (gpt-oss).
    pub bias: bool,
}

/// The configuration of a [`SwitchRouter`]: one expert, weighted by its probability.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SwitchConfig {
    /// The noise of the logits in training: each is multiplied by a number uniform in 1 − jitter to 1 + jitter.
    pub jitter: f64,
}

impl Default for SwitchConfig {
    fn default() -> Self {
        Self { jitter: 0.01 }
    }
}

/// The largest width of a learned router; at its largest width and number of layers it has 4 GiB of f32 weights.
const MAX_WIDTH: usize = 8192;
const MAX_LAYERS: usize = 16;

/// The key of a token's hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HashKey {
    /// The position of the token in its sequence of `sequence` tokens.
    Position {
        /// The number of tokens in a sequence, at least 1.
        sequence: usize,
    },
    /// The values of the token, as f32 bits.
    Content,
}

/// The configuration of a [`HashRouter`]: K distinct experts by hash, each with weight 1/K.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HashConfig {
    /// The number K of experts per token.
    pub top_k: usize,
    /// The key of the hash.
    pub key: HashKey,
    /// The seed of the hash; another seed gives another hash.
    pub seed: u32,
}

impl Default for HashConfig {
    fn default() -> Self {
        Self {
            top_k: 2,
            key: HashKey::Content,
            seed: 0,
        }
    }
}

/// The configuration of a [`LearnedRouter`]: Linear(H,R) + ReLU, `layers` − 1 times Linear(R,R) + ReLU, Linear(R,E).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LearnedConfig {
    /// How experts are chosen from the logits.
    pub route: RouteConfig,
    /// Width R, at most 8192.
    pub width: usize,
    /// The number of layers before the last, at most 16.
    pub layers: usize,
}

impl Default for LearnedConfig {
    fn default() -> Self {
        Self {
            route: RouteConfig::default(),
            width: 512,
            layers: 2,
        }
    }
}

/// The configuration of a [`DynamicRouter`]: top-k with a token's demand for capacity, and capacity factors that follow the load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DynamicConfig {
    /// How experts are chosen from the logits.
    pub route: RouteConfig,
    /// How usage and capacity factors follow the load; the bounds apply to the factors.
    pub follow: Follow,
}

impl Default for DynamicConfig {
    fn default() -> Self {
        Self {
            route: RouteConfig::default(),
            follow: Follow::new(0.01, 0.5, 2.0),
        }
    }
}

/// The configuration of a [`SigmoidBiasRouter`]: sigmoid scores (DeepSeek-V3) or softmax scores (ERNIE 4.5), and a bias that balances the
/// selection.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SigmoidBiasConfig {
    /// How experts are chosen; `softmax_after_topk` must be off.
    pub route: RouteConfig,
    /// Step of a bias in one training forward.
    pub rate: f64,
}

impl Default for SigmoidBiasConfig {
    fn default() -> Self {
        Self {
            route: RouteConfig {
                score: Score::Sigmoid,
                ..RouteConfig::default()
            },
            rate: 0.001,
        }
    }
}

/// The configuration of an [`ExpertChoiceRouter`]: every expert takes its min(T, ⌈T · factor / E⌉) best tokens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ExpertChoiceConfig {
    /// The number of experts that a token gets on average.
    pub factor: f64,
}

impl ExpertChoiceConfig {
    /// The capacity of each of `experts` experts for `tokens` tokens, unless changing factors decide it.
    pub(crate) fn capacity(&self, tokens: usize, experts: usize, changing: bool) -> Capacity {
        let taken = (tokens as f64 * self.factor / experts as f64).ceil() as usize;
        Capacity {
            // The factor is so small that `min`, an exact number, decides.
            factor: f64::MIN_POSITIVE,
            min: if changing { 1 } else { taken.min(tokens) },
        }
    }
}

impl Default for ExpertChoiceConfig {
    fn default() -> Self {
        Self { factor: 2.0 }
    }
}

impl Default for RouterConfig {
    fn default() -> Self {
        Self::TopK(TopKConfig::default())
    }
}

impl From<RouteConfig> for RouterConfig {
    fn from(route: RouteConfig) -> Self {
        Self::TopK(TopKConfig {
            route,
            ..TopKConfig::default()
        })
    }
}

macro_rules! from_numbers {
    ($($config:ident => $kind:ident,)*) => {$(
        impl From<$config> for RouterConfig {
            fn from(config: $config) -> Self {
                Self::$kind(config)
            }
        }
    )*};
}

from_numbers! {
    TopKConfig => TopK,
    SwitchConfig => Switch,
    HashConfig => Hash,
    LearnedConfig => Learned,
    DynamicConfig => Dynamic,
    SigmoidBiasConfig => SigmoidBias,
    ExpertChoiceConfig => ExpertChoice,
}

impl RouterConfig {
    /// The name of the router in errors and configurations.
    pub fn name(&self) -> &'static str {
        match self {
            Self::TopK(_) => "top_k",
            Self::Switch(_) => "switch",
            Self::Hash(_) => "hash",
            Self::Learned(_) => "learned",
            Self::Dynamic(_) => "dynamic",
            Self::SigmoidBias(_) => "sigmoid_bias",
            Self::ExpertChoice(_) => "expert_choice",
        }
    }

    /// The number K of slots of a token; E where experts choose tokens, because any of them may choose it.
    pub fn choices(&self, experts: usize) -> usize {
        match self {
            Self::Switch(_) => 1,
            Self::Hash(config) => config.top_k,
            Self::ExpertChoice(_) => experts,
            _ => self.route().top_k,
        }
    }

    /// The number of experts that expert dropout must leave.
    pub(crate) fn fewest_experts(&self) -> usize {
        match self {
            Self::ExpertChoice(_) => 1,
            _ => self.choices(1),
        }
    }

    /// How scores and weights follow from logits; for a router that isn't top-k, the settings of the closest top-k router.
    pub(crate) fn route(&self) -> RouteConfig {
        match self {
            Self::TopK(config) => config.route,
            Self::Learned(config) => config.route,
            Self::Dynamic(config) => config.route,
            Self::SigmoidBias(config) => config.route,
            Self::Switch(_) | Self::ExpertChoice(_) => RouteConfig {
                top_k: 1,
                renormalize: false,
                ..RouteConfig::default()
            },
            Self::Hash(config) => RouteConfig {
                top_k: config.top_k,
                ..RouteConfig::default()
            },
        }
    }

    /// Describes the routing of `tokens` tokens: slots and scores.
    pub(crate) fn problem(
        &self,
        tokens: usize,
        experts: usize,
    ) -> Result<routing::Problem, Mismatch> {
        match self {
            Self::ExpertChoice(_) => routing::Problem::new(tokens, experts, experts),
            _ => self.route().problem(tokens, experts),
        }
    }

    pub(crate) fn check(&self, experts: usize) -> Result<(), Mismatch> {
        self.problem(1, experts)?;
        match self {
            Self::TopK(config) => {
                check_probability("router dropout", config.dropout)?;
                check_within("router noise_std", config.noise_std, 0.0, f64::MAX)
            }
            Self::Switch(config) => check_probability("router jitter", config.jitter),
            Self::Hash(config) => config.check(experts),
            Self::Learned(config) => {
                check_size("router width", config.width, MAX_WIDTH)?;
                check_size("router layers", config.layers, MAX_LAYERS)
            }
            Self::Dynamic(config) => config.follow.check(),
            Self::SigmoidBias(config) => {
                check_within("rate of the router bias", config.rate, 0.0, f64::MAX)?;
                let route = &config.route;
                let scored = !route.softmax_after_topk;
                let got = format_args!("{route:?}");
                Fault::Config.unless(scored, "score", "scores of all experts", got)
            }
            Self::ExpertChoice(config) => Capacity::new(config.factor, 1).map(drop),
        }
    }

    /// Creates a router of tokens of width `hidden` to `experts` experts, with weights uniform in ±1/√fan_in.
    ///
    /// # Errors
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) for a size of 0, a matrix of more than 2³¹ − 1
    /// elements, or a value out of its range.
    pub fn init(&self, hidden: usize, experts: usize, device: &Device) -> Result<Router, Error> {
        check_positive("hidden", hidden)?;
        check_positive("experts", experts)?;
        self.check(experts)?;
        let rows = match self {
            Self::Learned(config) => config.width.max(experts),
            _ => experts,
        };
        check_size("hidden", hidden, i32::MAX as usize / rows)?;
        let sizes = Sizes { hidden, experts };
        Ok(match *self {
            Self::TopK(config) => Router::TopK(TopKRouter::new(config, sizes, device)),
            Self::Switch(config) => Router::Switch(SwitchRouter::new(config, sizes, device)),
            Self::Hash(config) => Router::Hash(HashRouter::new(config, sizes)),
            Self::Learned(config) => Router::Learned(LearnedRouter::new(config, sizes, device)),
            Self::Dynamic(config) => Router::Dynamic(DynamicRouter::new(config, sizes, device)),
            Self::SigmoidBias(config) => {
                Router::SigmoidBias(SigmoidBiasRouter::new(config, sizes, device))
            }
            Self::ExpertChoice(config) => {
                Router::ExpertChoice(ExpertChoiceRouter::new(config, sizes, device))
            }
        })
    }
}

impl HashConfig {
    fn check(&self, experts: usize) -> Result<(), Mismatch> {
        if let HashKey::Position { sequence } = self.key {
            check_positive("sequence of the hashed position", sequence)?;
        }
        routing::Problem::new(1, experts, self.top_k).map(drop)
    }
}

//! Description of a decoder as plain data: everything in which published models differ.

use burn::tensor::Device;
use moebius::fp8::training::Fp8Recipe;
use moebius::moe::{MoeConfig, RouterConfig};
use serde::Serialize;

use super::rope::Rope;
use super::temperature::Temperature;
use crate::error::Error;

/// A causal decoder: takes tokens, and gives the logits of the next token.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModelSpec {
    /// Number of tokens V in the vocabulary.
    pub vocabulary: usize,
    /// Width H of a token's hidden vector.
    pub hidden: usize,
    /// Tokens of the longest sequence that the model was made for.
    pub positions: usize,
    /// Whether the model adds a learned vector to the embedding for each of these positions; it has no others then.
    pub learned_positions: bool,
    /// Constant ε that norms add to the mean of squares.
    pub epsilon: f64,
    /// Factor on the embeddings.
    pub embedding_scale: f64,
    /// Factor on the logits.
    pub logits_scale: f64,
    /// Bound c of the logits s, which become c · tanh(s / c) after the factor; `None` for no bound.
    pub logits_softcap: Option<f64>,
    /// Whether the head shares the embedding's matrix.
    pub tied: bool,
    /// The layers, first to last.
    pub layers: Vec<LayerSpec>,
    /// Scales of each layer for a cache in FP8, `None` for a layer without; empty where no layer has any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cache_scales: Vec<Option<CacheScales>>,
}

/// What the keys and the values of a layer are divided by before a cache in FP8 rounds them to E4M3.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CacheScales {
    /// Scale of all keys.
    pub keys: f32,
    /// Scale of all values.
    pub values: f32,
}

impl ModelSpec {
    /// Checks that a device that is several can divide the experts of each layer ([`moebius::check_experts`]).
    ///
    /// # Errors
    /// The error of the first layer whose experts can't be divided.
    pub fn check_experts(&self, device: &Device) -> Result<(), moebius::Error> {
        let mut experts = self.layers.iter().filter_map(LayerSpec::experts);
        experts.try_for_each(|experts| moebius::check_experts(device, experts))
    }

    /// This model with products of attention, convolutions and feed-forward parts that train in FP8 by `recipe`, or in floating point for
    /// `None`. Shared experts, routers, embeddings, norms and the head stay as they are.
    #[must_use]
    pub fn with_fp8(mut self, recipe: Option<Fp8Recipe>) -> Self {
        for layer in &mut self.layers {
            match &mut layer.mixer {
                Mixer::Attention(attention) => attention.fp8 = recipe,
                Mixer::Convolution(convolution) => convolution.fp8 = recipe,
            }
            layer.feed_forward.config_mut().fp8 = recipe;
        }
        self
    }

    /// This model with routers that keep the bias of their selection in training.
    #[must_use]
    pub(crate) fn with_steady_routers(mut self) -> Self {
        for layer in &mut self.layers {
            if let FeedForwardSpec::Experts(config) = &mut layer.feed_forward
                && let RouterConfig::SigmoidBias(router) = &mut config.router
            {
                router.rate = 0.0;
            }
        }
        self
    }

    /// Checks that all of `ids` are in the vocabulary: a device would read past the embedding's end.
    pub(crate) fn check_tokens(&self, ids: &[u32]) -> Result<(), Error> {
        let largest = ids.iter().copied().max().unwrap_or(0);
        let words = self.vocabulary;
        let expected = format!("below the vocabulary's {words}");
        Error::check((largest as usize) < words, "a token", expected, largest)
    }

    /// Checks that a cache can hold sequences of `longest` tokens: it knows windows, but no chunks.
    ///
    /// # Errors
    /// [`Error::Config`] for sequences that may be longer than a chunk of a layer.
    pub fn check_cached(&self, longest: usize) -> Result<(), Error> {
        check_chunk(self.chunk(), longest)
    }

    /// Number of values that a cache keeps of a sequence for convolutions; `None` for a model without convolutions.
    ///
    /// # Errors
    /// [`Error::Config`] for convolutions over other numbers of tokens.
    pub(super) fn last_values(&self) -> Result<Option<usize>, Error> {
        let convolutions = self.layers.iter().filter_map(LayerSpec::convolution);
        let mut all = convolutions.map(ConvolutionSpec::last_values);
        let Some(first) = all.next() else {
            return Ok(None);
        };
        for values in all {
            let what = "last values of a convolution";
            Error::check(values == first, what, first, values)?;
        }
        Ok(Some(first))
    }

    /// Tokens of the smallest chunk in which a layer attends; `None` for layers without chunks.
    pub(super) fn chunk(&self) -> Option<usize> {
        let layers = self.layers.iter().filter_map(LayerSpec::attention);
        layers.filter_map(|attention| attention.chunk).min()
    }
}

/// Checks that sequences of `longest` tokens stay within a chunk.
///
/// # Errors
/// [`Error::Config`] for sequences that may be longer.
pub(super) fn check_chunk(chunk: Option<usize>, longest: usize) -> Result<(), Error> {
    let chunk = chunk.unwrap_or(usize::MAX);
    let what = "tokens of a sequence in a cache";
    let expected = format!("at most {chunk}, the chunk in which layers attend");
    Error::check(longest <= chunk, what, expected, longest)
}

impl FeedForwardSpec {
    /// The dense network, or the experts.
    pub fn config(&self) -> &MoeConfig {
        let (Self::Dense(config) | Self::Experts(config)) = self;
        config
    }

    /// As [`config`](Self::config), to be changed.
    pub fn config_mut(&mut self) -> &mut MoeConfig {
        let (Self::Dense(config) | Self::Experts(config)) = self;
        config
    }

    /// Width of a dense network; `None` for experts.
    pub fn width(&self) -> Option<usize> {
        match self {
            Self::Dense(network) => Some(network.inter),
            Self::Experts(_) => None,
        }
    }
}

impl LayerSpec {
    /// The layer's attention; `None` for a layer with a convolution.
    pub fn attention(&self) -> Option<&AttentionSpec> {
        match &self.mixer {
            Mixer::Attention(attention) => Some(attention),
            Mixer::Convolution(_) => None,
        }
    }

    /// As [`attention`](Self::attention), to be changed.
    pub fn attention_mut(&mut self) -> Option<&mut AttentionSpec> {
        match &mut self.mixer {
            Mixer::Attention(attention) => Some(attention),
            Mixer::Convolution(_) => None,
        }
    }

    pub(super) fn convolution(&self) -> Option<&ConvolutionSpec> {
        match &self.mixer {
            Mixer::Attention(_) => None,
            Mixer::Convolution(convolution) => Some(convolution),
        }
    }

    /// The number of experts; `None` for a dense network.
    fn experts(&self) -> Option<usize> {
        match &self.feed_forward {
            FeedForwardSpec::Dense(_) => None,
            FeedForwardSpec::Experts(of) => Some(of.experts),
        }
    }

    /// Recipe for training the projections of attention or convolution in FP8.
    pub(super) fn fp8(&self) -> Option<Fp8Recipe> {
        match &self.mixer {
            Mixer::Attention(attention) => attention.fp8,
            Mixer::Convolution(convolution) => convolution.fp8,
        }
    }

    pub(super) fn share_of_experts(&self) -> f64 {
        match &self.feed_forward {
            FeedForwardSpec::Dense(_) => 1.0,
            FeedForwardSpec::Experts(of) => of.top_k() as f64 / of.experts as f64,
        }
    }
}

/// One layer: x + r · mixer(x), then x + r · feed_forward(x), each with a norm of what it reads, of what it gives, or of both.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LayerSpec {
    /// Attention or convolution, in which tokens look at those before them. Training checkpoints know it as `attention`.
    #[serde(rename = "attention")]
    pub mixer: Mixer,
    /// Feed-forward part, which each token goes through alone.
    pub feed_forward: FeedForwardSpec,
    /// Factor r on the output of both, before it is added to x.
    pub residual: f64,
    /// Places of the norms of both.
    pub norms: Norms,
}

/// The part of a layer in which tokens look at those before them.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
#[allow(
    clippy::large_enum_variant,
    reason = "a model has few layers, and most have attention"
)]
pub enum Mixer {
    /// Causal attention.
    Attention(AttentionSpec),
    /// Short causal convolution.
    Convolution(ConvolutionSpec),
}

/// Gated short convolution (Liquid AI, LFM2, 2025): three projections of a token are b, c and v, and each channel of b ⊙ v is summed over its
/// last `taps` tokens with factors of its own; c times the sum goes through an output projection.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ConvolutionSpec {
    /// Number of tokens that a sum is over, the token itself included; at least 2.
    pub taps: usize,
    /// Whether the projections and the sums have biases.
    pub bias: bool,
    /// Recipe for training the projections in FP8; `None` for floating point.
    pub fp8: Option<Fp8Recipe>,
}

impl ConvolutionSpec {
    /// Number of values that a cache keeps of a sequence.
    pub(super) fn last_values(&self) -> usize {
        self.taps.saturating_sub(1)
    }
}

/// Places of the norms of a layer's attention and feed-forward part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Norms {
    /// Before each part: part(norm(x)).
    Before,
    /// After each part, whose output is added to x: norm(part(x)).
    After,
    /// Before and after: norm(part(norm(x))).
    Both,
}

impl Norms {
    /// Whether there are norms of what the parts read.
    pub fn are_before(self) -> bool {
        self != Self::After
    }

    /// Whether there are norms of what the parts give.
    pub fn are_after(self) -> bool {
        self != Self::Before
    }
}

/// Causal attention, in which `heads` query heads share `kv_heads` key and value heads.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AttentionSpec {
    /// Number of query heads.
    pub heads: usize,
    /// Number of key and value heads, a divisor of `heads`.
    pub kv_heads: usize,
    /// Width D of a query and of a key.
    pub head_dim: usize,
    /// Width Dv of a value.
    pub value_dim: usize,
    /// Factor on the scores ⟨q, k⟩.
    pub scale: f64,
    /// Projection of a token to q, k and v.
    pub projection: Projection,
    /// Whether the output projection has a bias.
    pub out_bias: bool,
    /// Rotary positions of q and k; `None` for no rotation.
    pub rope: Option<Rope>,
    /// Number of last keys that a query sees, its own included; `None` for all.
    pub window: Option<usize>,
    /// Number n of tokens of a chunk: a query sees the keys before it whose position is in its own chunk of n, not those of earlier chunks;
    /// `None` for one chunk.
    pub chunk: Option<usize>,
    /// Bound c of the scores s, which become c · tanh(s / c); `None` for no bound.
    pub softcap: Option<f64>,
    /// Factor on the queries that grows with their position; `None` for no factor.
    pub temperature: Option<Temperature>,
    /// Whether each head has a sink: a logit for attention that goes to no key.
    pub sinks: bool,
    /// Recipe for training the projections in FP8; `None` for floating point.
    pub fp8: Option<Fp8Recipe>,
}

/// Projection of a token to queries, keys and values.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum Projection {
    /// Separate matrices for queries, keys and values.
    Direct {
        /// Whether the projections have biases.
        bias: bool,
        /// Elements that the norms of q and k are over.
        norm: HeadNorm,
        /// Limit that the elements of q, k and v are clipped to, ±; `None` for no clipping.
        clip: Option<f64>,
    },
    /// Multi-head latent attention (DeepSeek-V2, 2024): through a narrow vector that all heads share. The rotated elements come last in a
    /// head, and all key heads share them.
    Latent {
        /// Width of the queries' narrow vector; `None` where one matrix makes queries directly.
        query_rank: Option<usize>,
        /// Width of the narrow vector of keys and values.
        rank: usize,
        /// Rotated elements of a head, part of its `head_dim`.
        rotated: usize,
        /// Whether the projections to the narrow vectors have biases.
        bias: bool,
        /// Constant ε that the norms of the narrow vectors add to the mean of squares.
        epsilon: f64,
    },
}

/// Elements that a norm of queries or keys is over, and whether the norm comes before or after the rotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum HeadNorm {
    /// No norm.
    None,
    /// Each head by itself before the rotation, with the same factors for all heads.
    Head,
    /// All heads together before the rotation, with a factor for each element.
    All,
    /// Each head by itself after the rotation, with the same factors for all heads.
    Turned,
    /// Each head by itself after the rotation, without factors.
    Unit,
}

/// Feed-forward part of a layer, which each token goes through alone.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum FeedForwardSpec {
    /// One gated network for all tokens; the configuration's router and number of experts mean nothing.
    Dense(MoeConfig),
    /// A mixture of gated experts, with a top-k router, or one whose selection has a bias.
    Experts(MoeConfig),
}

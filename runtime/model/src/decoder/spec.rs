//! What a decoder is made of, as plain data: everything that tells one published model from another.

use moebius::fp8::training::Fp8Recipe;
use moebius::moe::MoeConfig;
use serde::Serialize;

use super::rope::Rope;
use crate::error::Error;

/// A causal decoder: tokens in, logits of the next token out.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModelSpec {
    /// Number of tokens V.
    pub vocabulary: usize,
    /// Width of a token H.
    pub hidden: usize,
    /// Tokens of the longest sequence that it was made for.
    pub positions: usize,
    /// What is added to an embedding at each of these positions is learned; there are no others then.
    pub learned_positions: bool,
    /// What norms add to the mean of squares.
    pub epsilon: f64,
    /// What embeddings are multiplied by.
    pub embedding_scale: f64,
    /// What logits are multiplied by.
    pub logits_scale: f64,
    /// The head's matrix is the embedding's.
    pub tied: bool,
    /// The layers, first to last.
    pub layers: Vec<LayerSpec>,
}

impl ModelSpec {
    /// The same model whose products of attention and of feed-forward parts train in FP8, or don't; shared experts, routers, embeddings, norms
    /// and the head stay as they are.
    #[must_use]
    pub fn with_fp8(mut self, recipe: Option<Fp8Recipe>) -> Self {
        for layer in &mut self.layers {
            layer.attention.fp8 = recipe;
            let (FeedForwardSpec::Dense(config) | FeedForwardSpec::Experts(config)) =
                &mut layer.feed_forward;
            config.fp8 = recipe;
        }
        self
    }

    /// That all of `ids` are in the vocabulary: a device would read past the embedding's end.
    pub(crate) fn check_tokens(&self, ids: &[u32]) -> Result<(), Error> {
        let largest = ids.iter().copied().max().unwrap_or(0);
        let words = self.vocabulary;
        let expected = format!("below the vocabulary's {words}");
        Error::check((largest as usize) < words, "a token", expected, largest)
    }
}

impl FeedForwardSpec {
    /// The width of one network for all tokens; `None` of experts.
    pub fn width(&self) -> Option<usize> {
        match self {
            Self::Dense(network) => Some(network.inter),
            Self::Experts(_) => None,
        }
    }
}

impl LayerSpec {
    pub(super) fn share_of_experts(&self) -> f64 {
        match &self.feed_forward {
            FeedForwardSpec::Dense(_) => 1.0,
            FeedForwardSpec::Experts(of) => of.top_k() as f64 / of.experts as f64,
        }
    }
}

/// One layer: x + r · attention(norm(x)), then x + r · feed_forward(norm(x)).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LayerSpec {
    /// Where tokens look at those before them.
    pub attention: AttentionSpec,
    /// What each token goes through alone.
    pub feed_forward: FeedForwardSpec,
    /// What both are multiplied by before they are added, r.
    pub residual: f64,
}

/// Causal attention of heads: `heads` queries share `kv_heads` keys and values.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AttentionSpec {
    /// Query heads.
    pub heads: usize,
    /// Key and value heads, a divisor of `heads`.
    pub kv_heads: usize,
    /// Width D of a query and of a key.
    pub head_dim: usize,
    /// Width of a value.
    pub value_dim: usize,
    /// What ⟨q, k⟩ is multiplied by.
    pub scale: f64,
    /// How q, k and v come from a token.
    pub projection: Projection,
    /// The projection of what the heads found has a bias.
    pub out_bias: bool,
    /// How q and k are turned by their position; `None` for not at all.
    pub rope: Option<Rope>,
    /// The last keys that a query sees, its own among them; `None` for all.
    pub window: Option<usize>,
    /// Each head has a sink: attention that goes to no key.
    pub sinks: bool,
    /// How the projections train in FP8; `None` in floating point.
    pub fp8: Option<Fp8Recipe>,
}

/// How queries, keys and values come from a token.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum Projection {
    /// A matrix for each of the three.
    Direct {
        /// They have biases.
        bias: bool,
        /// What q and k are normalised over.
        norm: HeadNorm,
        /// Elements of q, k and v are cut to ±this.
        clip: Option<f64>,
    },
    /// Multi-head latent attention (DeepSeek-V2, 2024): through a narrow vector for all heads. What is turned by its position stands last
    /// in a head, and is one for all heads of the keys.
    Latent {
        /// Width of the queries' narrow vector; `None` for a matrix in its place.
        query_rank: Option<usize>,
        /// Width of that of keys and values.
        rank: usize,
        /// Elements of a head that are turned, of `head_dim`.
        rotated: usize,
        /// The projections to the narrow vectors have biases.
        bias: bool,
        /// What the norms of the narrow vectors add to the mean of squares.
        epsilon: f64,
    },
}

/// What a norm of queries and keys is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum HeadNorm {
    /// There is none.
    None,
    /// Each head by itself, with one set of factors for all.
    Head,
    /// All heads together.
    All,
}

/// What a token goes through alone.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum FeedForwardSpec {
    /// One network for all tokens, gated; the router and the number of experts mean nothing.
    Dense(MoeConfig),
    /// Some of many experts, gated, by a top-k router or one with sigmoid scores and a bias.
    Experts(MoeConfig),
}

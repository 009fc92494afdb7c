//! What a decoder is made of, as plain data: everything that tells one published model from another.

use moebius::moe::{Groups, Score};

use super::rope::Rope;
use super::slot::Slot;
use super::source::Place;
use crate::error::Error;

/// A causal decoder: tokens in, logits of the next token out.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelSpec {
    /// Number of tokens V.
    pub vocabulary: usize,
    /// Width of a token H.
    pub hidden: usize,
    /// Tokens of the longest sequence that it was made for.
    pub positions: usize,
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
    /// That all of `ids` are in the vocabulary: a device would read past the embedding's end.
    pub(crate) fn check_tokens(&self, ids: &[u32]) -> Result<(), Error> {
        let largest = ids.iter().copied().max().unwrap_or(0);
        let words = self.vocabulary;
        let expected = format!("below the vocabulary's {words}");
        Error::check((largest as usize) < words, "a token", expected, largest)
    }

    /// Numbers of all weights.
    pub fn parameters(&self) -> f64 {
        self.count(|_| 1.0)
    }

    /// Numbers of the weights that one token is multiplied with: of experts, those that it goes to; of the embedding, none unless it is the
    /// head, too.
    pub fn active_parameters(&self) -> f64 {
        self.count(|Place { layer, slot }| match slot {
            Slot::Embedding if !self.tied => 0.0,
            Slot::ExpertsIn | Slot::ExpertsOut => self.layers[layer].share_of_experts(),
            _ => 1.0,
        })
    }

    /// The sum over all places of their numbers times a share. As a float, because sizes from a file may exceed any whole number.
    fn count(&self, share: impl Fn(Place) -> f64) -> f64 {
        let of = |place: Place| {
            let shape = place.shape(self);
            let numbers: f64 = shape.iter().map(|&extent| extent as f64).product();
            numbers * share(place)
        };
        Slot::places(self).into_iter().map(of).sum()
    }
}

impl FeedForwardSpec {
    /// The width of one network for all tokens; `None` of experts.
    pub fn width(&self) -> Option<usize> {
        match self {
            Self::Dense { inter, .. } => Some(*inter),
            Self::Experts(_) => None,
        }
    }
}

impl LayerSpec {
    fn share_of_experts(&self) -> f64 {
        match &self.feed_forward {
            FeedForwardSpec::Dense { .. } => 1.0,
            FeedForwardSpec::Experts(of) => of.router.top_k as f64 / of.experts as f64,
        }
    }
}

/// One layer: x + r · attention(norm(x)), then x + r · feed_forward(norm(x)).
#[derive(Clone, Debug, PartialEq)]
pub struct LayerSpec {
    /// Where tokens look at those before them.
    pub attention: AttentionSpec,
    /// What each token goes through alone.
    pub feed_forward: FeedForwardSpec,
    /// What both are multiplied by before they are added, r.
    pub residual: f64,
}

/// Causal attention of heads: `heads` queries share `kv_heads` keys and values.
#[derive(Clone, Debug, PartialEq)]
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
}

/// How queries, keys and values come from a token.
#[derive(Clone, Debug, PartialEq)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadNorm {
    /// There is none.
    None,
    /// Each head by itself, with one set of factors for all.
    Head,
    /// All heads together.
    All,
}

/// What a token goes through alone.
#[derive(Clone, Debug, PartialEq)]
pub enum FeedForwardSpec {
    /// One network for all tokens.
    Dense {
        /// Its width.
        inter: usize,
        /// Its projections have biases.
        bias: bool,
    },
    /// Some of many experts.
    Experts(ExpertsSpec),
}

/// A mixture of gated experts.
#[derive(Clone, Debug, PartialEq)]
pub struct ExpertsSpec {
    /// Number of experts E.
    pub experts: usize,
    /// Width of an expert F.
    pub inter: usize,
    /// How a token chooses.
    pub router: RouterSpec,
    /// What is between an expert's products.
    pub gate: Gate,
    /// Experts have biases.
    pub bias: bool,
    /// An expert for every token.
    pub shared: Option<SharedSpec>,
}

/// How a token chooses its experts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RouterSpec {
    /// Experts of a token.
    pub top_k: usize,
    /// How a logit becomes a score.
    pub score: Score,
    /// The chosen scores are divided by their sum.
    pub renormalize: bool,
    /// Choose by logit, then take the softmax of the chosen; `score` and `renormalize` don't apply.
    pub softmax_after_topk: bool,
    /// Logits have a bias.
    pub bias: bool,
    /// Scores have a bias for the selection alone.
    pub correction: bool,
    /// Choose within the best groups only.
    pub groups: Option<Groups>,
    /// What weights are multiplied by.
    pub scale: f64,
}

/// What a gated expert does between its products, of gate g and up u.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Gate {
    /// silu(g) · u.
    Silu,
    /// min(g, 7) · σ(1.702 · min(g, 7)) · (clamp(u, −7, 7) + 1) (gpt-oss, 2025).
    Clamped,
}

/// An expert for every token, beside those it chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedSpec {
    /// Its width.
    pub inter: usize,
    /// Its output is multiplied by σ(x · g).
    pub sigmoid_gate: bool,
}

//! Computations: what a decoder computes for a text, part by part, on a device or in f64, and how far two of them are apart.
//!
//! [`Computation::of`] reads what a model on a device computes, and [`Computation::reference`] computes the same on the host, from the
//! model's description and the values of its weights alone. [`Distance::between`] compares the two, and [`parting`] names the first part that
//! isn't near. [`Cost::of_layers`] times the layers, in passes of their own.
//!
//! A token whose experts are a matter of rounding ([`Limits::tie`]) may get others on another device, and everything after depends on it:
//! the layer's experts and all later parts are then compared for the tokens before it alone, which it can't reach, since attention is causal.

mod cost;
mod device;
mod distance;
mod reference;

pub use cost::Cost;
pub use distance::{Distance, Flip, Greedy, Limits, parting};

use serde::{Deserialize, Serialize};

use crate::decoder::{FeedForwardSpec, LayerSpec, Mixer};

/// A part of a decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Embeddings of the tokens, with learned positions.
    Embedding,
    /// x after a layer's attention.
    Attention,
    /// x after a layer's convolution.
    Convolution,
    /// Logits of a layer's router, and the experts that it chooses.
    Router,
    /// x after a layer's experts.
    Experts,
    /// x after a layer's dense network.
    FeedForward,
    /// Logits of the next tokens.
    Head,
}

impl Part {
    /// Name of the part in sentences.
    pub fn name(self) -> &'static str {
        match self {
            Self::Embedding => "embedding",
            Self::Attention => "attention",
            Self::Convolution => "convolution",
            Self::Router => "router",
            Self::Experts => "experts",
            Self::FeedForward => "feed-forward network",
            Self::Head => "head",
        }
    }

    /// The part of a layer in which tokens look at those before them.
    fn mixer(layer: &LayerSpec) -> Self {
        match layer.mixer {
            Mixer::Attention(_) => Self::Attention,
            Mixer::Convolution(_) => Self::Convolution,
        }
    }

    /// The part of a layer that each token goes through alone.
    fn feed_forward(layer: &LayerSpec) -> Self {
        match layer.feed_forward {
            FeedForwardSpec::Dense(_) => Self::FeedForward,
            FeedForwardSpec::Experts(_) => Self::Experts,
        }
    }
}

/// What a decoder computes for one sequence of T tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct Computation {
    /// Number of tokens T.
    pub tokens: usize,
    /// The parts, in the order in which they are computed.
    pub parts: Vec<Computed>,
}

/// What one part computes.
#[derive(Clone, Debug, PartialEq)]
pub struct Computed {
    /// Index of the layer; `None` outside of the layers.
    pub layer: Option<usize>,
    /// The part.
    pub part: Part,
    /// Output \[T, width\]: x of width H, a router's logits \[T, E\], or the head's \[T, V\].
    pub values: Vec<f64>,
    /// For a router, the choice for each token; empty for other parts.
    pub choices: Vec<Choice>,
}

/// A router's choice of experts for one token.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// What the experts are chosen by \[E\], the largest first: logits, or scores with their correction.
    pub keys: Vec<f64>,
    /// Values of the groups of neighbouring experts, and whether the group's experts could be chosen; one group where there are none.
    pub groups: Vec<(f64, bool)>,
    /// The chosen experts, best first.
    pub experts: Vec<usize>,
    /// Weights of the chosen experts.
    pub weights: Vec<f64>,
}

impl Computed {
    /// The output of a part that chooses nothing.
    fn plain(layer: Option<usize>, part: Part, values: Vec<f64>) -> Self {
        Self {
            layer,
            part,
            values,
            choices: Vec::new(),
        }
    }
}

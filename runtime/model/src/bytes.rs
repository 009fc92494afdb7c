//! A small mixture-of-experts decoder over bytes, trained from scratch, and the text that it learns.

use std::collections::BTreeMap;
use std::path::Path;

use burn::tensor::Device;
use moebius::moe::{Activation, MoeConfig, RouteConfig};
use moebius_weights::{InFile, Unfit};
use serde::{Deserialize, Serialize};

use crate::decoder::{
    AttentionSpec, FeedForwardSpec, HeadNorm, LayerSpec, Mixer, Model, ModelSpec, Norms, Place,
    Projection, Slot, Values,
};
use crate::error::Error;
use crate::random::{Random, bound};

/// Number of tokens: one for each byte value.
pub const VOCABULARY: usize = 256;

/// Largest width of an attention head.
const MAX_HEAD: usize = 128;

/// Largest number of layers, so that the sizes rather than the depth decide how much a decoder takes.
const MAX_LAYERS: usize = 1024;

/// Largest number of parameters: they are initialised on the host and held four times (weights, gradients and two moments).
const MAX_PARAMETERS: f64 = (1_u32 << 28) as f64;

/// Sizes of a decoder over bytes: learned positions, separate matrices for queries, keys and values, and experts in every layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecoderConfig {
    /// Width of a token's hidden vector.
    pub hidden: usize,
    /// Attention heads, an even split of `hidden`.
    pub heads: usize,
    /// Layers, each of attention and experts.
    pub layers: usize,
    /// Tokens of the longest sequence.
    pub sequence: usize,
    /// Experts in each layer.
    pub experts: usize,
    /// Inner width of an expert.
    pub inter: usize,
    /// Experts per token.
    pub top_k: usize,
}

impl Default for DecoderConfig {
    fn default() -> Self {
        Self {
            hidden: 64,
            heads: 4,
            layers: 2,
            sequence: 64,
            experts: 8,
            inter: 128,
            top_k: 2,
        }
    }
}

impl DecoderConfig {
    /// The configuration of the experts of one layer: SwiGLU, softmax routing, dropless.
    pub fn moe(&self) -> MoeConfig {
        MoeConfig::new(self.hidden, self.inter, self.experts)
            .with_router(RouteConfig::new(self.top_k))
            .with_activation(Activation::Silu)
            .with_gated(true)
    }

    /// The description of the decoder with these sizes.
    pub fn spec(&self) -> ModelSpec {
        let head_dim = self.hidden / self.heads.max(1);
        let attention = AttentionSpec {
            heads: self.heads,
            kv_heads: self.heads,
            head_dim,
            value_dim: head_dim,
            scale: (head_dim as f64).powf(-0.5),
            projection: Projection::Direct {
                bias: false,
                norm: HeadNorm::None,
                clip: None,
            },
            out_bias: false,
            rope: None,
            window: None,
            chunk: None,
            softcap: None,
            temperature: None,
            sinks: false,
            fp8: None,
        };
        let layer = LayerSpec {
            mixer: Mixer::Attention(attention),
            feed_forward: FeedForwardSpec::Experts(self.moe()),
            residual: 1.0,
            norms: Norms::Before,
        };
        ModelSpec {
            vocabulary: VOCABULARY,
            hidden: self.hidden,
            positions: self.sequence,
            learned_positions: true,
            epsilon: 1e-5,
            embedding_scale: 1.0,
            logits_scale: 1.0,
            logits_softcap: None,
            tied: false,
            layers: vec![layer; self.layers],
            cache_scales: Vec::new(),
        }
    }

    /// Makes a decoder with weights drawn from `seed`, the same bits on every device.
    ///
    /// # Errors
    /// [`Error::Config`] and [`Error::Moebius`] for sizes that don't fit.
    pub fn init(&self, seed: u64, device: &Device) -> Result<Model, Error> {
        self.check()?;
        Model::of_values(&self.spec(), &mut self.first(seed), device)
    }

    /// The initial weights of a decoder with these sizes, drawn from `seed`.
    pub(crate) fn first(&self, seed: u64) -> FirstWeights {
        let (narrow, wide) = (bound(self.hidden), bound(self.inter));
        let outer = [(Slot::Embedding, 0.3), (Slot::Positions, 0.1)];
        let of_layer = [
            (Slot::Router, narrow),
            (Slot::ExpertsIn, narrow),
            (Slot::ExpertsOut, wide),
            (Slot::Query, narrow),
            (Slot::Key, narrow),
            (Slot::Value, narrow),
            (Slot::Out, narrow),
        ];
        let of_layers = (0..self.layers).flat_map(|layer| of_layer.map(|slot| (layer, slot)));
        let outer = outer.map(|slot| (0, slot)).into_iter();
        let all = outer.chain(of_layers).chain([(0, (Slot::Head, narrow))]);
        let (spec, mut random) = (self.spec(), Random::new(&[seed]));
        let drawn = all.map(|(layer, (slot, bound))| {
            let place = Place { layer, slot };
            let count = place.shape(&spec).iter().product();
            (place, random.uniform(count, bound))
        });
        let drawn = drawn.collect();
        FirstWeights { spec, drawn }
    }

    /// These sizes with another width: experts of twice the width, and heads of 16 where 16 divides the width, else as few heads as
    /// possible.
    pub fn with_hidden(self, hidden: usize) -> Self {
        let heads = if hidden.is_multiple_of(16) {
            hidden / 16
        } else {
            let least = hidden.div_ceil(MAX_HEAD).max(1);
            // No divisor is searched beyond the widths that can be trained.
            let mut counts = least..=hidden.min(1 << 20);
            counts
                .find(|heads| hidden.is_multiple_of(*heads))
                .unwrap_or(1)
        };
        Self {
            hidden,
            heads,
            inter: hidden.saturating_mul(2),
            ..self
        }
    }

    /// Checks the sizes, except for what the experts' own configuration checks.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let sizes = [
            ("hidden", self.hidden),
            ("heads", self.heads),
            ("layers", self.layers),
            ("sequence", self.sequence),
            ("experts", self.experts),
            ("inter", self.inter),
            ("top_k", self.top_k),
        ];
        for (what, size) in sizes {
            Error::check(size > 0, what, "at least 1", size)?;
        }
        let bounds = [
            ("top_k", self.top_k, self.experts),
            ("layers", self.layers, MAX_LAYERS),
        ];
        for (what, size, most) in bounds {
            Error::check(size <= most, what, format!("at most {most}"), size)?;
        }
        let divides = self.hidden.is_multiple_of(self.heads);
        let expected = format!("a divisor of hidden {}", self.hidden);
        Error::check(divides, "heads", expected, self.heads)?;
        let head = self.hidden / self.heads;
        let expected = format!("at most {MAX_HEAD}");
        Error::check(head <= MAX_HEAD, "hidden / heads", expected, head)?;
        // Computed as floats, because products of unchecked sizes may overflow any integer.
        let [h, f, e] = [self.hidden, self.inter, self.experts].map(|n| n as f64);
        // Parameters of a layer: each expert's three matrices and its row of the router, and four matrices of attention.
        let block = (3.0 * f + 1.0) * h * e + 4.0 * h * h;
        let rows = self.sequence as f64 + 2.0 * VOCABULARY as f64;
        let all = block * self.layers as f64 + rows * h;
        let expected = format!("at most {MAX_PARAMETERS} parameters");
        Error::check(all <= MAX_PARAMETERS, "decoder", expected, all)
    }
}

/// Initial weights of a decoder over bytes: norms are 1, everything else is uniform around 0.
pub(crate) struct FirstWeights {
    spec: ModelSpec,
    drawn: BTreeMap<Place, Vec<f32>>,
}

impl Values for FirstWeights {
    fn values(&mut self, place: Place) -> Result<Vec<f32>, Error> {
        let ones = || vec![1.0; place.shape(&self.spec).iter().product()];
        Ok(self.drawn.get(&place).cloned().unwrap_or_else(ones))
    }
}

/// A text to train on, as bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text(Vec<u8>);

/// Windows of a text, and for every byte of them the byte that follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Input bytes \[batch, sequence\], row by row.
    pub inputs: Vec<i32>,
    /// The byte after each input: the same windows one byte later.
    pub targets: Vec<i32>,
}

impl Text {
    /// Chapters 1 to 50 of Moby-Dick, which are in the public domain (`runtime/model/text/`).
    pub fn bundled() -> Self {
        Self(include_bytes!("../text/moby-dick.txt").to_vec())
    }

    /// A text of the given bytes.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// Reads the text from the file at `path`.
    ///
    /// # Errors
    /// [`Error::Text`] when the file can't be read.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let bytes = std::fs::read(path).map_err(InFile::at(path));
        bytes.map(Self).map_err(Error::Text)
    }

    /// The bytes as token numbers.
    pub fn ids(&self) -> Vec<u32> {
        self.0.iter().copied().map(u32::from).collect()
    }

    /// The bytes of the text.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Cuts `batch` windows of `sequence` bytes at places that depend only on `seed` and `step`.
    ///
    /// # Errors
    /// [`Error::Config`] for a text of no more than `sequence` bytes.
    pub fn batch(
        &self,
        seed: u64,
        step: usize,
        batch: usize,
        sequence: usize,
    ) -> Result<Batch, Error> {
        let expected = format!("more than {sequence} bytes");
        let of = |byte: &u8| i32::from(*byte);
        batch_of(&self.0, of, seed, step, [batch, sequence])
            .ok_or_else(|| Error::Config(Unfit::new("text", expected, self.0.len())))
    }
}

/// Cuts `batch` windows of `sequence` units at places that depend only on `seed` and `step`; `None` when there are `sequence` units or
/// fewer.
pub(crate) fn batch_of<T>(
    units: &[T],
    number: impl Fn(&T) -> i32,
    seed: u64,
    step: usize,
    [batch, sequence]: [usize; 2],
) -> Option<Batch> {
    let places = units.len().checked_sub(sequence)?;
    if places == 0 {
        return None;
    }
    let mut random = Random::new(&[seed, step as u64]);
    let mut inputs = Vec::with_capacity(batch * sequence);
    let mut targets = Vec::with_capacity(batch * sequence);
    for _ in 0..batch {
        let start = random.below(places);
        let window = &units[start..=start + sequence];
        inputs.extend(window[..sequence].iter().map(&number));
        targets.extend(window[1..].iter().map(&number));
    }
    Some(Batch { inputs, targets })
}

#[cfg(test)]
#[cfg(feature = "flex")]
#[path = "bytes_tests.rs"]
mod bytes_tests;

#[cfg(test)]
#[path = "text_tests.rs"]
mod text_tests;

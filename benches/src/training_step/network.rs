//! The network that the training-step benchmark trains.

use super::Sizes;
use burn::module::{Module, ModuleVisitor, Param};
use burn::nn::attention::{MhaInput, MultiHeadAttention, MultiHeadAttentionConfig};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::{Embedding, EmbeddingConfig, LayerNorm, LayerNormConfig, Linear, LinearConfig};
use burn::tensor::activation::gelu;
use burn::tensor::{Device, Gradients, Int, Tensor};

/// A transformer: an embedding, blocks, and a linear layer on the mean over a sequence.
#[derive(Module, Debug)]
pub(super) struct Network {
    embedding: Embedding,
    blocks: Vec<Block>,
    norm: LayerNorm,
    head: Linear,
}

/// A pre-norm block: attention and a feed-forward network, each added to its input.
#[derive(Module, Debug)]
struct Block {
    norm_attention: LayerNorm,
    attention: MultiHeadAttention,
    norm: LayerNorm,
    up: Linear,
    down: Linear,
}

impl Network {
    /// A network with Burn's initial weights.
    pub(super) fn new(sizes: &Sizes, device: &Device) -> Self {
        device.seed(1);
        let hidden = sizes.hidden;
        let block = |_| Block {
            norm_attention: LayerNormConfig::new(hidden).init(device),
            attention: MultiHeadAttentionConfig::new(hidden, sizes.heads)
                .with_dropout(0.0)
                .init(device),
            norm: LayerNormConfig::new(hidden).init(device),
            up: LinearConfig::new(hidden, 4 * hidden).init(device),
            down: LinearConfig::new(4 * hidden, hidden).init(device),
        };
        Self {
            embedding: EmbeddingConfig::new(sizes.vocabulary, hidden).init(device),
            blocks: (0..sizes.layers).map(block).collect(),
            norm: LayerNormConfig::new(hidden).init(device),
            head: LinearConfig::new(hidden, sizes.classes).init(device),
        }
    }

    /// A copy of the network on another device.
    pub(super) fn on(&self, device: &Device) -> Self {
        self.clone().fork(device)
    }

    /// Mean cross entropy \[1\] of `tokens` \[B,S\] with classes `classes` \[B\].
    pub(super) fn loss(&self, tokens: Tensor<2, Int>, classes: Tensor<1, Int>) -> Tensor<1> {
        let mut x = self.embedding.forward(tokens);
        for block in &self.blocks {
            let rows = block.norm_attention.forward(x.clone());
            x = x + block.attention.forward(MhaInput::self_attn(rows)).context;
            let rows = block.norm.forward(x.clone());
            x = x + block.down.forward(gelu(block.up.forward(rows)));
        }
        let [batch, _, hidden] = x.dims();
        let mean = self.norm.forward(x).mean_dim(1).reshape([batch, hidden]);
        let logits = self.head.forward(mean);
        let loss = CrossEntropyLossConfig::new().init(&logits.device());
        loss.forward(logits, classes)
    }
}

/// All weights of a network, in the order of its fields.
pub(super) struct Numbers(Vec<f32>);

impl Numbers {
    pub(super) fn of(network: &Network) -> Self {
        let mut numbers = Self(Vec::new());
        network.visit(&mut numbers);
        numbers
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn values(&self) -> &[f32] {
        &self.0
    }

    /// The weights as little-endian f32.
    pub(super) fn bytes(&self) -> Vec<u8> {
        self.0.iter().flat_map(|x| x.to_le_bytes()).collect()
    }
}

impl ModuleVisitor for Numbers {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.0.extend(param.val().into_data().iter::<f32>());
    }
}

/// Collects the gradients of all weights, in the order of [`Numbers`].
pub(super) struct Slopes<'a> {
    gradients: &'a Gradients,
    numbers: Vec<f32>,
}

impl<'a> Slopes<'a> {
    /// The gradients of all weights of a network; missing gradients become NaN.
    pub(super) fn of(network: &Network, gradients: &'a Gradients) -> Vec<f32> {
        let mut slopes = Self {
            gradients,
            numbers: Vec::new(),
        };
        network.visit(&mut slopes);
        slopes.numbers
    }
}

impl ModuleVisitor for Slopes<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let weights = param.val();
        match weights.grad(self.gradients) {
            Some(gradient) => self.numbers.extend(gradient.into_data().iter::<f32>()),
            None => {
                let count = weights.shape().num_elements();
                self.numbers.extend(std::iter::repeat_n(f32::NAN, count));
            }
        }
    }
}

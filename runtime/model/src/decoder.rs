//! The transformer: bytes in, logits of the next byte out.

use burn::module::{Module, Param};
use burn::nn::{Linear, RmsNorm, RmsNormConfig};
use burn::tensor::activation::softmax;
use burn::tensor::{Bool, Device, Int, Tensor};
use moebius::moe::{MoeLayer, MoeOutput, MoeWeights};

use crate::config::{DecoderConfig, VOCABULARY};
use crate::error::Error;
use crate::random::Random;

/// Below every score that counts; −∞ is no literal in WGSL.
const MASKED: f32 = -1e9;

/// A causal transformer over bytes, normalised before each part, with experts where others have one
/// feed-forward layer.
#[derive(Module, Debug)]
pub struct Decoder {
    /// \[256, hidden\].
    pub embedding: Param<Tensor<2>>,
    /// \[sequence, hidden\]: learned, added to the embedding.
    pub positions: Param<Tensor<2>>,
    /// The layers.
    pub blocks: Vec<Block>,
    /// Before the head.
    pub norm: RmsNorm,
    /// hidden → 256.
    pub head: Linear,
}

/// x + attention(norm(x)), then x + experts(norm(x)).
#[derive(Module, Debug)]
pub struct Block {
    /// Before the attention.
    pub attention_norm: RmsNorm,
    /// Where tokens look at those before them.
    pub attention: Attention,
    /// Before the experts.
    pub moe_norm: RmsNorm,
    /// Where every token goes through its experts.
    pub moe: MoeLayer,
}

/// softmax(causal(q·kᵀ/√d))·v in every head of width d.
#[derive(Module, Debug)]
pub struct Attention {
    /// hidden → hidden, all heads.
    pub query: Linear,
    /// hidden → hidden.
    pub key: Linear,
    /// hidden → hidden.
    pub value: Linear,
    /// hidden → hidden, after the heads are joined.
    pub out: Linear,
    /// Number of heads.
    pub heads: usize,
}

/// What a forward returns.
#[derive(Debug)]
pub struct DecoderOutput {
    /// \[batch, sequence, 256\].
    pub logits: Tensor<3>,
    /// What the experts of each block did.
    pub moe: Vec<MoeOutput<3>>,
}

impl DecoderConfig {
    /// A decoder with weights from `seed`, the same bits on every device.
    ///
    /// # Errors
    /// [`Error::Config`] and [`Error::Moebius`] for sizes that don't fit.
    pub fn init(&self, seed: u64, device: &Device) -> Result<Decoder, Error> {
        self.check()?;
        let hidden = self.hidden;
        let random = &mut Random::new(&[seed]);
        Ok(Decoder {
            embedding: random.parameter([VOCABULARY, hidden], 0.3, device),
            positions: random.parameter([self.sequence, hidden], 0.1, device),
            blocks: (0..self.layers)
                .map(|_| self.block(random, device))
                .collect::<Result<_, _>>()?,
            norm: RmsNormConfig::new(hidden).init(device),
            head: linear([hidden, VOCABULARY], random, device),
        })
    }

    fn block(&self, random: &mut Random, device: &Device) -> Result<Block, Error> {
        let (h, f, e) = (self.hidden, self.inter, self.experts);
        let norm = || RmsNormConfig::new(h).init(device);
        let square = |random: &mut Random| linear([h, h], random, device);
        let (narrow, wide) = (bound(h), bound(f));
        let weights = MoeWeights {
            router: random.parameter([e, h], narrow, device).val(),
            w_in: random.parameter([e, 2 * f, h], narrow, device).val(),
            b_in: None,
            w_out: random.parameter([e, h, f], wide, device).val(),
            b_out: None,
        };
        Ok(Block {
            attention_norm: norm(),
            attention: Attention {
                query: square(random),
                key: square(random),
                value: square(random),
                out: square(random),
                heads: self.heads,
            },
            moe_norm: norm(),
            moe: self.moe().with_weights(weights)?,
        })
    }
}

/// PyTorch's bound for the first weights of a layer with this many inputs.
fn bound(inputs: usize) -> f32 {
    1.0 / (inputs as f32).sqrt()
}

fn linear(shape: [usize; 2], random: &mut Random, device: &Device) -> Linear {
    Linear {
        weight: random.parameter(shape, bound(shape[0]), device),
        bias: None,
    }
}

impl Decoder {
    /// The logits of the byte after each of `bytes` \[batch, sequence\], which sees no later one.
    ///
    /// # Errors
    /// [`Error::Config`] for a sequence longer than the decoder's, [`Error::Moebius`] when the
    /// device can't run a layer.
    pub fn forward(&self, bytes: Tensor<2, Int>) -> Result<DecoderOutput, Error> {
        let [batch, sequence] = bytes.dims();
        let [longest, hidden] = self.positions.dims();
        if sequence > longest {
            let expected = format!("at most {longest}");
            return Err(Error::config("sequence", expected, sequence));
        }
        let tokens = self.embedding.val().select(0, bytes.flatten(0, 1));
        let positions = self.positions.val().narrow(0, 0, sequence);
        let mut x = tokens.reshape([batch, sequence, hidden]) + positions.unsqueeze();
        let mut moe = Vec::with_capacity(self.blocks.len());
        for block in &self.blocks {
            let seen = block
                .attention
                .forward(block.attention_norm.forward(x.clone()));
            x = x + seen;
            let routed = block.moe.forward(block.moe_norm.forward(x.clone()))?;
            x = x + routed.y.clone();
            moe.push(routed);
        }
        Ok(DecoderOutput {
            logits: self.head.forward(self.norm.forward(x)),
            moe,
        })
    }
}

impl Attention {
    /// x \[batch, sequence, hidden\] to the same shape.
    pub fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let [batch, sequence, hidden] = x.dims();
        let width = hidden / self.heads;
        let heads = |layer: &Linear| {
            let y = layer.forward(x.clone());
            y.reshape([batch, sequence, self.heads, width])
                .swap_dims(1, 2)
        };
        let (query, key, value) = (heads(&self.query), heads(&self.key), heads(&self.value));
        let scores = query.matmul(key.transpose()) / (width as f64).sqrt();
        let later = Tensor::<2, Bool>::tril_mask([sequence, sequence], 0, &x.device());
        let scores = scores.mask_fill(later.unsqueeze(), MASKED);
        let seen = softmax(scores, 3).matmul(value);
        let joined = seen.swap_dims(1, 2).reshape([batch, sequence, hidden]);
        self.out.forward(joined)
    }
}

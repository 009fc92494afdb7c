//! The transformer that learns a text: bytes in, logits of the next byte out.

use burn::module::{Module, Param};
use burn::nn::{RmsNorm, RmsNormConfig};
use burn::tensor::{Device, Int, Tensor};
use moebius::moe::{MoeLayer, MoeOutput};
use moebius::nn::{self, Linear};

use crate::config::{DecoderConfig, VOCABULARY};
use crate::error::Error;
use crate::random::{Random, bound};

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
    /// \[256, hidden\].
    pub head: Param<Tensor<2>>,
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

/// softmax(causal(q·kᵀ/√d))·v in every head of width d. All weights are \[hidden, hidden\].
#[derive(Module, Debug)]
pub struct Attention {
    /// x → q, all heads.
    pub query: Linear,
    /// x → k.
    pub key: Linear,
    /// x → v.
    pub value: Linear,
    /// The heads' results, side by side → y.
    pub out: Linear,
    /// Number of heads.
    pub heads: usize,
}

/// What a forward returns.
#[derive(Debug)]
pub struct DecoderOutput {
    /// \[batch · sequence, 256\].
    pub logits: Tensor<2>,
    /// What the experts of each block did.
    pub moe: Vec<MoeOutput<2>>,
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
            head: random.parameter([VOCABULARY, hidden], bound(hidden), device),
        })
    }

    fn block(&self, random: &mut Random, device: &Device) -> Result<Block, Error> {
        let h = self.hidden;
        let norm = || RmsNormConfig::new(h).init(device);
        let narrow = bound(h);
        let square = |random: &mut Random| -> Result<Linear, Error> {
            let linear = Linear::new(random.parameter([h, h], narrow, device), None)?;
            Ok(match self.precision.recipe() {
                Some(recipe) => linear.in_fp8(recipe)?,
                None => linear,
            })
        };
        let weights = random.moe_weights(&self.moe(), device);
        Ok(Block {
            attention_norm: norm(),
            attention: Attention {
                query: square(random)?,
                key: square(random)?,
                value: square(random)?,
                out: square(random)?,
                heads: self.heads,
            },
            moe_norm: norm(),
            moe: self.moe().with_weights(weights)?,
        })
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
        let expected = format!("at most {longest}");
        Error::check(sequence <= longest, "sequence", expected, sequence)?;
        let tokens = self.embedding.val().select(0, bytes.flatten(0, 1));
        let places = self.positions.val().narrow(0, 0, sequence);
        let x = tokens.reshape([batch, sequence, hidden]) + places.unsqueeze();
        let mut x = x.reshape([batch * sequence, hidden]);
        let mut moe = Vec::with_capacity(self.blocks.len());
        for block in &self.blocks {
            let before = block.attention_norm.forward(x.clone());
            x = x + block.attention.forward(before, sequence)?;
            let routed = block.moe.forward(block.moe_norm.forward(x.clone()))?;
            x = x + routed.y.clone();
            moe.push(routed);
        }
        let logits = nn::linear(self.norm.forward(x), self.head.val(), None)?;
        Ok(DecoderOutput { logits, moe })
    }
}

impl Attention {
    /// Sequences of `sequence` tokens, one after the other: x \[tokens, hidden\] to the same shape.
    fn forward(&self, x: Tensor<2>, sequence: usize) -> Result<Tensor<2>, Error> {
        let heads = [
            self.query.forward(x.clone())?,
            self.key.forward(x.clone())?,
            self.value.forward(x)?,
        ];
        let seen = nn::attention(heads, self.heads, sequence, true)?;
        Ok(self.out.forward(seen)?)
    }
}

#[cfg(test)]
#[cfg(feature = "flex")]
#[path = "bytes_tests.rs"]
mod tests;

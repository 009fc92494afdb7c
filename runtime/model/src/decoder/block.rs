//! One layer.

use burn::module::Module;
use burn::nn::RmsNorm;
use burn::tensor::Tensor;
use moebius::moe::Routing;
use moebius::nn;

use super::attention::Attention;
use super::cache::LayerCache;
use super::feed_forward::FeedForward;
use super::rotary::{Angles, Places};
use super::slot::Slot;
use super::source::Of;
use super::spec::LayerSpec;
use super::values::{Held, row};
use crate::error::Error;

/// x + r · attention(norm(x)), then x + r · feed_forward(norm(x)).
#[derive(Module, Debug)]
pub struct Block {
    /// Before the attention.
    pub attention_norm: RmsNorm,
    /// Where tokens look at those before them.
    pub attention: Attention,
    /// Before the feed-forward part.
    pub feed_forward_norm: RmsNorm,
    /// What each token goes through alone.
    pub feed_forward: FeedForward,
    #[module(skip)]
    residual: f64,
}

impl Block {
    pub(super) fn load(layer: &LayerSpec, from: &mut Of<'_>) -> Result<Self, Error> {
        let epsilon = from.spec.epsilon;
        Ok(Self {
            attention_norm: from.norm(Slot::AttentionNorm, epsilon)?,
            attention: Attention::load(&layer.attention, epsilon, from)?,
            feed_forward_norm: from.norm(Slot::FeedForwardNorm, epsilon)?,
            feed_forward: FeedForward::load(&layer.feed_forward, from)?,
            residual: layer.residual,
        })
    }

    /// The layer of x \[B · S, H\], and which experts the tokens went to.
    pub(super) fn forward(
        &self,
        x: Tensor<2>,
        at: (&Places, &Angles),
        cache: Option<LayerCache<'_>>,
    ) -> Result<(Tensor<2>, Option<Routing>), Error> {
        let before = nn::rms_norm(&self.attention_norm, x.clone());
        let seen = self.attention.forward(before, at, cache)?;
        let x = x + self.scaled(seen);
        let before = nn::rms_norm(&self.feed_forward_norm, x.clone());
        let (y, routing) = self.feed_forward.forward(before)?;
        Ok((x + self.scaled(y), routing))
    }

    /// What it holds in a slot.
    pub(super) fn held(&self, slot: Slot) -> Held {
        match slot {
            Slot::AttentionNorm => row(&self.attention_norm.gamma),
            Slot::FeedForwardNorm => row(&self.feed_forward_norm.gamma),
            _ => match self.attention.held(slot)? {
                Some(found) => Ok(Some(found)),
                None => self.feed_forward.held(slot),
            },
        }
    }

    fn scaled(&self, y: Tensor<2>) -> Tensor<2> {
        if self.residual == 1.0 {
            y
        } else {
            y * self.residual
        }
    }
}

//! The K largest logits.

use super::{
    Batch, DType, Device, Distribution, Error, Like, Mismatch, Module, Param, Routed, Routes,
    Sizes, Tensor, TopKConfig, choose, matrix, router_logits, uniform,
};
use burn::nn::{Dropout, DropoutConfig};

/// logits = x · Wgᵀ (+ b); the K largest, in the order of [`TopKConfig::route`].
///
/// In training x loses elements to `dropout`, and the logits get normal noise of `noise_std`.
#[derive(Module, Debug)]
pub struct TopKRouter {
    /// Wg \[E,H\].
    pub weight: Param<Tensor<2>>,
    /// \[E\].
    pub bias: Option<Param<Tensor<1>>>,
    dropout: Dropout,
    #[module(skip)]
    pub(super) config: TopKConfig,
    #[module(skip)]
    pub(super) sizes: Sizes,
}

impl TopKRouter {
    pub(super) fn new(config: TopKConfig, sizes: Sizes, device: &Device) -> Self {
        let bias = || uniform([sizes.experts], sizes.hidden, device);
        Self {
            weight: matrix(sizes, device),
            bias: config.bias.then(bias),
            dropout: DropoutConfig::new(config.dropout).init(),
            config,
            sizes,
        }
    }
}

impl Routes for TopKRouter {
    fn route(&self, batch: Batch) -> Result<Routed, Error> {
        let training = batch.training();
        let x = self.dropout.forward(batch.x);
        let mut logits = router_logits(x, self.weight.val())?;
        if let Some(bias) = &self.bias {
            logits = logits + bias.val().cast(DType::F32).unsqueeze();
        }
        if training && self.config.noise_std > 0.0 {
            let normal = Distribution::Normal(0.0, self.config.noise_std);
            logits = logits.clone() + logits.random_like(normal);
        }
        Ok(choose(logits, batch.mask, None, &self.config.route)?.into())
    }

    fn check(&self, like: &Like) -> Result<(), Mismatch> {
        let experts = [self.sizes.experts];
        like.check_optional("router bias [E]", &self.bias, self.config.bias, experts)
    }
}

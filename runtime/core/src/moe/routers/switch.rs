//! The largest logit (Switch Transformer).

use super::{
    Batch, Device, Distribution, Error, Module, Param, Routed, RouterConfig, Routes, Sizes,
    SwitchConfig, Tensor, choose, matrix, router_logits,
};

/// The expert of the largest logit, weighted by its softmax probability, never renormalised: the
/// router would get no gradient otherwise.
///
/// In training logits are multiplied by a number uniform in 1 ± `jitter`.
#[derive(Module, Debug)]
pub struct SwitchRouter {
    /// Wg \[E,H\].
    pub weight: Param<Tensor<2>>,
    #[module(skip)]
    pub(super) config: SwitchConfig,
    #[module(skip)]
    pub(super) sizes: Sizes,
}

impl SwitchRouter {
    pub(super) fn new(config: SwitchConfig, sizes: Sizes, device: &Device) -> Self {
        Self {
            weight: matrix(sizes, device),
            config,
            sizes,
        }
    }
}

impl Routes for SwitchRouter {
    fn route(&self, batch: Batch) -> Result<Routed, Error> {
        let (training, jitter) = (batch.training(), self.config.jitter);
        let mut logits = router_logits(batch.x, self.weight.val())?;
        if training && jitter > 0.0 {
            let uniform = Distribution::Uniform(1.0 - jitter, 1.0 + jitter);
            logits = logits.clone() * logits.random_like(uniform);
        }
        let route = RouterConfig::Switch(self.config).route();
        Ok(choose(logits, batch.mask, None, &route)?.into())
    }
}

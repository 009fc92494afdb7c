//! Experts by hash: nothing is learned, nothing collapses.

use super::{Batch, DType, Error, HashConfig, Module, Routed, Routes, Routing, Sizes, Tensor};
use crate::moe::route::hash_route;

/// K distinct available experts by an integer hash of a token's position or values, each with
/// weight 1/K.
///
/// There are no logits, so they are 0 and have no log-sum-exp and no z-loss; the probabilities are
/// the weights.
#[derive(Module, Debug)]
pub struct HashRouter {
    #[module(skip)]
    pub(super) config: HashConfig,
    #[module(skip)]
    pub(super) sizes: Sizes,
}

impl HashRouter {
    pub(super) fn new(config: HashConfig, sizes: Sizes) -> Self {
        Self { config, sizes }
    }
}

impl Routes for HashRouter {
    fn route(&self, batch: Batch) -> Result<Routed, Error> {
        let (tokens, experts) = (batch.x.dims()[0], self.sizes.experts);
        let device = batch.x.device();
        let (indices, weights) = hash_route(batch.x.detach(), batch.mask, experts, &self.config)?;
        // One column more takes the slots without an expert, whose weight is 0.
        let columns = Tensor::zeros([tokens, experts + 1], (&device, DType::F32));
        let probs = columns.scatter(
            1,
            indices.clone(),
            weights.clone(),
            burn::tensor::IndexingUpdateOp::Add,
        );
        Ok(Routing {
            indices,
            weights,
            probs: probs.narrow(1, 0, experts),
            logits: Tensor::zeros([tokens, experts], (&device, DType::F32)),
            logsumexp: None,
        }
        .into())
    }
}

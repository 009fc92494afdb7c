//! Experts by hash: nothing is learned, nothing collapses.

use super::{
    Batch, Bool, DType, Error, HashConfig, HashKey, Int, Module, Routed, Routes, Routing, Sizes,
    Tensor,
};
use crate::check::element;
use crate::ops;
use moebius_ops::routing;

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

/// Experts of every token of x \[T,H\] by hash, of `experts`: indices and weights \[T,K\]; the mask
/// is checked by the caller.
fn hash_route(
    x: Tensor<2>,
    mask: Option<Tensor<1, Bool>>,
    experts: usize,
    config: &HashConfig,
) -> Result<(Tensor<2, Int>, Tensor<2>), Error> {
    let [tokens, hidden] = x.dims();
    let routing = routing::Problem::new(tokens, experts, config.top_k)?;
    let key = match config.key {
        HashKey::Position { sequence } => routing::HashKey::Position { sequence },
        HashKey::Content => routing::HashKey::Content {
            hidden,
            element: element(x.dtype())?,
        },
    };
    ops::routing::hash(x, mask, routing, (key, config.seed))
}

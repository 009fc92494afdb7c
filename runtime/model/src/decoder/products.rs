//! Passes whose products are computed in 16 bits, over parameters in f32 (Micikevicius et al. 2018, "Mixed Precision Training").
//!
//! A pass casts the weights and biases of each layer's products anew, within its graph, so that their gradients come back in the dtype of the
//! parameters. What a sum over all tokens is the gradient of stays in f32, as in most programs that train so: norms, embeddings, routers, sinks,
//! and the factors of convolutions.

use std::borrow::Cow;

use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::{DType, Tensor};
use moebius::moe::{DenseBlock, MoeLayer};

use super::Model;
use super::attention::{Attention, Direct, Latent, Projections};
use super::block::{Block, FeedForward};
use super::convolution::Convolution;

impl Model {
    /// This model with x and products in `dtype` in all passes; in the dtype of the parameters for `None`.
    pub(crate) fn with_products_in(self, dtype: Option<DType>) -> Self {
        Self {
            products: dtype,
            ..self
        }
    }

    /// The dtype of x between layers.
    pub(super) fn dtype(&self) -> DType {
        let own = || self.norm.gamma.val().dtype();
        self.products.unwrap_or_else(own)
    }

    /// A layer as a pass computes it.
    pub(super) fn block(&self, number: usize) -> Cow<'_, Block> {
        let block = &self.blocks[number];
        match self.products {
            Some(dtype) => Cow::Owned(of_block(block.clone(), &mut Cast(dtype))),
            None => Cow::Borrowed(block),
        }
    }
}

/// A walk that casts parameters; those of before get the gradients.
struct Cast(DType);

impl ModuleMapper for Cast {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        param.map(|values| values.cast(self.0))
    }
}

fn of_block(mut block: Block, cast: &mut Cast) -> Block {
    block.attention = block.attention.map(|of| of_attention(of, cast));
    block.convolution = block.convolution.map(|of| of_convolution(of, cast));
    block.feed_forward = match block.feed_forward {
        FeedForward::Dense(network) => FeedForward::Dense(of_network(network, cast)),
        FeedForward::Experts(layer) => FeedForward::Experts(of_mixture(layer, cast)),
        // Experts that wait elsewhere have no gradients, and are in their dtype already.
        switched @ FeedForward::Switched(_) => switched,
    };
    block
}

fn of_attention(mut of: Attention, cast: &mut Cast) -> Attention {
    of.out = of.out.map(cast);
    of.projection = match of.projection {
        Projections::Direct(direct) => Projections::Direct(Direct {
            query: direct.query.map(cast),
            key: direct.key.map(cast),
            value: direct.value.map(cast),
            ..direct
        }),
        Projections::Latent(latent) => Projections::Latent(Latent {
            query_down: latent.query_down.map(|down| down.map(cast)),
            query: latent.query.map(cast),
            down: latent.down.map(cast),
            up: latent.up.map(cast),
            ..latent
        }),
    };
    of
}

fn of_convolution(mut of: Convolution, cast: &mut Cast) -> Convolution {
    of.input = of.input.map(cast);
    of.out = of.out.map(cast);
    of
}

fn of_network(mut of: DenseBlock, cast: &mut Cast) -> DenseBlock {
    of.experts = of.experts.map(cast);
    of
}

fn of_mixture(mut of: MoeLayer, cast: &mut Cast) -> MoeLayer {
    of.experts = of.experts.map(cast);
    of.shared = of.shared.map(|mut shared| {
        shared.experts = shared.experts.map(cast);
        shared
    });
    of
}

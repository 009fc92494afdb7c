//! Top-k of an MLP's logits.

use super::{
    Batch, Device, Error, LearnedConfig, Like, Mismatch, Module, Param, Routed, Routes, Sizes,
    Tensor, choose, router_logits, uniform,
};
use crate::nn;
use burn::tensor::activation::relu;

/// x · Wᵀ + b, computed like an expert's product: a row doesn't depend on the others.
#[derive(Module, Debug)]
pub struct RouterLinear {
    /// \[out, in\].
    pub weight: Param<Tensor<2>>,
    /// \[out\].
    pub bias: Param<Tensor<1>>,
}

impl RouterLinear {
    pub(super) fn new([columns, width]: [usize; 2], device: &Device) -> Self {
        Self {
            weight: uniform([columns, width], width, device),
            bias: uniform([columns], width, device),
        }
    }

    pub(super) fn forward(&self, x: Tensor<2>) -> Result<Tensor<2>, Error> {
        nn::linear(x, self.weight.val(), Some(self.bias.val()))
    }

    pub(super) fn check(&self, like: &Like, shape: [usize; 2]) -> Result<(), Mismatch> {
        like.check("weight of a router layer [out, in]", &self.weight, shape)?;
        like.check("bias of a router layer [out]", &self.bias, [shape[0]])
    }
}

/// logits = MLP(x): ReLU layers of width R, and a last product without bias; then top-k.
#[derive(Module, Debug)]
pub struct LearnedRouter {
    /// H → R, R → R, ...
    pub layers: Vec<RouterLinear>,
    /// \[E,R\].
    pub weight: Param<Tensor<2>>,
    #[module(skip)]
    pub(super) config: LearnedConfig,
    #[module(skip)]
    pub(super) sizes: Sizes,
}

impl LearnedRouter {
    pub(super) fn new(config: LearnedConfig, sizes: Sizes, device: &Device) -> Self {
        let layer = |at| RouterLinear::new(shape(&config, sizes, at), device);
        Self {
            layers: (0..config.layers).map(layer).collect(),
            weight: uniform([sizes.experts, config.width], config.width, device),
            config,
            sizes,
        }
    }
}

/// \[out, in\] of layer `at`.
fn shape(config: &LearnedConfig, sizes: Sizes, at: usize) -> [usize; 2] {
    let width = if at == 0 { sizes.hidden } else { config.width };
    [config.width, width]
}

impl Routes for LearnedRouter {
    fn route(&self, batch: Batch) -> Result<Routed, Error> {
        let mut x = batch.x;
        for layer in &self.layers {
            x = relu(layer.forward(x)?);
        }
        let logits = router_logits(x, self.weight.val())?;
        Ok(choose(logits, batch.mask, None, &self.config.route)?.into())
    }

    fn check(&self, like: &Like) -> Result<(), Mismatch> {
        let (config, sizes) = (&self.config, self.sizes);
        Mismatch::check("router layers", config.layers, self.layers.len())?;
        for (at, layer) in self.layers.iter().enumerate() {
            layer.check(like, shape(config, sizes, at))?;
        }
        let last = [sizes.experts, config.width];
        like.check("last weight of the router [E,R]", &self.weight, last)
    }
}

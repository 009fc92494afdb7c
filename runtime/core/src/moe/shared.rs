//! The expert that every token goes to (DeepSeekMoE, Qwen2-MoE).

use super::check::Like;
use super::config::MoeConfig;
use super::experts::FeedForwardExperts;
use super::route::router_logits;
use crate::Error;
use crate::check::{cast_param, check_positive};
use crate::initial::uniform;
use burn::module::{Module, Param};
use burn::tensor::activation::sigmoid;
use burn::tensor::{DType, Device, Tensor};
use moebius_ops::ShapeError;
use moebius_shaders::grouped_gemm::Variant;
use serde::{Deserialize, Serialize};

/// A [`SharedExpert`]; activation, gated products and biases are those of the layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedExpertConfig {
    /// Its width.
    pub inter: usize,
    /// Its output is multiplied by σ(x · g).
    pub sigmoid_gate: bool,
}

impl SharedExpertConfig {
    /// Of width `inter`, without a gate.
    pub fn new(inter: usize) -> Self {
        Self {
            inter,
            sigmoid_gate: false,
        }
    }

    /// A copy with or without the sigmoid gate.
    pub fn with_sigmoid_gate(mut self, sigmoid_gate: bool) -> Self {
        self.sigmoid_gate = sigmoid_gate;
        self
    }

    /// What a layer of such an expert alone would be.
    pub(super) fn alone(&self, config: &MoeConfig) -> MoeConfig {
        let inter = self.inter;
        MoeConfig { inter, ..*config }
    }

    pub(super) fn check(&self) -> Result<(), ShapeError> {
        check_positive("inter of the shared expert", self.inter)
    }

    pub(super) fn init(&self, config: &MoeConfig, device: &Device) -> SharedExpert {
        let gate = || uniform([1, config.hidden], config.hidden, device);
        SharedExpert {
            experts: FeedForwardExperts::new(&self.alone(config), 1, device),
            gate: self.sigmoid_gate.then(gate),
        }
    }
}

/// A feed-forward network for every token, added to what its chosen experts give; optionally
/// times σ(x · g).
#[derive(Module, Debug)]
pub struct SharedExpert {
    /// Weights of one expert.
    pub experts: FeedForwardExperts,
    /// g \[1,H\].
    pub gate: Option<Param<Tensor<2>>>,
}

impl SharedExpert {
    /// y \[T,H\] with what a layer's shared expert, where it has one, gives for x.
    pub(super) fn beside(
        shared: Option<&Self>,
        y: Tensor<2>,
        x: Tensor<2>,
        (config, variant): (&MoeConfig, Option<Variant>),
    ) -> Result<Tensor<2>, Error> {
        match (shared, &config.shared) {
            (Some(shared), Some(own)) => Ok(y + shared.forward(x, (own, config), variant)?),
            _ => Ok(y),
        }
    }

    /// Its part of y \[T,H\]: the fused path with one expert and the gate as router weight.
    fn forward(
        &self,
        x: Tensor<2>,
        config: (&SharedExpertConfig, &MoeConfig),
        variant: Option<Variant>,
    ) -> Result<Tensor<2>, Error> {
        let gate = self.gate.as_ref();
        let logits = gate.map(|gate| router_logits(x.clone(), gate.val()));
        let weights = logits.transpose()?.map(sigmoid);
        let alone = config.0.alone(config.1);
        self.experts.forward_all(x, weights, &alone, variant)
    }

    pub(super) fn check(
        &self,
        like: &Like,
        shared: &SharedExpertConfig,
        config: &MoeConfig,
    ) -> Result<(), ShapeError> {
        self.experts.check(like, &shared.alone(config), 1)?;
        let gate = [1, config.hidden];
        like.check_optional("shared gate [1,H]", &self.gate, shared.sigmoid_gate, gate)
    }

    pub(super) fn cast(self, dtype: DType) -> Self {
        Self {
            experts: self.experts.cast(dtype),
            gate: self.gate.map(|gate| cast_param(gate, dtype)),
        }
    }
}

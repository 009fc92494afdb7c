//! The expert that every token goes to (DeepSeekMoE, Qwen2-MoE).

use super::check::Like;
use super::config::{MoeConfig, SharedExpertConfig};
use super::experts::FeedForwardExperts;
use super::route::router_logits;
use crate::Error;
use crate::check::cast_param;
use crate::fp8::known_container;
use crate::initial::uniform;
use burn::module::{Module, Param};
use burn::tensor::activation::sigmoid;
use burn::tensor::{DType, Device, Tensor};
use moebius_ops::Mismatch;
use moebius_shaders::grouped_gemm::Variant;

/// A feed-forward network for every token, added to what its chosen experts give; optionally
/// times σ(x · g).
#[derive(Module, Debug)]
pub struct SharedExpert {
    /// Weights of one expert.
    pub experts: FeedForwardExperts,
    /// g \[1,H\].
    pub gate: Option<Param<Tensor<2>>>,
}

known_container!(SharedExpert, SHARED_EXPERT);

impl SharedExpert {
    /// That of `config`, where it has one, with weights uniform in ±1/√fan_in.
    pub(super) fn new(config: &MoeConfig, device: &Device) -> Option<Self> {
        let shared = config.shared?;
        let gate = || uniform([1, config.hidden], config.hidden, device);
        Some(Self {
            experts: FeedForwardExperts::new(&shared.alone(config), 1, device),
            gate: shared.sigmoid_gate.then(gate),
        })
    }

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

    /// Its part of y \[T,H\]: a dense network, times the gate.
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
    ) -> Result<(), Mismatch> {
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

//! Feed-forward layers with the same bits on every device ([`crate::exact`]).

use super::blocks::DenseBlock;
use super::config::MoeConfig;
use super::experts::feed_forward::SharedExpert;
use super::experts::{Experts, FeedForwardExperts};
use super::layer::{MoeLayer, MoeOutput};
use super::route::Routing;
use super::routers::Router;
use crate::Error;
use crate::exact::experts_in_blocks;
use crate::fp8::Weight;
use crate::ops::exact::{self, Function};
use crate::parameters::value;
use burn::module::Param;
use burn::tensor::{DType, Int, Tensor};
use moebius_ops::Fault;

impl MoeLayer {
    /// Does what [`MoeLayer::forward`] does for x \[T, H\] with the same bits on every device. The experts of a token are computed one slot
    /// after the other, without a sort.
    ///
    /// # Errors
    /// As [`MoeLayer::forward`], and [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) for what [`MoeLayer::check_exact`] refuses, on
    /// XLA, and on a device that records gradients.
    pub fn forward_exactly(&self, x: Tensor<2>) -> Result<MoeOutput<2>, Error> {
        self.check_exact()?;
        self.check_input(&x)?;
        let ([tokens, _], config, device) = (x.dims(), self.config(), x.device());
        if tokens == 0 {
            return self.forward(x);
        }
        let (matrix, bias, correction) = match &self.router {
            Router::TopK(router) => (&router.weight, router.bias.as_ref(), None),
            Router::SigmoidBias(router) => (&router.weight, None, Some(value(&router.bias))),
            other => unreachable!("{} was refused", other.config().name()),
        };
        let logits = exact::linear(x.clone(), matrix.val(), bias.map(Param::val))?;
        let problem = config.router.problem(tokens, config.experts)?;
        let chosen = exact::route(logits.clone(), correction, problem)?;
        let Experts::FeedForward(experts) = &self.experts else {
            unreachable!("{} were refused", self.experts.name());
        };
        let rows = network(experts, x.clone(), Some(&chosen.indices), config)?;
        let y = exact::combine(rows, Some(chosen.weights.clone()), None, 1.0)?;
        let y = match (&self.shared, &config.shared) {
            (Some(shared), Some(own)) => beside(shared, y, x, &own.alone(config))?,
            _ => y,
        };
        Ok(MoeOutput {
            y,
            dropped_slots: Tensor::zeros([1], (&device, DType::I32)),
            routing: Routing {
                indices: chosen.indices,
                weights: chosen.weights,
                probs: chosen.probs,
                logits,
                logsumexp: Some(chosen.logsumexp),
                counts: None,
            },
        })
    }

    /// Checks that the layer has a forward with the same bits on every device.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) for experts that aren't feed-forward in f32 or in blocks of codes, routers
    /// other than top-k and sigmoid-bias, groups of experts, capacities and weighted inputs; the error names the first.
    pub fn check_exact(&self) -> Result<(), Error> {
        let (config, refuse) = (self.config(), Fault::Unsupported);
        let router = matches!(self.router, Router::TopK(_) | Router::SigmoidBias(_));
        let name = self.router.config().name();
        refuse.unless(router, "exact router", "top-k or sigmoid-bias", name)?;
        let groups = config.router.route().groups;
        let got = groups.map_or(0, |groups| groups.count);
        let what = "expert groups of an exact choice";
        refuse.unless(groups.is_none(), what, "none", got)?;
        let unlimited = config.capacity.is_none() && !config.factors_change();
        refuse.unless(unlimited, "capacity of exact experts", "none", "some")?;
        let (what, plain) = ("inputs of exact experts", !config.weighted_input);
        refuse.unless(plain, what, "unweighted", "weighted")?;
        let right = match &self.experts {
            Experts::FeedForward(experts) => is_exact(experts),
            _ => false,
        };
        let (expected, got) = ("feed-forward ones in f32 or blocks", self.experts.name());
        refuse.unless(right, "exact experts", expected, got)?;
        let shared = self.shared.as_ref();
        let right = shared.is_none_or(|shared| is_exact(&shared.experts));
        let (what, got) = ("exact shared expert", "another precision");
        Ok(refuse.unless(right, what, "f32 or blocks", got)?)
    }
}

impl DenseBlock {
    /// Does what [`DenseBlock::forward`] does for x \[T, H\] with the same bits on every device.
    ///
    /// # Errors
    /// As [`DenseBlock::forward`], and [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) as [`DenseBlock::check_exact`], on XLA, and on
    /// a device that records gradients.
    pub fn forward_exactly(&self, x: Tensor<2>) -> Result<Tensor<2>, Error> {
        self.check_exact()?;
        network(&self.experts, x, None, self.config())
    }

    /// Checks that the network has a forward with the same bits on every device.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) for weights that are neither f32 nor blocks of codes for an x in f32.
    pub fn check_exact(&self) -> Result<(), Error> {
        let (what, got) = ("weights of an exact network", "another precision");
        let (right, expected) = (is_exact(&self.experts), "f32 or blocks");
        Ok(Fault::Unsupported.unless(right, what, expected, got)?)
    }
}

/// Whether experts have values that are the same on every device, for an x in f32.
fn is_exact(experts: &FeedForwardExperts) -> bool {
    experts.has_values_or_blocks() && experts.w_in.dtype() == DType::F32
}

/// The rows of the experts that each slot chose, or of the one expert for all tokens: W_out · act(W_in · x + b_in) + b_out.
fn network(
    experts: &FeedForwardExperts,
    x: Tensor<2>,
    chosen: Option<&Tensor<2, Int>>,
    config: &MoeConfig,
) -> Result<Tensor<2>, Error> {
    let [b_in, b_out] = [&experts.b_in, &experts.b_out].map(|b| b.as_ref().map(Param::val));
    let hidden = product(x, &experts.w_in, b_in, chosen)?;
    let hidden = exact::activation(hidden, config.activation, config.gated)?;
    product(hidden, &experts.w_out, b_out, chosen)
}

/// x · Wᵀ + b of the expert that each slot chose, or of the one expert for all tokens.
fn product(
    x: Tensor<2>,
    w: &Weight<3>,
    bias: Option<Tensor<2>>,
    chosen: Option<&Tensor<2, Int>>,
) -> Result<Tensor<2>, Error> {
    match w.blocks() {
        Some(blocks) => experts_in_blocks(x, blocks, bias, chosen),
        None => exact::experts(x, w.float()?, bias, chosen),
    }
}

/// Adds the shared expert's output for x to y.
fn beside(
    shared: &SharedExpert,
    y: Tensor<2>,
    x: Tensor<2>,
    config: &MoeConfig,
) -> Result<Tensor<2>, Error> {
    let weights = match &shared.gate {
        Some(gate) => {
            let logits = exact::linear(x.clone(), gate.val(), None)?;
            Some(exact::map(Function::Sigmoid, logits)?)
        }
        None => None,
    };
    let own = network(&shared.experts, x, None, config)?;
    exact::combine(own, weights, Some(y), 1.0)
}

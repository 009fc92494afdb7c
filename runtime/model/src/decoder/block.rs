//! One layer: attention, then a feed-forward part, which is one dense network or a mixture of experts.

use burn::module::{Module, RunningState};
use burn::nn::RmsNorm;
use burn::tensor::{Bool, Tensor};
use moebius::moe::experts::FeedForwardExperts;
use moebius::moe::{
    ChosenExperts, DenseBlock, Experts, MoeConfig, MoeLayer, Router, Routing, SharedExpert,
};
use moebius::nn;
use moebius_weights::Unfit;

use super::attention::Attention;
use super::cache::LayerCache;
use super::convolution::Convolution;
use super::rope::{Angles, Places};
use super::slot::Slot;
use super::spec::{FeedForwardSpec, LayerSpec};
use super::switched::SwitchedMixture;
use super::weights::{Held, Of, decoded, of_norm, row, row_if};
use crate::error::Error;

/// A layer that computes x + r · mixer(x), then x + r · feed_forward(x), with norms of what either reads, of what it gives, or of both. The
/// mixer is an attention or a convolution.
#[derive(Module, Debug)]
pub struct Block {
    /// Norm before the mixer; `None` where norms come only after the parts.
    pub attention_norm: Option<RmsNorm>,
    /// Attention, in which tokens look at those before them; `None` in a layer with a convolution.
    pub attention: Option<Attention>,
    /// Convolution over the last tokens; `None` in a layer with attention.
    pub convolution: Option<Convolution>,
    /// Norm after the mixer; `None` where norms come only before the parts.
    pub attention_out_norm: Option<RmsNorm>,
    /// Norm before the feed-forward part.
    pub feed_forward_norm: Option<RmsNorm>,
    /// Feed-forward part, which each token goes through alone.
    pub feed_forward: FeedForward,
    /// Norm after the feed-forward part.
    pub feed_forward_out_norm: Option<RmsNorm>,
    #[module(skip)]
    pub(super) residual: f64,
}

impl Block {
    pub(super) fn load(layer: &LayerSpec, from: &mut Of<'_>) -> Result<Self, Error> {
        let epsilon = from.spec.epsilon;
        Ok(Self {
            attention_norm: from.norm_if(Slot::AttentionNorm, epsilon)?,
            attention: layer
                .attention()
                .map(|spec| Attention::load(spec, epsilon, from))
                .transpose()?,
            convolution: layer
                .convolution()
                .map(|spec| Convolution::load(spec, from))
                .transpose()?,
            attention_out_norm: from.norm_if(Slot::AttentionOutNorm, epsilon)?,
            feed_forward_norm: from.norm_if(Slot::FeedForwardNorm, epsilon)?,
            feed_forward: FeedForward::load(&layer.feed_forward, from)?,
            feed_forward_out_norm: from.norm_if(Slot::FeedForwardOutNorm, epsilon)?,
            residual: layer.residual,
        })
    }

    /// Computes the layer on x \[B · S, H\], and returns the experts that the tokens went to.
    pub(super) fn forward(
        &self,
        x: Tensor<2>,
        places: &Places,
        angles: &Angles,
        given: LayerGiven<'_>,
    ) -> Result<(Tensor<2>, Option<Routing>), Error> {
        let LayerGiven {
            cache,
            along,
            states,
            next,
        } = given;
        let steps = (
            |norm: Option<&RmsNorm>, x: Tensor<2>| Ok(normed(norm, x)),
            |x: Tensor<2>, y: Tensor<2>| Ok(x + self.scaled(y)),
        );
        let mixer = |before| self.mixed(before, places, angles, cache);
        let network = |before, x: &Tensor<2>| {
            let mut then = || next.map_or(Ok(()), |next| next.expect_experts(x));
            let network = &self.feed_forward;
            network.forward(before, along, places.learned_from(), &mut then)
        };
        self.computed(x, states, steps, (mixer, network))
    }

    /// Computes the layer on x \[B · S, H\] with norms and sums x + r · y of one kind: `mixer` gets x after its norm, and then `network` x after its
    /// norm, and x itself.
    pub(super) fn computed(
        &self,
        x: Tensor<2>,
        mut states: Option<&mut States>,
        (normed, added): (
            impl Fn(Option<&RmsNorm>, Tensor<2>) -> Result<Tensor<2>, Error>,
            impl Fn(Tensor<2>, Tensor<2>) -> Result<Tensor<2>, Error>,
        ),
        (mixer, network): (
            impl FnOnce(Tensor<2>) -> Result<Tensor<2>, Error>,
            impl FnOnce(Tensor<2>, &Tensor<2>) -> Result<(Tensor<2>, Option<Routing>), Error>,
        ),
    ) -> Result<(Tensor<2>, Option<Routing>), Error> {
        let before = normed(self.attention_norm.as_ref(), x.clone())?;
        let seen = normed(self.attention_out_norm.as_ref(), mixer(before)?)?;
        let x = added(x, seen)?;
        keep(states.as_deref_mut(), &x);
        let before = normed(self.feed_forward_norm.as_ref(), x.clone())?;
        let (y, routing) = network(before, &x)?;
        let y = normed(self.feed_forward_out_norm.as_ref(), y)?;
        let x = added(x, y)?;
        keep(states, &x);
        Ok((x, routing))
    }

    /// Computes the layer's attention or convolution on x \[B · S, H\].
    fn mixed(
        &self,
        x: Tensor<2>,
        places: &Places,
        angles: &Angles,
        cache: Option<LayerCache<'_>>,
    ) -> Result<Tensor<2>, Error> {
        match (&self.attention, &self.convolution, cache) {
            (Some(attention), _, None) => attention.forward(x, places, angles, None),
            (Some(attention), _, Some(LayerCache::Attention(cache))) => {
                attention.forward(x, places, angles, Some(cache))
            }
            (_, Some(convolution), None) => convolution.forward(x, places, None),
            (_, Some(convolution), Some(LayerCache::Convolution(cache))) => {
                convolution.forward(x, places, Some(cache))
            }
            _ => unreachable!("block and cache were made of one description"),
        }
    }

    /// Values that the layer holds in a slot.
    pub(super) fn held(&self, slot: Slot) -> Held {
        match slot {
            Slot::AttentionNorm => of_norm(self.attention_norm.as_ref()),
            Slot::AttentionOutNorm => of_norm(self.attention_out_norm.as_ref()),
            Slot::FeedForwardNorm => of_norm(self.feed_forward_norm.as_ref()),
            Slot::FeedForwardOutNorm => of_norm(self.feed_forward_out_norm.as_ref()),
            _ => {
                let mixer = match (&self.attention, &self.convolution) {
                    (Some(attention), _) => attention.held(slot)?,
                    (None, Some(convolution)) => convolution.held(slot)?,
                    (None, None) => None,
                };
                mixer.map_or_else(|| self.feed_forward.held(slot), |found| Ok(Some(found)))
            }
        }
    }

    /// Tells the files of experts which ones this layer is likely to need, by x \[B · S, H\] as it is before the experts of the layer before; does
    /// nothing where all experts are in memory, or another thread computes with them.
    fn expect_experts(&self, x: &Tensor<2>) -> Result<(), moebius::Error> {
        match &self.feed_forward {
            FeedForward::Switched(mixture) => {
                mixture.expect(|| normed(self.feed_forward_norm.as_ref(), x.clone()))
            }
            FeedForward::Dense(_) | FeedForward::Experts(_) => Ok(()),
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

/// What a layer is given beside x and its places.
pub(super) struct LayerGiven<'a> {
    pub(super) cache: Option<LayerCache<'a>>,
    /// Experts in place of those that the router would choose.
    pub(super) along: Option<&'a ChosenExperts>,
    /// Where x is kept after each of both parts.
    pub(super) states: Option<&'a mut States>,
    /// The next layer, whose experts may be fetched while this one computes.
    pub(super) next: Option<&'a Block>,
}

/// x \[B · S, H\] after the embedding and after both parts of each layer.
pub(super) type States = Vec<Tensor<2>>;

/// Adds a handle of x to the states, if they are kept. Without, x has no other handle, so that devices may write results in its place.
pub(super) fn keep(states: Option<&mut States>, x: &Tensor<2>) {
    if let Some(states) = states {
        states.push(x.clone());
    }
}

/// x \[T, H\] after the norm, if there is one.
pub(super) fn normed(norm: Option<&RmsNorm>, x: Tensor<2>) -> Tensor<2> {
    match norm {
        Some(norm) => nn::rms_norm(norm, x),
        None => x,
    }
}

/// Feed-forward part of a layer, which each token goes through alone.
#[derive(Module, Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "a layer has one, and Burn's modules can't be boxed"
)]
pub enum FeedForward {
    /// One dense network for all tokens.
    Dense(DenseBlock),
    /// A mixture of experts.
    Experts(MoeLayer),
    /// A mixture whose experts are in host memory or in files, and on the device while tokens need them.
    Switched(SwitchedMixture),
}

impl FeedForward {
    pub(super) fn load(spec: &FeedForwardSpec, from: &mut Of<'_>) -> Result<Self, Error> {
        match spec {
            FeedForwardSpec::Dense(config) => {
                let experts = FeedForwardExperts {
                    w_in: from.stack(Slot::DenseIn)?,
                    b_in: from.matrix_if(Slot::DenseInBias)?,
                    w_out: from.stack(Slot::DenseOut)?,
                    b_out: from.matrix_if(Slot::DenseOutBias)?,
                };
                let experts = trained(experts, config)?;
                Ok(Self::Dense(DenseBlock::new(*config, experts)?))
            }
            FeedForwardSpec::Experts(config) => mixture(config, from),
        }
    }

    /// Computes y \[T, H\] from x \[T, H\], and returns the experts that the tokens went to: those of `along`, if it is given. Where some tokens
    /// don't count, a mixture with experts on the device learns from the others alone. One with experts that aren't all there calls `then` once
    /// the last of them is.
    pub(super) fn forward(
        &self,
        x: Tensor<2>,
        along: Option<&ChosenExperts>,
        counts: Option<&Tensor<1, Bool>>,
        then: &mut dyn FnMut() -> Result<(), moebius::Error>,
    ) -> Result<(Tensor<2>, Option<Routing>), Error> {
        match self {
            Self::Dense(block) => Ok((block.forward(x)?, None)),
            Self::Experts(layer) => {
                let out = match (along, counts) {
                    (Some(chosen), _) => layer.forward_along(x, chosen)?,
                    (None, Some(counts)) => layer.forward_counting(x, counts.clone())?,
                    (None, None) => layer.forward(x)?,
                };
                Ok((out.y, Some(out.routing)))
            }
            Self::Switched(mixture) => {
                let (y, routing) = mixture.forward(x, along, then)?;
                Ok((y, Some(routing)))
            }
        }
    }

    /// Values that the feed-forward part holds in a slot.
    pub(super) fn held(&self, slot: Slot) -> Held {
        match self {
            Self::Dense(DenseBlock { experts, .. }) => match slot {
                Slot::DenseIn => decoded(&experts.w_in),
                Slot::DenseInBias => row_if(&experts.b_in),
                Slot::DenseOut => decoded(&experts.w_out),
                Slot::DenseOutBias => row_if(&experts.b_out),
                _ => Ok(None),
            },
            Self::Experts(layer) => of_mixture(layer, slot),
            Self::Switched(_) => {
                let (what, expected) = ("experts of a model to save", "on its device");
                let got = "in host memory or in files";
                Err(Error::Config(Unfit::new(what, expected, got)))
            }
        }
    }
}

fn of_mixture(layer: &MoeLayer, slot: Slot) -> Held {
    let shared = |held: fn(&SharedExpert) -> Held| layer.shared.as_ref().map_or(Ok(None), held);
    match (slot, &layer.router, &layer.experts) {
        (Slot::Router, Router::TopK(router), _) => row(&router.weight),
        (Slot::Router, Router::SigmoidBias(router), _) => row(&router.weight),
        (Slot::RouterBias, Router::TopK(router), _) => row_if(&router.bias),
        (Slot::Correction, Router::SigmoidBias(router), _) => Ok(Some(router.bias.value())),
        (Slot::ExpertsIn, _, Experts::FeedForward(experts)) => decoded(&experts.w_in),
        (Slot::ExpertsInBias, _, Experts::FeedForward(experts)) => row_if(&experts.b_in),
        (Slot::ExpertsOut, _, Experts::FeedForward(experts)) => decoded(&experts.w_out),
        (Slot::ExpertsOutBias, _, Experts::FeedForward(experts)) => row_if(&experts.b_out),
        (Slot::SharedIn, ..) => shared(|shared| decoded(&shared.experts.w_in)),
        (Slot::SharedOut, ..) => shared(|shared| decoded(&shared.experts.w_out)),
        (Slot::SharedGate, ..) => shared(|shared| row_if(&shared.gate)),
        _ => Ok(None),
    }
}

/// The weights of the experts in the precision that they train in.
fn trained(experts: FeedForwardExperts, config: &MoeConfig) -> Result<FeedForwardExperts, Error> {
    Ok(match config.fp8 {
        Some(recipe) => experts.in_fp8(recipe)?,
        None => experts,
    })
}

fn mixture(config: &MoeConfig, from: &mut Of<'_>) -> Result<FeedForward, Error> {
    let weight = from.matrix(Slot::Router)?;
    let device = weight.device();
    // The layer's own parameters are lazy and never drawn, because they are replaced before their first use.
    let mut layer = config.init(&device)?;
    match &mut layer.router {
        Router::TopK(router) => {
            router.weight = weight;
            router.bias = from.vector_if(Slot::RouterBias)?;
        }
        Router::SigmoidBias(router) => {
            router.weight = weight;
            router.bias = RunningState::new(from.vector(Slot::Correction)?.val().detach());
        }
        other => {
            let (what, expected) = ("router of a decoder", "top-k or sigmoid-bias");
            let fault = Unfit::new(what, expected, other.config().name());
            return Err(Error::Config(fault));
        }
    }
    let source = match from.expert_bytes {
        Some(_) => from.weights.experts(from.layer),
        None => None,
    };
    if source.is_none() {
        let experts = FeedForwardExperts {
            w_in: from.stack(Slot::ExpertsIn)?,
            b_in: from.matrix_if(Slot::ExpertsInBias)?,
            w_out: from.stack(Slot::ExpertsOut)?,
            b_out: from.matrix_if(Slot::ExpertsOutBias)?,
        };
        layer.experts = Experts::FeedForward(trained(experts, config)?);
    }
    if let Some(shared) = &mut layer.shared {
        *shared = SharedExpert {
            experts: FeedForwardExperts {
                w_in: from.stack(Slot::SharedIn)?,
                b_in: None,
                w_out: from.stack(Slot::SharedOut)?,
                b_out: None,
            },
            gate: from.matrix_if(Slot::SharedGate)?,
        };
    }
    Ok(match (from.expert_bytes, source) {
        (None, _) => FeedForward::Experts(layer),
        (Some(bytes), source) => {
            FeedForward::Switched(SwitchedMixture::new(layer, source, bytes, &device)?)
        }
    })
}

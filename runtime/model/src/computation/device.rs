//! Computations of models on devices, read to the host.

use burn::tensor::{Device, Tensor};
use moebius::attention::CacheFormat;
use moebius::moe::Routing;

use super::reference::routing::{choose, rule};
use super::{Choice, Computation, Computed, Part};
use crate::decoder::{FeedForwardSpec, LayerSpec, Model, Place, Routes, Slot, Values, WithStates};
use crate::error::Error;

impl Computation {
    /// Reads what `model`, whose weights are on `device`, computes for the tokens `ids`, and waits for the device. Keys and groups of choices
    /// are computed on the host of the device's logits.
    ///
    /// # Errors
    /// [`Error::Config`] for no tokens and for tokens that aren't in the vocabulary; [`Error::Moebius`] and [`Error::Device`] when the device
    /// can't compute.
    pub fn of(model: &Model, ids: &[u32], device: &Device) -> Result<Self, Error> {
        Error::check(!ids.is_empty(), "tokens", "at least one", ids.len())?;
        let found = model.forward_with_states(model.tokens(ids, device)?)?;
        Self::read(model, ids.len(), found)
    }

    /// Reads what a step of an engine computes for the tokens `ids`, whose cache has this format, and waits for the device. With `routes`, those
    /// of another pass over the same tokens, both go through the same experts, so that all of what they compute can be compared.
    ///
    /// # Errors
    /// As [`Computation::of`], and [`Error::Config`] for routes of another model or number of tokens, and for more tokens than a cache can have.
    pub fn served(
        model: &Model,
        ids: &[u32],
        format: CacheFormat,
        routes: Option<&Routes>,
        device: &Device,
    ) -> Result<Self, Error> {
        Error::check(!ids.is_empty(), "tokens", "at least one", ids.len())?;
        let (tokens, way) = (model.tokens(ids, device)?, (format, ids.len()));
        let found = model.served_with_states(tokens, way, routes)?;
        Self::read(model, ids.len(), found)
    }

    fn read(model: &Model, tokens: usize, found: WithStates) -> Result<Self, Error> {
        let mut states = found.states.into_iter();
        let mut routing = found.logits.routing.into_iter();
        let mut state = || {
            let state = states.next().map(floats).transpose()?;
            Ok::<_, Error>(state.unwrap_or_else(|| unreachable!("each part has a state")))
        };
        let mut parts = vec![Computed::plain(None, Part::Embedding, state()?)];
        for (number, layer) in model.spec().layers.iter().enumerate() {
            let at = Some(number);
            parts.push(Computed::plain(at, Part::mixer(layer), state()?));
            if let FeedForwardSpec::Experts(_) = layer.feed_forward {
                let routing = routing.next();
                let routing = routing.unwrap_or_else(|| unreachable!("experts have a routing"));
                parts.push(routed(model, (number, layer), routing)?);
            }
            parts.push(Computed::plain(at, Part::feed_forward(layer), state()?));
        }
        let logits = floats(found.logits.logits)?;
        parts.push(Computed::plain(None, Part::Head, logits));
        Ok(Self { tokens, parts })
    }
}

/// The values of a tensor on the host.
fn floats<const D: usize>(x: Tensor<D>) -> Result<Vec<f64>, Error> {
    Error::guarded(|| {
        let data = x.without_autodiff().try_into_data();
        Ok(data.map_err(Error::device)?.iter().collect())
    })
}

/// The router's part of a layer.
fn routed(
    model: &Model,
    (layer, spec): (usize, &LayerSpec),
    routing: Routing,
) -> Result<Computed, Error> {
    let (experts, [tokens, top_k]) = (routing.experts(), routing.indices.dims());
    let slot = Slot::Correction;
    let has = slot.shape(model.spec(), layer).is_some();
    let mut values = model;
    let correction = has.then(|| values.values(Place { layer, slot }));
    let correction = correction.transpose()?;
    let indices: Vec<i64> = Error::guarded(|| {
        let data = routing.indices.try_into_data();
        Ok(data.map_err(Error::device)?.iter().collect())
    })?;
    let (weights, logits) = (floats(routing.weights)?, floats(routing.logits)?);
    let rule = match &spec.feed_forward {
        FeedForwardSpec::Experts(config) => rule(config),
        FeedForwardSpec::Dense(_) => None,
    };
    let rule = rule.unwrap_or_else(|| unreachable!("a decoder has top-k or sigmoid-bias routers"));
    let choice = |token: usize| {
        let row = &logits[token * experts..][..experts];
        let slots = token * top_k..(token + 1) * top_k;
        Choice {
            experts: indices[slots.clone()].iter().map(|e| *e as usize).collect(),
            weights: weights[slots].to_vec(),
            ..choose(&rule, row, correction.as_deref())
        }
    };
    let choices = (0..tokens).map(choice).collect();
    Ok(Computed {
        layer: Some(layer),
        part: Part::Router,
        values: logits,
        choices,
    })
}

//! `moe_layer {top_k, activation, renormalize, gated, …}`: the forward pass of a mixture-of-experts layer: its inputs → `y` [T,H],
//! `indices`, `weights` [T,K], `dropped_slots` [1].
//!
//! `moe_layer_backward`: the gradients of Σ y ∘ dy, with the same parameters: the layer's inputs and `dy` [T,H] → `d_<input>` for every
//! input of the layer that learns, of the same shape as the input.
//!
//! The layer's inputs are `x` [T,H], `router` [E,H]; gated `w_gate`, `w_up` [E,F,H], `w_down` [E,H,F]; ungated `w_in` [E,F,H], `w_out`
//! [E,H,F] with optional `b_in` [E,F], `b_out` [E,H]. Three more are optional: `router_bias` [E] is added to the logits; `selection_bias`
//! [E] is added to sigmoid scores for the choice of experts but not for their weights (f32, and it doesn't learn); `expert_mask` [E] is true
//! for the available experts, which share the capacity of all.
//!
//! Parameters beyond the four: `score`, `softmax_after_topk`, `groups` and `scale` as in `route`; `capacity_factor` and
//! `min_capacity`; `compute`, the dtype of all inputs but the selection bias; `expert_dropout`, `activation_dropout`, `router_dropout` and
//! `router_noise_std`, which act in training only: a forward pass gives what it gives without them, and a backward pass takes only 0.

use burn::module::{Param, RunningState};
use burn::tensor::{Device, Tensor};
use moebius::moe::{
    Activation, Capacity, Experts, Groups, MoeConfig, MoeLayer, MoeWeights, RouteConfig, Router,
    RouterConfig, Score, SigmoidBiasConfig, TopKConfig,
};
use serde::Deserialize;

use super::route::{BestGroups, check_top_k, mask_on};
use super::{Input, Inputs, Produced, download, download_counts, gradient};
use crate::case_file::CaseFile;
use crate::compute::{Compute, Place};
use crate::error::OpError;

/// Value of `min_capacity` for files that give only a factor.
const DEFAULT_MIN_CAPACITY: usize = 4;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {
    top_k: usize,
    activation: Activation,
    renormalize: bool,
    gated: bool,
    #[serde(default)]
    score: Option<Score>,
    #[serde(default)]
    softmax_after_topk: bool,
    #[serde(default)]
    groups: Option<BestGroups>,
    #[serde(default)]
    scale: Option<f32>,
    #[serde(default)]
    capacity_factor: Option<f64>,
    #[serde(default)]
    min_capacity: Option<usize>,
    #[serde(default)]
    compute: Compute,
    #[serde(default)]
    expert_dropout: f64,
    #[serde(default)]
    activation_dropout: f64,
    #[serde(default)]
    router_dropout: f64,
    #[serde(default)]
    router_noise_std: f64,
}

/// The extents of a layer's weights.
struct Extents {
    hidden: usize,
    inter: usize,
    experts: usize,
}

impl Params {
    fn capacity(&self) -> Result<Option<Capacity>, OpError> {
        match (self.capacity_factor, self.min_capacity) {
            (Some(factor), min) => Ok(Some(Capacity {
                factor,
                min: min.unwrap_or(DEFAULT_MIN_CAPACITY),
            })),
            (None, Some(_)) => {
                let message = "parameter min_capacity has no effect without capacity_factor";
                Err(OpError::Misfit(message.to_owned()))
            }
            (None, None) => Ok(None),
        }
    }

    fn route(&self) -> RouteConfig {
        RouteConfig {
            top_k: self.top_k,
            score: self.score.unwrap_or(Score::Softmax),
            renormalize: self.renormalize,
            softmax_after_topk: self.softmax_after_topk,
            groups: self.groups.map(Groups::from),
            scale: self.scale.unwrap_or(1.0),
        }
    }

    /// The router that reads these inputs.
    fn router(&self, inputs: &RouterInputs<'_>) -> Result<RouterConfig, OpError> {
        let route = self.route();
        if inputs.selection_bias.is_none() {
            return Ok(RouterConfig::TopK(TopKConfig {
                route,
                dropout: self.router_dropout,
                noise_std: self.router_noise_std,
                bias: inputs.bias.is_some(),
            }));
        }
        let alone = inputs.bias.is_none() && self.router_dropout == 0.0;
        if !(alone && self.router_noise_std == 0.0) {
            let message = "input selection_bias: expected a router without bias, dropout and noise";
            return Err(OpError::Misfit(message.to_owned()));
        }
        Ok(RouterConfig::SigmoidBias(SigmoidBiasConfig {
            route,
            rate: 0.0,
        }))
    }

    /// The configuration of a layer of these extents with this router.
    fn config(&self, extents: &Extents, router: RouterConfig) -> Result<MoeConfig, OpError> {
        let config = MoeConfig::new(extents.hidden, extents.inter, extents.experts)
            .with_router(router)
            .with_activation(self.activation)
            .with_gated(self.gated)
            .with_capacity(self.capacity()?)
            .with_expert_dropout(self.expert_dropout)
            .with_activation_dropout(self.activation_dropout);
        Ok(config)
    }

    /// Refuses what would make the gradients random.
    fn check_gradients(&self) -> Result<(), OpError> {
        let random = [
            ("expert_dropout", self.expert_dropout),
            ("activation_dropout", self.activation_dropout),
            ("router_dropout", self.router_dropout),
            ("router_noise_std", self.router_noise_std),
        ];
        match random.into_iter().find(|(_, value)| *value != 0.0) {
            Some((name, got)) => {
                let message = format!("parameter {name}: expected 0 in a backward pass, got {got}");
                Err(OpError::Misfit(message))
            }
            None => Ok(()),
        }
    }
}

/// The optional inputs [E] of a router.
struct RouterInputs<'a> {
    bias: Option<Input<'a>>,
    selection_bias: Option<Input<'a>>,
    mask: Option<Input<'a>>,
}

impl<'a> RouterInputs<'a> {
    fn read(inputs: &mut Inputs<'a>) -> Self {
        Self {
            bias: inputs.optional("router_bias"),
            selection_bias: inputs.optional("selection_bias"),
            mask: inputs.optional("expert_mask"),
        }
    }

    fn check(&self, experts: usize) -> Result<(), OpError> {
        for input in [self.bias, self.selection_bias, self.mask] {
            input.map_or(Ok(()), |input| input.expect("[E]", &[experts]))?;
        }
        Ok(())
    }
}

/// A layer and its input batch, checked.
struct Described<'a> {
    params: Params,
    /// Input tokens [T,H].
    x: Input<'a>,
    /// Weights of the router [E,H].
    router: Input<'a>,
    router_inputs: RouterInputs<'a>,
    /// First matrices of the experts [E,F,H]: `w_gate` and `w_up`, or `w_in`.
    first: Vec<Input<'a>>,
    /// Second matrices of the experts [E,H,F]: `w_down` or `w_out`.
    second: Input<'a>,
    /// Biases [E,F] and [E,H]; gated experts have none.
    biases: [Option<Input<'a>>; 2],
    config: MoeConfig,
}

impl<'a> Described<'a> {
    /// Takes the layer's inputs from `inputs`, and refuses any that remain.
    fn read(case: &'a CaseFile, mut inputs: Inputs<'a>) -> Result<Self, OpError> {
        let params: Params = case.params()?;
        let x = inputs.required("x")?;
        let router = inputs.required("router")?;
        let (first, second, biases): (&[_], _, _) = if params.gated {
            (&["w_gate", "w_up"], "w_down", None)
        } else {
            (&["w_in"], "w_out", Some(["b_in", "b_out"]))
        };
        let first = first.iter().map(|name| inputs.required(name));
        let first = first.collect::<Result<Vec<_>, _>>()?;
        let second = inputs.required(second)?;
        let biases = biases.map(|names| names.map(|name| inputs.optional(name)));
        let biases = biases.unwrap_or_default();
        let router_inputs = RouterInputs::read(&mut inputs);
        inputs.finish()?;
        let [_, h] = x.dims("[T,H]")?;
        let [e, _] = router.dims("[E,H]")?;
        let [_, f, _] = first[0].dims("[E,F,H]")?;
        first[0].expect_positive("[E,F,H]", 0)?;
        router.expect("[E,H]", &[e, h])?;
        for weight in &first {
            weight.expect("[E,F,H]", &[e, f, h])?;
        }
        second.expect("[E,H,F]", &[e, h, f])?;
        for (bias, (symbols, width)) in biases.iter().zip([("[E,F]", f), ("[E,H]", h)]) {
            bias.map_or(Ok(()), |bias| bias.expect(symbols, &[e, width]))?;
        }
        router_inputs.check(e)?;
        check_top_k(params.top_k, e)?;
        let has_bias = biases.iter().any(Option::is_some);
        let extents = Extents {
            hidden: h,
            inter: f,
            experts: e,
        };
        let config = params.config(&extents, params.router(&router_inputs)?)?;
        Ok(Self {
            params,
            x,
            router,
            router_inputs,
            first,
            second,
            biases,
            config: config.with_bias(has_bias),
        })
    }

    fn weights(&self, place: &Place) -> Result<MoeWeights, OpError> {
        let MoeConfig {
            experts: e,
            hidden: h,
            inter: f,
            ..
        } = self.config;
        let first = self.first.iter().map(|input| input.view.to_f32());
        let first = first.collect::<Result<Vec<_>, _>>()?;
        let w_in = stack(&first, f * h);
        // The layer has both biases or none; a missing one becomes zeros.
        let bias = |bias: Option<Input<'_>>, width| -> Result<_, OpError> {
            if !self.config.bias {
                return Ok(None);
            }
            let values = bias.map_or_else(|| Ok(vec![0.0; e * width]), |b| b.view.to_f32())?;
            Ok(Some(place.put(values, [e, width])))
        };
        Ok(MoeWeights {
            router: self.router.at("[E,H]", place)?,
            w_in: place.put(w_in, [e, first.len() * f, h]),
            b_in: bias(self.biases[0], f)?,
            w_out: self.second.at("[E,H,F]", place)?,
            b_out: bias(self.biases[1], h)?,
        })
    }

    /// Makes the layer in its place.
    fn layer(&self, place: &Place) -> Result<MoeLayer, OpError> {
        let weights = self.weights(place)?;
        let (config, device) = (&self.config, place.device());
        let Some(bias) = self.router_inputs.bias else {
            let mut layer = config.with_weights(weights)?;
            let bias = self.router_inputs.selection_bias;
            if let (Router::SigmoidBias(router), Some(bias)) = (&mut layer.router, bias) {
                router.bias = RunningState::new(bias.on::<1>(&device.clone().inner())?);
            }
            return Ok(layer);
        };
        // A router with a bias learns two tensors, so its layer is put together: the experts are those of a layer without the bias.
        let matrix = Param::from_tensor(weights.router.clone());
        let plain = config.with_router(self.params.route());
        let mut layer = config.init(device)?;
        layer.experts = plain.with_weights(weights)?.experts;
        if let Router::TopK(router) = &mut layer.router {
            router.weight = matrix;
            router.bias = Some(Param::from_tensor(bias.at("[E]", place)?));
        }
        Ok(layer)
    }
}

pub(crate) async fn forward(case: &CaseFile, device: &Device) -> Result<Vec<Produced>, OpError> {
    let described = Described::read(case, Inputs::new(case))?;
    let place = Place::new(described.params.compute, device)?;
    let x: Tensor<2> = described.x.at("[T,H]", &place)?;
    let layer = described.layer(&place)?;
    let output = match mask_on(described.router_inputs.mask, device)? {
        Some(mask) => layer.forward_masked(x, mask)?,
        None => layer.forward(x)?,
    };
    Ok(vec![
        download("y", output.y).await?,
        download_counts("indices", output.routing.indices).await?,
        download("weights", output.routing.weights).await?,
        download_counts("dropped_slots", output.dropped_slots).await?,
    ])
}

pub(crate) async fn backward(case: &CaseFile, device: &Device) -> Result<Vec<Produced>, OpError> {
    let mut inputs = Inputs::new(case);
    let dy = inputs.required("dy")?;
    let described = Described::read(case, inputs)?;
    described.params.check_gradients()?;
    let extents = described.x.view.shape;
    dy.expect("[T,H]", extents)?;
    let device = device.clone().autodiff();
    let place = Place::new(described.params.compute, &device)?;
    let layer = described.layer(&place)?;
    let x = described.x.at::<2>("[T,H]", &place)?.require_grad();
    let y = match mask_on(described.router_inputs.mask, &device)? {
        Some(mask) => layer.forward_masked(x.clone(), mask)?.y,
        None => layer.forward(x.clone())?.y,
    };
    // Without tokens, the sum records no graph to the weights, whose gradients are then zeros.
    let tape = match extents[0] {
        0 => None,
        _ => Some((y * dy.at("[T,H]", &place)?).sum().backward()),
    };
    let tape = tape.as_ref();
    let mut produced = vec![download("d_x", gradient(tape, "d_x", &x)?).await?];
    let router = "d_router";
    let matrix = layer.router.matrix().ok_or(OpError::NoGradient(router))?;
    produced.push(download(router, gradient(tape, router, &matrix)?).await?);
    if let Router::TopK(router) = &layer.router
        && let Some(bias) = &router.bias
    {
        let name = "d_router_bias";
        produced.push(download(name, gradient(tape, name, &bias.val())?).await?);
    }
    let Experts::FeedForward(experts) = &layer.experts else {
        return Err(OpError::NoGradient("d_w_out"));
    };
    let (first, second): (&[_], _) = if described.config.gated {
        (&["d_w_gate", "d_w_up"], "d_w_down")
    } else {
        (&["d_w_in"], "d_w_out")
    };
    let stacked = gradient(tape, first[0], &experts.w_in.values()?)?;
    let inter = described.config.inter;
    for (at, name) in first.iter().enumerate() {
        let part = stacked.clone().narrow(1, at * inter, inter);
        produced.push(download(name, part).await?);
    }
    let w_out = experts.w_out.values()?;
    produced.push(download(second, gradient(tape, second, &w_out)?).await?);
    // A bias that the file lacks isn't an input, so it gets no gradient.
    let biases = [("d_b_in", &experts.b_in), ("d_b_out", &experts.b_out)];
    for ((name, bias), input) in biases.into_iter().zip(described.biases) {
        if let (Some(_), Some(bias)) = (input, bias) {
            produced.push(download(name, gradient(tape, name, &bias.val())?).await?);
        }
    }
    Ok(produced)
}

/// Concatenates tensors [E,F,H] expert by expert: the gate's rows, then those of up; `block` is F·H.
fn stack(parts: &[Vec<f32>], block: usize) -> Vec<f32> {
    let experts = 0..parts[0].len() / block;
    experts
        .flat_map(|e| {
            parts
                .iter()
                .flat_map(move |part| &part[e * block..][..block])
        })
        .copied()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::stack;

    #[test]
    fn gate_rows_come_before_up_rows_in_each_expert() {
        let stacked = stack(&[vec![1.0, 2.0, 3.0, 4.0], vec![5.0, 6.0, 7.0, 8.0]], 2);
        assert_eq!(stacked, [1.0, 2.0, 5.0, 6.0, 3.0, 4.0, 7.0, 8.0]);
    }
}

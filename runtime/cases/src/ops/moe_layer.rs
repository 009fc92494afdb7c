//! `moe_layer {top_k, activation, renormalize, gated, …}`: the forward pass of a mixture-of-experts layer: its inputs → `y` [T,H],
//! `indices` [T,K], `dropped_slots` [1].
//!
//! `moe_layer_backward`: the gradients of Σ y ∘ dy, with the same parameters: the layer's inputs and `dy` [T,H] → `d_<input>` for every
//! input of the layer, of the same shape as the input.
//!
//! The layer's inputs are `x` [T,H], `router` [E,H]; gated `w_gate`, `w_up` [E,F,H], `w_down` [E,H,F]; ungated `w_in` [E,F,H], `w_out`
//! [E,H,F] with optional `b_in` [E,F], `b_out` [E,H].

use burn::tensor::Device;
use moebius::moe::{Activation, Capacity, MoeConfig, MoeLayer, MoeWeights, RouteConfig, Score};
use serde::Deserialize;

use super::route::check_top_k;
use super::{Input, Inputs, Produced, download, download_counts, gradient, upload};
use crate::case_file::CaseFile;
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
    capacity_factor: Option<f64>,
    #[serde(default)]
    min_capacity: Option<usize>,
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

    /// The configuration of a layer with the extents H, F and E.
    fn config(&self, [hidden, inter, experts]: [usize; 3]) -> Result<MoeConfig, OpError> {
        let route = RouteConfig {
            top_k: self.top_k,
            score: self.score.unwrap_or(Score::Softmax),
            renormalize: self.renormalize,
            ..RouteConfig::default()
        };
        let config = MoeConfig::new(hidden, inter, experts)
            .with_router(route)
            .with_activation(self.activation)
            .with_gated(self.gated)
            .with_capacity(self.capacity()?);
        Ok(config)
    }
}

/// A layer and its input batch, checked.
struct Described<'a> {
    /// Input tokens [T,H].
    x: Input<'a>,
    router: Input<'a>,
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
        check_top_k(params.top_k, e)?;
        let has_bias = biases.iter().any(Option::is_some);
        Ok(Self {
            x,
            router,
            first,
            second,
            biases,
            config: params.config([h, f, e])?.with_bias(has_bias),
        })
    }

    /// Makes the layer on `device`.
    fn layer(&self, device: &Device) -> Result<MoeLayer, OpError> {
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
            Ok(Some(upload(values, [e, width], device)))
        };
        Ok(self.config.with_weights(MoeWeights {
            router: self.router.on(device)?,
            w_in: upload(w_in, [e, first.len() * f, h], device),
            b_in: bias(self.biases[0], f)?,
            w_out: self.second.on(device)?,
            b_out: bias(self.biases[1], h)?,
        })?)
    }
}

pub(crate) async fn forward(case: &CaseFile, device: &Device) -> Result<Vec<Produced>, OpError> {
    let described = Described::read(case, Inputs::new(case))?;
    let x = described.x.on::<2>(device)?;
    let output = described.layer(device)?.forward(x)?;
    Ok(vec![
        download("y", output.y).await?,
        download_counts("indices", output.routing.indices).await?,
        download_counts("dropped_slots", output.dropped_slots).await?,
    ])
}

pub(crate) async fn backward(case: &CaseFile, device: &Device) -> Result<Vec<Produced>, OpError> {
    let mut inputs = Inputs::new(case);
    let dy = inputs.required("dy")?;
    let described = Described::read(case, inputs)?;
    let extents = described.x.view.shape;
    dy.expect("[T,H]", extents)?;
    let device = device.clone().autodiff();
    let layer = described.layer(&device)?;
    let x = described.x.on::<2>(&device)?.require_grad();
    let y = layer.forward(x.clone())?.y;
    // Without tokens, the sum records no graph to the weights, whose gradients are then zeros.
    let tape = match extents[0] {
        0 => None,
        _ => Some((y * dy.on(&device)?).sum().backward()),
    };
    let name = "d_router";
    let leaves = layer.weights().ok_or(OpError::NoGradient(name))?;
    let tape = tape.as_ref();
    let mut produced = vec![
        download("d_x", gradient(tape, "d_x", &x)?).await?,
        download(name, gradient(tape, name, &leaves.router)?).await?,
    ];
    let (first, second): (&[_], _) = if described.config.gated {
        (&["d_w_gate", "d_w_up"], "d_w_down")
    } else {
        (&["d_w_in"], "d_w_out")
    };
    let (stacked, inter) = (
        gradient(tape, first[0], &leaves.w_in)?,
        described.config.inter,
    );
    for (at, name) in first.iter().enumerate() {
        let part = stacked.clone().narrow(1, at * inter, inter);
        produced.push(download(name, part).await?);
    }
    produced.push(download(second, gradient(tape, second, &leaves.w_out)?).await?);
    // A bias that the file lacks isn't an input, so it gets no gradient.
    let biases = [("d_b_in", &leaves.b_in), ("d_b_out", &leaves.b_out)];
    for ((name, bias), input) in biases.into_iter().zip(described.biases) {
        if let (Some(_), Some(bias)) = (input, bias) {
            produced.push(download(name, gradient(tape, name, bias)?).await?);
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

//! Products that train in FP8.
//!
//! `fp8_training_linear {scaling, forward, backward, margin, history_len, algorithm, compute}`: S steps of a linear layer, one after the
//! other: `x` \[S,M,K\], `weight` \[N,K\], `dy` \[S,M,N\] and perhaps `bias` \[N\] → `y` \[S,M,N\] and the gradients of each step's Σ y ∘ dy:
//! `d_x` \[S,M,K\], `d_weight` \[S,N,K\], and `d_bias` \[S,N\] where there is a bias. No step changes the weight or the bias.
//!
//! With x̂ and Ŵ rounded to `forward` (e4m3 by default) and dŷ to `backward` (e5m2 by default), y = x̂ · Ŵᵀ + b, d_x = dŷ · Ŵ,
//! d_weight = dŷᵀ · x̂, and d_bias = Σ dy, which isn't rounded. Rounded is decode(encode(v / s)) · s, where larger magnitudes than the format's
//! largest value MAX become MAX; gradients pass this rounding unchanged. x, the weight and dy have one scale s each, in this order
//! wherever there are three. `scaling` says where a scale comes from:
//! - `current`: the tensor itself, amax · 2^`margin` / MAX with its largest magnitude amax, or 1 where that is 0;
//! - `static`: the f32 input `scales` \[3\], for all steps;
//! - `delayed`: the steps before. The first step has the input `scales` \[3\], 1 without it. After a step, the next scale is amax ·
//!   2^`margin` / MAX, where amax is the largest of the last `history_len` steps (`algorithm` `max`, the default) or that of the step itself
//!   (`most_recent`); the scale stays where that is 0. The input `history` \[3,L\] has the amaxes of steps before the first, from oldest to
//!   newest, after a 0 for the step that runs; without it all are 0. Three more outputs are `scales` \[S,3\], those that each step leaves, and,
//!   after the last step, `history` \[3,L\] and `saturated` \[3\], the number of steps in which a magnitude was too large.
//!
//! `margin` is 0 by default, and `compute` is the dtype of x, the weight, the bias, dy and the results.

use burn::module::{Param, RunningState};
use burn::tensor::{Device, Tensor};
use moebius::fp8::training::{AmaxAlgorithm, Fp8Product, Fp8Recipe, Fp8Scaling, Fp8State, update};
use moebius::fp8::{Fp8Format, Weight};
use moebius::nn::Linear;
use serde::Deserialize;

use super::{Input, Inputs, Produced, Values, download, gradient};
use crate::case_file::CaseFile;
use crate::compute::{Compute, Place};
use crate::error::OpError;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {
    scaling: Source,
    forward: Option<Fp8Format>,
    backward: Option<Fp8Format>,
    margin: Option<i32>,
    history_len: Option<usize>,
    algorithm: Option<AmaxAlgorithm>,
    #[serde(default)]
    compute: Compute,
}

/// The source of the scales of a product.
#[derive(Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Source {
    Current,
    Static,
    Delayed,
}

impl Params {
    /// The recipe of the product, checked.
    fn recipe(&self) -> Result<Fp8Recipe, OpError> {
        let default = Fp8Recipe::default();
        let recipe = Fp8Recipe {
            forward: self.forward.unwrap_or(default.forward),
            backward: self.backward.unwrap_or(default.backward),
            scaling: self.scaling()?,
            margin: self.margin.unwrap_or(default.margin),
        };
        recipe.validate()?;
        Ok(recipe)
    }

    /// The library's name of the scaling; refuses parameters that are missing or have no effect.
    fn scaling(&self) -> Result<Fp8Scaling, OpError> {
        if self.scaling == Source::Delayed {
            let missing = "parameter history_len is missing, which delayed scales need";
            let missing = || OpError::Misfit(missing.to_owned());
            return Ok(Fp8Scaling::Delayed {
                history_len: self.history_len.ok_or_else(missing)?,
                algorithm: self.algorithm.unwrap_or(AmaxAlgorithm::Max),
            });
        }
        let fixed = self.scaling == Source::Static;
        let useless = [
            (self.history_len.is_some(), "history_len", "without delayed"),
            (self.algorithm.is_some(), "algorithm", "without delayed"),
            (self.margin.is_some() && fixed, "margin", "on static"),
        ];
        if let Some((_, name, why)) = useless.into_iter().find(|(given, _, _)| *given) {
            let message = format!("parameter {name} has no effect {why} scales");
            return Err(OpError::Misfit(message));
        }
        Ok(if fixed {
            // The scales are the state of delayed ones, which changes only when it is updated.
            Fp8Scaling::Delayed {
                history_len: 1,
                algorithm: AmaxAlgorithm::MostRecent,
            }
        } else {
            Fp8Scaling::Current
        })
    }
}

/// The inputs of the steps, checked.
struct Operands<'a> {
    x: Input<'a>,
    weight: Input<'a>,
    dy: Input<'a>,
    bias: Option<Input<'a>>,
    scales: Option<Input<'a>>,
    history: Option<Input<'a>>,
    /// Extents M, K and N of a step.
    extents: [usize; 3],
}

impl<'a> Operands<'a> {
    fn read(case: &'a CaseFile, params: &Params) -> Result<Self, OpError> {
        let mut inputs = Inputs::new(case);
        let x = inputs.required("x")?;
        let weight = inputs.required("weight")?;
        let dy = inputs.required("dy")?;
        let bias = inputs.optional("bias");
        let (scales, history) = match params.scaling {
            Source::Current => (None, None),
            Source::Static => (Some(inputs.required("scales")?), None),
            Source::Delayed => (inputs.optional("scales"), inputs.optional("history")),
        };
        inputs.finish()?;
        let [steps, rows, k] = x.dims("[S,M,K]")?;
        // Steps without rows would be as many as the file says.
        x.expect_positive("[S,M,K]", 0)?;
        let [n, _] = weight.dims::<2>("[N,K]")?;
        weight.expect("[N,K]", &[n, k])?;
        weight.expect_positive("[N,K]", 0)?;
        dy.expect("[S,M,N]", &[steps, rows, n])?;
        bias.map_or(Ok(()), |bias| bias.expect("[N]", &[n]))?;
        if let Some(scales) = &scales {
            check_scales(scales)?;
        }
        if let (Some(history), Some(history_len)) = (&history, params.history_len) {
            check_history(history, history_len)?;
        }
        Ok(Self {
            x,
            weight,
            dy,
            bias,
            scales,
            history,
            extents: [rows, k, n],
        })
    }

    /// The layer before the first step.
    fn layer(&self, recipe: Fp8Recipe, place: &Place) -> Result<Linear, OpError> {
        let device = place.device();
        let mut product = Fp8Product::init(recipe, device)?;
        if let Some(state) = &mut product.state {
            if let Some(scales) = self.scales {
                state.scales = RunningState::new(scales.on::<1>(device)?);
            }
            if let Some(history) = self.history {
                state.history = RunningState::new(history.on::<2>(device)?);
            }
        }
        let weight = Param::from_tensor(self.weight.at::<2>("[N,K]", place)?);
        let weight = Weight::from(weight).with_product(product)?;
        let bias = self.bias.map(|bias| bias.at::<1>("[N]", place));
        Ok(Linear::new(
            weight,
            bias.transpose()?.map(Param::from_tensor),
        )?)
    }
}

/// Refuses scales that aren't positive numbers; subnormal ones are 0 on some devices.
fn check_scales(scales: &Input<'_>) -> Result<(), OpError> {
    scales.expect("[3]", &[3])?;
    let wrong = |scale: &f32| !scale.is_finite() || *scale < f32::MIN_POSITIVE;
    match scales.view.to_f32()?.into_iter().find(wrong) {
        Some(got) => {
            let message = format!("input scales: expected positive numbers, got {got}");
            Err(OpError::Misfit(message))
        }
        None => Ok(()),
    }
}

/// Refuses amaxes that aren't magnitudes, and any but 0 in slot 0, which the step that runs fills.
fn check_history(history: &Input<'_>, history_len: usize) -> Result<(), OpError> {
    history.expect("[3,L]", &[3, history_len])?;
    for (at, got) in history.view.to_f32()?.into_iter().enumerate() {
        let slot = at % history_len;
        let (right, expected) = if slot == 0 {
            (got == 0.0, "0")
        } else {
            (got >= 0.0, "a magnitude")
        };
        if !right {
            let message = format!("input history: expected {expected} in slot {slot}, got {got}");
            return Err(OpError::Misfit(message));
        }
    }
    Ok(())
}

/// Computes the forward and the backward pass of every step, and has delayed scales follow.
pub(super) async fn linear(case: &CaseFile, device: &Device) -> Result<Vec<Produced>, OpError> {
    let params: Params = case.params()?;
    let recipe = params.recipe()?;
    let operands = Operands::read(case, &params)?;
    let place = Place::new(params.compute, &device.clone().autodiff())?;
    let layer = operands.layer(recipe, &place)?;
    let product = layer.weight.product();
    let state = match params.scaling {
        Source::Delayed => product.and_then(|product| product.state.as_ref()),
        Source::Current | Source::Static => None,
    };
    let [rows, k, n] = operands.extents;
    let (x, dy) = (operands.x.view.to_f32()?, operands.dy.view.to_f32()?);
    let mut steps = Vec::new();
    for (x, dy) in x.chunks(rows * k).zip(dy.chunks(rows * n)) {
        let x = place.put(x.to_vec(), [rows, k]);
        let dy = place.put(dy.to_vec(), [rows, n]);
        steps.push(step(&layer, state, x, dy).await?);
    }
    let mut produced = stacked(steps);
    if let Some(state) = state {
        produced.push(download("history", state.history.value_sync()).await?);
        produced.push(download("saturated", state.saturated.value_sync()).await?);
    }
    Ok(produced)
}

/// Takes one step and returns its outputs; scales that follow are updated in `state`.
async fn step(
    layer: &Linear,
    state: Option<&Fp8State>,
    x: Tensor<2>,
    dy: Tensor<2>,
) -> Result<Vec<Produced>, OpError> {
    let x = x.require_grad();
    let y = layer.forward(x.clone())?;
    let tape = (y.clone() * dy).sum().backward();
    let gradients = Some(&tape);
    let weight = layer.weight.values()?;
    let mut produced = vec![
        download("y", y).await?,
        download("d_x", gradient(gradients, "d_x", &x)?).await?,
        download("d_weight", gradient(gradients, "d_weight", &weight)?).await?,
    ];
    if let Some(bias) = &layer.bias {
        let bias = gradient(gradients, "d_bias", &bias.val())?;
        produced.push(download("d_bias", bias).await?);
    }
    if let Some(state) = state {
        update(layer, &tape, None);
        produced.push(download("scales", state.scales.value_sync()).await?);
    }
    Ok(produced)
}

/// Puts the outputs of all steps behind each other, along a new first dimension.
fn stacked(steps: Vec<Vec<Produced>>) -> Vec<Produced> {
    let count = steps.len();
    let mut steps = steps.into_iter();
    let mut all = steps.next().unwrap_or_default();
    for step in steps {
        for (all, one) in all.iter_mut().zip(step) {
            if let (Values::Float(all), Values::Float(one)) = (&mut all.values, one.values) {
                all.extend(one);
            }
        }
    }
    for one in &mut all {
        one.shape.insert(0, count);
    }
    all
}

//! The gradients of a step with the memory of one layer's forward pass: each layer's input is kept alone, and the layer is computed again
//! for its own gradients (activation checkpointing: Chen et al., Training Deep Nets with Sublinear Memory Cost, 2016).
//!
//! Gradients have the bits of a backward pass over all layers at once, so they must be summed in its order. Burn takes steps of one depth in
//! the order in which it meets them, from the second operand of a sum before the first. In loss + Σ auxiliary losses it begins with the loss of
//! the last router, whose input leads it through all layers before; so their routers are met by way of what they computed, and only the last
//! one by its loss. A router's logits get three gradients from steps of one depth: of weights, probabilities and log-sum-exp.

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::{DType, Gradients, Int, Tensor};
use moebius::fp8::training::LossScaling;
use moebius::in_span;
use moebius::moe::{RouterConfig, Routing};
use tracing::trace_span;

use crate::accumulate::Computed;
use crate::config::TrainConfig;
use crate::dataset::TrainingData;
use crate::decoder::{FeedForwardSpec, LayerSpec, Model, ModelSpec};
use crate::error::Error;
use crate::perplexity::cross_entropy;

/// Checks that layers give the same when they are computed twice in a training step.
///
/// # Errors
/// [`Error::Config`] for samples, since the parts of a pass take whole sequences alone, for products in FP8 and loss scaling, whose histories a
/// forward pass adds to, and for layers that draw random numbers or whose routers move with each forward pass.
pub(crate) fn check(
    spec: &ModelSpec,
    config: &TrainConfig,
    data: &TrainingData,
) -> Result<(), Error> {
    let what = "layers to compute twice";
    let is_text = matches!(data, TrainingData::Text(_));
    Error::check(is_text, what, "a text", "samples")?;
    let plain = config.precision.recipe().is_none() && config.loss_scaling == LossScaling::Off;
    let expected = "products in f32 or bf16 without loss scaling";
    Error::check(plain, what, expected, "FP8 or loss scaling")?;
    for layer in &spec.layers {
        let expected = "no random numbers, and top-k routers without a balancing bias";
        let name = layer.feed_forward.config().router.name();
        Error::check(is_steady(layer), what, expected, name)?;
    }
    Ok(())
}

/// Whether the layer gives the same in each forward pass.
fn is_steady(layer: &LayerSpec) -> bool {
    match &layer.feed_forward {
        FeedForwardSpec::Dense(config) => config.activation_dropout == 0.0,
        FeedForwardSpec::Experts(config) => {
            let RouterConfig::TopK(router) = config.router else {
                return false;
            };
            let draws = router.dropout + router.noise_std + config.expert_dropout;
            draws + config.activation_dropout == 0.0 && config.factors.is_none()
        }
    }
}

/// Computes the gradients of a batch's share in a step of `config`: in the mean cross entropy of `targets` \[B, S\] after `tokens` \[B, S\], at
/// least one, and in the weighted auxiliary losses.
///
/// The first pass records each layer, too, and forgets it: a pass that records nothing sums in other orders on some devices.
///
/// # Errors
/// As [`Model::forward`].
pub(crate) fn computed(
    model: &Model,
    [tokens, targets]: [Tensor<2, Int>; 2],
    config: &TrainConfig,
) -> Result<Computed, Error> {
    let (parts, weights) = (model.parts(&tokens)?, config.losses());
    let weighted = |routing: &Routing| Ok::<_, Error>(routing.losses(1)?.weighted(&weights));
    // Gradients begin at the share, as those of all layers at once do.
    let shared = |routing: &Routing| Ok::<_, Error>(config.share(weighted(routing)?));
    let embedded = parts.embedded(tokens)?;
    let mut extra = Tensor::zeros([1], &embedded.device().inner());
    let (mut inputs, mut loads, mut last_mixture) = (Vec::new(), Vec::new(), None);
    let mut x = embedded.clone().inner();
    for number in 0..model.blocks.len() {
        let input = leaf(x.clone());
        let (y, routing) = parts.layer(number, input.clone())?;
        if let Some(routing) = routing {
            loads.push(routing.load()?.inner());
            extra = extra + weighted(&routing)?.inner();
            last_mixture = Some(number);
        }
        inputs.push(x);
        x = y.inner();
        forget(&input);
    }
    let mut gradients = GradientsParams::new();
    let input = leaf(x);
    let loss = config.share(cross_entropy(parts.logits(input.clone())?, targets));
    let mut along = backward(&loss, &input, model, &mut gradients);
    drop(input);
    for (number, x) in inputs.into_iter().enumerate().rev() {
        let input = leaf(x);
        let (y, routing) = parts.layer(number, input.clone())?;
        let through = through(y, along);
        let whole = match routing {
            Some(routing) if last_mixture == Some(number) => through + shared(&routing)?,
            Some(routing) => shared(&routing)? + through,
            None => through,
        };
        along = backward(&whole, &input, &model.blocks[number], &mut gradients);
    }
    if trains_embedding(model) {
        add(through(embedded, along).backward(), model, &mut gradients);
    }
    Ok(Computed {
        loss: loss.inner(),
        extra: config.share(extra),
        loads,
        gradients,
        finite: None,
    })
}

/// Whether anything before the layers is trained, as nothing is below an adapter: Burn panics at a backward pass without a graph.
fn trains_embedding(model: &Model) -> bool {
    let trains = |param: &Param<Tensor<2>>| param.val().is_require_grad();
    trains(&model.embedding) || model.positions.as_ref().is_some_and(trains)
}

/// An x as the input of a graph of its own.
fn leaf(x: Tensor<2>) -> Tensor<2> {
    Tensor::from_inner(x).require_grad()
}

/// Forgets what was recorded from `input` on, whose results are dropped. Burn keeps records of dropped results until the next backward pass
/// of their graph, so this is one, of a single element.
fn forget(input: &Tensor<2>) {
    drop(input.clone().slice([0..1, 0..1]).backward());
}

/// Σ y · g \[1\] in f32, whose gradient of y is g.
fn through(y: Tensor<2>, gradient: Tensor<2>) -> Tensor<1> {
    (y * Tensor::from_inner(gradient)).sum().cast(DType::F32)
}

/// Adds the gradients of `loss` for the parameters of `module`, and returns that of x.
fn backward<M: Module>(
    loss: &Tensor<1>,
    x: &Tensor<2>,
    module: &M,
    into: &mut GradientsParams,
) -> Tensor<2> {
    let pass = || loss.backward();
    let mut found = in_span(trace_span!("backward"), &x.device(), pass);
    let along = x.grad_remove(&mut found);
    add(found, module, into);
    along.unwrap_or_else(|| unreachable!("each part depends on its input"))
}

/// Adds gradients of the parameters of `module`. One that two parts share, as an embedding that is the head, has the sum of both.
fn add<M: Module>(found: Gradients, module: &M, into: &mut GradientsParams) {
    let found = GradientsParams::from_grads(found, module);
    module.visit(&mut Add { found, into });
}

struct Add<'a> {
    found: GradientsParams,
    into: &'a mut GradientsParams,
}

impl ModuleVisitor for Add<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let Some(new) = self.found.remove::<D>(param.id) else {
            return;
        };
        let sum = match self.into.remove::<D>(param.id) {
            Some(old) => old + new,
            None => new,
        };
        self.into.register(param.id, sum);
    }
}

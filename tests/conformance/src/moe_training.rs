//! Gradients of the whole layer through Burn's autodiff, against the f64 oracles, given the device's own choice of experts.

use crate::Outcome;
use crate::moe_layer::{Fixture, config, fixture, supports};
use crate::tensors::{doubles, drawn, floats, tensor};
use burn::tensor::{DType, Gradients, Tensor};
use moebius::Error;
use moebius::moe::{
    Activation, Capacity, Keep, MoeConfig, MoeLayer, MoeOutput, MoeWeights, RouteConfig, Router,
    Variant,
};
use moebius_ops::{Element, experts, routing};
use moebius_tests::data::Rng;
use moebius_tests::target::Target;
use moebius_tests::tolerance::assert_gradient;

/// The inputs and results of one backward pass.
struct Pass {
    layer: MoeLayer,
    x: Tensor<2>,
    dy: Vec<f64>,
    out: MoeOutput<2>,
    gradients: Gradients,
}

fn recording(fixture: &Fixture) -> MoeLayer {
    fn tracked<const D: usize>(tensor: Tensor<D>) -> Tensor<D> {
        tensor.autodiff().require_grad()
    }
    let weights = fixture.layer.weights().unwrap();
    let weights = MoeWeights {
        router: tracked(weights.router),
        w_in: tracked(weights.w_in),
        b_in: weights.b_in.map(tracked),
        w_out: tracked(weights.w_out),
        b_out: weights.b_out.map(tracked),
    };
    let layer = fixture.config.with_weights(weights).unwrap();
    layer.with_variant(fixture.variant)
}

impl Pass {
    /// Runs forward, and backward from Σ y ∘ dy.
    fn run(fixture: &Fixture, target: &Target, tokens: usize) -> Result<Self, Error> {
        let layer = recording(fixture);
        let x = fixture.batch(target, tokens, 7).autodiff().require_grad();
        let mut rng = Rng::new(9);
        let (shape, device) = (x.dims(), target.burn().autodiff());
        let dy = drawn(&mut rng, shape, 1.0, fixture.dtype, &device);
        let out = layer.forward(x.clone())?;
        let gradients = (out.y.clone() * dy.clone()).sum().backward();
        Ok(Self {
            layer,
            x,
            dy: doubles(dy),
            out,
            gradients,
        })
    }

    fn gradient<const D: usize>(&self, of: &Tensor<D>) -> Vec<f32> {
        floats(of.grad(&self.gradients).unwrap())
    }

    /// Compares every gradient with the oracles.
    fn check(&self, element: Element) {
        let weights = self.layer.weights().unwrap();
        let tokens = self.x.dims()[0];
        let problem = self.layer.problem(tokens, self.x.dtype()).unwrap();
        let logits = floats(self.out.routing.logits.clone());
        let routed = routing::reference(&problem.routing, &logits, None);
        let [w_in, w_out] = [&weights.w_in, &weights.w_out].map(|w| floats(w.clone()));
        let [b_in, b_out] = [&weights.b_in, &weights.b_out].map(|b| b.clone().map(floats));
        let x = floats(self.x.clone());
        let inputs = experts::ReferenceInputs {
            x: &x,
            indices: &routed.indices,
            weights: &routed.weights,
            w_in: &w_in,
            b_in: b_in.as_deref(),
            w_out: &w_out,
            b_out: b_out.as_deref(),
        };
        let want = experts::reference_backward(&problem, &inputs, &self.dy);
        let router = floats(weights.router.clone());
        let (dx, drouter) = through_router(&problem.routing, &x, &router, &logits, &want);
        let close = |what, got: Vec<f32>, want: &[f64]| assert_gradient(what, &got, want, element);
        close("dx", self.gradient(&self.x), &dx);
        close("d router", self.gradient(&weights.router), &drouter);
        close("d w_in", self.gradient(&weights.w_in), &want.w_in);
        close("d w_out", self.gradient(&weights.w_out), &want.w_out);
        if let (Some(b_in), Some(b_out)) = (&weights.b_in, &weights.b_out) {
            close("d b_in", self.gradient(b_in), &want.b_in);
            close("d b_out", self.gradient(b_out), &want.b_out);
        }
    }
}

/// The oracle's dx and dWg, with the gradient of the routing weights passed on through the choice of experts.
fn through_router(
    problem: &routing::Problem,
    x: &[f32],
    router: &[f32],
    logits: &[f32],
    experts: &experts::ReferenceGradients,
) -> (Vec<f64>, Vec<f64>) {
    let (e, h) = (problem.experts(), x.len() / problem.tokens());
    let routed = routing::reference(problem, logits, None);
    let (mut dx, mut dw) = (experts.x.clone(), vec![0.0; e * h]);
    for t in 0..problem.tokens() {
        let slots = t * problem.top_k()..(t + 1) * problem.top_k();
        let weights = &routed.weights[slots.clone()];
        let products = weights.iter().zip(&experts.weights[slots.clone()]);
        let dot: f64 = products.map(|(w, d)| w * d).sum();
        for (slot, weight) in slots.zip(weights) {
            let expert = routed.indices[slot] as usize;
            let dlogit = weight * (experts.weights[slot] - dot);
            for i in 0..h {
                dx[t * h + i] += dlogit * f64::from(router[expert * h + i]);
                dw[expert * h + i] += dlogit * f64::from(x[t * h + i]);
            }
        }
    }
    (dx, dw)
}

fn check(target: &Target, config: MoeConfig, dtype: DType, tokens: usize) -> Result<(), Error> {
    check_by(target, None, config, dtype, tokens)
}

fn check_by(
    target: &Target,
    variant: Option<Variant>,
    config: MoeConfig,
    dtype: DType,
    tokens: usize,
) -> Result<(), Error> {
    let fixture = Fixture {
        variant,
        ..fixture(target, config, dtype)
    };
    let element = fixture.layer.problem(tokens, dtype).unwrap().element;
    Pass::run(&fixture, target, tokens)?.check(element);
    Ok(())
}

pub(crate) fn relu(target: &Target) -> Result<(), Error> {
    let mut batches = [1, 2, 37, 300].into_iter();
    batches.try_for_each(|tokens| check(target, config(), DType::F32, tokens))
}

pub(crate) fn gated_silu(target: &Target) -> Result<(), Error> {
    let config = MoeConfig::new(40, 50, 3)
        .with_router(RouteConfig::new(3))
        .with_gated(true)
        .with_activation(Activation::Silu);
    check(target, config, DType::F32, 65)
}

pub(crate) fn biases(target: &Target) -> Result<(), Error> {
    let plain = MoeConfig::new(33, 47, 5).with_bias(true);
    let gated = plain.with_gated(true).with_activation(Activation::Mish);
    let gelu = plain.with_activation(Activation::Gelu);
    check(target, gelu, DType::F32, 70)?;
    check(target, gated, DType::F32, 70)
}

pub(crate) fn capacity(target: &Target) -> Result<(), Error> {
    [0.3, 1.0].into_iter().try_for_each(|factor| {
        let capacity = Some(Capacity::new(factor, 4).unwrap());
        check(target, config().with_capacity(capacity), DType::F32, 100)
    })
}

/// Checks that what is kept for the backward pass affects memory, but no bit of the results.
pub(crate) fn keeping_less_changes_no_bit(target: &Target) {
    let config = config().with_gated(true).with_bias(true);
    let gradients = [Keep::FirstProduct, Keep::Inputs].map(|keep| {
        let fixture = fixture(target, config.with_keep(keep), DType::F32);
        let pass = Pass::run(&fixture, target, 90).unwrap();
        pass.check(Element::F32);
        let weights = pass.layer.weights().unwrap();
        [
            pass.gradient(&weights.w_in),
            pass.gradient(&weights.w_out),
            pass.gradient(&pass.x),
        ]
    });
    assert!(gradients[0] == gradients[1], "the gradients differ");
}

pub(crate) fn repeats_bit_for_bit(target: &Target) {
    let fixture = fixture(target, config().with_bias(true), DType::F32);
    let run = || {
        let pass = Pass::run(&fixture, target, 200).unwrap();
        let weights = pass.layer.weights().unwrap();
        [
            pass.gradient(&pass.x),
            pass.gradient(&weights.router),
            pass.gradient(&weights.w_in),
            pass.gradient(&weights.w_out),
            pass.gradient(&weights.b_in.unwrap()),
            pass.gradient(&weights.b_out.unwrap()),
        ]
    };
    let first = run();
    let what = "two backward passes of the same batch differ";
    (0..2).for_each(|_| assert!(run() == first, "{what}"));
}

/// Checks that frozen experts pass gradients on to x and the router, and have none of their own.
pub(crate) fn frozen_experts(target: &Target) {
    let fixture = fixture(target, config(), DType::F32);
    let mut pass = Pass::run(&fixture, target, 40).unwrap();
    let whole = [
        pass.gradient(&pass.x),
        pass.gradient(&pass.layer.weights().unwrap().router),
    ];
    let mut layer = recording(&fixture);
    layer.experts = burn::module::Module::no_grad(layer.experts);
    let x = pass.x.clone().detach().require_grad();
    let dy: Vec<f32> = pass.dy.iter().map(|dy| *dy as f32).collect();
    let dy = tensor(&dy, x.dims(), &x.device());
    let gradients = (layer.forward(x.clone()).unwrap().y * dy).sum().backward();
    pass.gradients = gradients;
    let Router::TopK(_) = &layer.router else {
        panic!("the default router chooses the largest logits")
    };
    let weights = layer.weights().unwrap();
    assert!(weights.w_in.grad(&pass.gradients).is_none());
    assert!(pass.gradient(&x) == whole[0] && pass.gradient(&weights.router) == whole[1]);
}

/// Checks both passes with all products by matrix instructions, and with sizes that don't suit the instructions.
pub(crate) fn matrices(target: &Target, dtype: DType) -> Outcome {
    both_by(target, Variant::TensorCore, [40, 50], dtype)
}

/// Checks both passes with all products through pipelines.
pub(crate) fn pipelines(target: &Target, dtype: DType) -> Outcome {
    both_by(target, Variant::Pipelined, [40, 64], dtype)
}

/// Checks a gated layer and a plain one by `variant`, of `hidden` columns, the plain one with `inter` in the experts.
fn both_by(
    target: &Target,
    variant: Variant,
    [hidden, inter]: [usize; 2],
    dtype: DType,
) -> Outcome {
    if target.client().is_none() {
        return Outcome::Unsupported("no kernels".into());
    }
    let gated = MoeConfig::new(hidden, 48, 3)
        .with_router(RouteConfig::new(2))
        .with_gated(true)
        .with_bias(true)
        .with_activation(Activation::Silu);
    let odd = MoeConfig::new(hidden, inter, 3).with_activation(Activation::Relu);
    let by_matrices = |config| check_by(target, Some(variant), config, dtype, 65);
    by_matrices(gated).and_then(|()| by_matrices(odd)).into()
}

pub(crate) fn half(target: &Target, dtype: DType) -> Result<(), Error> {
    supports(target, dtype)?;
    let config = config().with_gated(true).with_bias(true);
    check(target, config.with_activation(Activation::Silu), dtype, 50)
}

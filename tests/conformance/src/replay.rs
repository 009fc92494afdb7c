//! Recorded experts in place of a router's choice: the bits of the recorded forward, the formula for other experts, gradients.

use crate::routers::grouped;
use crate::tensors::{doubles, floats, mask, random, words};
use burn::module::Module;
use burn::tensor::Tensor;
use moebius::ErrorKind;
use moebius::moe::switching::HostLayer;
use moebius::moe::{
    ChosenExperts, ExpertChoiceConfig, HashConfig, MoeConfig, MoeLayer, RouteConfig, RouterConfig,
    Score, SigmoidBiasConfig, SwitchConfig,
};
use moebius_tests::gradients::filled;
use moebius_tests::refusal::assert_refused;
use moebius_tests::target::Target;
use moebius_tests::tolerance::assert_close;

const TOKENS: usize = 21;
const HIDDEN: usize = 16;
const EXPERTS: usize = 8;

/// Routers with each kind of weights, all but the last with three experts for a token.
fn routers() -> Vec<RouterConfig> {
    let route = RouteConfig::new(3);
    let raw = RouteConfig {
        renormalize: false,
        scale: 1.5,
        ..route
    };
    let after = RouteConfig {
        softmax_after_topk: true,
        ..route
    };
    vec![
        route.into(),
        raw.into(),
        after.into(),
        RouterConfig::SigmoidBias(SigmoidBiasConfig {
            route: grouped(route),
            ..SigmoidBiasConfig::default()
        }),
        RouterConfig::Switch(SwitchConfig { jitter: 0.0 }),
    ]
}

/// How the weights of a router follow from its logits.
fn rule(router: RouterConfig) -> RouteConfig {
    match router {
        RouterConfig::TopK(config) => config.route,
        RouterConfig::SigmoidBias(config) => config.route,
        _ => RouteConfig {
            renormalize: false,
            ..RouteConfig::new(1)
        },
    }
}

fn layer(target: &Target, router: RouterConfig) -> MoeLayer {
    let config = MoeConfig::new(HIDDEN, 12, EXPERTS).with_router(router);
    filled(config.init(&target.burn()).unwrap(), 7, 0.4)
}

fn tokens(target: &Target) -> Tensor<2> {
    random(3, [TOKENS, HIDDEN], 1.5, &target.burn())
}

/// Experts that no router chose.
fn others(top_k: usize) -> ChosenExperts {
    let of_token = |token: usize| (0..top_k).map(move |slot| ((token + 3 * slot) % EXPERTS) as u32);
    let indices = (0..TOKENS).flat_map(of_token).collect();
    ChosenExperts::new(indices, top_k, EXPERTS).unwrap()
}

/// The weights \[T,K\] of experts, by their definition, from the router logits \[T,E\].
fn weights(route: &RouteConfig, logits: &[f64], chosen: &ChosenExperts) -> Vec<f64> {
    let tokens = logits
        .chunks(EXPERTS)
        .zip(chosen.indices().chunks(route.top_k));
    let of_token = |(logits, chosen): (&[f64], &[u32])| -> Vec<f64> {
        let exp: Vec<f64> = logits.iter().map(|logit| logit.exp()).collect();
        let all: f64 = exp.iter().sum();
        let score = |&expert: &u32| match route.score {
            Score::Softmax => exp[expert as usize] / all,
            Score::Sigmoid => 1.0 / (1.0 + (-logits[expert as usize]).exp()),
        };
        let scores: Vec<f64> = chosen.iter().map(score).collect();
        let divided = route.renormalize || route.softmax_after_topk;
        let sum = if divided { scores.iter().sum() } else { 1.0 };
        let weight = |score: f64| f64::from(route.scale) * score / sum;
        scores.into_iter().map(weight).collect()
    };
    tokens.flat_map(of_token).collect()
}

pub(crate) fn gives_the_recorded_bits(target: &Target) {
    for config in routers() {
        let (layer, x) = (layer(target, config), tokens(target));
        let recorded = layer.forward(x.clone()).unwrap();
        let chosen = ChosenExperts::read(&recorded.routing).unwrap();
        let replayed = layer.forward_along(x.clone(), &chosen).unwrap();
        assert_eq!(words(replayed.routing.indices), chosen.indices());
        let [got, want] = [replayed.routing.weights, recorded.routing.weights].map(floats);
        target.assert_same_rows("weights", &got, &want);
        let [got, want] = [replayed.y, recorded.y].map(floats);
        target.assert_same_rows("y", &got, &want);
        // A part of the tokens alone.
        let few = ChosenExperts::new(
            chosen.indices()[..2 * chosen.top_k()].to_vec(),
            chosen.top_k(),
            EXPERTS,
        );
        let few = layer
            .forward_along(x.narrow(0, 0, 2), &few.unwrap())
            .unwrap();
        target.assert_same_rows("y of two tokens", &floats(few.y), &want[..2 * HIDDEN]);
    }
}

/// Checks weights by their definition, and that y is the sum of the experts' own outputs with these weights.
pub(crate) fn takes_any_experts(target: &Target) {
    for config in routers() {
        let (layer, x, route) = (layer(target, config), tokens(target), rule(config));
        let chosen = others(route.top_k);
        let got = layer.forward_along(x.clone(), &chosen).unwrap();
        let weights = weights(&route, &doubles(got.routing.logits), &chosen);
        assert_close("weights", &floats(got.routing.weights), &weights, 1e-5);
        // With one available expert the first slot of each token has it, with the scale as weight: a softmax of one is 1.
        let alone = |expert: usize| -> Vec<f64> {
            let mut available = [false; EXPERTS];
            available[expert] = true;
            let rule = RouteConfig::new(1);
            let mut one = MoeConfig::new(HIDDEN, 12, EXPERTS)
                .with_router(rule)
                .init(&target.burn())
                .unwrap();
            one.experts = layer.experts.clone();
            let available = mask(&available, &target.burn());
            doubles(one.forward_masked(x.clone(), available).unwrap().y)
        };
        let alone: Vec<Vec<f64>> = (0..EXPERTS).map(alone).collect();
        let mut want = vec![0.0; TOKENS * HIDDEN];
        for (slot, (&expert, weight)) in chosen.indices().iter().zip(&weights).enumerate() {
            let row = slot / route.top_k * HIDDEN..(slot / route.top_k + 1) * HIDDEN;
            let y = &alone[expert as usize][row.clone()];
            for (want, y) in want[row].iter_mut().zip(y) {
                *want += weight * y;
            }
        }
        let y = floats(got.y);
        assert_close("y", &y, &want, 1e-5);
        let own = floats(layer.forward(x).unwrap().y);
        assert_ne!(y, own, "{}: other experts give another y", config.name());
    }
}

/// Compares the gradient of Σ weights ∘ c in the router's matrix with central differences of the weights' definition, in f64.
pub(crate) fn has_gradients(target: &Target) {
    const STEP: f64 = 1e-5;
    for config in routers() {
        let route = rule(config);
        let layer = layer(target, config).train();
        let device = layer.devices().remove(0);
        let x: Tensor<2> = random(3, [TOKENS, HIDDEN], 1.5, &device);
        let c: Tensor<2> = random(5, [TOKENS, route.top_k], 1.0, &device);
        let chosen = others(route.top_k);
        let routing = layer.forward_along(x.clone(), &chosen).unwrap().routing;
        let (logits, factors) = (doubles(routing.logits.clone()), doubles(c.clone()));
        let gradients = (routing.weights * c).sum().backward();
        let matrix = layer.router.matrix().unwrap();
        let got = floats(matrix.grad(&gradients).unwrap());
        let value = |logits: &[f64]| -> f64 {
            let weights = weights(&route, logits, &chosen);
            weights.iter().zip(&factors).map(|(w, c)| w * c).sum()
        };
        let slope = |at: usize| {
            let moved = |by: f64| {
                let mut logits = logits.clone();
                logits[at] += by;
                value(&logits)
            };
            (moved(STEP) - moved(-STEP)) / (2.0 * STEP)
        };
        let slopes: Vec<f64> = (0..logits.len()).map(slope).collect();
        let x = doubles(x);
        let mut want = vec![0.0; EXPERTS * HIDDEN];
        for (at, slope) in slopes.iter().enumerate() {
            let (token, expert) = (at / EXPERTS, at % EXPERTS);
            for h in 0..HIDDEN {
                want[expert * HIDDEN + h] += slope * x[token * HIDDEN + h];
            }
        }
        assert_close(config.name(), &got, &want, 1e-4);
    }
}

pub(crate) fn in_host_memory(target: &Target) {
    let (layer, x) = (layer(target, RouteConfig::new(3).into()), tokens(target));
    let chosen = others(3);
    let want = floats(layer.forward_along(x.clone(), &chosen).unwrap().y);
    let host = HostLayer::read(layer).unwrap();
    let mut switched = host.switched(1 << 20, &target.burn()).unwrap();
    let got = floats(switched.forward_along(x.clone(), &chosen).unwrap().y);
    target.assert_same_rows("y", &got, &want);
    let fewer = switched.forward_along(x.narrow(0, 0, 3), &chosen);
    assert_refused(ErrorKind::Shape, fewer);
}

pub(crate) fn refuses_wrong_experts(target: &Target) {
    let refused = |indices: &[u32], top_k, kind| {
        assert_refused(kind, ChosenExperts::new(indices.to_vec(), top_k, EXPERTS))
    };
    let said = refused(&[0, 1, 2, 8], 2, ErrorKind::Shape);
    assert!(
        said.contains("expected below 8, got 8 at token 1"),
        "{said}"
    );
    let said = refused(&[0, 1, 3, 3], 2, ErrorKind::Shape);
    assert!(said.contains("expected distinct ones"), "{said}");
    refused(&[0, 1, 2], 2, ErrorKind::Shape);
    refused(&[0, 1], 0, ErrorKind::Config);
    refused(&[0; 9], 9, ErrorKind::Config);
    let x = tokens(target);
    let layer_of = |router| layer(target, router);
    let three = layer_of(RouteConfig::new(3).into());
    // Another number of choices, of tokens and of experts.
    let fewer_experts = ChosenExperts::new([0, 1, 2].repeat(TOKENS), 3, 4).unwrap();
    for wrong in [others(2), fewer_experts] {
        assert_refused(ErrorKind::Shape, three.forward_along(x.clone(), &wrong));
    }
    let short = three.forward_along(x.clone().narrow(0, 0, 3), &others(3));
    assert_refused(ErrorKind::Shape, short);
    for router in [
        RouterConfig::Hash(HashConfig::default()),
        RouterConfig::ExpertChoice(ExpertChoiceConfig::default()),
    ] {
        let layer = layer_of(router);
        let refused = layer.forward_along(x.clone(), &others(2));
        assert_refused(ErrorKind::Unsupported, refused);
    }
    // A mask that leaves too few experts leaves slots without one.
    let few = mask(
        &[true, false, false, false, false, false, false, true],
        &target.burn(),
    );
    let routing = three.forward_masked(x, few).unwrap().routing;
    assert_refused(ErrorKind::Shape, ChosenExperts::read(&routing));
}

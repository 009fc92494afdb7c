//! A router's weight on the input of its expert: experts without biases are homogeneous, so it can be taken out of them again.

use burn::tensor::{Distribution, Tensor, Tolerance};
use moebius::moe::{Activation, MoeConfig, RouteConfig, Score};

fn config(gated: bool, top_k: usize) -> MoeConfig {
    let route = RouteConfig {
        score: Score::Sigmoid,
        renormalize: false,
        ..RouteConfig::new(top_k)
    };
    MoeConfig::new(12, 20, 3)
        .with_router(route)
        .with_activation(Activation::Relu)
        .with_gated(gated)
}

#[test]
fn a_weight_goes_through_a_homogeneous_expert() {
    let device = moebius::open(&moebius::Device::Flex).unwrap();
    for gated in [false, true] {
        let config = config(gated, 1);
        let outer = config.init(&device).unwrap();
        let weights = outer.weights().unwrap();
        let inner = config.with_weighted_input(true);
        let inner = inner.with_weights(weights).unwrap();
        let x = Tensor::<2>::random([7, 12], Distribution::Uniform(-2.0, 2.0), &device);
        let want = outer.forward(x.clone()).unwrap();
        // expert(w · x) is w · expert(x), and w² · expert(x) with a gate.
        let want = if gated {
            want.y * want.routing.weights
        } else {
            want.y
        };
        let (got, want) = (inner.forward(x).unwrap().y.into_data(), want.into_data());
        got.assert_approx_eq::<f32>(&want, Tolerance::absolute(1e-5));
    }
}

#[test]
fn a_token_with_two_experts_has_no_single_weight() {
    let device = moebius::open(&moebius::Device::Flex).unwrap();
    let error = config(false, 2).with_weighted_input(true).init(&device);
    let error = error.unwrap_err().to_string();
    assert!(error.contains("one a token"), "{error}");
}

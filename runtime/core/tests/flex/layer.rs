//! A router's weight on the input of its expert: experts without biases are homogeneous, so it can be taken out of them again.

use burn::module::Param;
use burn::tensor::{DType, Distribution, Tensor, Tolerance};
use moebius::moe::{Activation, MoeConfig, RouteConfig, Router, Score, SharedExpertConfig};

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

/// In a layer in bf16 a router, and the gate of a shared expert, may have a matrix in f32: its logits are those of f32.
#[test]
fn a_router_of_f32_chooses_for_experts_of_bf16() {
    let device = moebius::open(&moebius::Device::Flex).unwrap();
    let shared = SharedExpertConfig::new(6).with_sigmoid_gate(true);
    let wide = MoeConfig::new(12, 20, 4).with_shared(Some(shared));
    let wide = wide.init(&device).unwrap();
    let mut narrow = wide.clone().cast(DType::BF16).unwrap();
    let x = Tensor::<2>::random([9, 12], Distribution::Default, &device).cast(DType::BF16);
    let rounded = narrow.forward(x.clone()).unwrap();
    narrow.router = wide.router.clone();
    let gate = wide.shared.clone().unwrap().gate;
    narrow.shared.as_mut().unwrap().gate = gate;
    let found = narrow.forward(x.clone()).unwrap();
    let want = wide.router_logits(x.cast(DType::F32)).unwrap();
    assert_eq!(found.routing.logits.clone().into_data(), want.into_data());
    assert_ne!(
        found.routing.logits.into_data(),
        rounded.routing.logits.into_data()
    );
    assert_eq!(found.y.dtype(), DType::BF16);
    // Other weights in f32 are refused, and so is a matrix of another 16 bits.
    let Router::TopK(router) = &mut narrow.router else {
        unreachable!("the default router");
    };
    router.weight = Param::from_tensor(router.weight.val().cast(DType::F16));
    let x = Tensor::<2>::zeros([1, 12], (&device, DType::BF16));
    let refused = narrow.forward(x).unwrap_err().to_string();
    assert!(refused.starts_with("router weights [E,H]"), "{refused}");
}

#[test]
fn a_token_with_two_experts_has_no_single_weight() {
    let device = moebius::open(&moebius::Device::Flex).unwrap();
    let error = config(false, 2).with_weighted_input(true).init(&device);
    let error = error.unwrap_err().to_string();
    assert!(error.contains("one a token"), "{error}");
}

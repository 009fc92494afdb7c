//! The tour: every part of the library once, small enough to check by hand. Read this first.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use burn::tensor::{Int, Tensor};
use moebius::fp8::{Fp8Format, Overflow, decode, encode};
use moebius::moe::{Activation, Capacity, MoeConfig, MoeWeights, RouteConfig, route};
use moebius::{Device, ErrorKind};

/// The devices that are on every machine: the CubeCL CPU runtime and Burn's Flex.
fn devices() -> [burn::tensor::Device; 2] {
    [Device::Cpu, Device::Flex].map(|device| moebius::open(&device).unwrap())
}

fn floats<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().iter().collect()
}

fn integers<const D: usize>(tensor: Tensor<D, Int>) -> Vec<i64> {
    tensor.into_data().iter().collect()
}

/// Two experts on tokens of two numbers: expert 0 doubles, expert 1 negates.
fn two_experts(device: &burn::tensor::Device) -> MoeWeights {
    MoeWeights {
        router: Tensor::from_floats([[1.0, 0.0], [0.0, 1.0]], device),
        w_in: Tensor::from_floats([[[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]]], device),
        b_in: None,
        w_out: Tensor::from_floats(
            [[[2.0, 0.0], [0.0, 2.0]], [[-1.0, 0.0], [0.0, -1.0]]],
            device,
        ),
        b_out: None,
    }
}

#[test]
fn a_device_has_a_name() {
    assert_eq!("cuda:1".parse::<Device>().unwrap().to_string(), "cuda:1");
    assert!(
        "cuba"
            .parse::<Device>()
            .unwrap_err()
            .to_string()
            .contains("cuda")
    );
}

#[test]
fn fp8_packs_four_codes_to_a_word() {
    for device in devices() {
        let x = Tensor::<1>::from_floats([1.0, -2.0, 448.0, 1000.0, 0.5], &device);
        let words = encode(x, Fp8Format::E4M3, Overflow::Saturate).unwrap();
        assert_eq!(integers(words.clone()), [0x7E7E_C038, 0x30]);
        let back = decode(words, 5, Fp8Format::E4M3).unwrap();
        assert_eq!(floats(back), [1.0, -2.0, 448.0, 448.0, 0.5]);
    }
}

#[test]
fn a_token_goes_to_its_largest_logits() {
    for device in devices() {
        let logits = Tensor::<2>::from_floats([[0.0, 2.0, 1.0], [5.0, 5.0, 5.0]], &device);
        let routing = route(logits, None, &RouteConfig::default()).unwrap();
        // Ties go to the lowest index.
        assert_eq!(integers(routing.indices), [1, 2, 0, 1]);
        let sigmoid = 1.0 / (1.0 + (-1.0f32).exp());
        for (got, want) in floats(routing.weights)
            .iter()
            .zip([sigmoid, 1.0 - sigmoid, 0.5, 0.5])
        {
            assert!((got - want).abs() < 1e-6, "{got} for {want}");
        }
    }
}

#[test]
fn a_layer_sends_tokens_through_their_experts() {
    for device in devices() {
        let config = MoeConfig::new(2, 2, 2)
            .with_top_k(1)
            .with_activation(Activation::Relu);
        let layer = config.with_weights(two_experts(&device)).unwrap();
        let x = Tensor::<2>::from_floats([[3.0, 1.0], [1.0, 4.0], [2.0, -5.0]], &device);
        let out = layer.forward(x).unwrap();
        assert_eq!(floats(out.y), [6.0, 2.0, -1.0, -4.0, 4.0, 0.0]);
        assert_eq!(integers(out.dropped_slots), [0]);
    }
}

#[test]
fn a_full_expert_drops_its_lightest_tokens() {
    for device in devices() {
        let capacity = Some(Capacity::new(0.5, 1).unwrap());
        let route = RouteConfig {
            top_k: 1,
            renormalize: false,
            ..RouteConfig::default()
        };
        let config = MoeConfig::new(2, 2, 2)
            .with_route(route)
            .with_capacity(capacity);
        let layer = config.with_weights(two_experts(&device)).unwrap();
        // All four tokens want expert 0, which takes one; the second is the surest.
        let x = Tensor::<2>::from_floats([[1.0, 0.0], [9.0, 0.0], [2.0, 0.0], [3.0, 0.0]], &device);
        let out = layer.forward(x).unwrap();
        assert_eq!(integers(out.dropped_slots), [3]);
        let y = floats(out.y);
        assert!((y[2] - 18.0).abs() < 0.01, "{y:?}");
        assert!(y[..2].iter().chain(&y[3..]).all(|y| *y == 0.0), "{y:?}");
    }
}

#[test]
fn wrong_input_is_refused_before_anything_runs() {
    for device in devices() {
        let layer = MoeConfig::new(2, 2, 2).init(&device).unwrap();
        let error = layer
            .forward(Tensor::<3>::zeros([1, 1, 3], &device))
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Shape);
        assert_eq!(error.to_string(), "last dimension of x: expected 2, got 3");
    }
}

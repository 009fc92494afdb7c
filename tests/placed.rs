//! Layers whose experts are divided among devices of XLA's CPU plugin compute what the same module computes on one device.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

use burn::module::Param;
use burn::tensor::{DType, Device, Tensor, TensorData};
use moebius::moe::{
    Activation, Capacity, ExpertKind, Experts, FactorsConfig, Groups, MoeConfig, MoeLayer,
    MoeOutput, PlacedLayer, RouteConfig, RouterConfig, Score, SharedExpertConfig,
    SigmoidBiasConfig, SwitchConfig, TopKConfig,
};
use moebius::{DeviceGroup, Error, ErrorKind};
use moebius_ops::Element;
use moebius_tests::data::Rng;
use moebius_tests::gradients::filled;
use moebius_tests::tolerance::{assert_close, assert_gradient, rel_l2};
use std::sync::OnceLock;

const HIDDEN: usize = 16;
const TOKENS: usize = 48;

fn group(count: usize) -> &'static DeviceGroup {
    static GROUPS: [OnceLock<DeviceGroup>; 5] = [const { OnceLock::new() }; 5];
    let open = || DeviceGroup::open(&"xla:cpu".parse().unwrap(), count).unwrap();
    GROUPS[count].get_or_init(open)
}

fn device() -> Device {
    moebius::open(&"xla:cpu".parse().unwrap()).unwrap()
}

/// A layer with 8 gated experts, 24 inner columns and biases.
fn config() -> MoeConfig {
    MoeConfig::new(HIDDEN, 24, 8)
        .with_activation(Activation::Silu)
        .with_gated(true)
        .with_bias(true)
}

/// The layer with a capacity of 1.25 times the even load.
fn capped() -> MoeConfig {
    config().with_capacity(Some(Capacity::new(1.25, 2).unwrap()))
}

fn layer(config: MoeConfig) -> MoeLayer {
    filled(config.init(&device()).unwrap(), 3, 0.5)
}

/// Random tokens \[4,12,16\] that share a common vector, so that the router prefers some experts.
fn batch(seed: u64, device: &Device) -> Tensor<3> {
    let mut rng = Rng::new(seed);
    let common = rng.vec(HIDDEN, 1.0);
    let own = rng.vec(TOKENS * HIDDEN, 1.0);
    let values = own.iter().zip(common.iter().cycle());
    let values: Vec<f32> = values.map(|(own, common)| own + common).collect();
    Tensor::from_data(TensorData::new(values, [4, 12, HIDDEN]), device)
}

fn floats<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().convert::<f32>().iter::<f32>().collect()
}

fn wide<const D: usize>(tensor: Tensor<D>) -> Vec<f64> {
    floats(tensor).into_iter().map(f64::from).collect()
}

fn dropped(out: &MoeOutput<3>) -> i64 {
    out.dropped_slots.clone().into_data().iter().next().unwrap()
}

/// The slots' experts, in the order of the tokens.
fn chosen(out: &MoeOutput<3>) -> Vec<i64> {
    let indices = out.routing.indices.clone();
    indices.into_data().iter().collect()
}

/// Compares a forward of the layer on 2 and on 4 devices with its forward on one; returns the number of dropped slots.
fn compare(layer: &MoeLayer, x: &Tensor<3>, element: Element) -> i64 {
    let one = layer.forward(x.clone()).unwrap();
    for devices in [2, 4] {
        let placed = layer.place(group(devices)).unwrap();
        let out = placed.forward(x.clone()).unwrap();
        let what = format!("y on {devices} devices of {:?}", layer.config());
        assert_eq!(out.y.dims(), x.dims(), "{what}");
        assert_eq!(out.y.device(), x.device(), "{what}");
        assert_eq!(chosen(&out), chosen(&one), "{what}");
        assert_eq!(dropped(&out), dropped(&one), "{what}");
        assert_close(&what, &floats(out.y), &wide(one.y.clone()), rel_l2(element));
        let (got, want) = (out.routing, one.routing.clone());
        let choices = [
            (got.weights, want.weights),
            (got.probs, want.probs),
            (got.logits, want.logits),
        ];
        for (got, want) in choices {
            assert_close(&what, &floats(got), &wide(want), rel_l2(Element::F32));
        }
        let [got, want] = [got.logsumexp, want.logsumexp].map(Option::unwrap);
        assert_close(&what, &floats(got), &wide(want), rel_l2(Element::F32));
    }
    dropped(&one)
}

/// The number of slots of the busiest expert.
fn fullest(chosen: &[i64]) -> usize {
    let count = |expert| chosen.iter().filter(|e| **e == expert).count();
    (0..8).map(count).max().unwrap()
}

#[test]
fn a_placed_layer_computes_what_one_device_does() {
    let layer = layer(config());
    let x = batch(5, &device());
    assert_eq!(compare(&layer, &x, Element::F32), 0);
    let chosen = chosen(&layer.forward(x).unwrap());
    // An even load would be twelve of the 96 slots.
    assert!(fullest(&chosen) > 24, "{chosen:?}");
}

#[test]
fn a_capacity_drops_the_slots_that_one_device_drops() {
    let x = batch(5, &device());
    assert!(compare(&layer(capped()), &x, Element::F32) > 20);
    let switch = RouterConfig::Switch(SwitchConfig::default());
    let switch = capped().with_router(switch).with_bias(false);
    assert!(compare(&layer(switch), &x, Element::F32) > 10);
}

#[test]
fn routers_choose_as_on_one_device() {
    let x = batch(7, &device());
    let route = RouteConfig {
        score: Score::Sigmoid,
        groups: Some(Groups {
            count: 4,
            chosen: 2,
            best: 2,
        }),
        scale: 2.5,
        ..RouteConfig::default()
    };
    let rate = SigmoidBiasConfig::default().rate;
    let biased = RouterConfig::SigmoidBias(SigmoidBiasConfig { route, rate });
    compare(&layer(capped().with_router(biased)), &x, Element::F32);
    let after = RouteConfig {
        top_k: 3,
        softmax_after_topk: true,
        ..RouteConfig::default()
    };
    let ungated = config().with_gated(false).with_bias(false);
    let ungated = ungated.with_activation(Activation::Gelu);
    compare(&layer(ungated.with_router(after)), &x, Element::F32);
}

#[test]
fn halves_are_placed_too() {
    let layer = layer(capped()).cast(DType::BF16).unwrap();
    let x = batch(11, &device()).cast(DType::BF16);
    compare(&layer, &x, Element::Bf16);
}

/// The gradients equal Burn's on one device, in the module's shapes.
#[test]
fn gradients_are_those_of_one_device() {
    for config in [config(), capped().with_bias(false)] {
        let layer = layer(config);
        let (x, dy) = (batch(5, &device()), batch(6, &device()));
        let placed = layer.place(group(4)).unwrap();
        let out = placed.gradients(x.clone(), dy.clone()).unwrap();
        let training = filled(config.init(&device().autodiff()).unwrap(), 3, 0.5);
        let leaf = Tensor::<3>::from_data(x.into_data(), &device().autodiff()).require_grad();
        let y = training.forward(leaf.clone()).unwrap().y;
        let dy = Tensor::from_data(dy.into_data(), &device().autodiff());
        let gradients = (y.clone() * dy).sum().backward();
        let y = wide(y.inner());
        assert_close("y", &floats(out.y), &y, rel_l2(Element::F32));
        let close = |what: &str, got: Vec<f32>, want: Vec<f64>| {
            assert_gradient(what, &got, &want, Element::F32);
        };
        close("x", floats(out.dx), wide(leaf.grad(&gradients).unwrap()));
        let own = training.weights().unwrap();
        let of = |own: &Tensor<3>| wide(own.grad(&gradients).unwrap());
        let router = wide(own.router.grad(&gradients).unwrap());
        close("router", floats(out.weights.router), router);
        close("w_in", floats(out.weights.w_in), of(&own.w_in));
        close("w_out", floats(out.weights.w_out), of(&own.w_out));
        let biases = [(out.weights.b_in, own.b_in), (out.weights.b_out, own.b_out)];
        for (got, own) in biases {
            assert_eq!(got.is_some(), own.is_some());
            if let (Some(got), Some(own)) = (got, own) {
                close("a bias", floats(got), wide(own.grad(&gradients).unwrap()));
            }
        }
    }
}

#[test]
fn a_layer_on_another_device_is_placed_as_it_is_at_the_time() {
    let flex = moebius::open(&moebius::Device::Flex).unwrap();
    let mut layer = filled(config().init(&flex).unwrap(), 3, 0.5);
    let x = batch(5, &flex);
    let close = |placed: &PlacedLayer, layer: &MoeLayer| {
        let (got, want) = (placed.forward(x.clone()), layer.forward(x.clone()));
        let want = wide(want.unwrap().y);
        assert_close("y", &floats(got.unwrap().y), &want, rel_l2(Element::F32));
    };
    let old = layer.clone();
    let first = layer.place(group(4)).unwrap();
    let Experts::FeedForward(experts) = &mut layer.experts else {
        panic!("another layer");
    };
    experts.b_out = experts
        .b_out
        .take()
        .map(|b| Param::from_tensor(b.val() * 3.0));
    let second = layer.place(group(4)).unwrap();
    close(&second, &layer);
    close(&first, &old);
    let changed = floats(first.forward(x.clone()).unwrap().y);
    assert_ne!(changed, floats(second.forward(x.clone()).unwrap().y));
}

fn refused<T>(kind: ErrorKind, result: Result<T, Error>) -> String {
    let error = result.err().unwrap();
    assert_eq!(error.kind(), kind, "{error}");
    error.to_string()
}

#[test]
fn what_cannot_be_placed_is_named() {
    let flex = moebius::open(&moebius::Device::Flex).unwrap();
    let place = |kind, config: MoeConfig| {
        let layer = config.init(&flex).unwrap();
        refused(kind, layer.place(group(4)))
    };
    assert_eq!(
        place(ErrorKind::Shape, MoeConfig::new(HIDDEN, 24, 6)),
        "experts: expected a multiple of 4 devices, got 6"
    );
    let convolutional = ExpertKind::Convolutional { causal: true };
    let choosing = RouterConfig::ExpertChoice(Default::default());
    let biased = RouterConfig::TopK(TopKConfig {
        bias: true,
        ..TopKConfig::default()
    });
    let routers = "expected top_k without a bias, switch or sigmoid_bias, got";
    let got = |config| place(ErrorKind::Unsupported, config);
    assert_eq!(
        got(config().with_kind(convolutional)),
        "experts of a placed layer: expected feed-forward ones in floating point, got convolutional ones"
    );
    assert_eq!(
        got(config().with_shared(Some(SharedExpertConfig::new(8)))),
        "shared of a placed layer: expected none, got a shared expert"
    );
    assert_eq!(
        got(config().with_factors(Some(FactorsConfig::variance()))),
        "factors of a placed layer: expected none, got capacity factors that change"
    );
    for (router, end) in [(choosing, "expert_choice"), (biased, "top_k with a bias")] {
        let expected = format!("router of a placed layer: {routers} {end}");
        assert_eq!(got(config().with_router(router)), expected);
    }
}

#[test]
fn batches_that_do_not_fit_are_refused() {
    let flex = moebius::open(&moebius::Device::Flex).unwrap();
    let placed = config().init(&flex).unwrap().place(group(4)).unwrap();
    let zeros = |shape: [usize; 2]| Tensor::<2>::zeros(shape, &flex);
    let halves = zeros([8, HIDDEN]).cast(DType::BF16);
    for (x, expected) in [
        (
            zeros([6, HIDDEN]),
            "tokens: expected a multiple of 4 devices, got 6",
        ),
        (zeros([0, HIDDEN]), "tokens: expected at least 1, got 0"),
        (
            zeros([8, 15]),
            "last dimension of x and dy: expected 16, got 15",
        ),
        (halves, "dtype of x and dy: expected F32, got BF16"),
    ] {
        assert_eq!(refused(ErrorKind::Shape, placed.forward(x)), expected);
    }
    let recording = Tensor::<2>::zeros([8, HIDDEN], &flex.clone().autodiff());
    assert_eq!(
        refused(ErrorKind::Device, placed.forward(recording)),
        "device of x and dy: expected one that records no gradients, got one that does"
    );
    let both = placed.gradients(zeros([8, HIDDEN]), zeros([4, HIDDEN]));
    assert_eq!(
        refused(ErrorKind::Shape, both),
        "shape of dy: expected [8, 16], got [4, 16]"
    );
}

#[test]
fn groups_are_of_xla() {
    let error = DeviceGroup::open(&moebius::Device::Flex, 2).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    for count in [0, 5000] {
        let error = DeviceGroup::open(&"xla:cpu".parse().unwrap(), count).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Open, "{error}");
    }
    let two = DeviceGroup::open(&"xla:cpu:3".parse().unwrap(), 2).unwrap();
    assert_eq!(two.count(), 2);
}

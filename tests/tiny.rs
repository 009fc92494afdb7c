//! A tour, small enough to check by hand; read this first. It uses each part once: device names, FP8 codes, a linear layer with
//! FP8 weights, the MoE layer with its routers, kinds of experts, a capacity and factors, losses, gradients, a shared expert,
//! experts in host memory, attention with a cache, a model with an engine, and a refusal.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use burn::module::Param;
use burn::optim::GradientsParams;
use burn::tensor::{Int, Tensor, TensorData};
use moebius::attention::{Attend, CacheFormat, KvCache, Pages};
use moebius::fp8::{Fp8Format, Fp8Tensor, Granularity, Overflow, Quantizer, decode, encode};
use moebius::moe::switching::HostLayer;
use moebius::moe::{
    Activation, Adapted, Capacity, ExpertChoiceConfig, ExpertKind, Experts, FactorsConfig,
    LearnedConfig, LoadStatistics, MoeConfig, MoeLayer, MoeWeights, RouteConfig, RouterConfig,
    SharedExpertConfig, route,
};
use moebius::nn::Linear;
use moebius::{Device, ErrorKind};
use moebius_engine::{Engine, EngineOptions, Event, Generation};
use moebius_model::DecoderConfig;

/// The devices that every machine has: the CubeCL CPU runtime and Burn's Flex.
fn devices() -> [burn::tensor::Device; 2] {
    [Device::Cpu, Device::Flex].map(|device| moebius::open(&device).unwrap())
}

fn floats<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().iter().collect()
}

fn integers<const D: usize>(tensor: Tensor<D, Int>) -> Vec<i64> {
    tensor.into_data().iter().collect()
}

/// Two experts for tokens of two numbers: expert 0 doubles, expert 1 negates.
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

fn assert_near(got: &[f32], want: &[f32]) {
    let near = |(got, want): (&f32, &f32)| (got - want).abs() < 1e-6 * want.abs().max(1.0);
    let all = got.len() == want.len() && got.iter().zip(want).all(near);
    assert!(all, "{got:?} for {want:?}");
}

/// A layer for tokens of four numbers in which every expert doubles a token.
fn doubling(config: MoeConfig, device: &burn::tensor::Device) -> MoeLayer {
    let mut layer = config.init(device).unwrap();
    let (count, experts) = match &mut layer.experts {
        Experts::FeedForward(experts) => (config.experts, experts),
        Experts::ParameterEfficient(experts) => (1, &mut experts.frozen),
        _ => unreachable!("these experts are feed-forward"),
    };
    let times = |factor: f32| -> Param<Tensor<3>> {
        let identity = (0..16).map(|at| if at % 5 == 0 { factor } else { 0.0 });
        let values = identity.collect::<Vec<_>>().repeat(count);
        Param::from_data(TensorData::new(values, [count, 4, 4]), device)
    };
    experts.w_in = times(1.0).into();
    experts.w_out = times(2.0).into();
    layer
}

#[test]
fn a_device_has_a_name() {
    assert_eq!("cuda:1".parse::<Device>().unwrap().to_string(), "cuda:1");
    let error = "cuba".parse::<Device>().unwrap_err();
    assert!(error.to_string().contains("cuda"));
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
fn a_linear_layer_keeps_codes_and_scales() {
    for device in devices() {
        // Twos and halves are powers of two, which FP8 represents exactly.
        let w = Tensor::<2>::from_floats([[2.0, 0.5], [-0.5, 0.0]], &device);
        let quantizer = Quantizer::new(Fp8Format::E4M3, Granularity::Mx);
        let weight = Fp8Tensor::quantize(w, &quantizer).unwrap();
        let layer = Linear::from_fp8(weight, None).unwrap();
        let x = Tensor::<2>::from_floats([[3.0, 10.0], [0.0, 1.0]], &device);
        assert_eq!(floats(layer.forward(x).unwrap()), [11.0, -1.5, 0.5, 0.0]);
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
        let weights = floats(routing.weights);
        assert_near(&weights, &[sigmoid, 1.0 - sigmoid, 0.5, 0.5]);
    }
}

#[test]
fn experts_count_as_every_router_weights_them() {
    let plain = MoeConfig::new(4, 4, 2);
    let learned = LearnedConfig {
        width: 3,
        ..LearnedConfig::default()
    };
    let (form, rank) = (Adapted::Lora, 1);
    let configs = [
        plain,
        plain.with_router(RouterConfig::Switch(Default::default())),
        plain.with_router(RouterConfig::Hash(Default::default())),
        plain.with_router(RouterConfig::Learned(learned)),
        plain.with_router(RouterConfig::Dynamic(Default::default())),
        plain.with_router(RouterConfig::SigmoidBias(Default::default())),
        plain.with_factors(Some(FactorsConfig::variance())),
        // The part that an expert adds to the frozen network is initially 0.
        plain.with_kind(ExpertKind::ParameterEfficient { form, rank }),
    ];
    let x = [[3.0, 1.0, 0.5, 2.0], [1.0, 4.0, 2.0, 0.25]];
    for device in devices() {
        for config in configs {
            let layer = doubling(config, &device);
            let out = layer.forward(Tensor::<2>::from_floats(x, &device));
            let out = out.unwrap();
            assert_eq!(integers(out.dropped_slots), [0], "{config:?}");
            let weights = floats(out.routing.weights);
            let of_tokens = weights.chunks(weights.len() / 2).zip(x);
            let want = of_tokens.flat_map(|(weights, token)| {
                let sum: f32 = weights.iter().sum();
                token.map(|x| 2.0 * sum * x)
            });
            assert_near(&floats(out.y), &want.collect::<Vec<_>>());
        }
    }
}

#[test]
fn a_layer_sends_tokens_through_their_experts() {
    for device in devices() {
        let config = MoeConfig::new(2, 2, 2)
            .with_router(RouteConfig::new(1))
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
            .with_router(route)
            .with_capacity(capacity);
        let layer = config.with_weights(two_experts(&device)).unwrap();
        // All four tokens choose expert 0, which takes one: the second, which is the most probable.
        let x = Tensor::<2>::from_floats([[1.0, 0.0], [9.0, 0.0], [2.0, 0.0], [3.0, 0.0]], &device);
        let out = layer.forward(x).unwrap();
        assert_eq!(integers(out.dropped_slots), [3]);
        let y = floats(out.y);
        assert!((y[2] - 18.0).abs() < 0.01, "{y:?}");
        assert!(y[..2].iter().chain(&y[3..]).all(|y| *y == 0.0), "{y:?}");
    }
}

#[test]
fn experts_may_choose_their_tokens() {
    for device in devices() {
        let choosing = RouterConfig::ExpertChoice(ExpertChoiceConfig { factor: 1.0 });
        let config = MoeConfig::new(2, 2, 2).with_router(choosing);
        let layer = config.with_weights(two_experts(&device)).unwrap();
        let x = Tensor::<2>::from_floats([[9.0, 0.0], [8.0, 0.0], [0.0, 7.0], [7.0, 0.0]], &device);
        let out = layer.forward(x).unwrap();
        // Each expert takes ⌈4 · 1 / 2⌉ tokens: expert 0 its most probable ones, expert 1 the third and the next best.
        assert_eq!(integers(out.routing.indices), [0, 2, 0, 2, 2, 1, 2, 1]);
        assert_eq!(integers(out.dropped_slots), [0]);
    }
}

#[test]
fn a_balance_loss_is_1_when_the_load_is_even() {
    for device in devices() {
        let config = RouteConfig {
            top_k: 1,
            ..RouteConfig::default()
        };
        let losses = |logits| {
            let routing = route(Tensor::<2>::from_floats(logits, &device), None, &config).unwrap();
            let statistics = LoadStatistics::read(routing.load().unwrap()).unwrap();
            (routing.losses(1).unwrap(), statistics.counts)
        };
        let (even, counts) = losses([[30.0, 0.0], [0.0, 30.0]]);
        assert_eq!((floats(even.switch), counts), (vec![1.0], vec![1, 1]));
        let (collapsed, counts) = losses([[30.0, 0.0], [30.0, 0.0]]);
        assert_eq!((floats(collapsed.switch), counts), (vec![2.0], vec![2, 0]));
        assert_eq!(floats(collapsed.z.unwrap()), [900.0]);
    }
}

#[test]
fn a_recording_device_trains_a_layer() {
    for device in devices().map(|device| device.autodiff()) {
        let config = MoeConfig::new(2, 2, 2).with_router(RouteConfig::new(1));
        let layer = config.with_weights(two_experts(&device)).unwrap();
        let x = Tensor::<2>::from_floats([[3.0, 1.0], [1.0, 4.0]], &device).require_grad();
        let grads = layer.forward(x.clone()).unwrap().y.sum().backward();
        // Expert 0 doubles the first token, expert 1 negates the second.
        assert_eq!(floats(x.grad(&grads).unwrap()), [2.0, 2.0, -1.0, -1.0]);
        let grads = GradientsParams::from_grads(grads, &layer);
        let Experts::FeedForward(experts) = &layer.experts else {
            unreachable!("these experts are feed-forward");
        };
        let w_out = grads.get::<3>(experts.w_out.id()).unwrap();
        // Σ dy ⊗ hidden over each expert's tokens.
        assert_eq!(floats(w_out), [3.0, 1.0, 3.0, 1.0, 1.0, 4.0, 1.0, 4.0]);
    }
}

#[test]
fn a_convolutional_expert_sees_its_neighbours() {
    for device in devices() {
        let config = MoeConfig::new(1, 1, 1)
            .with_router(RouteConfig::new(1))
            .with_kind(ExpertKind::Convolutional { causal: false });
        let mut layer = config.init(&device).unwrap();
        if let Experts::Convolutional(experts) = &mut layer.experts {
            // The first convolution sums three tokens, the second takes the middle one.
            experts.w_in = Param::from_data([[[1.0, 1.0, 1.0]]], &device);
            experts.w_out = Param::from_data([[[0.0, 1.0, 0.0]]], &device);
        }
        // Two sequences of three tokens.
        let x = Tensor::<3>::from_floats([[[1.0], [2.0], [4.0]], [[8.0], [16.0], [32.0]]], &device);
        let y = floats(layer.forward(x).unwrap().y);
        assert_eq!(y, [3.0, 7.0, 6.0, 24.0, 56.0, 48.0]);
    }
}

#[test]
fn an_attention_expert_mixes_the_tokens_of_a_sequence() {
    for device in devices() {
        let (heads, causal) = (1, false);
        let config = MoeConfig::new(2, 2, 1)
            .with_router(RouteConfig::new(1))
            .with_kind(ExpertKind::Attention { heads, causal });
        let mut layer = config.init(&device).unwrap();
        if let Experts::Attention(experts) = &mut layer.experts {
            // All scores are 0, the values are the tokens, and the output is doubled.
            experts.w_q = Param::from_data([[[0.0, 0.0], [0.0, 0.0]]], &device);
            experts.w_v = Param::from_data([[[1.0, 0.0], [0.0, 1.0]]], &device);
            experts.w_o = Param::from_data([[[2.0, 0.0], [0.0, 2.0]]], &device);
        }
        let x = Tensor::<3>::from_floats([[[3.0, 1.0], [1.0, 5.0]]], &device);
        let y = floats(layer.forward(x).unwrap().y);
        assert_near(&y, &[4.0, 6.0, 4.0, 6.0]);
    }
}

#[test]
fn a_shared_expert_sees_every_token() {
    for device in devices() {
        let config = MoeConfig::new(2, 2, 2)
            .with_router(RouteConfig::new(1))
            .with_shared(Some(SharedExpertConfig::new(1)));
        let mut layer = config.with_weights(two_experts(&device)).unwrap();
        let shared = layer.shared.as_mut().unwrap();
        // Adds 100 times a token's first element to both elements of the output.
        shared.experts.w_in = Param::from_data([[[1.0, 0.0]]], &device).into();
        shared.experts.w_out = Param::from_data([[[100.0], [100.0]]], &device).into();
        let x = Tensor::<2>::from_floats([[3.0, 1.0], [1.0, 4.0]], &device);
        let y = floats(layer.forward(x).unwrap().y);
        assert_eq!(y, [306.0, 302.0, 99.0, 96.0]);
    }
}

#[test]
fn experts_that_do_not_fit_take_turns() {
    for device in devices() {
        let config = MoeConfig::new(2, 2, 2).with_router(RouteConfig::new(1));
        let layer = config.with_weights(two_experts(&device)).unwrap();
        // An expert has 8 numbers: the budget holds one in place and one in transfer.
        let host = HostLayer::read(layer).unwrap();
        let mut switched = host.switched(2 * 8 * 4, &device).unwrap();
        let x = Tensor::<2>::from_floats([[3.0, 1.0], [1.0, 4.0]], &device);
        let y = floats(switched.forward(x).unwrap().y);
        assert_eq!(y, [6.0, 2.0, -1.0, -4.0]);
        assert_eq!(switched.cache().residents(), [Some(1)]);
        assert_eq!(switched.cache().statistics().moved_bytes, 64);
    }
}

#[test]
fn a_cache_keeps_what_later_tokens_see() {
    for device in devices() {
        // Each head is eight equal numbers.
        let rows = |values: &[f32]| {
            let numbers: Vec<f32> = values.iter().flat_map(|value| [*value; 8]).collect();
            Tensor::<4>::from_data(TensorData::new(numbers, [1, 1, values.len(), 8]), &device)
        };
        // With zero keys, a token's output is the mean of the values up to its own.
        let attend = Attend::new().causal();
        let whole = attend.forward(rows(&[1.0, 1.0]), rows(&[0.0, 0.0]), rows(&[1.0, 3.0]));
        assert_near(&floats(whole.unwrap().o), &[[1.0f32; 8], [2.0; 8]].concat());
        let mut pages = Pages::contiguous(1, 16).unwrap();
        let mut cache = KvCache::new(&pages, 1, [8, 8], CacheFormat::F32, &device).unwrap();
        for (value, mean) in [(1.0, 1.0), (3.0, 2.0)] {
            let step = pages.extend(&[1], &device).unwrap();
            cache.append(rows(&[0.0]), rows(&[value]), &step).unwrap();
            let out = cache.attend(rows(&[1.0]), &step, &attend).unwrap();
            assert_near(&floats(out.o), &[mean; 8]);
        }
        assert_eq!(pages.lengths(), [2]);
    }
}

#[test]
fn a_cache_that_grows_keeps_what_it_has() {
    for device in devices() {
        let rows = |value: f32, tokens: usize| Tensor::<4>::full([1, 1, tokens, 8], value, &device);
        let attend = Attend::new().causal();
        for format in [CacheFormat::F32, CacheFormat::E4m3] {
            // A page of 16 tokens is filled with ones.
            let mut pages = Pages::paged(1, 1, 16).unwrap();
            let mut cache = KvCache::new(&pages, 1, [8, 8], format, &device).unwrap();
            let step = pages.extend(&[16], &device).unwrap();
            cache.append(rows(0.0, 16), rows(1.0, 16), &step).unwrap();
            let one_page = cache.bytes();
            assert!(pages.extend(&[1], &device).is_err());
            assert!(pages.grow(0, 48).is_err() && pages.grow(3, 0).is_err());
            pages.grow(3, 48).unwrap();
            let step = pages.extend(&[16], &device).unwrap();
            // The cache doesn't have the pages of the step before it has grown.
            let early = cache.append(rows(0.0, 16), rows(4.0, 16), &step);
            assert_eq!(early.unwrap_err().kind(), ErrorKind::Shape);
            cache.grow(&pages).unwrap();
            assert_eq!(cache.bytes(), 3 * one_page);
            cache.append(rows(0.0, 16), rows(4.0, 16), &step).unwrap();
            // The last of 32 tokens sees 16 ones and 16 fours: 80 / 32. All keys are zero, and these numbers are exact in FP8.
            let out = cache.attend(rows(1.0, 16), &step, &attend).unwrap();
            assert_near(&floats(out.o)[15 * 8..], &[2.5; 8]);
        }
    }
}

#[test]
fn an_engine_generates_what_its_model_finds_likeliest() {
    let sizes = DecoderConfig {
        hidden: 8,
        heads: 1,
        layers: 1,
        sequence: 16,
        experts: 2,
        inter: 8,
        top_k: 1,
    };
    for device in devices() {
        let model = sizes.init(1, &device).unwrap();
        let prompt = vec![72, 105, 33];
        let logits = model.last_logits(&prompt, &device).unwrap();
        let likeliest = (0..logits.len()).max_by(|a, b| logits[*a].total_cmp(&logits[*b]));
        let mut engine = Engine::new(model, EngineOptions::for_one(16), &device).unwrap();
        engine.add(Generation::new(prompt, 1)).unwrap();
        let mut answer = None;
        while !engine.is_idle() {
            for (_, event) in engine.step().unwrap() {
                if let Event::Token(draw) = event {
                    assert_eq!(answer.replace(draw.id as usize), None);
                }
            }
        }
        assert_eq!(answer, likeliest);
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

//! The five MoE layers and their options besides the experts: each does what distinguishes it.

use crate::tensors::{doubles, floats, integers, mask, random};
use burn::module::{Module, Param};
use burn::optim::{AdamConfig, GradientsParams};
use burn::tensor::{DType, Device, Int, Tensor};
use moebius::fp8::Weight;
use moebius::fp8::training::Fp8Recipe;
use moebius::moe::{
    Activation, Adapted, Capacity, CapacityFactors, ExpertKind, ExpertScheduler, FactorsConfig,
    FeedForwardBlock, Follow, GlamConfig, Keep, LossWeights, MoeConfig, MoeLayer, RouteConfig,
    Router, RouterConfig, SharedExpertConfig, SwitchConfig, TopKConfig,
};
use moebius::{Error, ErrorKind, memory_in_use};
use moebius_tests::gradients::{filled, parameters, with_values};
use moebius_tests::refusal::assert_refused;
use moebius_tests::target::Target;
use moebius_tests::tolerance::assert_close;

fn batch(device: &Device, [tokens, hidden]: [usize; 2], bound: f32) -> Tensor<2> {
    random(tokens as u64, [tokens, hidden], bound, device)
}

const ATTENTION: ExpertKind = ExpertKind::Attention {
    heads: 2,
    causal: false,
};

fn made(target: &Target, config: MoeConfig) -> MoeLayer {
    filled(config.init(&target.burn()).unwrap(), 8, 0.5)
}

/// The number of slots beyond `capacity` in all experts together.
fn over(load: &[i64], capacity: i64) -> i64 {
    load.iter().map(|a| (a - capacity).max(0)).sum()
}

pub(crate) fn standard(target: &Target) {
    let config = MoeConfig::standard(16, 24, 8);
    assert_eq!(config.top_k(), 2);
    assert_eq!(config.capacity, Some(Capacity::new(1.25, 4).unwrap()));
    assert_eq!(config.expert_dropout, 0.1);
    let out = made(target, config)
        .forward(batch(&target.burn(), [64, 16], 1.5))
        .unwrap();
    let load = integers(out.routing.load().unwrap());
    // The capacity is ⌈64 · 2 · 1.25 / 8⌉.
    assert_eq!(integers(out.dropped_slots), [over(&load, 20)]);
}

pub(crate) fn sparse(_: &Target) {
    let top_k = |experts, sparsity| MoeConfig::sparse(8, 8, experts, sparsity).top_k();
    let of_8 = [0.0, 0.2, 0.25, 0.9].map(|sparsity| top_k(8, sparsity));
    assert_eq!(of_8, [1, 1, 2, 2]);
    assert_eq!(top_k(1, 1.0), 1);
    let of_16 = |sparsity| RouteConfig::sparse(16, sparsity, 6).top_k;
    assert_eq!([0.26, f64::NAN, 0.9].map(of_16), [4, 1, 6]);
}

pub(crate) fn switch(target: &Target) {
    let config = MoeConfig::switch(16, 24, 8);
    assert_eq!((config.top_k(), config.capacity.unwrap().factor), (1, 1.0));
    // All tokens choose one expert, whose capacity is ⌈48 / 8⌉.
    let layer = made(target, config);
    let mut router = vec![0.0; 8 * 16];
    router[3 * 16] = 1.0;
    let layer = with_values(layer, "router.Switch.weight", &router);
    let x = batch(&target.burn(), [48, 16], 0.5) + 1.0;
    let out = layer.forward(x.clone()).unwrap();
    assert_eq!(integers(out.dropped_slots), [42]);
    let wide = config.with_capacity(Some(Capacity::new(8.0, 4).unwrap()));
    let wide = with_values(made(target, wide), "router.Switch.weight", &router);
    assert_eq!(integers(wide.forward(x).unwrap().dropped_slots), [0]);
}

pub(crate) fn glam(target: &Target) {
    let config = GlamConfig::new(16, 32, 8);
    let blocks = config.init(5, &target.burn()).unwrap();
    let moe = |block: &FeedForwardBlock| matches!(block, FeedForwardBlock::Moe(_));
    let moe: Vec<bool> = blocks.iter().map(moe).collect();
    assert_eq!(moe, [false, true, false, true, false]);
    let dense = MoeConfig::new(16, 32, 1).with_router(RouteConfig::new(1));
    let dense = dense.init(&target.burn()).unwrap();
    let sparse = MoeConfig::glam(16, 32, 8).init(&target.burn()).unwrap();
    let flops = |layer: &MoeLayer| layer.problem(100, DType::F32).unwrap().flops();
    assert_eq!(flops(&sparse), flops(&dense));
    let mut x = batch(&target.burn(), [10, 16], 1.0).reshape([2, 5, 16]);
    for (at, block) in blocks.iter().enumerate() {
        let out = block.forward::<3>(x.clone()).unwrap();
        assert_eq!(out.routing.is_some(), at % 2 == 1);
        assert_eq!(out.dropped_slots.is_some(), at % 2 == 1);
        let nobody = mask(&[false; 8], &target.burn());
        let masked = block.forward_masked::<3>(x.clone(), nobody).unwrap();
        let idle = floats(masked.y).iter().all(|y| *y == 0.0);
        assert_eq!(idle, at % 2 == 1);
        x = x + out.y;
    }
    assert_eq!(x.dims(), [2, 5, 16]);
    // A dense block computes W_out · relu(W_in · x).
    let FeedForwardBlock::Dense(block) = &blocks[0] else {
        panic!("the first block is dense");
    };
    let weight = |w: &Weight<3>| on_host(w.values().unwrap()).squeeze_dim::<2>(0).transpose();
    let x = batch(&target.burn(), [7, 16], 1.0);
    let hidden = on_host(x.clone()).matmul(weight(&block.experts.w_in));
    let hidden = burn::tensor::activation::relu(hidden);
    let want = doubles(hidden.matmul(weight(&block.experts.w_out)));
    assert_close("dense", &floats(block.forward(x).unwrap()), &want, 1e-5);
}

/// Copies a tensor to `flex`, where small products start no threads that would slow later tests.
fn on_host<const D: usize>(tensor: Tensor<D>) -> Tensor<D> {
    Tensor::from_data(tensor.into_data(), &Device::flex())
}

/// A layer in training mode of which autodiff records nothing. Otherwise the next backward pass would release the graphs of
/// hundreds of passes, thousands of tensors at once, over which Burn's fusion takes minutes.
fn unrecorded(layer: MoeLayer) -> MoeLayer {
    layer.train().no_grad()
}

/// Waits for the device, as a training loop does when it reads its loss: XLA compiles everything between two waits into one
/// program.
fn step_ends(device: &Device) {
    device.sync().unwrap();
}

fn factor(layer: &MoeLayer) -> Vec<f32> {
    match &layer.factors {
        Some(CapacityFactors::Variance(factors)) => floats(factors.factors()),
        Some(CapacityFactors::Load(scheduler)) => floats(scheduler.factors()),
        None => Vec::new(),
    }
}

pub(crate) fn adaptive(target: &Target) {
    let config = MoeConfig::adaptive(16, 24, 8).with_expert_dropout(0.0);
    let layer = made(target, config);
    let layer = with_values(layer, "factor", &[1.0]);
    let trained = unrecorded(layer.clone());
    let device = target.burn().autodiff();
    // After one step, the variance is 0.99 · 1 + 0.01 · the batch's variance.
    let x = batch(&device, [512, 16], 3.0);
    let values = floats(x.clone());
    let mean = values.iter().map(|v| f64::from(*v)).sum::<f64>() / values.len() as f64;
    let squares = values.iter().map(|v| (f64::from(*v) - mean).powi(2));
    let variance = squares.sum::<f64>() / values.len() as f64;
    drop(trained.forward(x.clone()).unwrap());
    let want = vec![0.99 + 0.01 * variance; 8];
    assert_close("factor", &factor(&trained), &want, 1e-5);
    // The factor falls with quiet inputs and rises with loud ones, within its bounds, and dispatch follows it.
    let mut dropped = Vec::new();
    for (bound, limit) in [(0.1, 0.5), (20.0, 2.0)] {
        let x = batch(&device, [512, 16], bound);
        for _ in 0..300 {
            drop(trained.forward(x.clone()).unwrap());
            step_ends(&device);
        }
        let now = factor(&trained);
        assert!(now.iter().all(|f| (f - limit).abs() < 1e-5), "{now:?}");
        let eval = trained.valid();
        let out = eval.forward(batch(&target.burn(), [512, 16], 1.0)).unwrap();
        let load = integers(out.routing.load().unwrap());
        let capacity = (1024.0 * limit / 8.0) as i64;
        let got = integers(out.dropped_slots)[0];
        assert_eq!(got, over(&load, capacity), "factor {limit}");
        dropped.push(got);
        // In evaluation mode the factor doesn't change.
        assert_eq!(factor(&eval), now);
    }
    assert!(dropped[0] >= 512 && dropped[1] < dropped[0], "{dropped:?}");
    // A batch that overflowed doesn't change it either.
    let before = factor(&trained);
    drop(trained.forward(x * f64::INFINITY).unwrap());
    assert_eq!(factor(&trained), before);
}

pub(crate) fn scheduler(target: &Target) {
    let device = target.burn();
    let follow = Follow::new(0.5, 0.25, 4.0);
    let scheduler = ExpertScheduler::new(4, follow, 1.25, &device).unwrap();
    assert_eq!(floats(scheduler.factors()), [1.25; 4]);
    let observe = |load: [i32; 4]| {
        let load = Tensor::<1, Int>::from_ints(load, &device);
        scheduler.observe(load).unwrap();
        floats(scheduler.factors())
    };
    // The targets are the relative loads 2, 1, 1, 0 times 1.25; one step goes halfway there from 1.25.
    assert_eq!(observe([20, 10, 10, 0]), [1.875, 1.25, 1.25, 0.625]);
    assert_eq!(observe([0, 10, 10, 20]), [0.9375, 1.25, 1.25, 1.5625]);
    for _ in 0..20 {
        observe([40, 0, 0, 0]);
    }
    let factors = floats(scheduler.factors());
    assert_eq!(factors, [4.0, 0.25, 0.25, 0.25]);
    let short = Tensor::<1, Int>::from_ints([1, 2], &device);
    assert_refused(ErrorKind::Shape, scheduler.observe(short));

    // In a layer, the factors follow the load in training, and dispatch follows the factors.
    let config = MoeConfig::standard(16, 24, 8)
        .with_expert_dropout(0.0)
        .with_factors(Some(FactorsConfig::load()));
    let layer = made(target, config);
    let layer = unrecorded(with_values(layer, "factors", &[1.25; 8]));
    let x = batch(&target.burn().autodiff(), [256, 16], 1.0) + 0.7;
    for _ in 0..80 {
        drop(layer.forward(x.clone()).unwrap());
    }
    let out = layer.valid().forward(x.clone().inner()).unwrap();
    let load = integers(out.routing.load().unwrap());
    let factors = factor(&layer);
    for (load, factor) in load.iter().zip(&factors) {
        let want = (1.25 * *load as f32 / 64.0).clamp(0.25, 4.0);
        assert!((factor - want).abs() < 1e-2, "{factors:?} for {load}");
    }
    let over = |(load, f): (&i64, &f32)| (load - (64.0 * f).ceil() as i64).max(0);
    let dropped: i64 = load.iter().zip(&factors).map(over).sum();
    assert_eq!(integers(out.dropped_slots), [dropped]);
    // The same layer with one factor for all experts drops more.
    let fixed = config.with_factors(None);
    let fixed = made(target, fixed).forward(x.inner()).unwrap();
    let fixed = integers(fixed.dropped_slots)[0];
    assert!(dropped < fixed, "{dropped} dropped, {fixed} by one factor");
}

pub(crate) fn one_source_of_factors(target: &Target) {
    let dynamic = RouterConfig::Dynamic(Default::default());
    let choosing = RouterConfig::ExpertChoice(Default::default());
    let config = MoeConfig::adaptive(16, 24, 8);
    for config in [
        config.with_router(dynamic),
        config
            .with_capacity(None)
            .with_router(choosing)
            .with_factors(Some(FactorsConfig::load())),
        config.with_router(choosing),
    ] {
        assert_refused(ErrorKind::Config, config.init(&target.burn()));
    }
    // With expert choice, the number of tokens per expert can follow the variance: T · 2 · factor / E.
    let layer = made(target, config.with_router(choosing).with_capacity(None));
    let layer = with_values(layer, "factor", &[0.5]);
    let out = layer.forward(batch(&target.burn(), [64, 16], 1.0)).unwrap();
    assert_eq!(integers(out.routing.load().unwrap()), [8; 8]);
}

/// The shared expert's part of y: y of a layer with it minus y without it.
fn shared_part(target: &Target, config: MoeConfig) -> (MoeLayer, Vec<f32>) {
    let x = batch(&target.burn(), [33, 16], 1.0);
    let with = made(target, config);
    let mut without = made(target, config.with_shared(None));
    without.router = with.router.clone();
    without.experts = with.experts.clone();
    let all = with.forward(x.clone()).unwrap().y;
    let part = all - without.forward(x).unwrap().y;
    (with, floats(part))
}

pub(crate) fn shared_expert(target: &Target) {
    let config = MoeConfig::new(16, 24, 8)
        .with_gated(true)
        .with_bias(true)
        .with_activation(Activation::Silu);
    for gate in [false, true] {
        let shared = SharedExpertConfig::new(20).with_sigmoid_gate(gate);
        let (layer, part) = shared_part(target, config.with_shared(Some(shared)));
        let weights = layer.shared.unwrap();
        let experts = &weights.experts;
        let x = batch(&target.burn(), [33, 16], 1.0);
        let linear = |x: Tensor<2>, w: &Weight<3>, b: &Option<Param<Tensor<2>>>| {
            let w = on_host(w.values().unwrap());
            let w = w.squeeze_dim::<2>(0).transpose();
            x.matmul(w) + on_host(b.as_ref().unwrap().val())
        };
        let x = on_host(x);
        let first = linear(x.clone(), &experts.w_in, &experts.b_in);
        let silu = burn::tensor::activation::silu(first.clone().narrow(1, 0, 20));
        let hidden = silu * first.narrow(1, 20, 20);
        let mut want = linear(hidden, &experts.w_out, &experts.b_out);
        if let Some(g) = &weights.gate {
            want = want * burn::tensor::activation::sigmoid(x.matmul(on_host(g.val()).transpose()));
        }
        let want = doubles(want);
        assert_close("shared", &part, &want, 1e-4);
        assert_eq!(weights.gate.is_some(), gate);
    }
}

pub(crate) fn expert_dropout(target: &Target) {
    for (top_k, probability) in [(2, 0.5), (3, 0.999)] {
        let config = MoeConfig::new(16, 8, 8)
            .with_router(RouteConfig::new(top_k))
            .with_expert_dropout(probability);
        let layer = made(target, config);
        let x = batch(&target.burn().autodiff(), [200, 16], 1.5);
        let trained = unrecorded(layer.clone());
        let mut idle = Vec::new();
        for _ in 0..40 {
            let out = trained.forward(x.clone()).unwrap();
            let indices = integers(out.routing.indices.clone());
            assert!(indices.iter().all(|e| *e < 8), "a slot had no expert");
            let load = integers(out.routing.load().unwrap());
            idle.push(load.iter().filter(|a| **a == 0).count());
        }
        let mean = idle.iter().sum::<usize>() as f64 / 40.0;
        if probability < 0.9 {
            // 40 passes with 8 experts make 320 draws with p = 1/2: on average 4 experts are idle, ±0.25.
            assert!((mean - 4.0).abs() < 1.0, "{mean} experts were idle");
        } else {
            assert!((mean - 5.0).abs() < 0.2, "{mean} experts were idle");
        }
        let quiet = layer.forward(x.inner()).unwrap();
        let load = integers(quiet.routing.load().unwrap());
        assert!(load.iter().all(|a| *a > 0), "{load:?}");
    }
    // Masked experts stay out, and at least K others stay in.
    let config = MoeConfig::new(16, 8, 8).with_expert_dropout(0.999);
    let layer = unrecorded(made(target, config));
    let available = [true, true, false, true, false, true, false, false];
    let mask = mask(&available, &target.burn());
    let x = batch(&target.burn().autodiff(), [50, 16], 1.5);
    for _ in 0..10 {
        let out = layer.forward_masked(x.clone(), mask.clone()).unwrap();
        let indices = integers(out.routing.indices);
        let left = |e: &i64| *e < 8 && available[*e as usize];
        assert!(indices.iter().all(left), "{indices:?}");
    }
}

pub(crate) fn a_mask_shares_the_capacity(target: &Target) {
    let config = MoeConfig::new(16, 8, 8).with_capacity(Some(Capacity::new(1.0, 1).unwrap()));
    let layer = made(target, config);
    let available = [true, true, false, true, false, true, true, false];
    let mask = mask(&available, &target.burn());
    let x = batch(&target.burn(), [96, 16], 1.5);
    let out = layer.forward_masked(x.clone(), mask.clone()).unwrap();
    let load = integers(out.routing.load().unwrap());
    // The 8 · 24 slots for 5 experts have a capacity of 24 each, and ⌊3 · 24 / 5⌋ more.
    assert_eq!(integers(out.dropped_slots), [over(&load, 24 + 14)]);
    assert!(load.iter().zip(available).all(|(load, a)| a == (*load > 0)));
    let dropless = made(target, config.with_capacity(None));
    let out = dropless.forward_masked(x, mask).unwrap();
    assert_eq!(integers(out.dropped_slots), [0]);
}

/// Checks that each option has its effect, or is refused where it would have none.
pub(crate) fn options_have_effects(target: &Target) {
    let device = target.burn();
    // Adaptive factors start at the capacity's, and dispatch follows them.
    let config = MoeConfig::adaptive(16, 24, 8).with_expert_dropout(0.0);
    let started = |config: MoeConfig| factor(&config.init(&device).unwrap());
    assert_eq!(started(config), [1.25; 8]);
    assert_eq!(started(config.with_capacity(None)), [1.0; 8]);
    let capacity = |factor| Some(Capacity::new(factor, 4).unwrap());
    let load = config.with_factors(Some(FactorsConfig::load()));
    assert_eq!(started(load.with_capacity(capacity(0.5))), [0.5; 8]);
    let layer = config.with_capacity(capacity(0.75)).init(&device).unwrap();
    let out = layer.forward(batch(&device, [64, 16], 1.5)).unwrap();
    let slots = integers(out.routing.load().unwrap());
    assert_eq!(integers(out.dropped_slots), [over(&slots, 12)]);
    let dynamic = MoeConfig::new(16, 24, 8)
        .with_router(RouterConfig::Dynamic(Default::default()))
        .with_capacity(capacity(1.5));
    let Router::Dynamic(router) = dynamic.init(&device).unwrap().router else {
        panic!("the router is dynamic");
    };
    assert_eq!(floats(router.capacity_factors()), [1.5; 8]);
    // A number of choices turns a router without one into a top-k router.
    for router in [
        RouterConfig::Switch(SwitchConfig::default()),
        RouterConfig::ExpertChoice(Default::default()),
    ] {
        let config = MoeConfig::new(16, 24, 8).with_router(router);
        let three = TopKConfig {
            route: RouteConfig::new(3),
            ..TopKConfig::default()
        };
        let got = config.with_router(RouteConfig::new(3)).router;
        assert_eq!(got, RouterConfig::TopK(three));
    }
    let plain = MoeConfig::new(16, 24, 8);
    let switch = SwitchConfig { jitter: 0.5 };
    let got = plain.with_router(switch).router;
    assert_eq!(got, RouterConfig::Switch(switch));

    let attention = plain.with_kind(ATTENTION);
    let lora = plain.with_kind(ExpertKind::ParameterEfficient {
        form: Adapted::Lora,
        rank: 2,
    });
    let fp8 = plain.with_fp8(Some(Fp8Recipe::current()));
    let choosing = plain.with_router(RouterConfig::ExpertChoice(Default::default()));
    let dropping = |p: f64| plain.with_activation_dropout(p);
    let refused = |what: &str, configs: &[MoeConfig]| {
        for config in configs {
            let error = assert_refused(ErrorKind::Config, config.init(&device));
            assert!(error.starts_with(what), "{error}");
        }
    };
    let limited = [
        config.with_capacity(capacity(2.5)),
        dynamic.with_capacity(capacity(0.25)),
        choosing.with_capacity(capacity(1.0)),
    ];
    refused("capacity", &limited);
    refused("activation", &[attention.with_activation(Activation::Silu)]);
    let attending = attention.with_activation_dropout(0.1);
    let dropped = [attending, dropping(1.0), dropping(-0.1), dropping(f64::NAN)];
    refused("activation_dropout", &dropped);
    let less = [attention, lora, fp8, dropping(0.1)].map(|config| config.with_keep(Keep::Inputs));
    refused("keep", &less);
    // With a shared expert, which they apply to, the same options are accepted.
    let shared = attention.with_shared(Some(SharedExpertConfig::new(8)));
    let shared = shared.with_activation(Activation::Silu);
    assert!(shared.with_keep(Keep::Inputs).init(&device).is_ok());
    assert!(shared.with_activation_dropout(0.1).init(&device).is_ok());
}

/// Checks that keeping less for the backward pass saves the memory of the first product's rows.
pub(crate) fn keeping_less_is_less(target: &Target) {
    // Sizes that make every buffer a multiple of 2 MiB pages, so that the allocator's rounding doesn't show.
    let (tokens, config) = (1024, MoeConfig::new(256, 512, 4).with_gated(true));
    let held = |keep: Keep| {
        let layer = made(target, config.with_keep(keep)).train();
        let device = target.burn().autodiff();
        let x = batch(&device, [tokens, 256], 1.0);
        let bytes = || {
            target.burn().sync().unwrap();
            memory_in_use(&target.burn()).unwrap().unwrap()
        };
        drop(layer.forward(x.clone()).unwrap());
        let before = bytes();
        let out = layer.forward(x).unwrap();
        let held = bytes() - before;
        drop(out);
        held
    };
    let (all, less) = (held(Keep::FirstProduct), held(Keep::Inputs));
    // 2F f32 values for every slot.
    let want = (tokens * 2 * 1024 * 4) as u64;
    assert_eq!(all - less, want, "{all} and {less} bytes");
}

/// Checks that what a training forward keeps affects memory and time, but no bit of the gradients.
pub(crate) fn keep_changes_no_bit(target: &Target) {
    let gradients = |keep: Keep| -> Vec<Vec<f32>> {
        let config = MoeConfig::new(16, 24, 8)
            .with_bias(true)
            .with_gated(true)
            .with_keep(keep);
        let layer = made(target, config).train();
        let x = batch(&target.burn().autodiff(), [40, 16], 1.5).require_grad();
        let out = layer.forward(x.clone()).unwrap();
        let grads = out.y.powi_scalar(2).sum().backward();
        let dx = floats(x.grad(&grads).unwrap());
        let grads = GradientsParams::from_grads(grads, &layer);
        let id = |name: &str| {
            let all = parameters(&layer);
            all.into_iter().find(|p| p.path.ends_with(name)).unwrap().id
        };
        let w_in = floats(grads.get::<3>(id("w_in")).unwrap());
        let b_in = floats(grads.get::<2>(id("b_in")).unwrap());
        let router = floats(grads.get::<2>(id("TopK.weight")).unwrap());
        vec![dx, w_in, b_in, router]
    };
    assert_eq!(gradients(Keep::FirstProduct), gradients(Keep::Inputs));
}

pub(crate) fn learns(target: &Target) {
    let config = MoeConfig::standard(8, 16, 4)
        .with_activation(Activation::Gelu)
        .with_bias(true)
        .with_shared(Some(SharedExpertConfig::new(8).with_sigmoid_gate(true)));
    let device = target.burn().autodiff();
    // The initial weights decide how fast the layer learns, up to a factor of two, so they have a fixed seed.
    device.seed(7);
    let mut layer = config.init(&device).unwrap();
    let mut optimizer = AdamConfig::new().init();
    let x = batch(&device, [64, 8], 1.0);
    // The goal is each token with its elements reversed and squared.
    let goal = x.clone().flip([1]).powi_scalar(2);
    let error = |layer: &MoeLayer| -> Result<(Tensor<1>, Tensor<1>), Error> {
        let out = layer.forward(x.clone())?;
        let balance = out.losses()?.weighted(&LossWeights::default());
        let error = (out.y - goal.clone()).powi_scalar(2).mean();
        Ok((error.clone(), error + balance))
    };
    let (first, _) = error(&layer).unwrap();
    for _ in 0..200 {
        let (_, loss) = error(&layer).unwrap();
        let grads = GradientsParams::from_grads(loss.backward(), &layer);
        layer = optimizer.step(1e-2, layer, grads);
        step_ends(&device);
    }
    let (last, _) = error(&layer).unwrap();
    let (first, last) = (floats(first)[0], floats(last)[0]);
    assert!(last < first / 5.0, "the error went from {first} to {last}");
    // A record holds the whole layer.
    let fresh = config.init(&device).unwrap();
    let loaded = fresh.load_record(layer.clone().into_record());
    let y = |layer: &MoeLayer| floats(layer.valid().forward(x.clone().inner()).unwrap().y);
    assert_eq!(y(&loaded), y(&layer));
}

/// Checks that weights cast to another dtype keep learning, and that running state stays f32.
pub(crate) fn cast_keeps_training(target: &Target) {
    let device = target.burn().autodiff();
    let layer = MoeConfig::adaptive(8, 8, 4).init(&device).unwrap();
    let layer = layer.cast(DType::F16).unwrap().cast(DType::F32).unwrap();
    let out = layer.forward(batch(&device, [9, 8], 1.0)).unwrap();
    let grads = GradientsParams::from_grads(out.y.sum().backward(), &layer);
    assert_eq!(grads.len(), 3);
    if let Some(CapacityFactors::Variance(factors)) = &layer.factors {
        assert_eq!(factors.factor.value_sync().dtype(), DType::F32);
    }
    assert_refused(ErrorKind::Shape, layer.cast(DType::F64));
}

/// Checks that `with_weights` takes exactly what a router matrix and feed-forward experts need.
pub(crate) fn weights_of_other_layers(target: &Target) {
    let device = target.burn();
    let config = MoeConfig::new(8, 6, 4);
    let weights = config.init(&device).unwrap().weights().unwrap();
    for router in [
        RouterConfig::Switch(SwitchConfig::default()),
        RouterConfig::SigmoidBias(Default::default()),
        RouterConfig::ExpertChoice(Default::default()),
    ] {
        let layer = config.with_router(router).with_weights(weights.clone());
        let got = layer.unwrap().weights().unwrap();
        assert_eq!(floats(got.router), floats(weights.router.clone()));
    }
    let biased = RouterConfig::TopK(TopKConfig {
        bias: true,
        ..TopKConfig::default()
    });
    let layer = config.with_router(biased).init(&device).unwrap();
    assert!(layer.weights().is_none(), "the bias would be lost");
    for config in [
        config.with_router(RouterConfig::Hash(Default::default())),
        config.with_router(RouterConfig::Learned(Default::default())),
        config.with_router(biased),
        config.with_kind(ATTENTION),
    ] {
        assert_refused(ErrorKind::Unsupported, config.with_weights(weights.clone()));
    }
}

/// Checks that a replaced field that doesn't fit is an error, instead of a kernel's read past a buffer's end.
pub(crate) fn refuses_wrong_parts(target: &Target) {
    let device = target.burn();
    let config = MoeConfig::new(8, 6, 4);
    let with = |config: MoeConfig| config.init(&device).unwrap();
    let scheduled = config.with_factors(Some(FactorsConfig::load()));
    let balanced = |experts| {
        let config = MoeConfig::new(8, 6, experts);
        with(config.with_router(RouterConfig::SigmoidBias(Default::default())))
    };
    let mut wrong = vec![with(config), with(scheduled), with(scheduled), balanced(4)];
    wrong[0].router = balanced(4).router;
    wrong[1].factors = None;
    wrong[2].factors = with(MoeConfig {
        experts: 3,
        ..scheduled
    })
    .factors;
    let (Router::SigmoidBias(router), Router::SigmoidBias(short)) =
        (&mut wrong[3].router, balanced(3).router)
    else {
        panic!("they balance by a bias");
    };
    router.bias = short.bias;
    let mut attending = with(config);
    attending.experts = with(config.with_kind(ATTENTION)).experts;
    wrong.push(attending);
    for (follow, headroom) in [
        (Follow::new(0.5, 4.0, 0.25), 1.25),
        (Follow::new(f64::NAN, 0.25, 4.0), 1.25),
        (Follow::new(0.5, 0.25, 4.0), f64::NAN),
    ] {
        let scheduler = ExpertScheduler::new(4, follow, headroom, &device);
        assert_refused(ErrorKind::Config, scheduler);
    }
    let (config, shape) = (ErrorKind::Config, ErrorKind::Shape);
    let kinds = [config, config, shape, shape, config];
    assert_eq!(wrong.len(), kinds.len());
    for (layer, kind) in wrong.iter().zip(kinds) {
        assert_refused(kind, layer.forward(batch(&device, [5, 8], 1.0)));
    }
}

/// Checks that a configuration survives JSON, and that missing fields have their defaults.
pub(crate) fn configurations_are_data(_: &Target) {
    let routers = [
        RouterConfig::default(),
        RouterConfig::Switch(SwitchConfig::default()),
        RouterConfig::Hash(Default::default()),
        RouterConfig::Learned(Default::default()),
        RouterConfig::Dynamic(Default::default()),
        RouterConfig::SigmoidBias(Default::default()),
        RouterConfig::ExpertChoice(Default::default()),
    ];
    for router in routers {
        let config = MoeConfig::standard(8, 6, 4)
            .with_router(router)
            .with_kind(ExpertKind::lora())
            .with_factors(Some(FactorsConfig::load()))
            .with_activation_dropout(0.1)
            .with_shared(Some(SharedExpertConfig::new(3)));
        let json = serde_json::to_string(&config).unwrap();
        assert_eq!(serde_json::from_str::<MoeConfig>(&json).unwrap(), config);
    }
    let short = r#"{"hidden": 8, "inter": 6, "experts": 4, "activation": "relu",
        "router": {"kind": "hash", "seed": 3}}"#;
    let want = MoeConfig::new(8, 6, 4).with_router(RouterConfig::Hash(moebius::moe::HashConfig {
        seed: 3,
        ..Default::default()
    }));
    assert_eq!(serde_json::from_str::<MoeConfig>(short).unwrap(), want);
    let learned = moebius::moe::LearnedConfig::default();
    assert_eq!((learned.width, learned.layers), (512, 2));
    let unknown = short.replace("seed", "salt");
    assert!(serde_json::from_str::<MoeConfig>(&unknown).is_err());
}

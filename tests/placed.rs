//! A model that XLA divides among devices of its CPU plugin computes what the same model computes on one device.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

use burn::module::Module;
use burn::optim::GradientsParams;
use burn::tensor::{DType, Device, Tensor, TensorData};
use moebius::fp8::{Fp8Format, Granularity, Quantizer};
use moebius::moe::{
    Activation, Capacity, ExpertKind, Experts, MoeConfig, MoeLayer, MoeOutput, RouterConfig,
    SharedExpertConfig, SwitchConfig,
};
use moebius::{ErrorKind, Placement};
use moebius_model::{DecoderConfig, Text, TrainConfig, Trainer};
use moebius_ops::Element;
use moebius_pjrt::{
    Client, CompileOptions, Environment, LoadedExecutable, Platform, Plugin, Value,
};
use moebius_tests::data::Rng;
use moebius_tests::elements::{exact, floats};
use moebius_tests::gradients::{filled, trained_gradients};
use moebius_tests::refusal::assert_refused;
use moebius_tests::tolerance::{CURVE, assert_close, assert_gradient, rel_l2};
use moebius_xla::Placed;
use moebius_xla::stablehlo::{Mesh, Program};
use std::sync::{Mutex, MutexGuard, PoisonError};

const HIDDEN: usize = 16;
const TOKENS: usize = 48;

/// Places of experts and of data: experts alone, both, and data alone are divided.
const PLACEMENTS: [[usize; 2]; 3] = [[4, 1], [2, 2], [1, 4]];

fn one() -> Device {
    moebius::open(&"xla:cpu".parse().unwrap()).unwrap()
}

fn placed([experts, data]: [usize; 2]) -> Device {
    let placement = Placement::new(experts, data).unwrap();
    moebius::open_placed(&"xla:cpu".parse().unwrap(), placement).unwrap()
}

/// Lets one test run at a time that lists a device's programs.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
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

fn layer(config: MoeConfig, device: &Device) -> MoeLayer {
    filled(config.init(device).unwrap(), 3, 0.5)
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

/// What a forward gives on the host: y, the slots' experts, and the number of slots without one.
fn found(out: MoeOutput<3>) -> (Vec<f32>, Vec<i64>, i64) {
    let chosen = out.routing.indices.into_data().iter().collect();
    let dropped = out.dropped_slots.into_data().iter().next().unwrap();
    (floats(out.y), chosen, dropped)
}

/// Compares the forward of a layer over several devices with its forward on one; returns the number of dropped slots.
fn compare(config: MoeConfig, of: impl Fn(MoeLayer) -> MoeLayer, dtype: DType) -> i64 {
    let forward = |device: &Device| {
        let layer = of(layer(config, device).cast(dtype).unwrap());
        let x = batch(5, device).cast(dtype);
        found(layer.forward(x).unwrap())
    };
    let tolerance = rel_l2(match dtype {
        DType::BF16 => Element::Bf16,
        _ => Element::F32,
    });
    let (y, chosen, dropped) = forward(&one());
    for placement in PLACEMENTS {
        let what = format!("{placement:?} of {config:?}");
        let got = forward(&placed(placement));
        assert_eq!((&got.1, got.2), (&chosen, dropped), "{what}");
        assert_close(&what, &got.0, &exact(&y), tolerance);
    }
    dropped
}

fn same(layer: MoeLayer) -> MoeLayer {
    layer
}

#[test]
fn layers_compute_what_one_device_does() {
    assert!(compare(capped(), same, DType::F32) > 20);
    compare(capped(), same, DType::BF16);
    let switch = RouterConfig::Switch(SwitchConfig::default());
    let switch = capped().with_router(switch).with_bias(false);
    assert!(compare(switch, same, DType::F32) > 10);
    let shared = config().with_shared(Some(SharedExpertConfig::new(8)));
    assert_eq!(compare(shared, same, DType::F32), 0);
}

/// These experts are products per expert, with rows in between.
#[test]
fn experts_of_other_kinds_do_too() {
    for kind in [
        ExpertKind::Convolutional { causal: true },
        ExpertKind::Attention {
            heads: 2,
            causal: true,
        },
    ] {
        let config = MoeConfig::new(HIDDEN, 24, 8).with_kind(kind);
        compare(config, same, DType::F32);
    }
}

#[test]
fn codes_of_fp8_do_too() {
    let quantized = |mut layer: MoeLayer| {
        let Experts::FeedForward(experts) = &mut layer.experts else {
            panic!("another layer");
        };
        for granularity in [Granularity::Row, Granularity::Mx] {
            let quantizer = Quantizer::new(Fp8Format::E4M3, granularity);
            let weight = match granularity {
                Granularity::Row => &mut experts.w_in,
                _ => &mut experts.w_out,
            };
            *weight = weight.quantize(&quantizer).unwrap().0;
        }
        layer
    };
    compare(config(), quantized, DType::F32);
}

/// The gradients of all parameters by their paths, and of x.
fn backward(config: MoeConfig, device: &Device) -> Vec<(String, Vec<f32>)> {
    let device = device.clone().autodiff();
    let layer = layer(config, &device);
    let x = batch(5, &device).require_grad();
    let y = layer.forward(x.clone()).unwrap().y;
    let found = (y * batch(6, &device)).sum().backward();
    let of_x = floats(x.grad(&found).unwrap());
    let found = GradientsParams::from_grads(found, &layer);
    let found = trained_gradients(&layer, &found).into_iter();
    let found = found.filter_map(|parameter| Some((parameter.path, parameter.gradient?)));
    found.chain([("x".to_owned(), of_x)]).collect()
}

#[test]
fn gradients_are_those_of_one_device() {
    for config in [config(), capped().with_bias(false)] {
        let want = backward(config, &one());
        assert!(want.len() >= 4, "{}", want.len());
        for placement in PLACEMENTS {
            let got = backward(config, &placed(placement));
            assert_eq!(got.len(), want.len());
            for ((path, got), (other, want)) in got.iter().zip(&want) {
                assert_eq!(path, other);
                let what = format!("{path}, {placement:?}");
                assert_gradient(&what, got, &exact(want), Element::F32);
            }
        }
    }
}

/// A decoder of two layers with eight experts, and steps of four sequences.
fn trainer(device: &Device) -> Trainer {
    let sizes = DecoderConfig {
        hidden: 32,
        heads: 2,
        layers: 2,
        sequence: 16,
        experts: 8,
        inter: 48,
        top_k: 2,
    };
    let config = TrainConfig {
        batch: 4,
        sequence: 16,
        steps: 8,
        warm_up: 2,
        learning_rate: 0.02,
        seed: 2,
        ..TrainConfig::default()
    };
    Trainer::new(config, sizes, Text::bundled().ids(), device).unwrap()
}

fn losses(device: &Device) -> Vec<f32> {
    let mut trainer = trainer(device);
    for _ in 0..8 {
        trainer.step().unwrap();
    }
    trainer.report().unwrap().losses
}

#[test]
fn a_decoder_learns_as_on_one_device() {
    let _alone = alone();
    let want = losses(&one());
    assert!(want[7] < want[0], "{want:?}");
    for placement in [[4, 1], [2, 2]] {
        let got = losses(&placed(placement));
        let pairs = got.iter().zip(&want);
        let distance = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(distance <= CURVE, "{placement:?}: {got:?} and {want:?}");
    }
}

/// The devices of four places of experts, as `moebius::open_placed` opens them.
fn four() -> Placed {
    moebius_xla::place(Platform::Cpu, 0, Mesh::new(4, 1).unwrap()).unwrap()
}

/// A program compiled again, for devices of another client.
fn compiled(program: &Program) -> LoadedExecutable {
    let plugin = Plugin::open(Platform::Cpu, &Environment::from_process()).unwrap();
    let client = Client::new(plugin, &[("cpu_device_count", Value::Int(4))]).unwrap();
    let options = CompileOptions::new(1, 4).unwrap().with_shardy();
    let inputs = program.inputs.clone();
    client.compile(&program.text, &options, inputs).unwrap()
}

/// In a training step the weights of experts and what the optimizer keeps for them stay where their experts are: the step
/// takes and gives a quarter of each, and gathers none.
#[test]
fn a_training_step_leaves_experts_where_they_are() {
    let _alone = alone();
    let device = placed([4, 1]);
    assert_eq!(&device, four().device());
    let mut trainer = trainer(&device);
    for _ in 0..4 {
        trainer.step().unwrap();
    }
    trainer.report().unwrap();
    let programs = four().programs();
    let step = programs.iter().max_by_key(|program| program.text.len());
    let step = step.unwrap();
    let head = step.text.split_once("func.func public @main").unwrap().1;
    let head = head.split_once(" {\n").unwrap().0;
    // The first products are gated: [8, 96, 32] and [8, 32, 48] in each layer.
    for stack in ["8x96x32xf32", "8x32x48xf32"] {
        let of = |first: &str| {
            let written = format!(
                "tensor<{stack}> {{sdy.sharding = #sdy.sharding<@mesh, [{first}, {{}}, {{}}]>"
            );
            head.matches(&written).count()
        };
        assert_eq!(of("{}"), 0, "{stack}: {head}");
        // A weight and two moments of each layer, taken and given.
        assert!(of("{\"experts\"}") >= 12, "{stack}: {head}");
    }
    let executable = compiled(step);
    let executable = executable.executable();
    let bytes: usize = step.inputs.iter().map(|ty| ty.bytes()).sum();
    assert_eq!(executable.memory().unwrap().arguments, bytes as u64);
    let optimized = executable.optimized().unwrap();
    let has = |name: &[u8]| optimized.code.windows(name.len()).any(|at| at == name);
    assert!(has(b"all-reduce") && !has(b"all-gather"));
}

#[test]
fn weights_come_back_whole() {
    let layer = layer(config(), &placed([2, 2]));
    let (want, ..) = found(layer.forward(batch(5, &placed([2, 2]))).unwrap());
    let flex = moebius::open(&moebius::Device::Flex).unwrap();
    let (got, ..) = found(layer.fork(&flex).forward(batch(5, &flex)).unwrap());
    assert_close("y", &got, &exact(&want), rel_l2(Element::F32));
}

/// Each of several devices has what isn't divided, so that a model takes more of them than an estimate for one says.
#[test]
fn one_device_of_the_processor_tells_what_is_free_of_main_memory() {
    let told = |device: &Device| moebius::memory(device).unwrap().free;
    for device in [one(), one().autodiff()] {
        let free = told(&device).unwrap();
        assert!((1 << 20..1 << 50).contains(&free), "{free} bytes are free");
    }
    assert_eq!(told(&placed([2, 1])), None);
}

#[test]
fn what_cannot_be_placed_is_named() {
    let device = placed([4, 1]);
    let six = MoeConfig::new(HIDDEN, 24, 6).init(&device).unwrap();
    let expected = "experts: expected a multiple of the 4 places of experts, got 6";
    let forward = six.forward(batch(5, &device));
    assert_eq!(assert_refused(ErrorKind::Config, forward), expected);
    assert!(moebius::check_experts(&one(), 6).is_ok());
    let open = |name: &str, placement: [usize; 2]| {
        let [experts, data] = placement;
        let placement = Placement::new(experts, data).unwrap();
        moebius::open_placed(&name.parse().unwrap(), placement)
    };
    let error = assert_refused(ErrorKind::Unsupported, open("flex", [2, 1]));
    assert!(error.contains("a device of XLA"), "{error}");
    // The plugin of the processor has at most 4096 devices.
    let error = assert_refused(ErrorKind::Open, open("xla:cpu", [64, 128]));
    assert!(error.contains("cpu_device_count"), "{error}");
    // No program can be compiled for so many.
    let error = assert_refused(ErrorKind::Config, open("xla:cpu", [1000, 1000]));
    assert!(error.contains("at most 65536"), "{error}");
    // One device is any device.
    assert!(open("flex", [1, 1]).is_ok());
}

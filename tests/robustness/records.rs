//! Files of earlier versions, in `tests/checkpoints`, still load, also on devices that didn't write them.

use burn::module::Module;
use burn::store::ModuleRecord;
use burn::tensor::{Device, Tensor, TensorData};
use moebius::fp8::training::Fp8Recipe;
use moebius::fp8::{ActivationScaling, Fp8Format, Fp8Tensor, Granularity, Quantizer};
use moebius::moe::{
    Adapted, ExpertKind, FactorsConfig, LearnedConfig, MoeConfig, MoeLayer, RouterConfig,
    SharedExpertConfig,
};
use moebius::nn::{Linear, LinearConfig};
use moebius_model::{Checkpoint, DecoderConfig, Precision, Text, TrainConfig, Trainer};
use moebius_ops::Element;
use moebius_tests::data::Rng;
use moebius_tests::gradients::{filled, with_values};
use moebius_tests::target::Target;
use moebius_tests::tolerance::{CURVE, CURVE_FP8, assert_close, rel_l2};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Numbers of steps before and after the checkpoint.
const STEPS: [usize; 2] = [3, 4];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("checkpoints")
}

/// The smallest sizes that a decoder can have.
const SIZES: DecoderConfig = DecoderConfig {
    hidden: 8,
    heads: 1,
    layers: 1,
    sequence: 8,
    experts: 2,
    inter: 8,
    top_k: 1,
};

fn trainings() -> [(&'static str, TrainConfig, f32); 2] {
    let config = TrainConfig {
        batch: 2,
        sequence: 8,
        steps: STEPS[0] + STEPS[1],
        warm_up: 2,
        learning_rate: 0.02,
        seed: 3,
        ..TrainConfig::default()
    };
    let fp8 = config.with_precision(Precision::Fp8(Fp8Recipe::delayed()));
    [("f32", config, CURVE), ("fp8", fp8, CURVE_FP8)]
}

fn losses(trainer: &mut Trainer, steps: usize) -> Vec<f32> {
    for _ in 0..steps {
        trainer.step().unwrap();
    }
    trainer.report().unwrap().losses
}

/// Checks that a training resumed from a committed checkpoint continues like the one that wrote it.
pub(crate) fn trainings_resume(target: &Target) {
    for (name, config, tolerance) in trainings() {
        let checkpoint = Checkpoint::read(&folder().join(name)).unwrap();
        checkpoint.check_config(&config).unwrap();
        assert_eq!(checkpoint.sizes(), Some(SIZES));
        assert_eq!(checkpoint.step(), STEPS[0]);
        let want = &read_numbers("losses.json")[name];
        let ids = Text::bundled().ids();
        let mut trainer = Trainer::resume(checkpoint, SIZES, ids, &target.burn()).unwrap();
        let got = losses(&mut trainer, STEPS[1]);
        assert_eq!(got.len(), want.len());
        let distances = got.iter().zip(want).map(|(got, want)| (got - want).abs());
        let distance = distances.fold(0.0, f32::max);
        assert!(distance <= tolerance, "{name}: {got:?} instead of {want:?}");
        assert!(trainer.first_loss().is_some());
    }
}

/// A layer whose record can be saved and loaded.
trait Layer: Module {
    fn run(&self, x: Tensor<2>) -> Tensor<2>;
}

impl Layer for MoeLayer {
    fn run(&self, x: Tensor<2>) -> Tensor<2> {
        self.forward(x).unwrap().y
    }
}

impl Layer for Linear {
    fn run(&self, x: Tensor<2>) -> Tensor<2> {
        self.forward(x).unwrap()
    }
}

/// An operation on every kind of layer.
trait Each {
    /// Handles one kind of layer; `layer` makes one from a seed, and different seeds give different weights.
    fn layer<L: Layer>(&mut self, name: &str, layer: impl Fn(u64) -> L);
}

fn each_layer(device: &Device, each: &mut impl Each) {
    let plain = MoeConfig::new(8, 12, 3);
    let moe = plain.with_gated(true).with_bias(true);
    let learned = LearnedConfig {
        width: 10,
        ..LearnedConfig::default()
    };
    let shared = SharedExpertConfig::new(5).with_sigmoid_gate(true);
    let attention = ExpertKind::Attention {
        heads: 2,
        causal: true,
    };
    let lora = ExpertKind::ParameterEfficient {
        form: Adapted::Lora,
        rank: 2,
    };
    let convolution = ExpertKind::Convolutional { causal: true };
    let hash = RouterConfig::Hash(Default::default());
    let dynamic = RouterConfig::Dynamic(Default::default());
    let sigmoid_bias = RouterConfig::SigmoidBias(Default::default());
    let configs = [
        ("top_k", moe.with_shared(Some(shared))),
        ("hash", moe.with_router(hash)),
        ("learned", moe.with_router(RouterConfig::Learned(learned))),
        ("dynamic", moe.with_router(dynamic)),
        ("sigmoid_bias", moe.with_router(sigmoid_bias)),
        ("attention", plain.with_kind(attention)),
        ("convolution", plain.with_kind(convolution)),
        ("lora", plain.with_kind(lora)),
        ("factors", moe.with_factors(Some(FactorsConfig::variance()))),
    ];
    for (name, config) in configs {
        each.layer(name, |seed| filled(config.init(device).unwrap(), seed, 0.5));
    }
    let recipe = Fp8Recipe::delayed();
    let moe = MoeConfig::new(8, 12, 3).with_fp8(Some(recipe));
    each.layer("experts_fp8", |seed| {
        scaled(moe.init(device).unwrap(), seed)
    });
    let linear = LinearConfig::new(8, 8).with_fp8(Some(recipe));
    each.layer("linear_training", |seed| {
        scaled(linear.init(device).unwrap(), seed)
    });
    let block = Granularity::Block {
        rows: 16,
        columns: 16,
    };
    let scales = [
        ("linear_row", Granularity::Row),
        ("linear_block", block),
        ("linear_mx", Granularity::Mx),
    ];
    for (name, granularity) in scales {
        each.layer(name, |seed| fp8_linear(granularity, seed, device));
    }
}

/// Fills a layer with random numbers, and its scales with positive ones.
fn scaled<L: Layer>(layer: L, seed: u64) -> L {
    let layer = filled(layer, seed, 0.5);
    with_values(layer, "scales", &[0.01 * seed as f32; 3])
}

fn fp8_linear(granularity: Granularity, seed: u64, device: &Device) -> Linear {
    let mut rng = Rng::new(seed);
    let mut tensor = |rows: usize| {
        let data = TensorData::new(rng.vec(rows * 8, 0.5), [rows, 8]);
        Tensor::<2>::from_data(data, device)
    };
    let quantizer = Quantizer::new(Fp8Format::E4M3, granularity);
    let weight = Fp8Tensor::quantize(tensor(40), &quantizer).unwrap();
    let bias = tensor(5).reshape([40]);
    let scaling = ActivationScaling::fixed(0.01 * seed as f32, device).unwrap();
    let linear = Linear::from_fp8(weight, Some(bias)).unwrap();
    linear.with_activations(scaling).unwrap()
}

/// A batch that suits every layer.
fn batch(device: &Device) -> Tensor<2> {
    let data = TensorData::new(Rng::new(11).vec(5 * 8, 1.0), [5, 8]);
    Tensor::from_data(data, device)
}

fn numbers(tensor: Tensor<2>) -> Vec<f32> {
    tensor.try_into_vec_as().unwrap()
}

fn record_path(name: &str) -> PathBuf {
    folder().join("layers").join(name).with_extension("bpk")
}

/// Checks that a committed record loads into a new layer, which then gives the recorded output.
pub(crate) fn layers_load(target: &Target) {
    struct Load(Device, BTreeMap<String, Vec<f32>>);
    impl Each for Load {
        fn layer<L: Layer>(&mut self, name: &str, layer: impl Fn(u64) -> L) {
            let bytes = fs::read(record_path(name)).unwrap();
            let record = ModuleRecord::from_bytes(burn::tensor::Bytes::from_bytes_vec(bytes));
            let fresh = layer(2);
            let before = numbers(fresh.run(batch(&self.0)));
            let loaded = fresh.try_load_record(record.unwrap()).unwrap();
            let got = numbers(loaded.run(batch(&self.0)));
            assert!(got != before, "{name}: the record changed nothing");
            let want: Vec<f64> = self.1[name].iter().map(|value| f64::from(*value)).collect();
            assert_close(name, &got, &want, rel_l2(Element::F32));
        }
    }
    let outputs = read_numbers("layers/outputs.json");
    each_layer(&target.burn(), &mut Load(target.burn(), outputs));
}

fn read_numbers(name: &str) -> BTreeMap<String, Vec<f32>> {
    serde_json::from_slice(&fs::read(folder().join(name)).unwrap()).unwrap()
}

fn write_numbers(name: &str, numbers: &BTreeMap<String, Vec<f32>>) {
    let text = serde_json::to_string_pretty(numbers).unwrap();
    fs::write(folder().join(name), text + "\n").unwrap();
}

/// Makes the records that don't exist; existing ones were made by an earlier version and stay.
pub(crate) fn make(_: &[String]) {
    struct Make(Device, BTreeMap<String, Vec<f32>>);
    impl Each for Make {
        fn layer<L: Layer>(&mut self, name: &str, layer: impl Fn(u64) -> L) {
            if self.1.contains_key(name) {
                return;
            }
            let layer = layer(1);
            let output = numbers(layer.run(batch(&self.0)));
            self.1.insert(name.into(), output);
            let bytes = layer.into_record().into_bytes().unwrap();
            fs::write(record_path(name), &bytes[..]).unwrap();
        }
    }
    let device = moebius::open(&moebius::Device::Flex).unwrap();
    fs::create_dir_all(folder().join("layers")).unwrap();
    let known = |name: &str| {
        if folder().join(name).exists() {
            read_numbers(name)
        } else {
            BTreeMap::new()
        }
    };
    let mut layers = Make(device.clone(), known("layers/outputs.json"));
    each_layer(&device, &mut layers);
    write_numbers("layers/outputs.json", &layers.1);
    let mut curves = known("losses.json");
    for (name, config, _) in trainings() {
        if curves.contains_key(name) {
            continue;
        }
        let mut trainer = Trainer::new(config, SIZES, Text::bundled().ids(), &device).unwrap();
        losses(&mut trainer, STEPS[0]);
        let checkpoint = trainer.checkpoint().unwrap();
        checkpoint.write(&folder().join(name)).unwrap();
        curves.insert(name.into(), losses(&mut trainer, STEPS[1]));
    }
    write_numbers("losses.json", &curves);
}

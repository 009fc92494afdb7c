//! The number of threads of a processor's backend changes no bit of the results.

use crate::process::{command, command_under, output};
use crate::threads::passes;
use burn::tensor::{Device, Tensor, TensorData};
use moebius::fp8::{Fp8Format, Fp8Tensor, Granularity, Quantizer};
use moebius::moe::{ExpertKind, MoeConfig, SharedExpertConfig};
use moebius::nn::Linear;
use moebius_model::{DecoderConfig, Text, TrainConfig, Trainer};
use moebius_tests::data::Rng;
use moebius_tests::gradients::{filled, parameters};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Compares one thread with two, set by rayon's environment variable.
pub(crate) fn flex() {
    let run = |threads: &str| {
        let mut command = command("bits", &["flex"]);
        command.env("RAYON_NUM_THREADS", threads);
        output(command)
    };
    compare(&run("1"), &run("2"));
}

/// Compares one thread with two: CubeCL's CPU runtime starts as many threads as the process may use processors.
pub(crate) fn cpu() {
    let mine = processors();
    assert!(mine.len() >= 2, "expected two processors, got {mine:?}");
    let run = |count: usize| {
        let list = mine[..count].join(",");
        output(command_under(&["taskset", "-c", &list], "bits", &["cpu"]))
    };
    compare(&run(1), &run(2));
}

/// The numbers of the processors that this process may use.
fn processors() -> Vec<String> {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let mut lines = status.lines();
    let list = lines.find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let ranges = list.unwrap().trim().split(',').flat_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        first.parse::<usize>().unwrap()..=last.parse().unwrap()
    });
    ranges.map(|processor| processor.to_string()).collect()
}

fn compare(one: &str, two: &str) {
    let (mut one, mut two) = (one.lines(), two.lines());
    assert_eq!(one.next(), Some("1 workers"));
    assert_eq!(two.next(), Some("2 workers"));
    let (one, two): (Vec<_>, Vec<_>) = (one.collect(), two.collect());
    assert!(!one.is_empty());
    assert_eq!(one, two, "with one worker and with two");
}

/// Prints the number of computing threads, then a hash of each result.
pub(crate) fn print_bits(arguments: &[String]) {
    let name: moebius::Device = arguments[0].parse().unwrap();
    let device = moebius::open(&name).unwrap();
    let workers = match name {
        moebius::Device::Flex => rayon::current_num_threads(),
        _ => std::thread::available_parallelism().unwrap().get(),
    };
    println!("{workers} workers");
    let say = |what: &str, values: &[u32]| {
        let mut hasher = DefaultHasher::new();
        values.hash(&mut hasher);
        println!("{what} {:016x}", hasher.finish());
    };
    // Enough tokens for a backend to distribute them over threads.
    let config = MoeConfig::new(192, 320, 4);
    let (heads, causal) = (4, true);
    let attention = ExpertKind::Attention { heads, causal };
    let shared = Some(SharedExpertConfig::new(100));
    let layers = [
        ("gated", config.with_gated(true).with_shared(shared)),
        ("attention", config.with_kind(attention)),
    ];
    for (what, config) in layers {
        let layer = config.init(&device.clone().autodiff()).unwrap();
        say(what, &passes(&filled(layer, 3, 0.1), 80, 1));
    }
    say("fp8 linear", &fp8_linear(&device));
    say("training", &training(&device));
}

fn fp8_linear(device: &Device) -> Vec<u32> {
    let mut rng = Rng::new(5);
    let mut tensor = |shape: [usize; 2]| {
        let values = rng.vec(shape.iter().product(), 1.0);
        Tensor::<2>::from_data(TensorData::new(values, shape), device)
    };
    let mut found = Vec::new();
    for granularity in [Granularity::Row, Granularity::Mx] {
        let quantizer = Quantizer::new(Fp8Format::E4M3, granularity);
        let weight = Fp8Tensor::quantize(tensor([700, 513]), &quantizer).unwrap();
        let linear = Linear::from_fp8(weight, None).unwrap();
        for rows in [1, 5, 300] {
            let y = linear.forward(tensor([rows, 513])).unwrap();
            found.extend(y.try_into_vec_as::<f32>().unwrap());
        }
    }
    found.into_iter().map(f32::to_bits).collect()
}

/// The bits of losses and weights after some training steps.
fn training(device: &Device) -> Vec<u32> {
    let config = TrainConfig {
        batch: 4,
        sequence: 32,
        ..TrainConfig::default()
    };
    let sizes = DecoderConfig {
        sequence: 32,
        ..DecoderConfig::default()
    };
    let mut trainer = Trainer::new(config, sizes, Text::bundled().ids(), device).unwrap();
    for _ in 0..3 {
        trainer.step().unwrap();
    }
    let mut found = trainer.report().unwrap().losses;
    for parameter in parameters(trainer.model()) {
        found.extend(parameter.values);
    }
    found.into_iter().map(f32::to_bits).collect()
}

//! Estimates of memory, from a model's description alone, against what a process takes on Flex, whose tensors its own allocator counts.
//!
//! Each figure is measured by a child process of this program, since Flex keeps memory from one call to the next.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;
use std::process::Command;

use burn::tensor::{DType, Device};
use libtest_mimic::{Arguments, Failed, Trial};
use moebius::attention::{CacheFormat, Pages};
use moebius::fp8::training::MomentStore;
use moebius::moe::{Activation, MoeConfig};
use moebius_model::decoder::{Cache, CacheMemory, Drawn, FeedForwardSpec, Model, ModelSpec};
use moebius_model::families::describe_all;
use moebius_model::load::{LoadOptions, ModelFiles};
use moebius_model::{
    AdapterConfig, DecoderConfig, Precision, Savings, TrainConfig, TrainMemory, Trainer,
};
use peak_alloc::PeakAlloc;
use serde_json::Value;

#[global_allocator]
static ALLOCATED: PeakAlloc = PeakAlloc;

/// The environment variable with a child's figure.
const ROLE: &str = "MOEBIUS_TEST_ROLE";

const MODELS: [&str; 3] = ["bundled", "mixture", "dense"];

/// Models of tiny families, made wider, with their cases: of latent attention, convolutions, a shared expert with a gate, and sinks.
const FAMILIES: [(&str, &str); 4] = [
    ("latent", "deepseek_v3"),
    ("convolutions", "lfm2"),
    ("shared", "qwen2_moe"),
    ("sinks", "gpt_oss"),
];

/// How many times as wide as its case a model of a family is, so that the buffers of the host's threads are little beside the rest.
const WIDER: u64 = 6;

/// Keys of a configuration that are widths.
const WIDTHS: [&str; 11] = [
    "hidden_size",
    "intermediate_size",
    "moe_intermediate_size",
    "shared_expert_intermediate_size",
    "head_dim",
    "q_lora_rank",
    "kv_lora_rank",
    "qk_head_dim",
    "qk_nope_head_dim",
    "qk_rope_head_dim",
    "v_head_dim",
];

/// The tokens of a forward pass.
const TOKENS: usize = 32;

/// The new tokens of a step over a cache, one page of it.
const NEW: usize = 16;

/// The pages of that cache: those of two steps.
const PAGES: usize = 2;

/// How far an estimate may be from what was measured.
const WITHIN: f64 = 0.1;

/// Bytes of the buffers in which the host's threads pack products. No estimate counts them, since they don't grow with a model.
const OF_THREADS: u64 = 2 << 20;

fn bundled() -> ModelFiles {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../runtime/shipped");
    ModelFiles::open(&folder).unwrap()
}

/// The model of a family's case, [`WIDER`] times as wide.
fn widened(case: &str) -> ModelSpec {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases");
    let path = folder.join(format!("decoder_{case}/config.json"));
    let mut config: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    for width in WIDTHS {
        if let Some(narrow) = config[width].as_u64() {
            config[width] = Value::from(WIDER * narrow);
        }
    }
    describe_all(&config).unwrap().spec
}

/// The bundled model, a small mixture of experts, a small model with one network in each layer, or a wide one of a family.
fn spec(model: &str) -> ModelSpec {
    if model == "bundled" {
        return bundled().spec().clone();
    }
    if let Some((_, case)) = FAMILIES.iter().find(|(name, _)| *name == model) {
        return widened(case);
    }
    let sizes = DecoderConfig {
        layers: 4,
        ..DecoderConfig::default()
    };
    if model == "mixture" {
        return sizes.spec();
    }
    // So wide that the buffers of the host's threads, which no estimate counts, are little beside the rest.
    let sizes = sizes.with_hidden(256);
    let mut spec = sizes.spec();
    for layer in &mut spec.layers {
        let network = MoeConfig::new(sizes.hidden, 4 * sizes.hidden, 1);
        let network = network.with_activation(Activation::Silu).with_gated(true);
        layer.feed_forward = FeedForwardSpec::Dense(network);
    }
    spec
}

/// Numbers below the vocabulary's size.
fn ids(spec: &ModelSpec, count: usize) -> Vec<u32> {
    let of = |at: usize| (at * 7919 % spec.vocabulary) as u32;
    (0..count).map(of).collect()
}

fn config([batch, accumulate]: [usize; 2]) -> TrainConfig {
    TrainConfig {
        batch,
        accumulate,
        sequence: 64,
        ..TrainConfig::default()
    }
}

fn in_bf16() -> TrainConfig {
    config([8, 1]).with_precision(Precision::Bf16)
}

/// What is measured of a model.
#[derive(Clone, Copy)]
enum Work {
    Forward,
    /// A forward pass of the bundled model, loaded by these options.
    Loaded(LoadOptions),
    /// A step over a cache.
    Step,
    /// A training with so many sequences in a batch, and so many batches in a step.
    Training(Savings, [usize; 2]),
    /// A training with products in bf16, of 8 sequences.
    TrainingInBf16,
    /// A training of an adapter of the bundled model.
    Adapter,
}

/// The works, each with its name and its model.
fn works() -> Vec<(String, &'static str, Work)> {
    let mut works = Vec::new();
    let mut add =
        |what: &str, model, work| works.push((format!("{what}::of_{model}"), model, work));
    let plain = Savings::default();
    let recomputes = Savings {
        recomputes: true,
        ..plain
    };
    let offloads = Savings {
        offloads: true,
        ..plain
    };
    for model in MODELS {
        add("forward", model, Work::Forward);
        add("step_over_a_cache", model, Work::Step);
        let of = |savings| Work::Training(savings, [8, 1]);
        add("training", model, of(plain));
        add("training_with_layers_again", model, of(recomputes));
        add("training_with_moments_in_a_file", model, of(offloads));
    }
    for (model, _) in FAMILIES {
        add("forward", model, Work::Forward);
        add("step_over_a_cache", model, Work::Step);
        add("training", model, Work::Training(plain, [4, 1]));
    }
    let batches = Work::Training(plain, [8, 2]);
    add("training_of_two_batches", "mixture", batches);
    for model in ["mixture", "dense"] {
        add("training_in_bf16", model, Work::TrainingInBf16);
    }
    let in_f16 = LoadOptions {
        dtype: DType::F16,
        ..LoadOptions::default()
    };
    add("forward_in_f16", "bundled", Work::Loaded(in_f16));
    let in_fp8 = Work::Loaded(LoadOptions::fp8());
    add("forward_with_fp8_weights", "bundled", in_fp8);
    add("training_of_an_adapter", "bundled", Work::Adapter);
    works
}

impl Work {
    /// The estimated bytes, and what they are made of.
    fn estimated(self, spec: &ModelSpec) -> (u64, String) {
        let weights = 4 * spec.parameters() as u64;
        let inference = |weights: u64, step: CacheMemory| {
            let of = format!("{weights} of weights and {} beside them", step.bytes());
            (weights + step.bytes(), of)
        };
        let training = |savings, config: TrainConfig| {
            let memory = TrainMemory::new(spec, &config, savings, &flex());
            (memory.peak, format!("{memory:?}"))
        };
        let pass = CacheMemory::default().with_step(spec, TOKENS, TOKENS);
        match self {
            Self::Forward => inference(weights, pass),
            Self::Loaded(options) => inference(bundled().weight_bytes(&flex(), options), pass),
            Self::Step => {
                let pages = pages();
                let pages = [pages.pages(), pages.page()];
                let cache = CacheMemory::new(spec, pages, CacheFormat::F32).unwrap();
                inference(weights, cache.with_step(spec, NEW, NEW))
            }
            Self::Training(savings, batches) => training(savings, config(batches)),
            Self::TrainingInBf16 => training(Savings::default(), in_bf16()),
            Self::Adapter => {
                let trained = AdapterConfig::default().parameters(&bundled()).unwrap();
                let savings = Savings {
                    adapter: Some(trained),
                    ..Savings::default()
                };
                training(savings, config([4, 1]))
            }
        }
    }

    /// The most bytes that are allocated at once while this is done for the second time, beyond those before. Weights of models that don't train
    /// count as they are estimated: they may be in pages of their own, which the allocator doesn't count.
    fn measured(self, spec: &ModelSpec) -> u64 {
        let device = flex();
        let weights = 4 * spec.parameters() as u64;
        let drawn = || Model::of_values(spec, &mut Drawn::new(spec, 1), &device).unwrap();
        match self {
            Self::Forward => weights + of_passes(&drawn(), spec),
            Self::Loaded(options) => {
                let files = bundled();
                let model = files.load(&device, options, &mut |_| ()).unwrap();
                files.weight_bytes(&device, options) + of_passes(&model, spec)
            }
            Self::Step => {
                let model = drawn();
                let before = ALLOCATED.current_usage();
                let mut cache = Cache::new(spec, pages(), CacheFormat::F32, &device).unwrap();
                let step = || {
                    let tokens = model.tokens(&ids(spec, NEW), &device).unwrap();
                    drop(model.step(tokens, &[NEW], &mut cache).unwrap());
                };
                weights + twice(before, step)
            }
            Self::Training(savings, batches) => of_training(spec, savings, config(batches)),
            Self::TrainingInBf16 => of_training(spec, Savings::default(), in_bf16()),
            Self::Adapter => {
                let (files, ids) = (bundled(), ids(spec, 4096));
                let (config, adapter) = (config([4, 1]), AdapterConfig::default());
                let before = ALLOCATED.current_usage();
                let load = |config| {
                    Trainer::load_adapter(config, adapter, &files, ids, &device, &mut |_| ())
                };
                let mut trainer = load(config).unwrap();
                twice(before, || trainer.step().unwrap())
            }
        }
    }
}

/// A cache of one sequence.
fn pages() -> Pages {
    Pages::paged(1, PAGES, PAGES * NEW).unwrap()
}

/// The most bytes that a forward pass of a loaded model has at once.
fn of_passes(model: &Model, spec: &ModelSpec) -> u64 {
    let device = flex();
    let pass = || {
        let tokens = model.tokens(&ids(spec, TOKENS), &device).unwrap();
        drop(model.forward(tokens).unwrap());
    };
    twice(ALLOCATED.current_usage(), pass)
}

/// The most bytes that a training has at once, with its model.
fn of_training(spec: &ModelSpec, savings: Savings, config: TrainConfig) -> u64 {
    let (folder, ids) = (tempfile::tempdir().unwrap(), ids(spec, 4096));
    let before = ALLOCATED.current_usage();
    let mut trainer = Trainer::new(config, spec, ids, &flex()).unwrap();
    if savings.recomputes {
        trainer.checkpoint_activations().unwrap();
    }
    if savings.offloads {
        let file = folder.path().join("moments");
        trainer.keep_moments_in(MomentStore::file(&file).unwrap());
    }
    twice(before, || trainer.step().unwrap())
}

/// The most bytes beyond `before` while `pass` is done for the second time: the first one makes what stays.
fn twice(before: usize, mut pass: impl FnMut()) -> u64 {
    pass();
    ALLOCATED.reset_peak_usage();
    pass();
    (ALLOCATED.peak_usage() - before) as u64
}

fn flex() -> Device {
    moebius::open(&moebius::Device::Flex).unwrap()
}

/// Compares the estimate of a model's `work` with what a child measures.
fn compare(name: &str, model: &str, work: Work) -> Result<(), Failed> {
    let mut child = Command::new(std::env::current_exe()?);
    let output = child.env(ROLE, name).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    let measured: u64 = String::from_utf8(output.stdout)?.trim().parse()?;
    let (estimated, of) = work.estimated(&spec(model));
    let ratio = estimated as f64 / measured as f64;
    println!("{name}: {estimated} bytes estimated, {measured} measured: {ratio:.3}");
    let least = (1.0 - WITHIN) * measured.saturating_sub(OF_THREADS) as f64;
    let most = (1.0 + WITHIN) * measured as f64;
    if !(least..=most).contains(&(estimated as f64)) {
        let said = format!("{estimated} bytes were estimated, {of}, and {measured} measured");
        return Err(said.into());
    }
    Ok(())
}

fn main() {
    let role = std::env::var(ROLE).ok();
    let mut trials = Vec::new();
    for (name, model, work) in works() {
        if role.as_deref() == Some(&*name) {
            println!("{}", work.measured(&spec(model)));
            return;
        }
        let trial = name.clone();
        let test = move || compare(&name, model, work);
        trials.push(Trial::test(trial, test));
    }
    assert!(role.is_none(), "no figure {role:?}");
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

//! Estimates of memory, from a model's description alone, against what a process takes on Flex, whose tensors its own allocator counts.
//!
//! Each figure is measured by a child process of this program, since Flex keeps memory from one call to the next.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::Command;

use burn::tensor::Device;
use libtest_mimic::{Arguments, Failed, Trial};
use moebius::fp8::training::MomentStore;
use moebius::moe::{Activation, MoeConfig};
use moebius_model::decoder::{CacheMemory, Drawn, FeedForwardSpec, Model, ModelSpec};
use moebius_model::load::ModelFiles;
use moebius_model::{DecoderConfig, Savings, TrainConfig, TrainMemory, Trainer};
use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATED: PeakAlloc = PeakAlloc;

/// The environment variable with a child's figure.
const ROLE: &str = "MOEBIUS_TEST_ROLE";

const MODELS: [&str; 3] = ["bundled", "mixture", "dense"];

/// The tokens of a forward pass.
const TOKENS: usize = 32;

/// How far an estimate may be from what was measured.
const WITHIN: f64 = 0.1;

/// Bytes of the buffers in which the host's threads pack products. No estimate counts them, since they don't grow with a model.
const OF_THREADS: u64 = 2 << 20;

/// The bundled model, a small mixture of experts, or a small model with one network in each layer.
fn spec(model: &str) -> ModelSpec {
    if model == "bundled" {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../runtime/shipped");
        return ModelFiles::open(&folder).unwrap().spec().clone();
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

fn config() -> TrainConfig {
    TrainConfig {
        batch: 8,
        sequence: 64,
        ..TrainConfig::default()
    }
}

/// What is measured of a model.
#[derive(Clone, Copy)]
enum Work {
    Forward,
    Training(Savings),
}

impl Work {
    const ALL: [(&str, Self); 4] = [
        ("forward", Self::Forward),
        (
            "training",
            Self::Training(Savings {
                recomputes: false,
                offloads: false,
                adapter: None,
            }),
        ),
        (
            "training_with_layers_again",
            Self::Training(Savings {
                recomputes: true,
                offloads: false,
                adapter: None,
            }),
        ),
        (
            "training_with_moments_in_a_file",
            Self::Training(Savings {
                recomputes: false,
                offloads: true,
                adapter: None,
            }),
        ),
    ];

    /// The estimated bytes, and what they are made of.
    fn estimated(self, spec: &ModelSpec) -> (u64, String) {
        match self {
            Self::Forward => {
                let weights = 4 * spec.parameters() as u64;
                let step = CacheMemory::default().with_step(spec, TOKENS, TOKENS);
                let of = format!("{weights} of weights and {} of a step", step.bytes());
                (weights + step.bytes(), of)
            }
            Self::Training(savings) => {
                let memory = TrainMemory::new(spec, &config(), savings, &flex());
                (memory.peak, format!("{memory:?}"))
            }
        }
    }

    /// The most bytes that are allocated at once while this is done for the second time, beyond those before.
    fn measured(self, spec: &ModelSpec) -> u64 {
        let device = flex();
        match self {
            Self::Forward => {
                // Weights may be in pages of their own, which the allocator doesn't count.
                let model = Model::of_values(spec, &mut Drawn::new(spec, 1), &device).unwrap();
                let pass = || {
                    let tokens = model.tokens(&ids(spec, TOKENS), &device).unwrap();
                    drop(model.forward(tokens).unwrap());
                };
                let before = ALLOCATED.current_usage();
                4 * spec.parameters() as u64 + twice(before, pass)
            }
            Self::Training(savings) => {
                let folder = tempfile::tempdir().unwrap();
                let ids = ids(spec, 4096);
                let before = ALLOCATED.current_usage();
                let mut trainer = Trainer::new(config(), spec, ids, &device).unwrap();
                if savings.recomputes {
                    trainer.checkpoint_activations().unwrap();
                }
                if savings.offloads {
                    let file = folder.path().join("moments");
                    trainer.keep_moments_in(MomentStore::file(&file).unwrap());
                }
                twice(before, || trainer.step().unwrap())
            }
        }
    }
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
    for model in MODELS {
        for (what, work) in Work::ALL {
            let name = format!("{what}::of_{model}");
            if role.as_deref() == Some(&*name) {
                println!("{}", work.measured(&spec(model)));
                return;
            }
            let trial = name.clone();
            let test = move || compare(&name, model, work);
            trials.push(Trial::test(trial, test));
        }
    }
    assert!(role.is_none(), "no figure {role:?}");
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

//! The benchmark of training steps of a small transformer that classifies sequences, in ordinary Burn modules.

mod network;
mod reference;

use crate::peer::{self, JAX, PeerError};
use crate::timing::middle;
use crate::{BenchError, Checked, Progress};
use burn::optim::{AdamConfig, GradientsParams, ModuleOptimizer};
use burn::tensor::{Device, Gradients, Int, Tensor, TensorData};
use moebius_device::Device as Name;
use network::{Network, Numbers, Slopes};
use reference::{ADAM_EPSILON, Step};
use serde::Deserialize;
use std::io::Write;
use std::time::{Duration, Instant};

/// Sizes of the network and its batches.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Sequences per batch.
    pub batch: usize,
    /// Tokens per sequence.
    pub seq: usize,
    /// Width of a token.
    pub hidden: usize,
    /// Heads of each attention layer.
    pub heads: usize,
    /// Number of blocks.
    pub layers: usize,
    /// Number of different tokens.
    pub vocabulary: usize,
    /// Number of classes.
    pub classes: usize,
}

impl Default for Sizes {
    /// Sizes with which a step takes some milliseconds on two cores.
    fn default() -> Self {
        Self {
            batch: 8,
            seq: 64,
            hidden: 128,
            heads: 4,
            layers: 1,
            vocabulary: 256,
            classes: 10,
        }
    }
}

impl Sizes {
    /// The sizes in the order in which the peer takes them.
    fn list(&self) -> [usize; 7] {
        let Self { batch, seq, .. } = *self;
        [
            batch,
            seq,
            self.hidden,
            self.heads,
            self.layers,
            self.vocabulary,
            self.classes,
        ]
    }
}

/// Number of batches that a training cycles through.
const BATCHES: usize = 4;
/// Number of steps whose losses are compared.
const COMPARED: usize = 20;
/// Number of steps after which the loss is read.
const READ_EVERY: usize = 10;
/// Largest number of timed rounds of [`READ_EVERY`] steps; slow devices do [`LEAST_ROUNDS`].
const ROUNDS: usize = 21;
const LEAST_ROUNDS: usize = 5;
/// Time after which no further round starts.
const BUDGET: Duration = Duration::from_secs(10);
/// Adam's learning rate.
const RATE: f64 = 1e-3;
/// Largest difference between the losses of two correct trainings in f32, and largest relative error of a correct step.
const TOLERANCE: f32 = 1e-4;
/// The same tolerance where Burn's products round factors to TF32, whose mantissa has 10 bits.
const TOLERANCE_OF_TF32: f32 = 1e-2;

/// Results of the benchmark.
#[derive(Clone, Debug)]
pub struct TrainingReport {
    /// Number of trained parameters.
    pub parameters: usize,
    /// Whether the first step agrees with the same network in f64, and the losses of the first steps with the same training
    /// on Flex and, if measured, by the peer. The error is the first step's largest, of the loss, the gradients and the
    /// change of the weights.
    pub checked: Checked,
    /// Median milliseconds of a step, including its share of reading the loss.
    pub median_ms: f64,
    /// JAX's result, when asked for.
    pub peer: Option<TrainingPeer>,
}

/// Result of the same training by the peer.
#[derive(Clone, Debug)]
pub struct TrainingPeer {
    /// Name, version and device of the peer.
    pub name: String,
    /// Median milliseconds of a step.
    pub median_ms: f64,
}

/// Verifies, then measures; with `peer`, JAX first trains from the same weights and batches. `progress` is called with
/// each step.
///
/// # Errors
/// [`BenchError`] when the device can't be opened or fails, or the peer can't be run.
pub fn run(
    name: &Name,
    sizes: &Sizes,
    peer: bool,
    progress: Progress,
) -> Result<TrainingReport, BenchError> {
    let device = moebius::open(name)?;
    let start = Network::new(sizes, &Device::flex().autodiff());
    let batches: Vec<Batch> = (0..BATCHES).map(|i| Batch::new(sizes, i)).collect();
    let numbers = Numbers::of(&start);
    let peer = if peer {
        progress("measuring JAX");
        Some(jax(sizes, &numbers, &batches)?)
    } else {
        None
    };
    progress("verifying");
    let expected = Training::new(&start, &batches, &Device::flex()).losses()?;
    let mut training = Training::new(&start, &batches, &device);
    let losses = training.losses()?;
    let others = peer.iter().map(|peer| &peer.losses);
    let differences = others
        .chain([&expected])
        .map(|other| difference(&losses, other));
    let largest_difference = differences.fold(0.0, f32::max);
    let step = first_step(Training::new(&start, &batches, &device))?;
    let max_rel_l2 = batches[0].error(sizes, &numbers, &step);
    progress("measuring");
    let median_ms = median_ms(&mut |look| {
        let loss = training.step();
        if look {
            number(loss).map(drop)
        } else {
            end_step(name)
        }
    })?;
    Ok(TrainingReport {
        parameters: numbers.len(),
        checked: Checked {
            verified: largest_difference.max(max_rel_l2 as f32) <= tolerance(name),
            max_rel_l2,
        },
        median_ms,
        peer: peer.map(|peer| TrainingPeer {
            name: format!("JAX {} on {}", peer.version, peer.platform),
            median_ms: peer.median_ms,
        }),
    })
}

/// Largest accepted difference on a device.
fn tolerance(name: &Name) -> f32 {
    match name {
        // CubeCL's matrix instructions have no f32.
        Name::Cuda(_) => TOLERANCE_OF_TF32,
        _ => TOLERANCE,
    }
}

/// Largest absolute difference of two lists; infinite if their lengths differ or a value isn't finite.
fn difference(a: &[f32], b: &[f32]) -> f32 {
    if a.len() != b.len() || a.iter().chain(b).any(|x| !x.is_finite()) {
        return f32::INFINITY;
    }
    a.iter()
        .zip(b)
        .map(|(a, b)| (a - b).abs())
        .fold(0.0, f32::max)
}

/// Pseudorandom numbers that are the same in every run, from Knuth's MMIX generator; its high bits are the good ones.
struct Mmix(u64);

impl Mmix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = self.0.wrapping_add(1_442_695_040_888_963_407);
        self.0
    }
}

/// Sequences and their classes.
struct Batch {
    tokens: TensorData,
    classes: TensorData,
}

impl Batch {
    fn new(sizes: &Sizes, index: usize) -> Self {
        let mut numbers = Mmix(1 + index as u64);
        let mut below = |n: usize| ((numbers.next() >> 33) as usize % n) as i32;
        let tokens = (0..sizes.batch * sizes.seq).map(|_| below(sizes.vocabulary));
        let tokens = TensorData::new(tokens.collect::<Vec<i32>>(), [sizes.batch, sizes.seq]);
        let classes = (0..sizes.batch).map(|_| below(sizes.classes));
        let classes = TensorData::new(classes.collect::<Vec<i32>>(), [sizes.batch]);
        Self { tokens, classes }
    }

    /// Largest relative error of a step from the weights `before` with this batch.
    fn error(&self, sizes: &Sizes, before: &Numbers, step: &Step) -> f64 {
        let numbers = |data: &TensorData| -> Vec<i32> { data.iter::<i32>().collect() };
        let (tokens, classes) = (numbers(&self.tokens), numbers(&self.classes));
        reference::error(sizes, before.values(), (&tokens, &classes), step)
    }
}

/// Takes the first step of a training and reads it from the device.
fn first_step(mut training: Training) -> Result<Step, BenchError> {
    let (loss, gradients) = training.pass();
    let slopes = Slopes::of(&training.network, &gradients);
    training.learn(gradients);
    Ok(Step {
        loss: number(loss)?,
        gradients: slopes,
        weights: Numbers::of(&training.network).values().to_vec(),
    })
}

/// A network, its optimizer and its batches during training.
struct Training<'a> {
    network: Network,
    optimizer: ModuleOptimizer,
    batches: &'a [Batch],
    device: Device,
    steps: usize,
}

impl<'a> Training<'a> {
    fn new(start: &Network, batches: &'a [Batch], device: &Device) -> Self {
        let device = device.clone().autodiff();
        Self {
            network: start.on(&device),
            optimizer: AdamConfig::new().with_epsilon(ADAM_EPSILON as f32).init(),
            batches,
            device,
            steps: 0,
        }
    }

    /// Loss and gradients of the next batch, on the device.
    fn pass(&self) -> (Tensor<1>, Gradients) {
        let batch = &self.batches[self.steps % self.batches.len()];
        let tokens = Tensor::<2, Int>::from_data(batch.tokens.clone(), &self.device);
        let classes = Tensor::<1, Int>::from_data(batch.classes.clone(), &self.device);
        let loss = self.network.loss(tokens, classes);
        let gradients = loss.backward();
        (loss.inner(), gradients)
    }

    /// Updates the weights with the gradients of the next batch.
    fn learn(&mut self, gradients: Gradients) {
        let gradients = GradientsParams::from_grads(gradients, &self.network);
        self.network = self.optimizer.step(RATE, self.network.clone(), gradients);
        self.steps += 1;
    }

    /// Trains on the next batch and returns its loss, on the device.
    fn step(&mut self) -> Tensor<1> {
        let (loss, gradients) = self.pass();
        self.learn(gradients);
        loss
    }

    /// Losses of the first [`COMPARED`] steps.
    fn losses(&mut self) -> Result<Vec<f32>, BenchError> {
        (0..COMPARED).map(|_| number(self.step())).collect()
    }
}

/// Median milliseconds of a step, over rounds of steps whose last loss is read; `step` is told whether to read the loss.
fn median_ms(step: &mut dyn FnMut(bool) -> Result<(), BenchError>) -> Result<f64, BenchError> {
    let mut seconds = Vec::new();
    let begin = Instant::now();
    // The first two rounds compile the program of steps whose losses aren't read.
    for round in 0..ROUNDS + 2 {
        if seconds.len() >= LEAST_ROUNDS && begin.elapsed() > BUDGET {
            break;
        }
        let start = Instant::now();
        for _ in 1..READ_EVERY {
            step(false)?;
        }
        step(true)?;
        if round >= 2 {
            seconds.push(start.elapsed().as_secs_f64());
        }
    }
    Ok(middle(&mut seconds) * 1e3 / READ_EVERY as f64)
}

/// Ends a training step that reads no loss; XLA's devices would otherwise record it together with the next step.
#[cfg(feature = "xla")]
fn end_step(name: &Name) -> Result<(), BenchError> {
    let Name::Xla(platform, index) = *name else {
        return Ok(());
    };
    let platform = crate::xla_call::plugin(platform);
    let marked = moebius_xla::mark_step(platform, index.unwrap_or(0) as usize);
    marked.map_err(BenchError::device)
}

#[cfg(not(feature = "xla"))]
#[allow(clippy::unnecessary_wraps, reason = "the other fails")]
fn end_step(_: &Name) -> Result<(), BenchError> {
    Ok(())
}

/// Reads a loss from its device.
fn number(loss: Tensor<1>) -> Result<f32, BenchError> {
    let data = loss.try_into_data().map_err(BenchError::device)?;
    let loss = data.iter::<f32>().next();
    loss.ok_or_else(|| BenchError::device("a loss without a number"))
}

/// Figures that JAX's script prints.
#[derive(Deserialize)]
struct Figures {
    version: String,
    platform: String,
    losses: Vec<f32>,
    median_ms: f64,
}

/// Runs JAX's training from the same weights and batches.
fn jax(sizes: &Sizes, numbers: &Numbers, batches: &[Batch]) -> Result<Figures, BenchError> {
    let io = |error: std::io::Error| PeerError::Data(error.to_string());
    let path = std::env::temp_dir().join(format!("moebius-training-{}", std::process::id()));
    let mut file = std::fs::File::create(&path).map_err(io)?;
    let mut bytes = numbers.bytes();
    for batch in batches {
        bytes.extend_from_slice(batch.tokens.as_bytes());
        bytes.extend_from_slice(batch.classes.as_bytes());
    }
    let written = file.write_all(&bytes).map_err(io);
    let counts = [BATCHES, COMPARED, READ_EVERY, ROUNDS];
    let figures = written.map_err(BenchError::from).and_then(|()| {
        let mut args = vec![path.display().to_string()];
        args.extend(peer::texts(&[&sizes.list()[..], &counts].concat()));
        args.push(RATE.to_string());
        let script = include_str!("../../peers/jax_training_step.py");
        Ok(peer::run(&JAX, script, &args)?)
    });
    let _ = std::fs::remove_file(&path);
    figures
}

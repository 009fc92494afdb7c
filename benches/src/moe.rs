//! The benchmark of one mixture-of-experts layer.

use crate::ceiling::finish;
use crate::peer::{self, Peer};
use crate::timing::{median, middle};
use crate::{BenchError, ceiling, oracle};
use burn::tensor::{DType, Distribution, Tensor};
use moebius::moe::{Activation, MoeConfig, MoeLayer, Stage};
use moebius::{Device, Error};
use moebius_device::{Opened, memory_in_use, process_memory};
use moebius_shaders::{ShapeError, moe};
use serde::Serialize;
use std::time::Instant;

/// What is measured.
#[derive(Clone, Copy, Debug)]
pub struct MoeBench {
    /// Width of a token.
    pub hidden: usize,
    /// Width of an expert.
    pub inter: usize,
    /// Number of experts.
    pub experts: usize,
    /// Experts per token.
    pub top_k: usize,
    /// Sequences.
    pub batch: usize,
    /// Tokens per sequence.
    pub seq: usize,
    /// Type of weights and activations.
    pub dtype: DType,
    /// Gated silu experts instead of relu ones.
    pub gated: bool,
    /// Where.
    pub device: Device,
    /// Whether PyTorch's per-expert loop is measured in the same run.
    pub peer_torch: bool,
}

/// One stage of the forward, timed with a wait after every stage.
#[derive(Clone, Debug, Serialize)]
pub struct StageTime {
    /// Which.
    pub name: String,
    /// Median milliseconds.
    pub median_ms: f64,
    /// Share of the sum of the stages.
    pub share: f64,
}

/// What was measured; numbers mean something only when `verified`.
#[derive(Clone, Debug, Serialize)]
pub struct MoeReport {
    /// Device string, e.g. `cpu`.
    pub device: String,
    /// Its name.
    pub adapter: String,
    /// Kernel variant, `portable` for Burn's primitive operations.
    pub variant: String,
    /// Whether sampled tokens agree with the f64 oracle.
    pub verified: bool,
    /// Relative L2 error of the sampled tokens.
    pub max_rel_l2: f64,
    /// Median milliseconds of a warm forward.
    pub median_ms: f64,
    /// Milliseconds of the first forward, kernel compilation included.
    pub first_ms: f64,
    /// Tokens per second.
    pub tokens_per_s: f64,
    /// GFLOP/s of the experts' products.
    pub gflops: f64,
    /// GFLOP/s the device reached in the same run on `peak_of`.
    pub peak_gflops: f64,
    /// What the peak is of.
    pub peak_of: String,
    /// `gflops` / `peak_gflops`.
    pub peak_share: f64,
    /// Bytes taken from the device for layer, batch and forward (Flex: growth of the process).
    pub device_bytes: u64,
    /// Bytes that weights and activations need.
    pub floor_bytes: u64,
    /// Launches of a forward; 0 for `portable`.
    pub launches: usize,
    /// Where the time goes.
    pub stages: Vec<StageTime>,
    /// PyTorch, when asked for.
    pub peer: Option<Peer>,
}

/// Largest relative L2 error that verifies: f32 sums of up to 4096 products; twice the rounding
/// of f16 and bf16 activations.
fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 2e-3,
        DType::BF16 => 1.6e-2,
        _ => 1e-5,
    }
}

/// The layer under measurement, on its device.
struct Setup {
    opened: Opened,
    device: burn::tensor::Device,
    layer: MoeLayer,
    plan: Option<moe::Plan>,
    x: Tensor<2>,
    held_before: u64,
}

impl Setup {
    fn new(bench: &MoeBench) -> Result<Self, BenchError> {
        let opened = moebius_device::open(&bench.device).map_err(Error::from)?;
        let device = moebius::open(&opened.device)?;
        if let Some(client) = opened.client() {
            // Pages that an earlier benchmark left for reuse would hide what this one takes.
            client
                .memory_cleanup()
                .map_err(|error| BenchError::Device(error.to_string()))?;
        }
        let held_before = held_at_start(&opened);
        let tokens = tokens(bench)?;
        let layer = layer(bench, &device)?;
        let plan = layer.plan(tokens, bench.dtype, &device)?;
        let normal = Distribution::Normal(0.0, 1.0);
        let x = Tensor::<2>::random([tokens, bench.hidden], normal, &device).cast(bench.dtype);
        finish(&device)?;
        Ok(Self {
            opened,
            device,
            layer,
            plan,
            x,
            held_before,
        })
    }

    /// The first forward: its milliseconds, the bytes held after it, and its error.
    fn verify(&self) -> Result<(f64, u64, f64), BenchError> {
        let start = Instant::now();
        let out = self.layer.forward(self.x.clone())?;
        finish(&self.device)?;
        let first_ms = start.elapsed().as_secs_f64() * 1e3;
        let bytes = held(&self.opened).saturating_sub(self.held_before);
        Ok((
            first_ms,
            bytes,
            oracle::relative_error(&self.layer, &self.x, &out)?,
        ))
    }

    /// FLOP/s of what the result is compared with, and what that is.
    fn peak(&self) -> Result<(f64, &'static str), BenchError> {
        Ok(match self.opened.client() {
            Some(client) => {
                let rate = ceiling::multiply_adds(&client, &self.opened.capability)?;
                (rate, "f32 multiply-adds")
            }
            None => (ceiling::matmul(&self.device)?, "a 1024³ f32 matmul"),
        })
    }
}

/// Tokens of the batch.
fn tokens(bench: &MoeBench) -> Result<usize, Error> {
    let tokens = bench.batch.checked_mul(bench.seq);
    tokens
        .filter(|tokens| (1..=i32::MAX as usize).contains(tokens))
        .ok_or_else(|| {
            let got = format!("{} x {}", bench.batch, bench.seq);
            ShapeError::new("batch x seq", "1 to 2^31 - 1 tokens", got).into()
        })
}

/// Verifies, then measures; `progress` is told what is being done.
///
/// # Errors
/// [`BenchError`] when the device refuses or fails, or the peer can't be run.
pub fn run(bench: &MoeBench, progress: &mut dyn FnMut(&str)) -> Result<MoeReport, BenchError> {
    // First, so that a missing peer costs no minutes.
    let peer = bench.peer_torch.then(|| {
        progress("measuring PyTorch");
        peer::torch(bench)
    });
    let peer = peer.transpose()?;
    progress("making the layer");
    let setup = Setup::new(bench)?;
    progress("verifying");
    let (first_ms, device_bytes, error) = setup.verify()?;
    progress("measuring");
    let seconds = median(|| {
        drop(setup.layer.forward(setup.x.clone())?);
        finish(&setup.device)
    })?;
    progress("measuring the stages");
    let stages = stages(&setup.layer, &setup.x)?;
    progress("measuring the peak");
    let (peak, peak_of) = setup.peak()?;
    let tokens = tokens(bench)?;
    let problem = setup.layer.problem(tokens, bench.dtype)?;
    let rate = problem.flops() as f64 / seconds;
    let Setup { opened, plan, .. } = setup;
    Ok(MoeReport {
        device: opened.device.to_string(),
        adapter: opened.capability.name,
        variant: plan
            .as_ref()
            .map_or("portable", |plan| plan.up.variant.name())
            .to_string(),
        verified: error <= tolerance(bench.dtype),
        max_rel_l2: error,
        median_ms: seconds * 1e3,
        first_ms,
        tokens_per_s: tokens as f64 / seconds,
        gflops: rate / 1e9,
        peak_gflops: peak / 1e9,
        peak_of: peak_of.to_string(),
        peak_share: rate / peak,
        device_bytes,
        floor_bytes: problem.floor_bytes(),
        // Router logits and top-k come before the experts.
        launches: plan.map_or(0, |plan| plan.launches() + 2),
        stages,
        peer: peer.map(|figures| figures.compared_with(rate)),
    })
}

fn layer(bench: &MoeBench, device: &burn::tensor::Device) -> Result<MoeLayer, Error> {
    let activation = if bench.gated {
        Activation::Silu
    } else {
        Activation::Relu
    };
    let config = MoeConfig::new(bench.hidden, bench.inter, bench.experts)
        .with_top_k(bench.top_k)
        .with_gated(bench.gated)
        .with_activation(activation);
    let mut layer = config.init(device)?;
    if bench.dtype != DType::F32 {
        layer = layer.cast(bench.dtype)?;
    }
    Ok(layer)
}

fn stages(layer: &MoeLayer, x: &Tensor<2>) -> Result<Vec<StageTime>, Error> {
    const REPEATS: usize = 5;
    let mut times: Vec<Vec<f64>> = vec![Vec::new(); Stage::ALL.len()];
    for _ in 0..REPEATS {
        for (stage, time) in layer.profile(x.clone())? {
            let at = Stage::ALL.iter().position(|s| *s == stage).unwrap_or(0);
            times[at].push(time.as_secs_f64() * 1e3);
        }
    }
    let medians: Vec<f64> = times.iter_mut().map(|times| middle(times)).collect();
    let sum: f64 = medians.iter().sum();
    let time = |(stage, median_ms): (Stage, f64)| StageTime {
        name: stage.name().to_string(),
        median_ms,
        share: median_ms / sum,
    };
    Ok(Stage::ALL.into_iter().zip(medians).map(time).collect())
}

/// Bytes taken from the device before the benchmark; on Flex the peak of the process starts anew.
fn held_at_start(opened: &Opened) -> u64 {
    if opened.client().is_some() {
        return held(opened);
    }
    // Linux only; elsewhere there is no peak to forget.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    process_memory().map_or(0, |memory| memory.resident)
}

/// Bytes taken from the device so far.
fn held(opened: &Opened) -> u64 {
    match opened.client() {
        Some(client) => memory_in_use(&client).reserved,
        None => {
            process_memory().map_or(0, |memory| memory.peak_resident.unwrap_or(memory.resident))
        }
    }
}

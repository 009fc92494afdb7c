//! Forward and backward of one layer.

use super::setup::{Setup, random, tokens};
use super::{MoeBench, measure_peer};
use crate::ceiling::{Ceilings, Floor, finish, finish_with};
use crate::oracle::{self, GRADIENTS_OVER_OUTPUTS, GradientOracle, Gradients, tolerance};
use crate::peer::Peer;
use crate::timing::{Spread, timings};
use crate::{BenchError, FLOPS_OF_FORWARD, Progress};
use burn::tensor::Tensor;
use moebius::Error;
use moebius::moe::{Keep, MoeLayer, MoeOutput};
use moebius_host::Simd;
use moebius_ops::Fault;
use serde::Serialize;
use std::time::Instant;

/// What was measured with one balance of memory and time.
#[derive(Clone, Debug, Serialize)]
pub struct TrainingRun {
    /// What the forward keeps for the backward pass.
    pub keep: Keep,
    /// Whether outputs and gradients, both sampled, agree with the f64 oracle.
    pub verified: bool,
    /// Largest relative L2 error of the sampled outputs and gradients.
    pub max_rel_l2: f64,
    /// Median milliseconds of a warm forward that records its graph.
    pub forward_ms: f64,
    /// How far its repetitions lie apart.
    pub forward_spread: Spread,
    /// Median milliseconds of a warm forward and backward of Σ y ∘ dy, with the gradients of x and
    /// all weights.
    pub median_ms: f64,
    /// How far its repetitions lie apart.
    pub spread: Spread,
    /// Milliseconds of the first forward and backward, kernel compilation included.
    pub first_ms: f64,
    /// Tokens per second.
    pub tokens_per_s: f64,
    /// GFLOP/s of the experts' products, [`FLOPS_OF_FORWARD`] times the forward's.
    pub gflops: f64,
    /// `gflops` over the peak of [`BackwardReport::ceilings`].
    pub peak_share: f64,
    /// What the products, and [`FLOPS_OF_FORWARD`] times the bytes of a forward, take at least.
    pub floor: Option<Floor>,
    /// Bytes taken from the device for layer, batch, both passes and gradients (Flex: growth of
    /// the process at its peak, since before the first run); `None` on XLA, whose devices don't say.
    pub device_bytes: Option<u64>,
    /// Bytes that a forward leaves on the device for its backward pass, y and the routing included;
    /// a model holds as much for every layer. `None` on Flex and XLA, which have no
    /// allocator to ask.
    pub kept_bytes: Option<u64>,
    /// PyTorch, when asked for.
    pub peer: Option<Peer>,
}

/// What was measured; numbers mean something only when `verified`.
#[derive(Clone, Debug, Serialize)]
pub struct BackwardReport {
    /// Device string, e.g. `cpu`.
    pub device: String,
    /// Its name.
    pub adapter: String,
    /// Kernel variant, `portable` for Burn's primitive operations.
    pub variant: String,
    /// Vector instructions that ran; `None` where no processor computes, or its driver doesn't say.
    pub simd: Option<Simd>,
    /// What the device reached in the same run.
    #[serde(flatten)]
    pub ceilings: Ceilings,
    /// One for each balance asked for.
    pub runs: Vec<TrainingRun>,
}

/// Verifies, then measures every balance of `keeps` in this order; `progress` is told what is being done.
///
/// # Errors
/// [`BenchError`] when the device refuses or fails, the peer can't be run, or `keeps` is empty.
pub fn run(
    bench: &MoeBench,
    keeps: &[Keep],
    progress: Progress,
) -> Result<BackwardReport, BenchError> {
    let peer = measure_peer(bench, "backward", progress)?;
    let mut report: Option<BackwardReport> = None;
    let mut held_before = None;
    for keep in keeps {
        progress("making the layer");
        let setup = Setup::new(bench, Some(*keep))?.counting_from(held_before);
        held_before = setup.held_before;
        let report = match &mut report {
            Some(report) => report,
            none => {
                progress("measuring the peak");
                none.insert(heading(&setup)?)
            }
        };
        let run = measure(bench, (*keep, &report.ceilings), &setup, progress)?;
        report.runs.push(TrainingRun {
            peer: peer.clone().map(|peer| peer.compared_with(run.gflops)),
            ..run
        });
    }
    report.ok_or_else(|| {
        let error = Fault::Config.error("balances of memory and time", "at least 1", 0);
        Error::from(error).into()
    })
}

fn heading(setup: &Setup) -> Result<BackwardReport, BenchError> {
    Ok(BackwardReport {
        device: setup.opened.device.to_string(),
        adapter: setup.opened.capability.name.clone(),
        variant: setup.variant(),
        simd: setup.simd,
        ceilings: setup.ceilings()?,
        runs: Vec::new(),
    })
}

fn measure(
    bench: &MoeBench,
    (keep, ceilings): (Keep, &Ceilings),
    setup: &Setup,
    progress: Progress,
) -> Result<TrainingRun, BenchError> {
    progress("verifying");
    let x = setup.x.clone().require_grad();
    let dy = random(bench, &x.device())?;
    finish(&setup.device)?;
    let start = Instant::now();
    let (out, gradients) = pass(&setup.layer, &x, &dy)?;
    finish(&setup.device)?;
    let first_ms = start.elapsed().as_secs_f64() * 1e3;
    let device_bytes = setup.bytes();
    let error = error(&setup.layer, (&x, &dy), (&out, &gradients))?;
    drop((out, gradients));
    let kept_bytes = kept(setup, &x)?;
    progress("measuring");
    let mut forward = || {
        let out = setup.layer.forward(x.clone())?;
        finish_with(out, &setup.device)
    };
    let mut both = || {
        let results = pass(&setup.layer, &x, &dy)?;
        finish_with(results, &setup.device)
    };
    let [forward, time] = timings([&mut forward, &mut both])?;
    let seconds = time.seconds;
    let tokens = tokens(bench)?;
    let problem = setup.layer.problem(tokens, bench.dtype)?;
    let [flops, bytes] = [problem.flops(), problem.floor_bytes()].map(|of| FLOPS_OF_FORWARD * of);
    let gflops = flops as f64 / seconds / 1e9;
    Ok(TrainingRun {
        keep,
        verified: error <= GRADIENTS_OVER_OUTPUTS * tolerance(bench.dtype),
        max_rel_l2: error,
        forward_ms: forward.ms(),
        forward_spread: forward.spread(),
        median_ms: time.ms(),
        spread: time.spread(),
        first_ms,
        tokens_per_s: tokens as f64 / seconds,
        gflops,
        peak_share: gflops / ceilings.peak_gflops,
        floor: ceilings.floor(flops, bytes, seconds),
        device_bytes,
        kept_bytes,
        peer: None,
    })
}

/// Bytes that are live after a forward and weren't before.
fn kept(setup: &Setup, x: &Tensor<2>) -> Result<Option<u64>, BenchError> {
    finish(&setup.device)?;
    let before = setup.live_bytes();
    let _out = setup.layer.forward(x.clone())?;
    finish(&setup.device)?;
    let after = setup.live_bytes();
    Ok(after
        .zip(before)
        .map(|(after, before)| after.saturating_sub(before)))
}

/// The gradients of Σ y ∘ dy.
fn pass(
    layer: &MoeLayer,
    x: &Tensor<2>,
    dy: &Tensor<2>,
) -> Result<(MoeOutput<2>, Gradients), BenchError> {
    let out = layer.forward(x.clone())?;
    let gradients = (out.y.clone() * dy.clone()).sum().backward();
    let missing = || BenchError::device("the backward pass leaves out a gradient");
    let weights = layer.weights().ok_or_else(missing)?;
    let gradients = Gradients {
        x: x.grad(&gradients).ok_or_else(missing)?,
        router: weights.router.grad(&gradients).ok_or_else(missing)?,
        w_in: weights.w_in.grad(&gradients).ok_or_else(missing)?,
        w_out: weights.w_out.grad(&gradients).ok_or_else(missing)?,
    };
    Ok((out, gradients))
}

/// The largest error of the sampled outputs and gradients.
fn error(
    layer: &MoeLayer,
    (x, dy): (&Tensor<2>, &Tensor<2>),
    (out, gradients): (&MoeOutput<2>, &Gradients),
) -> Result<f64, BenchError> {
    let forward = oracle::relative_error(layer, x, out)?;
    let oracle = GradientOracle::new(layer, (x, dy), &out.routing)?;
    let (_, sampled) = pass(layer, x, &oracle.sampled_dy(dy))?;
    let router = oracle.router_error(&sampled.router);
    Ok(forward.max(oracle.error(gradients)).max(router))
}

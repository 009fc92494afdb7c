//! The benchmarks of one mixture-of-experts layer.

pub mod backward;
pub mod fine;
mod setup;

use crate::ceiling::{finish, finish_with};
use crate::oracle::tolerance;
use crate::peer::{self, Figures, Pass, Peer};
use crate::timing::{median, middle};
use crate::{BenchError, oracle};
use burn::tensor::{DType, Tensor};
use moebius::moe::{MoeLayer, Stage};
use moebius::{Device, Error};
use serde::Serialize;
use setup::{Purpose, Setup, tokens};
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
    /// Bytes taken from the device for layer, batch and forward (Flex: growth of the process); `None`
    /// on XLA, whose devices don't say.
    pub device_bytes: Option<u64>,
    /// Bytes that weights and activations need.
    pub floor_bytes: u64,
    /// Launches of a forward; 0 for `portable`.
    pub launches: usize,
    /// Share of the stages that are no products: router, sort, combine.
    pub overhead_share: f64,
    /// Where the time goes.
    pub stages: Vec<StageTime>,
    /// PyTorch, when asked for.
    pub peer: Option<Peer>,
}

/// A layer whose forward verifies, or not, and has run once.
struct Prepared {
    setup: Setup,
    first_ms: f64,
    device_bytes: Option<u64>,
    error: f64,
}

impl Prepared {
    fn new(bench: &MoeBench, progress: &mut dyn FnMut(&str)) -> Result<Self, BenchError> {
        progress("making the layer");
        let setup = Setup::new(bench, Purpose::Inference)?;
        progress("verifying");
        let start = Instant::now();
        let out = setup.layer.forward(setup.x.clone())?;
        finish(&setup.device)?;
        let first_ms = start.elapsed().as_secs_f64() * 1e3;
        let device_bytes = setup.bytes();
        let error = oracle::relative_error(&setup.layer, &setup.x, &out)?;
        Ok(Self {
            setup,
            first_ms,
            device_bytes,
            error,
        })
    }

    fn forward(&self) -> Result<(), BenchError> {
        let out = self.setup.layer.forward(self.setup.x.clone())?;
        finish_with(out, &self.setup.device)
    }

    /// The figures of a forward that takes `seconds`.
    fn report(
        self,
        bench: &MoeBench,
        seconds: f64,
        (peak, peak_of): (f64, &str),
    ) -> Result<MoeReport, BenchError> {
        let stages = stages(&self.setup.layer, &self.setup.x)?;
        let tokens = tokens(bench)?;
        let problem = self.setup.layer.problem(tokens, bench.dtype)?;
        let rate = problem.flops() as f64 / seconds;
        let products = [Stage::Gemm1, Stage::Gemm2, Stage::Experts].map(Stage::name);
        let around = |stage: &&StageTime| !products.contains(&stage.name.as_str());
        let variant = self.setup.variant();
        let Setup { opened, plan, .. } = self.setup;
        Ok(MoeReport {
            device: opened.device.to_string(),
            adapter: opened.capability.name,
            variant,
            verified: self.error <= tolerance(bench.dtype),
            max_rel_l2: self.error,
            median_ms: seconds * 1e3,
            first_ms: self.first_ms,
            tokens_per_s: tokens as f64 / seconds,
            gflops: rate / 1e9,
            peak_gflops: peak / 1e9,
            peak_of: peak_of.to_string(),
            peak_share: rate / peak,
            device_bytes: self.device_bytes,
            floor_bytes: problem.floor_bytes(),
            // Router logits and top-k come before the experts.
            launches: plan.map_or(0, |plan| plan.launches() + 2),
            overhead_share: stages.iter().filter(around).map(|stage| stage.share).sum(),
            stages,
            peer: None,
        })
    }
}

/// Verifies, then measures; `progress` is told what is being done.
///
/// # Errors
/// [`BenchError`] when the device refuses or fails, or the peer can't be run.
pub fn run(bench: &MoeBench, progress: &mut dyn FnMut(&str)) -> Result<MoeReport, BenchError> {
    // First, so that a missing peer costs no minutes.
    let peer = measure_peer(bench, Pass::Forward, progress)?;
    let prepared = Prepared::new(bench, progress)?;
    progress("measuring");
    let seconds = median(|| prepared.forward())?;
    progress("measuring the peak");
    let peak = prepared.setup.peak()?;
    progress("measuring the stages");
    let report = prepared.report(bench, seconds, peak)?;
    Ok(MoeReport {
        peer: peer.map(|figures| figures.compared_with(report.gflops * 1e9)),
        ..report
    })
}

fn measure_peer(
    bench: &MoeBench,
    pass: Pass,
    progress: &mut dyn FnMut(&str),
) -> Result<Option<Figures>, BenchError> {
    if !bench.peer_torch {
        return Ok(None);
    }
    progress("measuring PyTorch");
    Ok(Some(torch(bench, pass)?))
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
    let timed = Stage::ALL.into_iter().zip(medians).zip(times);
    // Not every device has every stage.
    let timed = timed.filter(|(_, times)| !times.is_empty());
    Ok(timed.map(|(median, _)| time(median)).collect())
}

/// Runs the same layer in PyTorch on the CPU, as a loop over experts.
fn torch(bench: &MoeBench, pass: Pass) -> Result<Figures, peer::PeerError> {
    let dtype = match bench.dtype {
        DType::F16 => "float16",
        DType::BF16 => "bfloat16",
        _ => "float32",
    };
    let tokens = bench.batch.saturating_mul(bench.seq);
    let MoeBench {
        hidden,
        inter,
        experts,
        top_k,
        ..
    } = *bench;
    let mut args = peer::texts(&[hidden, inter, experts, top_k, tokens]);
    let gated = if bench.gated { "gated" } else { "plain" };
    let pass = match pass {
        Pass::Forward => "forward",
        Pass::Backward => "backward",
    };
    args.extend([dtype, gated, pass].map(str::to_string));
    peer::torch(include_str!("../../peers/torch_moe.py"), &args)
}

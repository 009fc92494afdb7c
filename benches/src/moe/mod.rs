//! The benchmarks of one mixture-of-experts layer.

pub mod backward;
pub mod fine;
mod setup;

use crate::ceiling::{Ceilings, Floor, finish, finish_with};
use crate::options::{DTYPES, named, positive};
use crate::oracle::tolerance;
use crate::peer::{self, BenchPeer, Figures, Peer, PeerError};
use crate::timing::{Spread, Timing, timing};
use crate::{BenchError, Progress, oracle};
use burn::tensor::{DType, Tensor};
use clap::Args;
use moebius::moe::{MoeLayer, Stage};
use moebius::{Device, Error};
use moebius_host::Simd;
use serde::Serialize;
use setup::{Setup, tokens};
use std::time::Instant;

/// What is measured, as the options of a command.
#[derive(Clone, Copy, Debug, Args)]
pub struct MoeBench {
    /// Width of a token.
    #[arg(long, value_name = "N", default_value = "512", value_parser = positive)]
    pub hidden: usize,
    /// Width inside an expert [default: 4 × hidden].
    #[arg(long, value_name = "N", value_parser = positive)]
    pub inter: Option<usize>,
    /// Number of experts.
    #[arg(long, value_name = "N", default_value = "8", value_parser = positive)]
    pub experts: usize,
    /// Experts per token.
    #[arg(long, value_name = "N", default_value = "2", value_parser = positive)]
    pub top_k: usize,
    /// Sequences.
    #[arg(long, value_name = "N", default_value = "32", value_parser = positive)]
    pub batch: usize,
    /// Tokens in a sequence.
    #[arg(long, value_name = "N", default_value = "128", value_parser = positive)]
    pub seq: usize,
    /// Element type of activations and weights; sums are f32.
    #[arg(long, value_name = "T", default_value = "f32", value_parser = named(DTYPES))]
    pub dtype: DType,
    /// Gated experts (SwiGLU) in place of two plain layers with relu.
    #[arg(long)]
    pub gated: bool,
    /// Device to measure: auto, wgpu[:n], vulkan[:n], cuda[:n], rocm[:n], cpu, flex or xla:{cpu,tpu,cuda}[:n].
    #[arg(long, value_name = "D", default_value = "auto")]
    pub device: Device,
    /// Measure another implementation in the same run.
    #[arg(long, value_name = "P")]
    pub peer: Option<BenchPeer>,
}

impl MoeBench {
    /// Width inside an expert.
    pub fn inter(&self) -> usize {
        let usual = || self.hidden.saturating_mul(4);
        self.inter.unwrap_or_else(usual)
    }

    /// The main job's at one width: 8 experts, top-2, 32 × 128 tokens, relu, f32, dropless.
    pub fn standard(hidden: usize, device: Device) -> Self {
        Self {
            hidden,
            inter: None,
            experts: 8,
            top_k: 2,
            batch: 32,
            seq: 128,
            dtype: DType::F32,
            gated: false,
            device,
            peer: None,
        }
    }
}

/// One stage of the forward, timed with a wait after every stage.
#[derive(Clone, Debug, Serialize)]
pub struct StageTime {
    /// Which.
    pub name: String,
    /// Median milliseconds.
    pub median_ms: f64,
    /// How far its repetitions lie apart.
    pub spread: Spread,
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
    /// Vector instructions that ran; `None` where no processor computes, or its driver doesn't say.
    pub simd: Option<Simd>,
    /// Whether sampled tokens agree with the f64 oracle.
    pub verified: bool,
    /// Relative L2 error of the sampled tokens.
    pub max_rel_l2: f64,
    /// Median milliseconds of a warm forward.
    pub median_ms: f64,
    /// How far its repetitions lie apart.
    pub spread: Spread,
    /// Milliseconds of the first forward, kernel compilation included.
    pub first_ms: f64,
    /// Tokens per second.
    pub tokens_per_s: f64,
    /// GFLOP/s of the experts' products.
    pub gflops: f64,
    /// What the device reached in the same run.
    #[serde(flatten)]
    pub ceilings: Ceilings,
    /// `gflops` / `peak_gflops`.
    pub peak_share: f64,
    /// What the products and `floor_bytes` take at least.
    pub floor: Option<Floor>,
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
    fn new(bench: &MoeBench, progress: Progress) -> Result<Self, BenchError> {
        progress("making the layer");
        let setup = Setup::new(bench, None)?;
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

    /// The figures of a forward that takes so long.
    fn report(
        self,
        bench: &MoeBench,
        time: Timing,
        ceilings: Ceilings,
    ) -> Result<MoeReport, BenchError> {
        let seconds = time.seconds;
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
            simd: self.setup.simd,
            verified: self.error <= tolerance(bench.dtype),
            max_rel_l2: self.error,
            median_ms: time.ms(),
            spread: time.spread(),
            first_ms: self.first_ms,
            tokens_per_s: tokens as f64 / seconds,
            gflops: rate / 1e9,
            peak_share: rate / 1e9 / ceilings.peak_gflops,
            floor: ceilings.floor(problem.flops(), problem.floor_bytes(), seconds),
            ceilings,
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
pub fn run(bench: &MoeBench, progress: Progress) -> Result<MoeReport, BenchError> {
    // First, so that a missing peer costs no minutes.
    let peer = measure_peer(bench, "forward", progress)?;
    let prepared = Prepared::new(bench, progress)?;
    progress("measuring");
    let time = timing(|| prepared.forward())?;
    progress("measuring the peak");
    let ceilings = prepared.setup.ceilings()?;
    progress("measuring the stages");
    let report = prepared.report(bench, time, ceilings)?;
    Ok(MoeReport {
        peer: peer.map(|figures| figures.compared_with(report.gflops)),
        ..report
    })
}

/// The same layer in PyTorch, as a loop over experts, where that is asked for; `pass` is `forward`, without a
/// graph, or `backward`, with the gradients of x and all weights.
fn measure_peer(
    bench: &MoeBench,
    pass: &str,
    progress: Progress,
) -> Result<Option<Figures>, PeerError> {
    peer::torch(bench.peer, progress, || {
        let tokens = bench.batch.saturating_mul(bench.seq);
        let sizes = [
            bench.hidden,
            bench.inter(),
            bench.experts,
            bench.top_k,
            tokens,
        ];
        let gated = if bench.gated { "gated" } else { "plain" };
        let mut args = peer::texts(&sizes);
        args.extend([peer::dtype(bench.dtype), gated, pass].map(str::to_string));
        (include_str!("../../peers/torch_moe.py"), args)
    })
}

fn stages(layer: &MoeLayer, x: &Tensor<2>) -> Result<Vec<StageTime>, Error> {
    const REPEATS: usize = 5;
    let runs = (0..REPEATS).map(|_| layer.profile(x.clone()));
    let runs = runs.collect::<Result<Vec<_>, _>>()?;
    let mut stages: Vec<StageTime> = Vec::new();
    for stage in Stage::ALL {
        let times = runs.iter().flatten().filter(|(of, _)| *of == stage);
        let mut times: Vec<f64> = times.map(|(_, time)| time.as_secs_f64()).collect();
        // Not every device has every stage.
        if !times.is_empty() {
            let time = Timing::of(&mut times);
            stages.push(StageTime {
                name: stage.name().to_string(),
                median_ms: time.ms(),
                spread: time.spread(),
                share: 0.0,
            });
        }
    }
    let sum: f64 = stages.iter().map(|stage| stage.median_ms).sum();
    for stage in &mut stages {
        stage.share = stage.median_ms / sum;
    }
    Ok(stages)
}

//! The benchmarks of one mixture-of-experts layer.

pub mod backward;
pub mod fine;

use crate::options::{DTYPES, VARIANTS, named, positive};
use crate::oracle::tolerance;
use crate::peer::{self, BenchPeer, Figures, Peer, PeerError};
use crate::place::Place;
use crate::timing::{Spread, Timing, timing};
use crate::{BenchError, Ceilings, Checked, Measurement, Progress, Ran, oracle};
use burn::tensor::{DType, Distribution, Tensor};
use clap::Args;
use moebius::Error;
use moebius::moe::{Activation, Keep, MoeConfig, MoeLayer, RouteConfig, Stage};
use moebius_device::{Device, Opened, memory_in_use, process_memory};
use moebius_ops::Mismatch;
use moebius_shaders::experts;
use moebius_shaders::grouped_gemm::Variant;
use serde::Serialize;
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
    /// Kernels of the experts' products, proven or not [default: what the plan chooses].
    #[arg(long, value_name = "V", value_parser = named(VARIANTS))]
    pub variant: Option<Variant>,
    /// Device to measure: auto, wgpu[:n], vulkan[:n], cuda[:n], rocm[:n], cpu, flex or xla:{cpu,tpu,cuda}[:n].
    #[arg(long, value_name = "D", default_value = "auto")]
    pub device: Device,
    /// Measure another implementation in the same run.
    #[arg(long, value_name = "P")]
    pub peer: Option<BenchPeer>,
}

impl MoeBench {
    /// Width inside an expert, with the default applied.
    pub fn inter(&self) -> usize {
        let usual = || self.hidden.saturating_mul(4);
        self.inter.unwrap_or_else(usual)
    }

    /// The layer of the main job at one width: 8 experts, top-2, 32 × 128 tokens, relu, f32, dropless.
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
            variant: None,
            device,
            peer: None,
        }
    }
}

/// Time of one stage of the forward; the host waits for the device after every stage.
#[derive(Clone, Debug, Serialize)]
pub struct StageTime {
    /// Name of the stage.
    pub name: String,
    /// Median milliseconds.
    pub median_ms: f64,
    /// Spread of the stage's repetitions.
    pub spread: Spread,
    /// Share of this stage in the sum of all stages.
    pub share: f64,
}

/// Results of the benchmark. Outputs of sampled tokens are verified; GFLOP/s count the experts' products.
#[derive(Clone, Debug, Serialize)]
pub struct MoeReport {
    /// Result of the forward; its bytes are those of weights and activations.
    #[serde(flatten)]
    pub forward: Measurement,
    /// Tokens per second of the forward.
    pub tokens_per_s: f64,
    /// Bytes taken from the device for layer, batch and forward (on Flex: growth of the process); `None` on XLA, whose
    /// devices don't say.
    pub device_bytes: Option<u64>,
    /// Number of launches of a forward; 0 for `portable`.
    pub launches: usize,
    /// Share of the stages other than products: router, sort, combine.
    pub overhead_share: f64,
    /// Time of each stage.
    pub stages: Vec<StageTime>,
    /// PyTorch's result, when asked for.
    pub peer: Option<Peer>,
}

/// The layer under measurement.
struct Setup {
    place: Place,
    layer: MoeLayer,
    plan: Option<experts::Plan>,
    /// Input \[T,H\].
    x: Tensor<2>,
    /// Bytes held before this layer was made; `None` where the device doesn't say.
    held_before: Option<u64>,
}

impl Setup {
    /// Makes the layer and its input, for forward passes only, or with `keep` for backward passes as well.
    fn new(bench: &MoeBench, keep: Option<Keep>) -> Result<Self, BenchError> {
        let place = Place::open(&bench.device)?;
        if let Some(client) = place.opened.client() {
            // Pages that an earlier benchmark left for reuse would hide what this benchmark takes.
            client.memory_cleanup().map_err(BenchError::device)?;
        }
        let held_before = held_at_start(&place.opened);
        let mut config = config(bench);
        let mut on = place.device.clone();
        if let Some(keep) = keep {
            config = config.with_keep(keep);
            on = on.autodiff();
        }
        let mut layer = config.init(&on)?.with_variant(bench.variant);
        if bench.dtype != DType::F32 {
            layer = layer.cast(bench.dtype)?;
        }
        let plan = layer.plan(tokens(bench)?, bench.dtype, &on)?;
        let x = random(bench, &on)?;
        place.finish()?;
        Ok(Self {
            place,
            layer,
            plan,
            x,
            held_before,
        })
    }

    /// Counts memory from `earlier` bytes if that is less: memory that an earlier benchmark returned only to the
    /// process's allocator is used again here.
    fn counting_from(self, earlier: Option<u64>) -> Self {
        Self {
            held_before: self.held_before.into_iter().chain(earlier).min(),
            ..self
        }
    }

    /// Bytes taken from the device since `held_before`; on Flex, at the peak. `None` where the device doesn't say.
    fn bytes(&self) -> Option<u64> {
        Some(held(&self.place.opened)?.saturating_sub(self.held_before?))
    }

    /// Bytes of live buffers; `None` on Flex and XLA, which have no allocator to ask.
    fn live_bytes(&self) -> Option<u64> {
        Some(memory_in_use(&self.place.opened.client()?).in_use)
    }

    /// The device, and the kernel variant of the first product.
    fn ran(&self) -> Ran {
        let plan = self.plan.as_ref();
        let variant = plan.map_or("portable", |plan| plan.up.variant.name());
        self.place.ran(Some(variant.to_owned()))
    }
}

/// Normally distributed numbers in the shape and type of the batch.
fn random(bench: &MoeBench, device: &burn::tensor::Device) -> Result<Tensor<2>, Error> {
    let normal = Distribution::Normal(0.0, 1.0);
    let shape = [tokens(bench)?, bench.hidden];
    Ok(Tensor::<2>::random(shape, normal, device).cast(bench.dtype))
}

/// Number of tokens of the batch.
fn tokens(bench: &MoeBench) -> Result<usize, Error> {
    let tokens = bench.batch.checked_mul(bench.seq);
    tokens
        .filter(|tokens| (1..=i32::MAX as usize).contains(tokens))
        .ok_or_else(|| {
            let got = format!("{} x {}", bench.batch, bench.seq);
            Mismatch::new("batch x seq", "1 to 2^31 - 1 tokens", got).into()
        })
}

fn config(bench: &MoeBench) -> MoeConfig {
    let activation = if bench.gated {
        Activation::Silu
    } else {
        Activation::Relu
    };
    MoeConfig::new(bench.hidden, bench.inter(), bench.experts)
        .with_router(RouteConfig::new(bench.top_k))
        .with_gated(bench.gated)
        .with_activation(activation)
}

/// Bytes held on the device before the benchmark; on Flex, the process's peak is reset.
fn held_at_start(opened: &Opened) -> Option<u64> {
    if opened.device != Device::Flex {
        return held(opened);
    }
    // Resets the peak on Linux; other systems can't.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    Some(process_memory().map_or(0, |memory| memory.resident))
}

/// Bytes taken from the device so far; `None` on XLA, whose memory isn't, or not only, the process's: compiling takes
/// more of the process's memory than tensors do.
fn held(opened: &Opened) -> Option<u64> {
    match opened.client() {
        Some(client) => Some(memory_in_use(&client).reserved),
        None if opened.device == Device::Flex => {
            let memory = process_memory();
            Some(memory.map_or(0, |memory| memory.peak_resident.unwrap_or(memory.resident)))
        }
        None => None,
    }
}

/// A layer that has run its first forward, with the error found in that forward.
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
        setup.place.finish()?;
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
        self.setup.place.finish_with(out)
    }

    /// The report of a layer whose forward takes `time`.
    fn report(
        self,
        bench: &MoeBench,
        time: Timing,
        ceilings: Ceilings,
    ) -> Result<MoeReport, BenchError> {
        let stages = stages(&self.setup.layer, &self.setup.x)?;
        let tokens = tokens(bench)?;
        let problem = self.setup.layer.problem(tokens, bench.dtype)?;
        let work = [problem.flops(), problem.floor_bytes()];
        let checked = Checked::within(tolerance(bench.dtype), self.error);
        let (ran, first) = (self.setup.ran(), (self.first_ms, time));
        let products = [Stage::Gemm1, Stage::Gemm2, Stage::Experts].map(Stage::name);
        let around = |stage: &&StageTime| !products.contains(&stage.name.as_str());
        Ok(MoeReport {
            forward: Measurement::new(ran, checked, first, ceilings, work),
            tokens_per_s: tokens as f64 / time.seconds,
            device_bytes: self.device_bytes,
            // Router logits and top-k are two launches before those of the experts.
            launches: self.setup.plan.map_or(0, |plan| plan.launches() + 2),
            overhead_share: stages.iter().filter(around).map(|stage| stage.share).sum(),
            stages,
            peer: None,
        })
    }
}

/// Verifies, then measures; `progress` is called with each step.
///
/// # Errors
/// [`BenchError`] when the device refuses or fails, or the peer can't be run.
pub fn run(bench: &MoeBench, progress: Progress) -> Result<MoeReport, BenchError> {
    // PyTorch runs first, so that its absence shows before minutes are spent.
    let peer = measure_peer(bench, "forward", progress)?;
    let prepared = Prepared::new(bench, progress)?;
    progress("measuring");
    let time = timing(|| prepared.forward())?;
    progress("measuring the peak");
    let ceilings = prepared.setup.place.ceilings()?;
    progress("measuring the stages");
    let report = prepared.report(bench, time, ceilings)?;
    Ok(MoeReport {
        peer: peer.map(|figures| figures.compared_with(report.forward.speed.gflops)),
        ..report
    })
}

/// Measures the same layer in PyTorch, as a loop over experts, if asked for; `pass` is `forward`, without autograd, or
/// `backward`, with the gradients of x and all weights.
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
        // Some devices lack some stages.
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

//! The benchmark of one mixture-of-experts layer, forward and backward.

use super::{MoeBench, Setup, measure_peer, random, tokens};
use crate::oracle::{self, GRADIENTS_OVER_OUTPUTS, GradientOracle, Gradients, tolerance};
use crate::peer::Peer;
use crate::timing::{Speed, Spread, timings};
use crate::{BenchError, Ceilings, Checked, FLOPS_OF_FORWARD, Progress, Ran, Reached};
use burn::tensor::Tensor;
use moebius::Error;
use moebius::moe::{Keep, MoeLayer, MoeOutput};
use moebius_ops::Fault;
use serde::Serialize;
use std::time::Instant;

/// Results with one balance of memory and time.
#[derive(Clone, Debug, Serialize)]
pub struct TrainingRun {
    /// Which values the forward keeps for the backward pass.
    pub keep: Keep,
    /// Whether sampled outputs and gradients verify.
    #[serde(flatten)]
    pub checked: Checked,
    /// Median milliseconds of a warm forward pass that records the autodiff graph.
    pub forward_ms: f64,
    /// Spread of the forward pass's repetitions.
    pub forward_spread: Spread,
    /// Speed of a forward and backward of Σ y ∘ dy, with the gradients of x and all weights. GFLOP/s count the experts'
    /// products, [`FLOPS_OF_FORWARD`] times those of the forward.
    #[serde(flatten)]
    pub speed: Speed,
    /// Milliseconds of the first forward and backward, kernel compilation included.
    pub first_ms: f64,
    /// Tokens per second of forward and backward.
    pub tokens_per_s: f64,
    /// How near `speed` is to [`BackwardReport::ceilings`], with [`FLOPS_OF_FORWARD`] times the bytes of a forward.
    #[serde(flatten)]
    pub reached: Reached,
    /// Bytes taken from the device for layer, batch, both passes and gradients. On Flex: growth of the process, from
    /// before the first run to its peak; `None` on XLA, whose devices don't say.
    pub device_bytes: Option<u64>,
    /// Bytes that a forward leaves on the device for its backward pass, including y and the routing; a model holds as
    /// much for every layer. `None` on Flex and XLA, which have no allocator to ask.
    pub kept_bytes: Option<u64>,
    /// PyTorch's result, when asked for.
    pub peer: Option<Peer>,
}

/// Results of the benchmark; numbers mean something only when `verified`.
#[derive(Clone, Debug, Serialize)]
pub struct BackwardReport {
    /// Device that was measured.
    #[serde(flatten)]
    pub ran: Ran,
    /// Ceilings that the device reached in the same run.
    #[serde(flatten)]
    pub ceilings: Ceilings,
    /// A result for each balance asked for.
    pub runs: Vec<TrainingRun>,
}

/// Verifies, then measures every balance of `keeps` in order; `progress` is called with each step.
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
                none.insert(BackwardReport {
                    ran: setup.ran(),
                    ceilings: setup.place.ceilings()?,
                    runs: Vec::new(),
                })
            }
        };
        let run = measure(bench, (*keep, &report.ceilings), &setup, progress)?;
        report.runs.push(TrainingRun {
            peer: peer
                .clone()
                .map(|peer| peer.compared_with(run.speed.gflops)),
            ..run
        });
    }
    report.ok_or_else(|| {
        let error = Fault::Config.error("balances of memory and time", "at least 1", 0);
        Error::from(error).into()
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
    setup.place.finish()?;
    let start = Instant::now();
    let (out, gradients) = pass(&setup.layer, &x, &dy)?;
    setup.place.finish()?;
    let first_ms = start.elapsed().as_secs_f64() * 1e3;
    let device_bytes = setup.bytes();
    let error = error(&setup.layer, (&x, &dy), (&out, &gradients))?;
    drop((out, gradients));
    let kept_bytes = kept(setup, &x)?;
    progress("measuring");
    let mut forward = || {
        let out = setup.layer.forward(x.clone())?;
        setup.place.finish_with(out)
    };
    let mut both = || {
        let results = pass(&setup.layer, &x, &dy)?;
        setup.place.finish_with(results)
    };
    let [forward, time] = timings([&mut forward, &mut both])?;
    let tokens = tokens(bench)?;
    let problem = setup.layer.problem(tokens, bench.dtype)?;
    let work = [problem.flops(), problem.floor_bytes()].map(|of| FLOPS_OF_FORWARD * of);
    Ok(TrainingRun {
        keep,
        checked: Checked::within(GRADIENTS_OVER_OUTPUTS * tolerance(bench.dtype), error),
        forward_ms: forward.ms(),
        forward_spread: forward.spread(),
        speed: time.speed(work[0]),
        first_ms,
        tokens_per_s: tokens as f64 / time.seconds,
        reached: ceilings.reached(time, work),
        device_bytes,
        kept_bytes,
        peer: None,
    })
}

/// Number of bytes that a forward leaves live on the device; `None` where the device doesn't say.
fn kept(setup: &Setup, x: &Tensor<2>) -> Result<Option<u64>, BenchError> {
    setup.place.finish()?;
    let before = setup.live_bytes();
    let _out = setup.layer.forward(x.clone())?;
    setup.place.finish()?;
    let after = setup.live_bytes();
    Ok(after
        .zip(before)
        .map(|(after, before)| after.saturating_sub(before)))
}

/// Runs one forward pass and computes the gradients of Σ y ∘ dy.
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

/// Largest relative L2 error of the sampled outputs and gradients.
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

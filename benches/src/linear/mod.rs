//! The benchmark of one linear layer with FP8 weights: y = x · Wᵀ, x \[m, k\], W \[n, k\], no bias.

mod check;
mod data;
mod floats;
mod setup;

pub use setup::{BytesOf, LayerBytes};

use crate::BenchError;
use crate::ceiling::finish;
use crate::peer::{self, Figures};
use crate::timing::{Run, medians_of};
use burn::tensor::DType;
use check::{Oracle, largest_error};
use data::{HostData, rounded};
use floats::FloatPath;
use moebius::Device;
use moebius::fp8::{Activations, Fp8Format, Granularity};
use serde::Serialize;
use setup::{Setup, float_problem, weights};
use std::time::Instant;

/// What is measured.
#[derive(Clone, Copy, Debug)]
pub struct LinearBench {
    /// Rows of x.
    pub m: usize,
    /// Outputs.
    pub n: usize,
    /// Inputs.
    pub k: usize,
    /// Format of the codes.
    pub format: Fp8Format,
    /// Which weights share a scale.
    pub granularity: Granularity,
    /// Type of x, and of the float layers: f32, f16 or bf16.
    pub dtype: DType,
    /// How x is rounded: not at all, or with a scale for each row.
    pub activations: Activations,
    /// Where.
    pub device: Device,
    /// Whether PyTorch's linear layer in f32 is measured in the same run.
    pub peer_torch: bool,
}

/// One way to compute the layer.
#[derive(Clone, Debug, Serialize)]
pub struct PathTime {
    /// Which.
    pub name: String,
    /// Median milliseconds of a warm product.
    pub median_ms: f64,
    /// GFLOP/s.
    pub gflops: f64,
    /// GB/s of weights, each read once.
    pub weights_gb_per_s: f64,
    /// Speed of the FP8 layer over this one's; 1 for itself.
    pub ratio: f64,
}

/// What was measured; numbers mean something only when `verified`.
#[derive(Clone, Debug, Serialize)]
pub struct LinearReport {
    /// Device string, e.g. `cpu`.
    pub device: String,
    /// Its name.
    pub adapter: String,
    /// Kernel variant, `portable` where there are no kernels.
    pub variant: String,
    /// Whether the sampled outputs of every path agree with f64 dot products.
    pub verified: bool,
    /// Largest relative L2 error of a path's sampled outputs: those of the FP8 layer against the
    /// values that its codes and scales stand for, those of the float layers against the weights.
    pub max_rel_l2: f64,
    /// Relative L2 distance of the decoded weights from those that were quantised.
    pub weights_rel_l2: f64,
    /// Milliseconds of the first forward, kernel compilation included.
    pub first_ms: f64,
    /// The FP8 layer.
    pub fp8: PathTime,
    /// The float layers on this device.
    pub own: Vec<PathTime>,
    /// Speed of the FP8 layer over that of the fastest of them; `None` when there are none.
    pub ratio_to_best_own: Option<f64>,
    /// PyTorch, when asked for.
    pub peer: Option<PathTime>,
    /// Bytes of the layer, and of one in f32.
    pub layer_bytes: LayerBytes,
    /// Bytes that have to be read at least: codes, scales and x.
    pub floor_bytes: u64,
    /// Floating-point operations of a product.
    pub flops: u64,
}

/// Verifies, then measures; `progress` is told what is being done.
///
/// # Errors
/// [`BenchError`] when the sizes don't fit, the device refuses the FP8 layer or our float kernel or
/// fails, or the peer can't be run.
pub fn run(
    bench: &LinearBench,
    progress: &mut dyn FnMut(&str),
) -> Result<LinearReport, BenchError> {
    float_problem(bench)?;
    // First, so that a missing peer costs no minutes, and before a runtime has started its threads. It takes
    // the same product, in f32 whatever ours is in.
    let peer = peer::torch(bench.peer_torch, progress, || {
        let sizes = peer::texts(&[bench.m, bench.n, bench.k]);
        (include_str!("../../peers/torch_linear.py"), sizes)
    })?;
    progress("making the layers");
    let data = HostData::new(bench);
    let setup = Setup::new(bench, &data)?;
    let floats = FloatPath::all(bench, &setup, &data)?;
    progress("verifying");
    let [max_rel_l2, weights_rel_l2, first_ms] = check(bench, (&setup, &floats), &data)?;
    progress("measuring");
    let (fp8, own, peer) = times(bench, (&setup, &floats), peer)?;
    Ok(LinearReport {
        device: setup.name(),
        adapter: setup.opened.capability.name.clone(),
        verified: max_rel_l2 <= largest_error(bench),
        max_rel_l2,
        weights_rel_l2,
        first_ms,
        ratio_to_best_own: own.iter().map(|path| path.ratio).reduce(f64::min),
        fp8,
        own,
        peer,
        layer_bytes: setup.bytes,
        floor_bytes: setup.code_bytes(bench) + (bench.m * bench.k * bench.dtype.size()) as u64,
        flops: flops(bench),
        variant: setup.variant,
    })
}

fn flops(bench: &LinearBench) -> u64 {
    2 * bench.m as u64 * weights(bench)
}

/// The largest error of an output, that of the FP8 weights, and the milliseconds of the first forward.
fn check(
    bench: &LinearBench,
    (setup, floats): (&Setup, &[FloatPath]),
    data: &HostData,
) -> Result<[f64; 3], BenchError> {
    finish(&setup.device)?;
    let start = Instant::now();
    setup.forward()?;
    let first_ms = start.elapsed().as_secs_f64() * 1e3;
    let oracle = Oracle::new(bench);
    let [mut error, weights_error] =
        oracle.fp8_errors(&setup.layer.weight, data, &setup.output()?)?;
    let weights = rounded(data.weights.clone(), bench.dtype);
    for path in floats {
        error = error.max(oracle.float_error(&data.x, &weights, &path.layer.output()?));
    }
    Ok([error, weights_error, first_ms])
}

/// What took how long: the FP8 layer, the float layers and the peer.
fn times(
    bench: &LinearBench,
    (setup, floats): (&Setup, &[FloatPath]),
    peer: Option<Figures>,
) -> Result<(PathTime, Vec<PathTime>, Option<PathTime>), BenchError> {
    let (fp8, own) = measure(setup, floats)?;
    let time = |name: String, seconds: f64, weight_bytes: u64| PathTime {
        name,
        median_ms: seconds * 1e3,
        gflops: flops(bench) as f64 / seconds / 1e9,
        weights_gb_per_s: weight_bytes as f64 / seconds / 1e9,
        ratio: seconds / fp8,
    };
    let float_bytes = bench.dtype.size() as u64 * weights(bench);
    let own = floats.iter().zip(own);
    let own = own.map(|(path, seconds)| time(path.name.clone(), seconds, float_bytes));
    let peer = peer.map(|peer| {
        let name = format!("{} in f32", peer.name());
        time(name, peer.seconds(), 4 * weights(bench))
    });
    let name = format!("FP8 ({})", setup.variant);
    Ok((
        time(name, fp8, setup.code_bytes(bench)),
        own.collect(),
        peer,
    ))
}

/// Median seconds of the FP8 layer and of the float layers, in turns.
fn measure(setup: &Setup, floats: &[FloatPath]) -> Result<(f64, Vec<f64>), BenchError> {
    let mut fp8 = || setup.forward();
    let mut floats: Vec<_> = floats.iter().map(|path| || path.layer.run()).collect();
    let mut runs: Vec<Run> = vec![&mut fp8];
    runs.extend(floats.iter_mut().map(|run| run as Run));
    let mut seconds = medians_of(&mut runs)?;
    let floats = seconds.split_off(1);
    Ok((seconds[0], floats))
}

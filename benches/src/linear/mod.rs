//! The benchmark of one linear layer with FP8 weights: y = x · Wᵀ with x \[m, k\] and W \[n, k\], without bias; beside it the layer in
//! floats, with the larger half of its weights, 2:4, and with weights in blocks of codes.

mod check;
mod data;
mod layers;

pub use layers::{BytesOf, LayerBytes};

use crate::options::{DTYPES, FORMATS, Named, named, positive};
use crate::peer::{self, BenchPeer, Figures};
use crate::timing::{Speed, Timing, seconds_of, timings_of};
use crate::{BenchError, Ceilings, Checked, Floor, Progress, Ran};
use burn::tensor::DType;
use check::{Oracle, largest_error};
use clap::Args;
use data::{HostData, copies, decoded_blocks, float_problem, rounded, weights};
use layers::{FloatPath, Layer, Of, Setup};
use moebius::fp8::{Activations, Fp8Format, Granularity};
use moebius::{Device, Error};
use moebius_ops::grouped_gemm::sparse24;
use serde::Serialize;

/// Granularities of scales by name: which weights share a scale.
const GRANULARITIES: [Named<Granularity>; 4] = [
    ("tensor", "One scale", Granularity::Tensor),
    ("row", "One for each output", Granularity::Row),
    (
        "block128",
        "One for each 128 × 128",
        Granularity::of_blocks(128, 128),
    ),
    (
        "mx",
        "One for each 32 inputs of an output, a power of two",
        Granularity::Mx,
    ),
];

/// Roundings of activations by name.
const ACTIVATIONS: [Named<Activations>; 2] = [
    ("float", "As they come", Activations::Float),
    (
        "dynamic-row",
        "E4M3 codes with a scale for each token",
        Activations::Dynamic(Granularity::Row),
    ),
];

/// What is measured, as the options of a command.
#[derive(Clone, Copy, Debug, Args)]
pub struct LinearBench {
    /// Tokens.
    #[arg(long, value_name = "N", default_value = "1", value_parser = positive)]
    pub m: usize,
    /// Outputs of the layer.
    #[arg(long, value_name = "N", default_value = "4096", value_parser = positive)]
    pub n: usize,
    /// Inputs of the layer.
    #[arg(long, value_name = "N", default_value = "4096", value_parser = positive)]
    pub k: usize,
    /// Format of the codes.
    #[arg(long, value_name = "F", default_value = "e4m3", value_parser = named(FORMATS))]
    pub format: Fp8Format,
    /// Weights that share a scale: all, an output's, 128 × 128, or 32 of an output's (a power of two).
    #[arg(long, value_name = "G", default_value = "row", value_parser = named(GRANULARITIES))]
    pub granularity: Granularity,
    /// Element type of activations, and of the float layers; sums are f32.
    #[arg(long, value_name = "T", default_value = "f32", value_parser = named(DTYPES))]
    pub dtype: DType,
    /// What the FP8 layer makes of activations: nothing, or E4M3 codes with a scale per token.
    #[arg(long, value_name = "A", default_value = "float", value_parser = named(ACTIVATIONS))]
    pub activations: Activations,
    /// Device to measure: auto, wgpu[:n], vulkan[:n], cuda[:n], rocm[:n], cpu, flex or xla:{cpu,tpu,cuda}[:n].
    #[arg(long, value_name = "D", default_value = "auto")]
    pub device: Device,
    /// Measure another implementation, in f32 on the CPU, in the same run.
    #[arg(long, value_name = "P")]
    pub peer: Option<BenchPeer>,
}

/// Result of one way to compute the layer.
#[derive(Clone, Debug, Serialize)]
pub struct PathTime {
    /// Name of the way.
    pub name: String,
    /// Whether the sampled outputs of this way verify; `None` for a peer, whose outputs stay in its own process.
    #[serde(flatten)]
    pub checked: Option<Checked>,
    /// Time and GFLOP/s.
    #[serde(flatten)]
    pub speed: Speed,
    /// GB/s at which the weights are read, each once.
    pub weights_gb_per_s: f64,
    /// Number of copies of the weights that took turns: with few tokens on the processor, enough that the weights come
    /// from memory rather than from caches.
    pub copies: usize,
    /// Least time for the operations and for the bytes of weights, x and y.
    pub floor: Option<Floor>,
    /// Speed of the FP8 layer divided by the speed of this way; 1 for the FP8 layer itself.
    pub ratio: f64,
}

impl PathTime {
    /// This result, judged by the error of its sampled outputs.
    fn judged(self, bench: &LinearBench, error: f64) -> Self {
        let checked = Some(Checked::within(largest_error(bench), error));
        Self { checked, ..self }
    }
}

/// Results of the benchmark. The FP8 layer is verified against its decoded weights, float layers against the original
/// weights, that with 2:4 weights against those with 0 for what it lacks, and those with blocks against what the blocks decode to.
#[derive(Clone, Debug, Serialize)]
pub struct LinearReport {
    /// Device that was measured.
    #[serde(flatten)]
    pub ran: Ran,
    /// Whether the sampled outputs of every way verify, and the largest error.
    #[serde(flatten)]
    pub checked: Checked,
    /// Foreign layers that don't verify, each with its relative L2 error; they have no further figures.
    pub left_out: Vec<(String, f64)>,
    /// Relative L2 distance of the decoded weights from the original weights.
    pub weights_rel_l2: f64,
    /// Milliseconds of the first forward, kernel compilation included.
    pub first_ms: f64,
    /// Ceilings that the device reached in the same run.
    #[serde(flatten)]
    pub ceilings: Ceilings,
    /// The FP8 layer.
    pub fp8: PathTime,
    /// The float layers on this device.
    pub own: Vec<PathTime>,
    /// Our float layer with 2:4 weights; `None` if the inputs aren't a multiple of 4.
    pub sparse24: Option<PathTime>,
    /// Our layers with weights in blocks of codes, of other values, for inputs that are whole blocks.
    pub blocks: Vec<PathTime>,
    /// Speed of the FP8 layer divided by that of the fastest in `own`; `None` when there are none.
    pub ratio_to_best_own: Option<f64>,
    /// PyTorch's linear layer, when asked for.
    pub peer: Option<PathTime>,
    /// Bytes of the FP8 layer and of the same layer in f32.
    pub layer_bytes: LayerBytes,
    /// Least number of bytes that have to be read: codes, scales and x.
    pub floor_bytes: u64,
    /// Floating-point operations of one product.
    pub flops: u64,
}

/// Verifies, then measures; `progress` is called with each step.
///
/// # Errors
/// [`BenchError`] when the sizes don't fit, the device refuses the FP8 layer or our float kernel or
/// fails, or the peer can't be run.
pub fn run(bench: &LinearBench, progress: Progress) -> Result<LinearReport, BenchError> {
    float_problem(bench)?;
    // PyTorch runs first, so that its absence shows before minutes are spent, and before a runtime has started its
    // threads. It computes the same product, always in f32.
    let peer = peer::torch(bench.peer, progress, || {
        let copies = copies(bench, true, 4 * weights(bench));
        let sizes = peer::texts(&[bench.m, bench.n, bench.k, copies]);
        (include_str!("../../peers/torch_linear.py"), sizes)
    })?;
    progress("making the layers");
    let data = HostData::new(bench);
    let setup = Setup::new(bench, &data)?;
    let mut floats = FloatPath::all(bench, &setup.place, &data)?;
    progress("verifying");
    let found = check(bench, (&setup, &mut floats), &data)?;
    progress("measuring");
    let mut layers: Vec<&dyn Layer> = vec![&setup.fp8];
    layers.extend(floats.iter().map(|path| &*path.layer));
    let times = timings_of(&mut layers, |layer| seconds_of(|| layer.run()))?;
    progress("measuring the peak");
    let rows = Rows {
        bench,
        ceilings: setup.place.ceilings()?,
        fp8: times[0],
    };
    let code_bytes = setup.code_bytes(bench);
    let name = format!("FP8 ({})", setup.variant);
    let fp8 = rows.row(name, times[0], code_bytes, setup.fp8.layers.count());
    let fp8 = fp8.judged(bench, found.fp8);
    let (mut own, mut sparse24, mut blocks) = (Vec::new(), None, Vec::new());
    let floats = floats.into_iter().zip(&times[1..]).zip(&found.floats);
    for ((path, time), error) in floats {
        let row = rows.row(path.name, *time, path.bytes, path.copies);
        let row = row.judged(bench, *error);
        match path.of {
            Of::Floats => own.push(row),
            Of::Sparse24 => sparse24 = Some(row),
            Of::Blocks(_) => blocks.push(row),
        }
    }
    Ok(LinearReport {
        ran: setup.place.ran(Some(setup.variant)),
        checked: Checked::within(largest_error(bench), found.largest()),
        left_out: found.left_out,
        weights_rel_l2: found.weights_rel_l2,
        first_ms: found.first_ms,
        sparse24,
        blocks,
        ratio_to_best_own: own.iter().map(|path| path.ratio).reduce(f64::min),
        fp8,
        own,
        peer: peer.map(|peer| rows.peer(&peer)),
        layer_bytes: setup.bytes,
        floor_bytes: code_bytes + (bench.m * bench.k * bench.dtype.size()) as u64,
        flops: flops(bench),
        ceilings: rows.ceilings,
    })
}

fn flops(bench: &LinearBench) -> u64 {
    2 * bench.m as u64 * weights(bench)
}

/// Results of the check before the measurement, and the time of the first product.
struct Found {
    /// Relative L2 errors of the FP8 layer, and of each float layer that is measured.
    fp8: f64,
    floats: Vec<f64>,
    left_out: Vec<(String, f64)>,
    weights_rel_l2: f64,
    first_ms: f64,
}

impl Found {
    fn largest(&self) -> f64 {
        self.floats.iter().copied().fold(self.fp8, f64::max)
    }
}

/// Checks all layers and removes foreign ones that don't verify.
fn check(
    bench: &LinearBench,
    (setup, floats): (&Setup, &mut Vec<FloatPath>),
    data: &HostData,
) -> Result<Found, BenchError> {
    setup.place.finish()?;
    let first_ms = 1e3 * seconds_of(|| setup.fp8.run())?;
    let oracle = Oracle::new(bench);
    let [fp8, weights_rel_l2] = oracle.fp8_errors(setup.weight(), data, &setup.fp8.output()?)?;
    let weights = rounded(data.weights.clone(), bench.dtype);
    let (mut errors, mut left_out) = (Vec::new(), Vec::new());
    for path in std::mem::take(floats) {
        let y = path.layer.output()?;
        let error = match path.of {
            Of::Floats => oracle.float_error(&data.x, &weights, &y)?,
            Of::Sparse24 => oracle.float_error(&data.x, &larger_half(&weights)?, &y)?,
            Of::Blocks(format) => {
                oracle.float_error(&data.x, &decoded_blocks(bench, format)?, &y)?
            }
        };
        if path.foreign && error > largest_error(bench) {
            left_out.push((path.name, error));
        } else {
            errors.push(error);
            floats.push(path);
        }
    }
    Ok(Found {
        fp8,
        floats: errors,
        left_out,
        weights_rel_l2,
        first_ms,
    })
}

/// The weights with 0 for the smaller two of each four.
fn larger_half(weights: &[f32]) -> Result<Vec<f32>, Error> {
    let mask = sparse24::largest(weights)?;
    let masked = weights.iter().zip(mask);
    Ok(masked
        .map(|(w, kept)| if kept { *w } else { 0.0 })
        .collect())
}

/// Makes rows of a report.
struct Rows<'a> {
    bench: &'a LinearBench,
    ceilings: Ceilings,
    /// Time of the FP8 layer.
    fp8: Timing,
}

impl Rows<'_> {
    /// The row of a layer whose weights take `weight_bytes`.
    fn row(&self, name: String, time: Timing, weight_bytes: u64, copies: usize) -> PathTime {
        let LinearBench { m, n, k, dtype, .. } = *self.bench;
        let (seconds, flops) = (time.seconds, flops(self.bench));
        let bytes = weight_bytes + (m * (n + k) * dtype.size()) as u64;
        PathTime {
            name,
            checked: None,
            speed: time.speed(flops),
            weights_gb_per_s: weight_bytes as f64 / seconds / 1e9,
            copies,
            floor: self.ceilings.floor(flops, bytes, seconds),
            ratio: seconds / self.fp8.seconds,
        }
    }

    fn peer(&self, peer: &Figures) -> PathTime {
        let (name, bytes) = (format!("{} in f32", peer.name()), 4 * weights(self.bench));
        let copies = copies(self.bench, true, bytes);
        self.row(name, peer.timing(), bytes, copies)
    }
}

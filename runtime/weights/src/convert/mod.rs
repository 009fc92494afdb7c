//! A checkpoint in, a checkpoint in FP8 out, one matrix in memory at a time.
//!
//! Peak memory is one matrix (of a stack of experts: one expert) in f32 and its codes, whatever the
//! checkpoint's size: values are widened while they are read, codes written when they are there, and what
//! is copied goes through a buffer of 1 MiB.

mod plan;
mod run;
mod target;

pub use plan::DEFAULT_SKIPS;
pub use run::{Quantize, QuantizeError, host_quantizer};

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use moebius_ops::scaling::{Fp8Scheme, Granularity};
use serde::Serialize;

use crate::error::WeightsError;
use crate::fp8::Unscaled;
use crate::reader::Reader;
use crate::source::BLOCK_SIZE;
use crate::writer::{SHARD_BYTES, Writer};
use plan::Plan;
use target::Target;

/// Converts the weights of `source` to FP8 and writes them, and all other tensors, to `target`.
///
/// `target` is a file where its name ends in `.safetensors`, else a folder: new or empty. It is there when
/// everything is written, and as it was before when anything fails. Every tensor of F32, F16 or BF16
/// that is a matrix of a layer (see [`DEFAULT_SKIPS`](crate::DEFAULT_SKIPS) for what is not) is quantised by `quantize`;
/// FP8 of the scheme asked for is carried over, other FP8 decoded and quantised again; everything else
/// is copied byte for byte. From a folder to a folder the small files go along, and `config.json` gets the
/// `quantization_config` that fits: DeepSeek's `fp8` for blocks, else `compressed-tensors` for E4M3, else
/// `moebius-fp8`, which other loaders refuse. `progress` gets a name, its number from 0 and how many there are.
///
/// # Errors
/// [`WeightsError`]: those of [`Reader`], of [`Writer`] and of `quantize`;
/// [`WeightsError::TargetIsSource`], [`WeightsError::TargetExists`], [`WeightsError::Busy`],
/// [`WeightsError::SkippedFp8`], and [`WeightsError::WrongTensor`] for FP8 that is not computed with.
pub fn convert(
    source: &Reader,
    target: &Path,
    options: &ConvertOptions,
    quantize: &mut Quantize<'_>,
    progress: &mut dyn FnMut(&str, usize, usize),
) -> Result<ConvertReport, WeightsError> {
    let plan = Plan::new(source, options)?;
    let target = Target::begin(source, target)?;
    let metadata = metadata(source, options.scheme);
    let mut writer = match &target {
        Target::File(path) => Writer::file(path, &plan.specs, &metadata)?,
        Target::Folder(part) => {
            Writer::folder(part.path(), &plan.specs, &metadata, options.shard_bytes)?
        }
    };
    let mut report = ConvertReport {
        bytes_before: source.file_bytes(),
        ..ConvertReport::default()
    };
    let of = plan.steps.len();
    for (number, step) in plan.steps.iter().enumerate() {
        progress(step.name(), number, of);
        match run::step(source, options.scheme, step, &mut writer, quantize)? {
            Some(layer) => report.layers.push(layer),
            None => {
                report.copied_tensors += 1;
                report.copied_bytes += source.info(step.name())?.bytes();
            }
        }
    }
    let files = writer.finish()?;
    target.finish(source, &plan, options.scheme, files, &mut report)?;
    Ok(report)
}

/// The source's free text, and the size of blocks for a reader without a configuration.
fn metadata(source: &Reader, scheme: Fp8Scheme) -> BTreeMap<String, String> {
    let entries = source.metadata().into_iter();
    let mut metadata: BTreeMap<String, String> = entries
        .map(|(key, text)| (key.to_owned(), text.to_owned()))
        .collect();
    metadata.remove(BLOCK_SIZE);
    if let Granularity::Block { rows, columns } = scheme.granularity {
        metadata.insert(BLOCK_SIZE.to_owned(), format!("[{rows}, {columns}]"));
    }
    metadata
}

/// What a conversion does.
#[derive(Clone, Debug)]
pub struct ConvertOptions {
    /// What weights become.
    pub scheme: Fp8Scheme,
    /// Patterns of names that stay as they are: `*` any characters, `?` one.
    pub skip: Vec<String>,
    /// What to do with FP8 codes that have no scale.
    pub unscaled: Unscaled,
    /// Bytes of data from which on a folder gets another file.
    pub shard_bytes: Option<u64>,
}

impl ConvertOptions {
    /// [`DEFAULT_SKIPS`], no FP8 without scales, and files of 5 GB as Hugging Face writes them.
    pub fn new(scheme: Fp8Scheme) -> Self {
        Self {
            scheme,
            skip: DEFAULT_SKIPS.iter().map(|&s| s.to_owned()).collect(),
            unscaled: Unscaled::Refuse,
            shard_bytes: Some(SHARD_BYTES),
        }
    }
}

/// What became of a weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// From floating point to FP8.
    Quantized,
    /// From FP8 to FP8 of another kind.
    Requantized,
    /// FP8 of this kind already: the same codes and scales.
    Carried,
}

/// One weight that is in FP8 now.
#[derive(Clone, Debug, Serialize)]
pub struct ConvertedLayer {
    /// Its name.
    pub name: String,
    /// \[n, k\], or \[experts, n, k\].
    pub shape: Vec<usize>,
    /// What was done.
    pub action: Action,
    /// What it was: a dtype, or a scheme.
    pub from: String,
    /// Bytes it had, scales included.
    pub bytes_before: u64,
    /// Bytes it has, scales included.
    pub bytes_after: u64,
    /// ‖decoded − original‖₂ / ‖original‖₂ over finite values; 0 for one that is carried over.
    pub relative_rms: f64,
    /// Largest |decoded − original| of a finite value.
    pub max_abs: f32,
    /// Values that are NaN or infinite.
    pub non_finite: u64,
}

/// What a conversion did.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ConvertReport {
    /// The weights in FP8, in the order of the files.
    pub layers: Vec<ConvertedLayer>,
    /// Other tensors, the same bytes as before.
    pub copied_tensors: usize,
    /// Their bytes.
    pub copied_bytes: u64,
    /// Bytes of the files of weights that were read.
    pub bytes_before: u64,
    /// Bytes of the files of weights that were written.
    pub bytes_after: u64,
    /// The files of weights, and the index.
    pub files: Vec<PathBuf>,
    /// Other files of the folder that were copied.
    pub copied_files: Vec<String>,
    /// Files of the folder that were not: weights in other formats, and what describes the old ones.
    pub left_out: Vec<String>,
}

//! Converts a checkpoint to FP8, with one matrix in memory at a time.
//!
//! Peak memory is one matrix (of a stack of experts: one expert) in f32 and its codes, whatever the checkpoint's size: values are widened
//! while they are read, codes are written as soon as they are computed, and copied tensors go through a buffer of 1 MiB.

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
/// `target` is a file if its name ends in `.safetensors`, else a new or empty folder. It appears only when everything is written, and stays
/// as it was when anything fails. Every tensor of F32, F16 or BF16 that is a matrix of a layer (see [`DEFAULT_SKIPS`](crate::DEFAULT_SKIPS)
/// for what is not) is quantised by `quantize`; FP8 weights of the requested scheme are carried over, and other FP8 weights are decoded and
/// quantised again; everything else is copied byte for byte. From folder to folder, small files are copied, too, and `config.json` gets the
/// matching `quantization_config`: DeepSeek's `fp8` for blocks, else `compressed-tensors` for E4M3, else `moebius-fp8`, which other loaders
/// refuse. `progress` gets the name of a tensor, its index from 0 and the number of tensors.
///
/// # Errors
/// The errors of [`Reader`], [`Writer`] and `quantize`; [`WeightsError::TargetIsSource`] and [`WeightsError::TargetExists`] for a target
/// that can't be written, [`WeightsError::Busy`] when another run writes there, [`WeightsError::SkippedFp8`] for a skipped weight in
/// another FP8 scheme, [`WeightsError::WrongTensor`] for unsupported FP8 dtypes (FNUZ).
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

/// The source's free-text metadata, plus the block size for readers without a configuration.
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

/// Options of a conversion.
#[derive(Clone, Debug)]
pub struct ConvertOptions {
    /// FP8 scheme that weights are converted to.
    pub scheme: Fp8Scheme,
    /// Patterns of names of tensors that stay as they are: `*` stands for any characters, `?` for one.
    pub skip: Vec<String>,
    /// How to treat FP8 codes that have no scale.
    pub unscaled: Unscaled,
    /// Bytes of data after which a folder gets another file; `None` for no limit.
    pub shard_bytes: Option<u64>,
}

impl ConvertOptions {
    /// Options with [`DEFAULT_SKIPS`], FP8 codes without scales refused, and files of 5 GB like Hugging Face's.
    pub fn new(scheme: Fp8Scheme) -> Self {
        Self {
            scheme,
            skip: DEFAULT_SKIPS.iter().map(|&s| s.to_owned()).collect(),
            unscaled: Unscaled::Refuse,
            shard_bytes: Some(SHARD_BYTES),
        }
    }
}

/// What a conversion did with a weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// Quantised from floating point to FP8.
    Quantized,
    /// Decoded from FP8 and quantised to another FP8 scheme.
    Requantized,
    /// Carried over, with the same codes and scales.
    Carried,
}

/// A weight that is FP8 after the conversion.
#[derive(Clone, Debug, Serialize)]
pub struct ConvertedLayer {
    /// Name of the weight.
    pub name: String,
    /// Shape of the weight: \[n, k\], or \[experts, n, k\].
    pub shape: Vec<usize>,
    /// What the conversion did with the weight.
    pub action: Action,
    /// Dtype or FP8 scheme before the conversion.
    pub from: String,
    /// Bytes before the conversion, scales included.
    pub bytes_before: u64,
    /// Bytes after the conversion, scales included.
    pub bytes_after: u64,
    /// Relative error ‖decoded − original‖₂ / ‖original‖₂ over finite values; 0 for a weight that is carried over.
    pub relative_rms: f64,
    /// Largest error |decoded − original| of a finite value.
    pub max_abs: f32,
    /// Number of values that are NaN or infinite.
    pub non_finite: u64,
}

/// Report of a conversion.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ConvertReport {
    /// FP8 weights, in the order of the files.
    pub layers: Vec<ConvertedLayer>,
    /// Number of other tensors, which were copied byte for byte.
    pub copied_tensors: usize,
    /// Bytes of the copied tensors.
    pub copied_bytes: u64,
    /// Bytes of the files of weights that were read.
    pub bytes_before: u64,
    /// Bytes of the files of weights that were written.
    pub bytes_after: u64,
    /// Paths of the written files of weights, and of the index.
    pub files: Vec<PathBuf>,
    /// Names of other files of the folder that were copied.
    pub copied_files: Vec<String>,
    /// Names of files of the folder that weren't copied: weights in other formats, and descriptions of the old weights.
    pub left_out: Vec<String>,
}

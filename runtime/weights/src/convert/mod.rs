//! A checkpoint in, a checkpoint in FP8 out, one matrix in memory at a time.
//!
//! Peak memory is one matrix (of a stack of experts: one expert) in f32 and its codes, whatever the
//! checkpoint's size: values are widened while they are read, codes written when they are there, and what
//! is copied goes through a buffer of 1 MiB.

mod options;
mod plan;
mod quantize;
mod report;
mod run;
mod target;

use std::collections::BTreeMap;
use std::path::Path;

use moebius_ops::scaling::{Fp8Scheme, Granularity};

use crate::error::WeightsError;
use crate::names::BLOCK_SIZE;
use crate::reader::Reader;
use crate::writer::Writer;
use plan::Plan;
use target::Target;

pub use options::ConvertOptions;
pub use quantize::{Quantize, QuantizeError, host_quantizer};
pub use report::{Action, ConvertReport, ConvertedLayer};

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
    target.finish(source, &plan, options.scheme, (files, &mut report))?;
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

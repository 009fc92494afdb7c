//! The target of a conversion: a file, or a folder that appears when it is complete.
//!
//! `quantization_config` in a folder's `config.json` tells a loader how the weights are stored:
//!
//! | weights | `quant_method` | read by |
//! |---|---|---|
//! | blocks | `fp8`, with `fmt` and `weight_block_size`, as DeepSeek-V3 | Hugging Face, vLLM, SGLang |
//! | E4M3, row or tensor | `compressed-tensors`, `float-quantized` | the same |
//! | E4M3, MX | `compressed-tensors`, `mxfp8-quantized` | newer ones |
//! | E5M2, not blocks | `moebius-fp8` | no other program: there is no scheme for it, and a name that others refuse is better than wrong values |

use std::fs;
use std::path::{Path, PathBuf};

use moebius_ops::fp8::Fp8Format;
use moebius_ops::scaling::{Fp8Scheme, Granularity, MX_BLOCK};
use serde_json::{Value, json};

use super::ConvertReport;
use super::plan::Plan;
use crate::error::{WeightsError, write_error};
use crate::folder::{PartFolder, copy_into, is_weights, parent, small_files, write_whole};
use crate::reader::Reader;
use crate::source::{BLOCK_SIZE, CONFIG_FILE, INDEX_FILE};

/// Files that describe the old weights and that this conversion can't rewrite.
const STALE: &[&str] = &["hf_quant_config.json"];

/// Target of a conversion.
#[derive(Debug)]
pub(super) enum Target {
    /// A file, which the writer replaces when it is complete.
    File(PathBuf),
    /// A folder, which appears when it is complete.
    Folder(PartFolder),
}

impl Target {
    /// Checks that `path` can be written and isn't the source; a folder is begun under a temporary name.
    pub(super) fn begin(source: &Reader, path: &Path) -> Result<Self, WeightsError> {
        let is_file = path
            .extension()
            .is_some_and(|ending| ending == "safetensors");
        refuse_source(source, path)?;
        let above = parent(path);
        fs::create_dir_all(&above).map_err(write_error(&above))?;
        if is_file {
            return Ok(Self::File(path.to_owned()));
        }
        PartFolder::begin(path).map(Self::Folder)
    }

    /// Adds the files that hold no weights, and moves the folder to its place.
    pub(super) fn finish(
        self,
        source: &Reader,
        plan: &Plan,
        scheme: Fp8Scheme,
        files: Vec<PathBuf>,
        report: &mut ConvertReport,
    ) -> Result<(), WeightsError> {
        report.bytes_after = weight_bytes(&files)?;
        let part = match self {
            Self::File(_) => {
                report.files = files;
                return Ok(());
            }
            Self::Folder(part) => part,
        };
        if let Some(folder) = source.folder() {
            copy_small_files(folder, part.path(), plan, report)?;
            if plan.has_fp8() && source.config().is_some_and(Value::is_object) {
                write_config(source, part.path(), plan, scheme)?;
            }
        }
        let folder = part.finish()?;
        let names = files.iter().filter_map(|file| file.file_name());
        report.files = names.map(|name| folder.join(name)).collect();
        Ok(())
    }
}

fn weight_bytes(files: &[PathBuf]) -> Result<u64, WeightsError> {
    let weights = files
        .iter()
        .filter(|file| file.file_name().is_some_and(|name| name != INDEX_FILE));
    let mut bytes = 0;
    for file in weights {
        let about = fs::metadata(file);
        bytes += about.map_err(write_error(file))?.len();
    }
    Ok(bytes)
}

fn refuse_source(source: &Reader, target: &Path) -> Result<(), WeightsError> {
    let Ok(real) = target.canonicalize() else {
        return Ok(()); // The path doesn't exist, so it isn't the source.
    };
    let read = source.files().chain(source.folder());
    let places = read.filter_map(|path| path.canonicalize().ok());
    if places.into_iter().any(|place| place == real) {
        return Err(WeightsError::TargetIsSource(target.to_owned()));
    }
    Ok(())
}

/// Copies the files of a folder that hold no weights.
fn copy_small_files(
    from: &Path,
    to: &Path,
    plan: &Plan,
    report: &mut ConvertReport,
) -> Result<(), WeightsError> {
    for name in small_files(from)? {
        let text = name.to_string_lossy();
        let stale = plan.has_fp8() && STALE.contains(&text.as_ref());
        if stale || is_weights(&text) {
            if stale || !text.ends_with(".safetensors") && !text.ends_with(".index.json") {
                report.left_out.push(text.into_owned());
            }
            continue;
        }
        copy_into(&from.join(&name), to)?;
        report.copied_files.push(text.into_owned());
    }
    Ok(())
}

/// Writes `config.json` with the `quantization_config` of the new weights.
fn write_config(
    source: &Reader,
    folder: &Path,
    plan: &Plan,
    scheme: Fp8Scheme,
) -> Result<(), WeightsError> {
    let mut config = source.config().cloned().unwrap_or_default();
    if let Value::Object(entries) = &mut config {
        // MLX's sizes, and an older name of `quantization_config`.
        for key in ["quantization", "compression_config"] {
            entries.remove(key);
        }
        let ignored = plan.ignored(source);
        let written = quantization_config(scheme, &ignored, plan.is_calibrated());
        entries.insert("quantization_config".to_owned(), written);
    }
    let path = folder.join(CONFIG_FILE);
    write_whole(&path, format!("{config:#}\n").as_bytes())
}

/// The value of `quantization_config`. `ignored` are modules whose weights stay as they are; `calibrated` says that every weight has a
/// scale of its input.
fn quantization_config(scheme: Fp8Scheme, ignored: &[String], calibrated: bool) -> Value {
    let activations = if calibrated { "static" } else { "dynamic" };
    let fmt = scheme.format.name();
    match (scheme.granularity, scheme.format) {
        (Granularity::Block { rows, columns }, _) => json!({
            "quant_method": "fp8",
            "fmt": fmt,
            "activation_scheme": activations,
            BLOCK_SIZE: [rows, columns],
            "modules_to_not_convert": ignored,
        }),
        (granularity, Fp8Format::E4M3) => compressed_tensors(granularity, ignored, calibrated),
        (granularity, Fp8Format::E5M2) => json!({
            "quant_method": "moebius-fp8",
            "fmt": fmt,
            "granularity": granularity,
            "activation_scheme": activations,
            "modules_to_not_convert": ignored,
        }),
    }
}

fn compressed_tensors(granularity: Granularity, ignored: &[String], calibrated: bool) -> Value {
    let mx = granularity == Granularity::Mx;
    let format = if mx {
        "mxfp8-quantized"
    } else {
        "float-quantized"
    };
    let (weights, inputs, dynamic) = match granularity {
        Granularity::Tensor => ("tensor", "tensor", !calibrated),
        Granularity::Mx => ("group", "group", true),
        _ if calibrated => ("channel", "tensor", false),
        _ => ("channel", "token", true),
    };
    let numbers = |strategy: &str, dynamic: bool| {
        let mut numbers = json!({
            "num_bits": 8,
            "type": "float",
            "symmetric": true,
            "strategy": strategy,
            "dynamic": dynamic,
        });
        if mx {
            numbers["group_size"] = json!(MX_BLOCK);
            numbers["scale_dtype"] = json!("torch.uint8");
        }
        numbers
    };
    json!({
        "quant_method": "compressed-tensors",
        "format": format,
        "quantization_status": "compressed",
        "ignore": ignored,
        "config_groups": {
            "group_0": {
                "targets": ["Linear"],
                "format": format,
                "weights": numbers(weights, false),
                "input_activations": numbers(inputs, dynamic),
                "output_activations": null,
            },
        },
    })
}

#[cfg(test)]
#[path = "quantization_config_tests.rs"]
mod tests;

//! Where a conversion goes: a file, or a folder that appears when it is complete.

use std::fs;
use std::path::{Path, PathBuf};

use moebius_ops::scaling::Fp8Scheme;
use serde_json::Value;

use super::plan::Plan;
use super::report::ConvertReport;
use crate::error::{WeightsError, write_error};
use crate::folder::{PartFolder, copy_into, is_weights, small_files};
use crate::names::{CONFIG_FILE, INDEX_FILE};
use crate::parts::{parent, write_whole};
use crate::quantization_config::quantization_config;
use crate::reader::Reader;

/// What describes the weights as they were in ways this does not rewrite.
const STALE: &[&str] = &["hf_quant_config.json"];

/// Where the result goes.
#[derive(Debug)]
pub(super) enum Target {
    /// A file, which the writer replaces when it is complete.
    File(PathBuf),
    /// A folder, complete or not there.
    Folder(PartFolder),
}

impl Target {
    /// Checks that `path` can be written and is not what is read; a folder is begun under another name.
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

    /// Adds what is not weights, and puts the folder in its place.
    pub(super) fn finish(
        self,
        source: &Reader,
        plan: &Plan,
        scheme: Fp8Scheme,
        (files, report): (Vec<PathBuf>, &mut ConvertReport),
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
        return Ok(()); // Not there, so it has no owner.
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

/// `config.json` with a `quantization_config` that says what the weights are now.
fn write_config(
    source: &Reader,
    folder: &Path,
    plan: &Plan,
    scheme: Fp8Scheme,
) -> Result<(), WeightsError> {
    let mut config = source.config().cloned().unwrap_or_default();
    if let Value::Object(entries) = &mut config {
        // An older name of the same entry.
        entries.remove("compression_config");
        let ignored = plan.ignored(source);
        let written = quantization_config(scheme, &ignored, plan.is_calibrated());
        entries.insert("quantization_config".to_owned(), written);
    }
    let path = folder.join(CONFIG_FILE);
    write_whole(&path, format!("{config:#}\n").as_bytes())
}

//! Where a conversion goes: a file, or a folder that appears when it is complete.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::ConvertReport;
use super::plan::Plan;
use crate::weights::error::{WeightsError, read_error, write_error};
use crate::weights::fp8::Fp8Scheme;
use crate::weights::quantization_config::quantization_config;
use crate::weights::reader::Reader;
use crate::weights::source::parent;
use crate::weights::writer::{begun, part_of, sync_folder, write_whole};
use crate::weights::{CONFIG_FILE, INDEX_FILE};

/// Endings of files with weights, ours and others': they are not copied.
const WEIGHTS: &[&str] = &[
    ".safetensors",
    ".index.json",
    ".bin",
    ".pt",
    ".pth",
    ".ckpt",
    ".gguf",
    ".onnx",
    ".msgpack",
    ".h5",
    ".part",
];

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

/// A folder under another name, removed unless it is renamed.
#[derive(Debug)]
pub(super) struct PartFolder {
    part: PathBuf,
    target: PathBuf,
    finished: bool,
}

impl Drop for PartFolder {
    fn drop(&mut self) {
        if !self.finished {
            // One that stays does no harm, and is named by the next run.
            let _ = fs::remove_dir_all(&self.part);
        }
    }
}

impl PartFolder {
    pub(super) fn path(&self) -> &Path {
        &self.part
    }
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
        let in_use = match fs::read_dir(path) {
            Ok(mut entries) => entries.next().is_some(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(source) if path.is_dir() => return Err(write_error(path)(source)),
            Err(_) => true,
        };
        if in_use {
            return Err(WeightsError::TargetExists(path.to_owned()));
        }
        // Whatever the path ends in, its name is that of the folder.
        let target = above.join(path.file_name().unwrap_or_default());
        let part = part_of(&target);
        begun(&part, fs::create_dir(&part))?;
        Ok(Self::Folder(PartFolder {
            part,
            target,
            finished: false,
        }))
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
        let mut part = match self {
            Self::File(_) => {
                report.files = files;
                return Ok(());
            }
            Self::Folder(part) => part,
        };
        if let Some(folder) = source.folder() {
            copy_small_files(folder, &part.part, plan, report)?;
            if plan.has_fp8() && source.config().is_some_and(Value::is_object) {
                write_config(source, &part.part, plan, scheme)?;
            }
        }
        sync_folder(&part.part).map_err(write_error(&part.part))?;
        if part.target.is_dir() {
            // It was empty; if it no longer is, this fails and nothing is lost.
            fs::remove_dir(&part.target).map_err(write_error(&part.target))?;
        }
        let renamed = fs::rename(&part.part, &part.target);
        renamed.map_err(write_error(&part.target))?;
        part.finished = true;
        let above = parent(&part.target);
        sync_folder(&above).map_err(write_error(&above))?;
        let names = files.iter().filter_map(|file| file.file_name());
        report.files = names.map(|name| part.target.join(name)).collect();
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

/// Copies the files of a folder that hold no weights. Folders in it, and hidden files, stay behind.
fn copy_small_files(
    from: &Path,
    to: &Path,
    plan: &Plan,
    report: &mut ConvertReport,
) -> Result<(), WeightsError> {
    let mut names = Vec::new();
    for entry in fs::read_dir(from).map_err(read_error(from))? {
        let path = entry.map_err(read_error(from))?.path();
        if let (true, Some(name)) = (path.is_file(), path.file_name()) {
            names.push(name.to_owned());
        }
    }
    names.sort();
    for name in names {
        let text = name.to_string_lossy();
        if text.starts_with('.') {
            continue;
        }
        let stale = plan.has_fp8() && STALE.contains(&text.as_ref());
        if stale || WEIGHTS.iter().any(|ending| text.ends_with(ending)) {
            if stale || !text.ends_with(".safetensors") && !text.ends_with(".index.json") {
                report.left_out.push(text.into_owned());
            }
            continue;
        }
        let (from, to) = (from.join(&name), to.join(&name));
        fs::copy(&from, &to).map_err(write_error(&to))?;
        let synced = File::open(&to).and_then(|file| file.sync_all());
        synced.map_err(write_error(&to))?;
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

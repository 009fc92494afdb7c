//! A training on disk: one folder, complete at every moment.
//!
//! `checkpoint.json` names the step and holds what its files must be (length and FNV-1a);
//! `model-STEP-FNV1A.bpk` and `optimizer-STEP-FNV1A.bpk` are Burn's records. Every file is written
//! under another name, flushed and renamed, `checkpoint.json` last: until then the folder holds the
//! checkpoint before. Then all other records in the folder are removed.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use burn::store::{ModuleRecord, RecordError};
use burn::tensor::Bytes;
use moebius::fp8::training::LossScale;
use moebius_weights::folder::sync_folder;
use moebius_weights::{InFile, Unfit};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::config::TrainConfig;
use crate::error::CheckpointError;
use crate::text::Text;

const FILE: &str = "checkpoint.json";
/// Of a file that isn't complete.
const PART: &str = "checkpoint.part";
const MODEL: &str = "model";
const OPTIMIZER: &str = "optimizer";
const FORMAT: &str = "moebius training";
const VERSION: u64 = 1;

/// How far a training is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Progress {
    /// Steps done.
    pub(crate) step: usize,
    /// Cross entropy of the first one.
    pub(crate) first_loss: Option<f32>,
    /// Of a training with loss scaling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) loss_scale: Option<LossScale>,
    /// β₁ᵗ and β₂ᵗ after the t steps that counted, with loss scaling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) adam_powers: Option<[f32; 2]>,
}

/// Length and FNV-1a of some bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Stamp {
    bytes: u64,
    fnv1a: String,
}

impl Stamp {
    fn of(bytes: &[u8]) -> Self {
        let hash = bytes.iter().fold(0xCBF2_9CE4_8422_2325u64, |hash, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
        });
        Self {
            bytes: bytes.len() as u64,
            fnv1a: format!("{hash:016x}"),
        }
    }
}

impl std::fmt::Display for Stamp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes ({})", self.bytes, self.fnv1a)
    }
}

/// `checkpoint.json`.
#[derive(Debug, Serialize, Deserialize)]
struct Manifest {
    format: String,
    version: u64,
    #[serde(flatten)]
    progress: Progress,
    config: TrainConfig,
    text: Stamp,
    model: Stamp,
    optimizer: Stamp,
}

impl Manifest {
    fn files(&self, folder: &Path) -> [PathBuf; 2] {
        let step = self.progress.step;
        let records = [(MODEL, &self.model), (OPTIMIZER, &self.optimizer)];
        records.map(|(what, stamp)| folder.join(format!("{what}-{step}-{}.bpk", stamp.fnv1a)))
    }

    fn read(folder: &Path) -> Result<Self, CheckpointError> {
        let path = folder.join(FILE);
        let bytes = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let folder = folder.to_owned();
                return Err(CheckpointError::Missing(folder));
            }
            bytes => bytes.map_err(read_error(&path))?,
        };
        let foreign = |reason: String| CheckpointError::Foreign {
            path: path.clone(),
            reason,
        };
        let value: Value =
            serde_json::from_slice(&bytes).map_err(|error| foreign(error.to_string()))?;
        if value["format"] != FORMAT {
            return Err(foreign(format!("its format isn't `{FORMAT}`")));
        }
        if value["version"] != VERSION {
            let version = &value["version"];
            return Err(foreign(format!(
                "expected version {VERSION}, got {version}"
            )));
        }
        serde_json::from_value(value).map_err(|error| foreign(error.to_string()))
    }
}

/// Everything a training needs to go on.
#[derive(Debug)]
pub struct Checkpoint {
    config: TrainConfig,
    text: Stamp,
    progress: Progress,
    model: ModuleRecord,
    /// Burn's record, not yet looked into.
    optimizer: Bytes,
}

impl Checkpoint {
    pub(crate) fn new(
        config: TrainConfig,
        text: &Text,
        progress: Progress,
        (model, optimizer): (ModuleRecord, Bytes),
    ) -> Self {
        Self {
            config,
            text: Stamp::of(text.bytes()),
            progress,
            model,
            optimizer,
        }
    }

    /// The numbers of the training.
    pub fn config(&self) -> &TrainConfig {
        &self.config
    }

    /// Steps done.
    pub fn step(&self) -> usize {
        self.progress.step
    }

    pub(crate) fn progress(&self) -> Progress {
        self.progress
    }

    pub(crate) fn into_records(self) -> (ModuleRecord, Bytes) {
        (self.model, self.optimizer)
    }

    /// Whether `folder` holds a checkpoint, readable or not.
    pub fn exists(folder: &Path) -> bool {
        folder.join(FILE).exists()
    }

    /// Reads the checkpoint in `folder`.
    ///
    /// # Errors
    /// [`CheckpointError::Missing`], [`CheckpointError::Read`], [`CheckpointError::Foreign`],
    /// [`CheckpointError::Damaged`] or [`CheckpointError::Record`].
    pub fn read(folder: &Path) -> Result<Self, CheckpointError> {
        let manifest = Manifest::read(folder)?;
        let [model, optimizer] = manifest.files(folder);
        let model = read_stamped(model, &manifest.model)?;
        let optimizer = read_stamped(optimizer, &manifest.optimizer)?;
        Ok(Self {
            config: manifest.config,
            text: manifest.text,
            progress: manifest.progress,
            model: ModuleRecord::from_bytes(model).map_err(record)?,
            optimizer,
        })
    }

    /// Puts this checkpoint in `folder`, in place of the one that is there.
    ///
    /// # Errors
    /// [`CheckpointError::Write`], [`CheckpointError::Foreign`] when the folder holds another program's
    /// `checkpoint.json`, [`CheckpointError::Record`] when Burn can't write a record.
    pub fn write(self, folder: &Path) -> Result<(), CheckpointError> {
        match Manifest::read(folder) {
            Ok(_) | Err(CheckpointError::Missing { .. }) => {}
            Err(error) => return Err(error),
        }
        let failed = write_error(folder);
        fs::create_dir_all(folder).map_err(failed)?;
        let (model, optimizer) = (self.model.into_bytes().map_err(record)?, self.optimizer);
        let manifest = Manifest {
            format: FORMAT.to_owned(),
            version: VERSION,
            progress: self.progress,
            config: self.config,
            text: self.text,
            model: Stamp::of(&model),
            optimizer: Stamp::of(&optimizer),
        };
        let files = manifest.files(folder);
        write_whole(&files[0], &model)?;
        write_whole(&files[1], &optimizer)?;
        // Their names are on disk before the file that counts on them.
        sync_folder(folder).map_err(failed)?;
        let json = serde_json::to_vec_pretty(&manifest)
            .map_err(|error| CheckpointError::Record(error.to_string()))?;
        write_whole(&folder.join(FILE), &json)?;
        // The new names are on disk before the old files go.
        sync_folder(folder).map_err(failed)?;
        remove_others(folder, &files);
        Ok(())
    }

    /// Checks that this is a checkpoint of a training with these numbers.
    ///
    /// # Errors
    /// [`CheckpointError::Other`] with the first number that differs.
    pub fn check_config(&self, wanted: &TrainConfig) -> Result<(), CheckpointError> {
        let numbers = |config: &TrainConfig| {
            let mut numbers = Vec::new();
            // Numbers in structs have a JSON form.
            flatten("", &serde_json::json!(config), &mut numbers);
            numbers
        };
        let pairs = numbers(&self.config).into_iter().zip(numbers(wanted));
        for ((what, expected), (_, got)) in pairs {
            if expected != got {
                return Err(CheckpointError::Other(Unfit::new(what, expected, got)));
            }
        }
        Ok(())
    }

    pub(crate) fn check_text(&self, text: &Text) -> Result<(), CheckpointError> {
        let got = Stamp::of(text.bytes());
        if got == self.text {
            Ok(())
        } else {
            Err(CheckpointError::Other(Unfit::new("text", &self.text, got)))
        }
    }
}

/// The leaves of a JSON object with their names.
fn flatten(name: &str, value: &Value, leaves: &mut Vec<(String, String)>) {
    match value {
        // One may have other fields than the other.
        Value::Object(fields) if !["precision", "loss_scaling"].contains(&name) => {
            for (name, value) in fields {
                flatten(name, value, leaves);
            }
        }
        leaf => leaves.push((name.to_owned(), leaf.to_string())),
    }
}

pub(crate) fn record(error: RecordError) -> CheckpointError {
    CheckpointError::Record(error.to_string())
}

fn read_error(path: &Path) -> impl Fn(io::Error) -> CheckpointError + Copy {
    move |source| CheckpointError::Read(InFile::at(path)(source))
}

fn write_error(path: &Path) -> impl Fn(io::Error) -> CheckpointError + Copy {
    move |source| CheckpointError::Write(InFile::at(path)(source))
}

fn read_stamped(path: PathBuf, stamp: &Stamp) -> Result<Bytes, CheckpointError> {
    let bytes = fs::read(&path).map_err(read_error(&path))?;
    let got = Stamp::of(&bytes);
    if got != *stamp {
        let damage = Unfit::new(path.display(), stamp, got);
        return Err(CheckpointError::Damaged(damage));
    }
    Ok(Bytes::from_bytes_vec(bytes))
}

/// Removes records of other checkpoints. One that stays does no harm, so nothing can fail.
fn remove_others(folder: &Path, keep: &[PathBuf]) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()) {
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or("");
        let parts: Vec<&str> = name.split(['-', '.']).collect();
        let ours = matches!(parts[..], [MODEL | OPTIMIZER, step, stamp, "bpk"]
            if step.parse::<usize>().is_ok() && stamp.len() == 16);
        if ours && !keep.contains(&path) {
            let _ = fs::remove_file(path);
        }
    }
}

/// Writes under another name, waits for the disk, and renames.
fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), CheckpointError> {
    let part = path.with_file_name(PART);
    let write = || {
        let mut file = fs::File::create(&part)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&part, path)
    };
    write().map_err(write_error(path))
}

#[cfg(test)]
#[cfg(feature = "flex")]
#[path = "checkpoint_tests.rs"]
mod tests;

//! Checkpoints of a training on disk: one folder, complete at every moment.
//!
//! Of a training of an adapter the model's record has the factors alone.
//!
//! `checkpoint.json` names the step and the length and FNV-1a checksum of each file; `model-STEP-FNV1A.bpk` and `optimizer-STEP-FNV1A.bpk`
//! are Burn's records. Every file is written under a temporary name, flushed and renamed, `checkpoint.json` last: until that rename the
//! folder holds the previous checkpoint. Afterwards all other records in the folder are removed.
//!
//! Version 1 described decoders over bytes only: their sizes and precision stood in the training configuration, and the decoder was a
//! separate module with other parameter names.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use burn::store::{ModuleRecord, RecordError};
use burn::tensor::Bytes;
use burn_pack::{Reader, Writer};
use moebius::fp8::training::LossScale;
use moebius_weights::folder::sync_folder;
use moebius_weights::{InFile, Unfit};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::adapter::AdapterConfig;
use crate::bytes::DecoderConfig;
use crate::config::{Subject, TrainConfig};
use crate::dataset::TrainingData;
use crate::error::CheckpointError;

const FILE: &str = "checkpoint.json";
/// Name of a file that is still being written.
const PART: &str = "checkpoint.part";
const MODEL: &str = "model";
const OPTIMIZER: &str = "optimizer";
const FORMAT: &str = "moebius training";
const VERSION: u64 = 2;

/// How far a training has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Progress {
    /// Number of steps done.
    pub(crate) step: usize,
    /// Cross entropy of the first step.
    pub(crate) first_loss: Option<f32>,
    /// State of the loss scaling; `None` in a training without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) loss_scale: Option<LossScale>,
    /// β₁ᵗ and β₂ᵗ after the t steps that weren't skipped; `None` without loss scaling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) adam_powers: Option<[f32; 2]>,
}

/// Length and FNV-1a checksum of some bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Stamp {
    bytes: u64,
    fnv1a: String,
}

impl Stamp {
    fn of(all: impl Iterator<Item = u8>) -> Self {
        let (mut bytes, mut hash) = (0, 0xCBF2_9CE4_8422_2325u64);
        for byte in all {
            bytes += 1;
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
        }
        let fnv1a = format!("{hash:016x}");
        Self { bytes, fnv1a }
    }

    fn of_slice(bytes: &[u8]) -> Self {
        Self::of(bytes.iter().copied())
    }

    /// The stamp of what a training learns from: of a text one byte per token for a decoder over bytes, else the token numbers in little-endian
    /// order; of samples also which tokens are learnt.
    fn of_data(subject: &Subject, data: &TrainingData) -> Self {
        match (data, subject) {
            (TrainingData::Text(ids), Subject::Bytes(_)) => {
                Self::of(ids.iter().map(|&id| id as u8))
            }
            (TrainingData::Text(ids), Subject::Published(_)) => {
                Self::of(ids.iter().flat_map(|id| id.to_le_bytes()))
            }
            (TrainingData::Samples(samples), _) => Self::of(samples.bytes()),
        }
    }
}

impl std::fmt::Display for Stamp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes ({})", self.bytes, self.fnv1a)
    }
}

/// Contents of `checkpoint.json`.
#[derive(Debug, Serialize, Deserialize)]
struct Manifest {
    format: String,
    version: u64,
    #[serde(flatten)]
    progress: Progress,
    config: TrainConfig,
    /// The [`Subject`] as JSON.
    subject: Value,
    /// The adapter that is trained in place of the model; the model's record has its factors alone then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    adapter: Option<AdapterConfig>,
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
        let mut value: Value =
            serde_json::from_slice(&bytes).map_err(|error| foreign(error.to_string()))?;
        if value["format"] != FORMAT {
            return Err(foreign(format!("its format isn't `{FORMAT}`")));
        }
        match value["version"].as_u64() {
            Some(1) => {
                let lacking = || foreign("a training of version 1 has a decoder".to_owned());
                of_version_1(&mut value).ok_or_else(lacking)?;
            }
            Some(VERSION) => {}
            _ => {
                let version = &value["version"];
                return Err(foreign(format!(
                    "expected version 1 to {VERSION}, got {version}"
                )));
            }
        }
        serde_json::from_value(value).map_err(|error| foreign(error.to_string()))
    }
}

/// Moves the fields of a version 1 manifest to where they stand now; `None` when one is missing.
fn of_version_1(manifest: &mut Value) -> Option<()> {
    let manifest = manifest.as_object_mut()?;
    let config = manifest.get_mut("config")?.as_object_mut()?;
    let mut sizes = config.remove("decoder")?;
    let of_decoder = sizes.as_object_mut()?;
    let sequence = of_decoder.get("sequence")?.clone();
    config.insert("sequence".to_owned(), sequence);
    if let Some(precision) = of_decoder.remove("precision") {
        config.insert("precision".to_owned(), precision);
    }
    manifest.insert("subject".to_owned(), json!({ "bytes": sizes }));
    Some(())
}

/// Parts of parameter names in version 1, and what replaces each of them now.
const RENAMED: [(&str, &str); 5] = [
    (".attention.query.", ".attention.projection.Direct.query."),
    (".attention.key.", ".attention.projection.Direct.key."),
    (".attention.value.", ".attention.projection.Direct.value."),
    (".moe_norm.", ".feed_forward_norm."),
    (".moe.", ".feed_forward.Experts."),
];

/// Gives the parameters of a version 1 model record their present names.
fn renamed(record: Bytes) -> Result<Bytes, CheckpointError> {
    let refused = |error: burn_pack::Error| CheckpointError::Record(error.to_string());
    let mut tensors = Reader::from_bytes(record)
        .and_then(Reader::into_tensors)
        .map_err(refused)?;
    for tensor in &mut tensors {
        for (before, now) in RENAMED {
            tensor.name = tensor.name.replace(before, now);
        }
    }
    Writer::new(tensors).into_bytes().map_err(refused)
}

/// Everything that a training needs to continue.
#[derive(Debug)]
pub struct Checkpoint {
    config: TrainConfig,
    /// The [`Subject`] as JSON.
    subject: Value,
    adapter: Option<AdapterConfig>,
    text: Stamp,
    progress: Progress,
    model: ModuleRecord,
    /// The optimizer's record as Burn wrote it, not yet parsed.
    optimizer: Bytes,
}

impl Checkpoint {
    pub(crate) fn new(
        config: TrainConfig,
        subject: &Subject,
        data: &TrainingData,
        progress: Progress,
        model: ModuleRecord,
        optimizer: Bytes,
    ) -> Self {
        Self {
            config,
            subject: json!(subject),
            adapter: None,
            text: Stamp::of_data(subject, data),
            progress,
            model,
            optimizer,
        }
    }

    /// This checkpoint of the training of an adapter, whose factors the model's record has.
    pub(crate) fn of_adapter(self, adapter: Option<AdapterConfig>) -> Self {
        Self { adapter, ..self }
    }

    /// The configuration of the training.
    pub fn config(&self) -> &TrainConfig {
        &self.config
    }

    /// The adapter that is trained; `None` for a training of all weights.
    pub fn adapter(&self) -> Option<&AdapterConfig> {
        self.adapter.as_ref()
    }

    /// The sizes of the decoder over bytes; `None` for a published model.
    pub fn sizes(&self) -> Option<DecoderConfig> {
        serde_json::from_value(self.subject["bytes"].clone()).ok()
    }

    /// Number of steps done.
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
    /// [`CheckpointError::Missing`] when the folder has no checkpoint, [`CheckpointError::Read`] when a file can't be read,
    /// [`CheckpointError::Foreign`] for files of another program or a later version, [`CheckpointError::Damaged`] for a wrong length or
    /// checksum, [`CheckpointError::Record`] when Burn can't load a record.
    pub fn read(folder: &Path) -> Result<Self, CheckpointError> {
        let manifest = Manifest::read(folder)?;
        let [model, optimizer] = manifest.files(folder);
        let mut model = read_stamped(model, &manifest.model)?;
        if manifest.version == 1 {
            model = renamed(model)?;
        }
        let optimizer = read_stamped(optimizer, &manifest.optimizer)?;
        Ok(Self {
            config: manifest.config,
            subject: manifest.subject,
            adapter: manifest.adapter,
            text: manifest.text,
            progress: manifest.progress,
            model: ModuleRecord::from_bytes(model).map_err(record)?,
            optimizer,
        })
    }

    /// Writes this checkpoint to `folder`, replacing the one that is there.
    ///
    /// # Errors
    /// [`CheckpointError::Write`] when a file can't be written, [`CheckpointError::Foreign`] when the folder holds another program's
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
            subject: self.subject,
            adapter: self.adapter,
            text: self.text,
            model: Stamp::of_slice(&model),
            optimizer: Stamp::of_slice(&optimizer),
        };
        let files = manifest.files(folder);
        write_whole(&files[0], &model)?;
        write_whole(&files[1], &optimizer)?;
        // The records' names are on disk before `checkpoint.json`, which refers to them.
        sync_folder(folder).map_err(failed)?;
        let json = serde_json::to_vec_pretty(&manifest)
            .map_err(|error| CheckpointError::Record(error.to_string()))?;
        write_whole(&folder.join(FILE), &json)?;
        // The new names are on disk before the old files are removed.
        sync_folder(folder).map_err(failed)?;
        remove_others(folder, &files);
        Ok(())
    }

    /// Checks that this is a checkpoint of a training with the configuration `wanted`.
    ///
    /// # Errors
    /// [`CheckpointError::Other`] with the first value that differs.
    pub fn check_config(&self, wanted: &TrainConfig) -> Result<(), CheckpointError> {
        // Serialising plain structs of numbers to JSON can't fail.
        compare(&json!(self.config), &json!(wanted))
    }

    /// The adapter that is trained.
    ///
    /// # Errors
    /// [`CheckpointError::Other`] for a training of all weights.
    pub(crate) fn trained_adapter(&self) -> Result<AdapterConfig, CheckpointError> {
        let other = || Unfit::new("what is trained", "all weights", "an adapter");
        let adapter = self.adapter.clone();
        adapter.ok_or_else(|| CheckpointError::Other(other()))
    }

    /// Checks that this is a checkpoint of a training of the adapter `wanted`, or of all weights for `None`.
    ///
    /// # Errors
    /// [`CheckpointError::Other`] with the first value that differs.
    pub fn check_adapter(&self, wanted: Option<&AdapterConfig>) -> Result<(), CheckpointError> {
        let kind =
            |of: Option<&AdapterConfig>| of.map_or("all weights", |_| "an adapter").to_owned();
        let [before, now] = [self.adapter(), wanted].map(kind);
        if before != now {
            let other = Unfit::new("what is trained", before, now);
            return Err(CheckpointError::Other(other));
        }
        compare(&json!(self.adapter), &json!(wanted))
    }

    /// Checks that this is a checkpoint of a training of the subject `wanted`.
    ///
    /// # Errors
    /// [`CheckpointError::Other`] with the first value that differs.
    pub fn check_subject(&self, wanted: &Subject) -> Result<(), CheckpointError> {
        let wanted = json!(wanted);
        let kind = |of: &Value| {
            let kinds = of.as_object().and_then(|of| of.iter().next());
            kinds.map(|(kind, value)| (kind.clone(), value.clone()))
        };
        let [(before, described), (now, asked)] =
            [&self.subject, &wanted].map(|of| kind(of).unwrap_or_default());
        if before != now {
            let other = Unfit::new("kind of model", before, now);
            return Err(CheckpointError::Other(other));
        }
        compare(&described, &asked)
    }

    pub(crate) fn check_text(
        &self,
        subject: &Subject,
        data: &TrainingData,
    ) -> Result<(), CheckpointError> {
        let got = Stamp::of_data(subject, data);
        if got == self.text {
            Ok(())
        } else {
            Err(CheckpointError::Other(Unfit::new("text", &self.text, got)))
        }
    }
}

/// Refuses the first value of a checkpoint that differs from the present one; values that an earlier version didn't store are not compared.
fn compare(before: &Value, now: &Value) -> Result<(), CheckpointError> {
    let leaves = |of: &Value| {
        let mut leaves = BTreeMap::new();
        flatten("", of, &mut leaves);
        leaves
    };
    let found = leaves(now);
    for (what, expected) in leaves(before) {
        let got = found.get(&what).unwrap_or(&Value::Null);
        if !is_same(&expected, got) {
            return Err(CheckpointError::Other(Unfit::new(what, expected, got)));
        }
    }
    Ok(())
}

/// Whether two JSON leaves are equal; floats may differ in the last bit, which JSON may lose.
fn is_same(a: &Value, b: &Value) -> bool {
    match (a.as_f64(), b.as_f64()) {
        (Some(x), Some(y)) if a.is_f64() && b.is_f64() => {
            (x - y).abs() <= 2.0 * f64::EPSILON * x.abs()
        }
        _ => a == b,
    }
}

/// Collects the leaves of a JSON value with their paths.
fn flatten(name: &str, value: &Value, leaves: &mut BTreeMap<String, Value>) {
    let path = |inner: &str| match name {
        "" => inner.to_owned(),
        _ => format!("{name}.{inner}"),
    };
    match value {
        // These stay whole, because their variants have different fields.
        Value::Object(fields) if !["precision", "base", "loss_scaling"].contains(&name) => {
            for (field, value) in fields {
                flatten(&path(field), value, leaves);
            }
        }
        Value::Array(elements) => {
            leaves.insert(path("len"), json!(elements.len()));
            for (number, value) in elements.iter().enumerate() {
                flatten(&path(&number.to_string()), value, leaves);
            }
        }
        leaf => {
            leaves.insert(name.to_owned(), leaf.clone());
        }
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
    let got = Stamp::of_slice(&bytes);
    if got != *stamp {
        let damage = Unfit::new(path.display(), stamp, got);
        return Err(CheckpointError::Damaged(damage));
    }
    Ok(Bytes::from_bytes_vec(bytes))
}

/// Removes the records of other checkpoints. Errors are ignored, because a leftover record does no harm.
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

/// Writes a file under a temporary name, waits for the disk, and renames it.
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

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
                return Err(CheckpointError::Missing { folder });
            }
            bytes => bytes.map_err(|source| CheckpointError::Read {
                path: path.clone(),
                source,
            })?,
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
        let failed = |source| CheckpointError::Write {
            path: folder.to_owned(),
            source,
        };
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
                return Err(CheckpointError::Other {
                    what,
                    expected,
                    got,
                });
            }
        }
        Ok(())
    }

    pub(crate) fn check_text(&self, text: &Text) -> Result<(), CheckpointError> {
        let got = Stamp::of(text.bytes());
        if got == self.text {
            return Ok(());
        }
        Err(CheckpointError::Other {
            what: "text".to_owned(),
            expected: self.text.to_string(),
            got: got.to_string(),
        })
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

fn read_stamped(path: PathBuf, stamp: &Stamp) -> Result<Bytes, CheckpointError> {
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(source) => return Err(CheckpointError::Read { path, source }),
    };
    let got = Stamp::of(&bytes);
    if got != *stamp {
        return Err(CheckpointError::Damaged {
            path,
            expected: stamp.to_string(),
            got: got.to_string(),
        });
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

/// Waits until the names in `folder` are on disk.
#[cfg(unix)]
fn sync_folder(folder: &Path) -> io::Result<()> {
    fs::File::open(folder)?.sync_all()
}

/// Elsewhere a folder can't be opened, and renames are written through.
#[cfg(not(unix))]
fn sync_folder(_folder: &Path) -> io::Result<()> {
    Ok(())
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
    write().map_err(|source| CheckpointError::Write {
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
#[cfg(feature = "flex")]
mod tests {
    use super::{Checkpoint, FILE, Manifest, PART};
    use crate::config::{DecoderConfig, TrainConfig};
    use crate::error::CheckpointError;
    use crate::text::Text;
    use crate::train::Trainer;
    use std::fs;
    use std::path::Path;

    fn config() -> TrainConfig {
        TrainConfig {
            decoder: DecoderConfig {
                sequence: 8,
                layers: 1,
                ..DecoderConfig::default().with_hidden(16)
            },
            batch: 1,
            ..TrainConfig::default()
        }
    }

    fn trainer() -> Trainer {
        let device = moebius::open(&moebius::Device::Flex).unwrap();
        Trainer::new(config(), Text::bundled(), &device).unwrap()
    }

    fn resume(checkpoint: Checkpoint) -> Trainer {
        let device = moebius::open(&moebius::Device::Flex).unwrap();
        Trainer::resume(checkpoint, Text::bundled(), &device).unwrap()
    }

    /// A folder with the checkpoint of a training of one step, and the training.
    fn written() -> (tempfile::TempDir, Trainer) {
        let folder = tempfile::tempdir().unwrap();
        let mut trainer = trainer();
        trainer.step().unwrap();
        trainer.report().unwrap();
        trainer.checkpoint().unwrap().write(folder.path()).unwrap();
        (folder, trainer)
    }

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// [`names`] up to the stamp.
    fn steps(folder: &Path) -> Vec<String> {
        let short = |name: String| match name.rsplit_once('-') {
            Some((step, _)) => step.to_owned(),
            None => name,
        };
        names(folder).into_iter().map(short).collect()
    }

    #[test]
    fn a_folder_holds_one_checkpoint_and_the_next_replaces_it() {
        let (folder, mut trainer) = written();
        let folder = folder.path();
        assert_eq!(steps(folder), [FILE, "model-1", "optimizer-1"]);
        trainer.step().unwrap();
        trainer.checkpoint().unwrap().write(folder).unwrap();
        assert_eq!(steps(folder), [FILE, "model-2", "optimizer-2"]);
        let read = Checkpoint::read(folder).unwrap();
        assert_eq!((read.step(), *read.config()), (2, config()));
        // Read and written again, before any step, it is the same.
        let stamp = || Manifest::read(folder).unwrap().model;
        let before = stamp();
        resume(read).checkpoint().unwrap().write(folder).unwrap();
        assert_eq!(stamp(), before);
        assert_eq!(resume(Checkpoint::read(folder).unwrap()).steps_done(), 2);
    }

    #[test]
    fn a_checkpoint_that_cannot_be_written_leaves_the_one_before() {
        let (folder, mut trainer) = written();
        trainer.step().unwrap();
        fs::create_dir(folder.path().join(PART)).unwrap();
        let error = trainer
            .checkpoint()
            .unwrap()
            .write(folder.path())
            .unwrap_err();
        assert!(matches!(error, CheckpointError::Write { .. }), "{error}");
        assert_eq!(Checkpoint::read(folder.path()).unwrap().step(), 1);
    }

    #[test]
    fn an_untrained_decoder_has_a_checkpoint() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("a/b");
        trainer().checkpoint().unwrap().write(&inner).unwrap();
        assert_eq!(resume(Checkpoint::read(&inner).unwrap()).steps_done(), 0);
    }

    #[test]
    fn what_is_missing_or_damaged_is_named() {
        let empty = tempfile::tempdir().unwrap();
        let error = Checkpoint::read(empty.path()).unwrap_err();
        assert!(matches!(error, CheckpointError::Missing { .. }), "{error}");
        assert!(!Checkpoint::exists(empty.path()));

        for which in [1, 2] {
            let (folder, _) = written();
            let file = &names(folder.path())[which];
            let path = folder.path().join(file);
            let whole = fs::read(&path).unwrap();
            let mut flipped = whole.clone();
            flipped[whole.len() / 2] ^= 1;
            for bytes in [&whole[..whole.len() - 1], &[], &flipped] {
                fs::write(&path, bytes).unwrap();
                let error = Checkpoint::read(folder.path()).unwrap_err();
                assert!(matches!(error, CheckpointError::Damaged { .. }), "{error}");
                assert!(error.to_string().contains(file), "{error}");
            }
            fs::remove_file(&path).unwrap();
            let error = Checkpoint::read(folder.path()).unwrap_err();
            assert!(matches!(error, CheckpointError::Read { .. }), "{error}");
        }
    }

    #[test]
    fn a_foreign_file_is_neither_read_nor_replaced() {
        let (folder, trainer) = written();
        let path = folder.path().join(FILE);
        let ours = fs::read_to_string(&path).unwrap();
        let later = ours.replace("\"version\": 1", "\"version\": 2");
        let short = ours.replace("\"batch\"", "\"batches\"");
        for text in [
            "",
            "{}",
            "[1, 2]",
            "{\"format\": 1}",
            &ours[..60],
            &later,
            &short,
        ] {
            fs::write(&path, text).unwrap();
            let read = Checkpoint::read(folder.path()).unwrap_err();
            let write = trainer
                .checkpoint()
                .unwrap()
                .write(folder.path())
                .unwrap_err();
            for error in [read, write] {
                assert!(matches!(error, CheckpointError::Foreign { .. }), "{error}");
            }
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
    }

    #[test]
    fn another_training_is_told_from_this_one() {
        let (folder, _) = written();
        let checkpoint = Checkpoint::read(folder.path()).unwrap();
        checkpoint.check_config(&config()).unwrap();
        let other = TrainConfig {
            batch: 2,
            ..config()
        };
        let error = checkpoint.check_config(&other).unwrap_err().to_string();
        assert_eq!(
            error,
            "the checkpoint is of another training: batch was 1, not 2"
        );
        let text = Text::new(b"Call me Ishmael.".to_vec());
        let device = moebius::open(&moebius::Device::Flex).unwrap();
        let error = Trainer::resume(checkpoint, text, &device).err().unwrap();
        assert!(error.to_string().contains("text was"), "{error}");
    }
}

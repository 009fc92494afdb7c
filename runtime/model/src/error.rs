//! What can go wrong.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

/// Why a training didn't start or go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A configuration value doesn't fit.
    #[error("{what}: expected {expected}, got {got}")]
    Config {
        /// The value's name.
        what: &'static str,
        /// What would fit.
        expected: String,
        /// What came.
        got: String,
    },
    /// A text file can't be read.
    #[error("cannot read {path}: {source}")]
    Text {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A layer or a device refused.
    #[error(transparent)]
    Moebius(#[from] moebius::Error),
    /// A device failed while it computed.
    #[error("the device failed: {0}")]
    Device(String),
    /// A checkpoint can't be written, read or used.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// Weights can't be read, written or converted.
    #[error(transparent)]
    Weights(#[from] crate::weights::WeightsError),
}

impl Error {
    /// Refuses a value that doesn't fit.
    pub(crate) fn check(
        fits: bool,
        what: &'static str,
        expected: impl ToString,
        got: impl ToString,
    ) -> Result<(), Self> {
        if fits {
            return Ok(());
        }
        Err(Self::Config {
            what,
            expected: expected.to_string(),
            got: got.to_string(),
        })
    }

    pub(crate) fn device(error: impl ToString) -> Self {
        Self::Device(error.to_string())
    }

    /// What `read` reads from a device. CubeCL panics in the first read after a WebGPU device was lost while work waited
    /// for it, and gives errors from then on: both are [`Error::Device`] here.
    pub(crate) fn guarded<T>(read: impl FnOnce() -> Result<T, Self>) -> Result<T, Self> {
        catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<&str>().copied();
            let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
            Err(Self::device(text.unwrap_or("a panic while it was read")))
        })
    }
}

/// What is wrong with a checkpoint.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The folder holds none.
    #[error("no checkpoint in {0}")]
    Missing(PathBuf),
    /// A file can't be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A file can't be written.
    #[error("cannot write {path}: {source}")]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A file that something else wrote, or a later version.
    #[error("{path} is no checkpoint of this program: {reason}")]
    Foreign {
        /// The file.
        path: PathBuf,
        /// How one can tell.
        reason: String,
    },
    /// A file that isn't as it was written.
    #[error("{path} is damaged: expected {expected}, got {got}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Its length or checksum when it was written.
        expected: String,
        /// What it has now.
        got: String,
    },
    /// The checkpoint is of another training.
    #[error("the checkpoint is of another training: {what} was {expected}, not {got}")]
    Other {
        /// What differs.
        what: String,
        /// The checkpoint's value.
        expected: String,
        /// The value asked for.
        got: String,
    },
    /// Burn can't write or use the records.
    #[error("{0}")]
    Record(String),
}

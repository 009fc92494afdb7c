//! What can go wrong.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use moebius_weights::{InFile, Unfit};

/// Why a training didn't start or go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A configuration value doesn't fit.
    #[error(transparent)]
    Config(Unfit),
    /// A text file can't be read.
    #[error("cannot read {0}")]
    Text(#[source] InFile<io::Error>),
    /// A layer or a device refused.
    #[error(transparent)]
    Moebius(#[from] moebius::Error),
    /// A device failed while it computed.
    #[error("the device failed: {0}")]
    Device(String),
    /// A checkpoint can't be written, read or used.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// A published model can't be loaded: all that is wrong with it.
    #[error(transparent)]
    Misfits(#[from] crate::misfits::Misfits),
    /// Weights can't be read, written or converted.
    #[error(transparent)]
    Weights(#[from] moebius_weights::WeightsError),
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
            Ok(())
        } else {
            Err(Self::Config(Unfit::new(what, expected, got)))
        }
    }

    /// Refuses what isn't finite and above 0.
    pub(crate) fn check_positive<T: Copy + Into<f64> + ToString>(
        what: &'static str,
        number: T,
    ) -> Result<(), Self> {
        let fits = number.into().is_finite() && number.into() > 0.0;
        Self::check(fits, what, "a positive number", number)
    }

    /// Refuses what isn't finite, and what is below 0.
    pub(crate) fn check_not_negative<T: Copy + Into<f64> + ToString>(
        what: &'static str,
        number: T,
    ) -> Result<(), Self> {
        let fits = number.into().is_finite() && number.into() >= 0.0;
        Self::check(fits, what, "a number of at least 0", number)
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
    #[error("cannot read {0}")]
    Read(#[source] InFile<io::Error>),
    /// A file or folder can't be written.
    #[error("cannot write {0}")]
    Write(#[source] InFile<io::Error>),
    /// A file that something else wrote, or a later version.
    #[error("{path} is no checkpoint of this program: {reason}")]
    Foreign {
        /// The file.
        path: PathBuf,
        /// How one can tell.
        reason: String,
    },
    /// A file of another length or checksum than it was written with.
    #[error("{} is damaged: expected {}, got {}", .0.what, .0.expected, .0.got)]
    Damaged(Unfit),
    /// The checkpoint is of another training.
    #[error("the checkpoint is of another training: {} was {}, not {}", .0.what, .0.expected, .0.got)]
    Other(Unfit),
    /// Burn can't write or use the records.
    #[error("{0}")]
    Record(String),
}

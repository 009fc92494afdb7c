//! Errors of packages.

use std::io;
use std::path::Path;

use crate::error::{InFile, Unfit, WeightsError};

/// Error of a package that can't be made, or isn't what its manifest says. The path is the package's folder; names that come from a file
/// are quoted, escaped and cut short.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PackageError {
    /// A file or folder can't be read.
    #[error("cannot read {0}")]
    Read(#[source] InFile<io::Error>),
    /// The package can't be written.
    #[error(transparent)]
    Written(#[from] WeightsError),
    /// The manifest isn't JSON of the expected form.
    #[error(transparent)]
    NotJson(InFile<serde_json::Error>),
    /// A value of the manifest is impossible, or a file to pack has an impossible name.
    #[error(transparent)]
    Manifest(InFile<Unfit>),
    /// A file of the package is missing.
    #[error(transparent)]
    Missing(InFile<Unfit>),
    /// The folder has a file that the manifest doesn't list.
    #[error(transparent)]
    Additional(InFile<Unfit>),
    /// The folder has something that is neither a file nor a folder, such as a symbolic link.
    #[error(transparent)]
    NotAFile(InFile<Unfit>),
    /// A file has other bytes than the manifest or the sums say.
    #[error(transparent)]
    Changed(InFile<Unfit>),
    /// The package is another one than was asked for.
    #[error(transparent)]
    Fingerprint(InFile<Unfit>),
}

impl PackageError {
    /// Whether the package was read and isn't what it should be; otherwise it couldn't be read or written.
    pub fn is_fault(&self) -> bool {
        !matches!(self, Self::Read(_) | Self::Written(_))
    }
}

/// Turns an I/O error into the error that `path` can't be read.
pub(super) fn unread(path: &Path) -> impl Fn(io::Error) -> PackageError + Copy {
    move |source| PackageError::Read(InFile::at(path)(source))
}

/// What is wrong with `file`, a file of the package in `folder`.
pub(super) fn fault(
    folder: &Path,
    file: impl ToString,
    expected: impl ToString,
    got: impl ToString,
) -> InFile<Unfit> {
    InFile::at(folder)(Unfit::new(file, expected, got))
}

//! What the errors of this crate are made of.

use std::error::Error;
use std::path::{Path, PathBuf};

/// Something that is other than it has to be.
#[derive(Debug, thiserror::Error)]
#[error("{what}: expected {expected}, got {got}")]
pub struct Unfit {
    /// The value, or the file or tensor that has it.
    pub what: String,
    /// What would fit.
    pub expected: String,
    /// What came.
    pub got: String,
}

impl Unfit {
    pub(crate) fn new(what: impl ToString, expected: impl ToString, got: impl ToString) -> Self {
        Self {
            what: what.to_string(),
            expected: expected.to_string(),
            got: got.to_string(),
        }
    }
}

/// What is wrong with a file or a folder.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {source}")]
pub struct InFile<E: Error + 'static> {
    /// The file or folder.
    pub path: PathBuf,
    /// What is wrong with it.
    pub source: E,
}

impl<E: Error> InFile<E> {
    /// Adds the path to an error.
    pub(crate) fn at(path: &Path) -> impl Fn(E) -> Self + Copy {
        move |source| Self {
            path: path.to_owned(),
            source,
        }
    }
}

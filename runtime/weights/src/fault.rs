//! What errors are made of: what was expected and what came, the file, and names from it.

use std::error::Error;
use std::path::{Path, PathBuf};

/// Something that is other than it has to be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
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
    /// `what` was to be `expected`, and is `got`.
    pub fn new(what: impl ToString, expected: impl ToString, got: impl ToString) -> Self {
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
    pub fn at(path: &Path) -> impl Fn(E) -> Self + Copy {
        move |source| Self {
            path: path.to_owned(),
            source,
        }
    }
}

/// A name from a file, fit for a terminal: quoted, control characters escaped, cut at 60 characters.
pub fn quoted(name: &str) -> String {
    let mut shown: String = name.chars().take(60).flat_map(char::escape_debug).collect();
    if name.chars().nth(60).is_some() {
        shown.push('…');
    }
    format!("`{shown}`")
}

/// A tensor's name as an error begins with it.
pub(crate) fn tensor(name: &str) -> String {
    format!("tensor {}", quoted(name))
}

/// A shape for a message, at most eight extents of it.
pub(crate) fn quoted_shape(shape: &[usize]) -> String {
    match shape.get(..8) {
        Some(head) if shape.len() > 8 => format!("{head:?} and {} more", shape.len() - 8),
        _ => format!("{shape:?}"),
    }
}

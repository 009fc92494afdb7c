//! Errors of this crate, and a guard against panics of the `tokenizers` library.

use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use moebius_weights::Unfit;

/// Error of a text, a file or a token id.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file can't be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// I/O error of the system.
        source: io::Error,
    },
    /// A file, or a value in a file, doesn't fit.
    #[error(transparent)]
    Unfit(#[from] Unfit),
    /// A line of a file of samples is none.
    #[error("{path}:{line}: {source}")]
    Line {
        /// Path of the file.
        path: PathBuf,
        /// Number of the line, from 1.
        line: usize,
        /// What is wrong with the line.
        source: Box<Error>,
    },
    /// The `tokenizers` library refused a text.
    #[error("cannot encode the text: {0}")]
    Encode(String),
    /// The `tokenizers` library refused a token.
    #[error("cannot decode the ids: {0}")]
    Decode(String),
    /// A chat template can't be parsed, or refused a conversation.
    #[error(transparent)]
    Template(#[from] TemplateError),
}

impl Error {
    pub(crate) fn unfit(what: impl ToString, expected: impl ToString, got: impl ToString) -> Self {
        Self::Unfit(Unfit::new(what, expected, got))
    }
}

/// Error of a chat template, or of a conversation for it.
#[derive(Debug)]
pub struct TemplateError {
    /// Path of the template's file, and the template's name where a file has several.
    pub template: String,
    /// Number of the line with the error, from 1, if it is known.
    pub line: Option<usize>,
    /// Cause of the error.
    pub fault: TemplateFault,
    /// What is wrong, as a sentence.
    pub message: String,
}

/// Cause why a template gave no text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TemplateFault {
    /// The template: it isn't valid Jinja, or uses something undefined.
    Syntax,
    /// The conversation: the template checked it and called `raise_exception`.
    Refused,
    /// The template or a very long conversation: it took more instructions, or made more text, than its fuel allows.
    Fuel,
    /// The template failed during rendering, for example because a message lacks a field that it reads.
    Failed,
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.template)?;
        if let Some(line) = self.line {
            write!(f, ", line {line}")?;
        }
        write!(f, ": {}", self.message)
    }
}

impl std::error::Error for TemplateError {}

/// Runs `call`, and returns its result, or the message of its panic.
pub(crate) fn guarded<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|panic| {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        text.unwrap_or("a panic").to_owned()
    })
}

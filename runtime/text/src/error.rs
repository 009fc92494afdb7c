//! What can go wrong, and a guard around the library of tokenizers.

use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use moebius_weights::Unfit;

/// Why a text, a file or an id was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file can't be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A file, or a value in one, doesn't fit.
    #[error(transparent)]
    Unfit(#[from] Unfit),
    /// The library of tokenizers refused a text.
    #[error("cannot encode the text: {0}")]
    Encode(String),
    /// The library of tokenizers refused a token.
    #[error("cannot decode the ids: {0}")]
    Decode(String),
    /// A chat template can't be read, or refused a conversation.
    #[error(transparent)]
    Template(#[from] TemplateError),
}

impl Error {
    pub(crate) fn unfit(what: impl ToString, expected: impl ToString, got: impl ToString) -> Self {
        Self::Unfit(Unfit::new(what, expected, got))
    }
}

/// What is wrong with a chat template, or with a conversation for it.
#[derive(Debug)]
pub struct TemplateError {
    /// The template: its file, and its name where a file has several.
    pub template: String,
    /// The line at fault, counted from 1, where that is known.
    pub line: Option<usize>,
    /// Whose fault it is.
    pub fault: TemplateFault,
    /// What is wrong.
    pub message: String,
}

/// Whose fault it is that a template gave no text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TemplateFault {
    /// The template's: it is no Jinja, or uses what isn't there.
    Syntax,
    /// The conversation's: the template looked at it and called `raise_exception`.
    Refused,
    /// The template's or a very long conversation's: it ran longer, or made more text, than its fuel allows.
    Fuel,
    /// The template failed while it ran, as it does where a message lacks a field that it reads.
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

/// What `call` returns, or what it said when it panicked.
pub(crate) fn guarded<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|panic| {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        text.unwrap_or("a panic").to_owned()
    })
}

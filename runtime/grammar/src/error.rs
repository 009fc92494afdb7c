//! Errors of grammars.

/// Why there is no grammar.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GrammarError {
    /// The tokens of a tokenizer are no fixed bytes.
    #[error(transparent)]
    Tokenizer(#[from] moebius_text::Error),
    /// The library can't use a vocabulary.
    #[error("vocabulary: {0}")]
    Vocabulary(String),
    /// A schema isn't JSON, or is larger than it may be.
    #[error("schema: expected {expected}, got {got}")]
    Schema {
        /// What was expected.
        expected: String,
        /// What came.
        got: String,
    },
    /// A schema can't be followed: it has what the library doesn't support, or nothing satisfies it.
    #[error("schema: {0}")]
    Refused(String),
    /// There can be no thread that compiles.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
}

impl GrammarError {
    pub(crate) fn schema(expected: impl ToString, got: impl ToString) -> Self {
        Self::Schema {
            expected: expected.to_string(),
            got: got.to_string(),
        }
    }

    /// The error that the library tells, whose first line is the message.
    pub(crate) fn refused(said: &str) -> Self {
        Self::Refused(first_line(said))
    }
}

/// The first line of what the library says; a trace of calls follows where it panicked.
pub(crate) fn first_line(said: &str) -> String {
    said.lines().next().unwrap_or_default().to_owned()
}

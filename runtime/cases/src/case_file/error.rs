//! Everything that can be wrong with a case file.

use moebius_weights::header::HeaderError;

/// Why a case file was refused. Names that come from the file are quoted, escaped and cut short.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaseError {
    /// The file could not be opened or read.
    #[error("cannot read: {0}")]
    Io(#[from] std::io::Error),
    /// A directory, a pipe or a device: its size is not known before it is read.
    #[error("expected a regular file")]
    NotAFile,
    /// Larger than the reader takes.
    #[error("expected at most {max} bytes, got {got}")]
    TooLarge {
        /// Largest file accepted.
        max: u64,
        /// Size of the file.
        got: u64,
    },
    /// The memory for the file was refused.
    #[error("no memory for {0} bytes")]
    OutOfMemory(usize),
    /// The header does not hold.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// A metadata entry this version does not know.
    #[error("unknown metadata {0}, expected op, params and tol")]
    UnknownMetadata(String),
    /// A metadata entry that must be there.
    #[error("metadata `{0}` is missing")]
    MissingMetadata(&'static str),
    /// `params` or `tol` is not what its operation reads.
    #[error("metadata `{key}`: {source}")]
    BadMetadata {
        /// The entry.
        key: &'static str,
        /// What the JSON reader says.
        source: serde_json::Error,
    },
    /// A tolerance that is not exactly one of the two forms.
    #[error(
        "tolerance of {0}: expected {{\"exact\": true}} or {{\"rel_l2\": x}} with x finite and not negative"
    )]
    BadTolerance(String),
    /// An output without a tolerance.
    #[error("output {0} has no tolerance")]
    MissingTolerance(String),
    /// A tolerance without an output.
    #[error("a tolerance is given for {0}, which is not in the file")]
    UnusedTolerance(String),
    /// A tensor that is neither input nor output.
    #[error("tensor {0}: expected a name that begins with in. or out.")]
    StrayTensor(String),
    /// Nothing to compare with.
    #[error("the file has no expected output")]
    NoOutputs,
    /// A tensor of a dtype that is not converted to what is wanted, or a truth value other than 0 and 1.
    #[error("tensor {tensor}: expected {expected}, got {got}")]
    WrongTensor {
        /// Tensor name.
        tensor: String,
        /// What is wanted.
        expected: String,
        /// What the file has.
        got: String,
    },
}

//! Everything that leaves a case without a verdict.

use moebius::ErrorKind;
use moebius_weights::header::HeaderError;

/// Why a case has no verdict.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file was refused.
    #[error(transparent)]
    File(#[from] CaseError),
    /// Its operation was not run.
    #[error(transparent)]
    Op(#[from] OpError),
    /// An output was computed and can't be compared.
    #[error(transparent)]
    Compare(#[from] CompareError),
}

impl Error {
    /// Whether the file is at fault: it can't be read, asks for what this version doesn't compute, or
    /// doesn't fit together. Otherwise the device is, or the library on it.
    pub fn is_file(&self) -> bool {
        match self {
            Self::File(_) | Self::Compare(_) => true,
            Self::Op(error) => error.is_file(),
        }
    }
}

/// Why an operation could not be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpError {
    /// The file asks for something else than this version computes.
    #[error("op {0} is not supported by this version")]
    Unsupported(String),
    /// The file itself is wrong.
    #[error(transparent)]
    Case(#[from] CaseError),
    /// Inputs and parameters that are missing, that nothing reads, or that do not fit together.
    #[error("{0}")]
    Misfit(String),
    /// A backward pass that does not reach an input.
    #[error("the backward pass leaves no {0}")]
    NoGradient(&'static str),
    /// The library refused or failed.
    #[error(transparent)]
    Device(#[from] moebius::Error),
    /// The result could not be read back.
    #[error("cannot read {name} back from the device: {reason}")]
    ReadBack {
        /// Output name.
        name: &'static str,
        /// What the device says.
        reason: String,
    },
}

impl OpError {
    /// Whether the file is at fault, rather than the device or the library on it.
    pub fn is_file(&self) -> bool {
        match self {
            Self::Unsupported(_) | Self::Case(_) | Self::Misfit(_) => true,
            // The library checks what only it knows: margins, groups, capacities.
            Self::Device(error) => matches!(error.kind(), ErrorKind::Shape | ErrorKind::Config),
            Self::NoGradient { .. } | Self::ReadBack { .. } => false,
        }
    }
}

/// Why an output could not be compared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompareError {
    /// The file expects something the operation does not compute.
    #[error("output {output} is not produced by op {op}")]
    NotProduced {
        /// Output name, quoted.
        output: String,
        /// The operation, quoted.
        op: String,
    },
    /// Real numbers against whole numbers.
    #[error("output {output}: expected {expected}, the file has {got}")]
    Kind {
        /// Output name, quoted.
        output: String,
        /// What the operation computes.
        expected: &'static str,
        /// dtype in the file.
        got: safetensors::Dtype,
    },
    /// The expected values cannot be read.
    #[error(transparent)]
    Case(#[from] CaseError),
}

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

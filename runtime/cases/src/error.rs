//! Errors that leave a case without a verdict.

use moebius::ErrorKind;
use moebius_weights::header::HeaderError;

/// Error that leaves a case without a verdict.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file was refused.
    #[error(transparent)]
    File(#[from] CaseError),
    /// The operation of the case wasn't run.
    #[error(transparent)]
    Op(#[from] OpError),
    /// An output was computed but can't be compared.
    #[error(transparent)]
    Compare(#[from] CompareError),
}

impl Error {
    /// Whether the file is at fault: it can't be read, asks for something that this version doesn't compute, or isn't consistent. Otherwise
    /// the device or the library is at fault.
    pub fn is_file(&self) -> bool {
        match self {
            Self::File(_) | Self::Compare(_) => true,
            Self::Op(error) => error.is_file(),
        }
    }
}

/// Error of running an operation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpError {
    /// The file asks for something that this version doesn't compute.
    #[error("op {0} is not supported by this version")]
    Unsupported(String),
    /// The file itself is invalid.
    #[error(transparent)]
    Case(#[from] CaseError),
    /// Inputs or parameters are missing, unused, or don't fit together.
    #[error("{0}")]
    Misfit(String),
    /// The backward pass doesn't reach an input.
    #[error("the backward pass leaves no {0}")]
    NoGradient(&'static str),
    /// The library or the device failed.
    #[error(transparent)]
    Device(#[from] moebius::Error),
    /// The result couldn't be read back from the device.
    #[error("cannot read {name} back from the device: {reason}")]
    ReadBack {
        /// Name of the output.
        name: &'static str,
        /// Error of the device.
        reason: String,
    },
}

impl OpError {
    /// Whether the file is at fault, rather than the device or the library.
    pub fn is_file(&self) -> bool {
        match self {
            Self::Unsupported(_) | Self::Case(_) | Self::Misfit(_) => true,
            // Some values of a file are checked only by the library: margins, groups, capacities.
            Self::Device(error) => matches!(error.kind(), ErrorKind::Shape | ErrorKind::Config),
            Self::NoGradient { .. } | Self::ReadBack { .. } => false,
        }
    }
}

/// Error of comparing an output.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompareError {
    /// The file expects an output that the operation doesn't compute.
    #[error("output {output} is not produced by op {op}")]
    NotProduced {
        /// Name of the output, quoted.
        output: String,
        /// Name of the operation, quoted.
        op: String,
    },
    /// Real numbers can't be compared with integers.
    #[error("output {output}: expected {expected}, the file has {got}")]
    Kind {
        /// Name of the output, quoted.
        output: String,
        /// Kind of numbers that the operation computes.
        expected: &'static str,
        /// Dtype in the file.
        got: safetensors::Dtype,
    },
    /// The expected values can't be read.
    #[error(transparent)]
    Case(#[from] CaseError),
}

/// Error of a refused case file. Names that come from the file are quoted, escaped and cut short.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaseError {
    /// The file couldn't be opened or read.
    #[error("cannot read: {0}")]
    Io(#[from] std::io::Error),
    /// The path is a directory, a pipe or a device, whose size isn't known before it is read.
    #[error("expected a regular file")]
    NotAFile,
    /// The file is larger than the reader accepts.
    #[error("expected at most {max} bytes, got {got}")]
    TooLarge {
        /// Largest accepted size in bytes.
        max: u64,
        /// Size of the file in bytes.
        got: u64,
    },
    /// The memory for the file couldn't be allocated.
    #[error("no memory for {0} bytes")]
    OutOfMemory(usize),
    /// The header is invalid.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// A metadata entry is unknown to this version.
    #[error("unknown metadata {0}, expected op, params and tol")]
    UnknownMetadata(String),
    /// A required metadata entry is missing.
    #[error("metadata `{0}` is missing")]
    MissingMetadata(&'static str),
    /// The entry `params` or `tol` can't be parsed for its operation.
    #[error("metadata `{key}`: {source}")]
    BadMetadata {
        /// Key of the entry.
        key: &'static str,
        /// Error of the JSON parser.
        source: serde_json::Error,
    },
    /// A tolerance isn't exactly one of the two forms.
    #[error(
        "tolerance of {0}: expected {{\"exact\": true}} or {{\"rel_l2\": x}} with x finite and not negative"
    )]
    BadTolerance(String),
    /// An output has no tolerance.
    #[error("output {0} has no tolerance")]
    MissingTolerance(String),
    /// A tolerance has no output.
    #[error("a tolerance is given for {0}, which is not in the file")]
    UnusedTolerance(String),
    /// A tensor is neither input nor output.
    #[error("tensor {0}: expected a name that begins with in. or out.")]
    StrayTensor(String),
    /// The file has no outputs to compare.
    #[error("the file has no expected output")]
    NoOutputs,
    /// A tensor's dtype can't be converted to the expected one, or a truth value isn't 0 or 1.
    #[error("tensor {tensor}: expected {expected}, got {got}")]
    WrongTensor {
        /// Name of the tensor.
        tensor: String,
        /// What was expected.
        expected: String,
        /// What the file has.
        got: String,
    },
}

//! Everything that can be wrong with weights in files.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};

use super::header::HeaderError;

/// Why weights were not read, written or converted. Names that come from a file are quoted,
/// escaped and cut short.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WeightsError {
    /// A file can't be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A file can't be written.
    #[error("cannot write {path}: {source}")]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A pipe or a device: its size is not known before it is read.
    #[error("{0}: expected a regular file")]
    NotAFile(PathBuf),
    /// A folder without weights.
    #[error("{0}: expected a .safetensors file or an index of some, got neither")]
    NoWeights(PathBuf),
    /// A folder with several files that could be meant.
    #[error("{path}: expected one .safetensors file or index, got {first} and {second}")]
    ManyFiles {
        /// The folder.
        path: PathBuf,
        /// One file, quoted.
        first: String,
        /// Another, quoted.
        second: String,
    },
    /// A JSON file that no checkpoint needs.
    #[error("{path}: expected at most {max} bytes, got {got}")]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Largest file accepted.
        max: u64,
        /// Its size.
        got: u64,
    },
    /// The memory for a tensor was refused.
    #[error("{path}: no memory for {bytes} bytes of {tensor}")]
    OutOfMemory {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// Bytes asked for.
        bytes: u64,
    },
    /// The header of a file does not hold.
    #[error("{path}: {source}")]
    Header {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: HeaderError,
    },
    /// An index or a configuration is not the JSON it should be.
    #[error("{path}: {source}")]
    Json {
        /// The file.
        path: PathBuf,
        /// What the JSON reader says.
        source: serde_json::Error,
    },
    /// An index does not fit the files beside it.
    #[error("{path}: {fault}")]
    Index {
        /// The index.
        path: PathBuf,
        /// What is wrong.
        fault: String,
    },
    /// Two files of a checkpoint hold a tensor of one name.
    #[error("tensor {tensor} is in {first} and in {second}")]
    DuplicateTensor {
        /// The tensor.
        tensor: String,
        /// A file.
        first: PathBuf,
        /// Another.
        second: PathBuf,
    },
    /// A tensor that the checkpoint does not have.
    #[error("no tensor {0}")]
    UnknownTensor(String),
    /// A tensor of another dtype or shape than its use asks for, or with another value.
    #[error("{path}: tensor {tensor}: expected {expected}, got {got}")]
    WrongTensor {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// What would fit.
        expected: String,
        /// What the file has.
        got: String,
    },
    /// A weight that is neither a matrix nor a stack of them.
    #[error("tensor {tensor}: expected two or three extents, got shape {got}")]
    Rank {
        /// The tensor.
        tensor: String,
        /// Its shape.
        got: String,
    },
    /// FP8 codes without a scale.
    #[error("{path}: tensor {tensor} is FP8 and has no scale: expected {expected}")]
    MissingScale {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// Names it could have.
        expected: String,
    },
    /// FP8 codes with two tensors of scales.
    #[error("{path}: tensor {tensor} has two scales, {first} and {second}")]
    ManyScales {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// One.
        first: String,
        /// The other.
        second: String,
    },
    /// A block size that is not two positive numbers.
    #[error("{path}: weight_block_size: expected two positive numbers, got {got}")]
    BlockSize {
        /// The file that says so.
        path: PathBuf,
        /// The value as written.
        got: String,
    },
    /// A scheme with blocks of nothing.
    #[error("expected blocks of at least 1 x 1, got {0}")]
    Scheme(String),
    /// A tensor is declared twice, or under a name that the format keeps for itself.
    #[error("tensor {tensor} cannot be declared: {reason}")]
    Declared {
        /// The tensor.
        tensor: String,
        /// Why not.
        reason: &'static str,
    },
    /// More or fewer bytes were written than a tensor has.
    #[error("tensor {tensor}: expected {expected} bytes, got {got}")]
    DataLength {
        /// The tensor.
        tensor: String,
        /// Bytes of its dtype and shape.
        expected: u64,
        /// Bytes written.
        got: u64,
    },
    /// Another run writes there, or one was interrupted.
    #[error("{0} exists: another run writes there, or was interrupted")]
    Busy(PathBuf),
    /// The target is a folder with something in it.
    #[error("{0}: expected a new or an empty folder")]
    TargetExists(PathBuf),
    /// The target is the source.
    #[error("{0} is what is read")]
    TargetIsSource(PathBuf),
    /// A weight that is to be left alone, in FP8 of another kind than all others get.
    #[error(
        "tensor {tensor} is skipped, but it is {got}, and a checkpoint is of one kind: {expected}"
    )]
    SkippedFp8 {
        /// The tensor.
        tensor: String,
        /// What the others get.
        expected: String,
        /// What it is.
        got: String,
    },
    /// The quantiser failed.
    #[error("tensor {tensor}: {source}")]
    Quantize {
        /// The tensor.
        tensor: String,
        /// What it says.
        source: Box<dyn Error + Send + Sync>,
    },
    /// The quantiser returned another number or kind of codes or scales than the matrix has.
    #[error("tensor {tensor}: expected {expected} {what} of the quantiser, got {got}")]
    Quantized {
        /// The tensor.
        tensor: String,
        /// Codes, scales, or E8M0 scales.
        what: &'static str,
        /// As many as there should be.
        expected: usize,
        /// As many as there are.
        got: usize,
    },
}

/// That `path` can't be read, of what the system says.
pub(super) fn read_error(path: &Path) -> impl Fn(io::Error) -> WeightsError + Copy {
    move |source| WeightsError::Read {
        path: path.to_owned(),
        source,
    }
}

/// That `path` can't be written, of what the system says.
pub(super) fn write_error(path: &Path) -> impl Fn(io::Error) -> WeightsError + Copy {
    move |source| WeightsError::Write {
        path: path.to_owned(),
        source,
    }
}

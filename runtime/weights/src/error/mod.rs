//! Everything that can be wrong with weights in files.

mod gguf;
mod header;

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};

use crate::fault::{InFile, Unfit, quoted};

pub use gguf::GgufError;
pub use header::HeaderError;

/// Why weights were not read, written or converted. Names that come from a file are quoted,
/// escaped and cut short.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WeightsError {
    /// A file or folder can't be read.
    #[error("cannot read {0}")]
    Read(#[source] InFile<io::Error>),
    /// A file or folder can't be written.
    #[error("cannot write {0}")]
    Write(#[source] InFile<io::Error>),
    /// A pipe or a device: its size is not known before it is read.
    #[error("{0}: expected a regular file")]
    NotAFile(PathBuf),
    /// A folder without weights.
    #[error("{0}: expected a .safetensors file or an index of some, got neither")]
    NoWeights(PathBuf),
    /// A folder with several files that could be meant.
    #[error(transparent)]
    ManyFiles(Unfit),
    /// A JSON file larger than any checkpoint needs.
    #[error(transparent)]
    TooLarge(Unfit),
    /// The memory for a tensor was refused.
    #[error(transparent)]
    OutOfMemory(Unfit),
    /// The header of a file does not hold.
    #[error(transparent)]
    Header(InFile<HeaderError>),
    /// A GGUF file does not hold.
    #[error(transparent)]
    Gguf(InFile<GgufError>),
    /// An index or a configuration is not the JSON it should be.
    #[error(transparent)]
    Json(InFile<serde_json::Error>),
    /// An index does not fit the files beside it.
    #[error("{path}: {fault}")]
    Index {
        /// The index.
        path: PathBuf,
        /// What is wrong.
        fault: String,
    },
    /// Two files of a checkpoint hold a tensor of one name.
    #[error(transparent)]
    DuplicateTensor(Unfit),
    /// A tensor that the checkpoint does not have.
    #[error("no tensor {0}")]
    UnknownTensor(String),
    /// A tensor of another dtype or shape than its use asks for, or with another value.
    #[error(transparent)]
    WrongTensor(Unfit),
    /// A weight that is neither a matrix nor a stack of them.
    #[error(transparent)]
    Rank(Unfit),
    /// FP8 codes without a scale.
    #[error(transparent)]
    MissingScale(Unfit),
    /// FP8 codes with two tensors of scales.
    #[error(transparent)]
    ManyScales(Unfit),
    /// A block size that is not two positive numbers.
    #[error(transparent)]
    BlockSize(Unfit),
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
        "{} is skipped, but it is {}, and a checkpoint is of one kind: {}",
        .0.what, .0.got, .0.expected
    )]
    SkippedFp8(Unfit),
    /// The quantiser failed.
    #[error("tensor {tensor}: {source}")]
    Quantize {
        /// The tensor.
        tensor: String,
        /// What it says.
        source: Box<dyn Error + Send + Sync>,
    },
    /// The quantiser returned another number or kind of codes or scales than the matrix has.
    #[error(transparent)]
    Quantized(Unfit),
}

/// That `got` bytes of a tensor of `expected` bytes were asked for or written.
pub(crate) fn data_length(tensor: &str, expected: u64, got: u64) -> WeightsError {
    WeightsError::DataLength {
        tensor: quoted(tensor),
        expected,
        got,
    }
}

/// That `path` can't be read, of what the system says.
pub(crate) fn read_error(path: &Path) -> impl Fn(io::Error) -> WeightsError + Copy {
    move |source| WeightsError::Read(InFile::at(path)(source))
}

/// That `path` can't be written, of what the system says.
pub(crate) fn write_error(path: &Path) -> impl Fn(io::Error) -> WeightsError + Copy {
    move |source| WeightsError::Write(InFile::at(path)(source))
}

//! Everything that can be wrong with weights in files, and what errors are made of: what was expected and what came, the file, and
//! names from it.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};

use safetensors::{Dtype, SafeTensorError};

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
    /// What Git leaves in place of a large file.
    #[error(
        "{0}: expected the file, got a pointer of Git LFS to it: `git lfs pull` brings the file"
    )]
    LfsPointer(PathBuf),
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

/// Why a GGUF file was refused. Names that come from the file are quoted, escaped and cut short.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GgufError {
    /// The file can't be read.
    #[error("cannot read: {0}")]
    Read(io::Error),
    /// The first four bytes are others than those of every GGUF file.
    #[error("expected a file that begins with `GGUF`, got {0}")]
    Magic(String),
    /// A version whose layout is another.
    #[error(transparent)]
    Version(Unfit),
    /// The file ends, or can't hold as many as it says.
    #[error("truncated: {what} needs {needs} bytes, {left} are left in the file")]
    Truncated {
        /// What was read.
        what: String,
        /// Bytes that it takes at least.
        needs: u64,
        /// Bytes behind it in the file.
        left: u64,
    },
    /// Metadata and tensor table that no such file needs.
    #[error("expected at most {max} bytes before the tensors, {what} ends behind them")]
    TooLarge {
        /// Bytes that are accepted.
        max: u64,
        /// What was read.
        what: String,
    },
    /// A name or a text that is none.
    #[error("{what} is not UTF-8 (valid up to byte {valid_up_to})")]
    NotUtf8 {
        /// The text, or what it belongs to.
        what: String,
        /// Its first bad byte.
        valid_up_to: usize,
    },
    /// A name that is longer than the format allows.
    #[error(transparent)]
    Name(Unfit),
    /// A key or a tensor that is there twice.
    #[error(transparent)]
    Duplicate(Unfit),
    /// A value of metadata that is missing or none of its type.
    #[error(transparent)]
    Metadata(Unfit),
    /// Extents or a type that no tensor has.
    #[error(transparent)]
    Tensor(Unfit),
    /// Data that isn't aligned, lies outside of the file or is another tensor's, too.
    #[error(transparent)]
    Offset(Unfit),
}

/// Why a header was refused. Names that come from the file are quoted, escaped and cut short.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderError {
    /// Fewer bytes than the header's length field.
    #[error("truncated: expected at least 8 bytes, got {0}")]
    TooShort(u64),
    /// The header's length field points past the end of the file.
    #[error("truncated: the header says {said} bytes, {available} are left in the file")]
    PastEnd {
        /// Header length as written.
        said: u64,
        /// Bytes after the length field.
        available: u64,
    },
    /// A header that no such file needs.
    #[error("expected a header of at most {max} bytes, got {got}")]
    TooLarge {
        /// Largest header accepted.
        max: u64,
        /// Header length as written.
        got: u64,
    },
    /// The header is not text.
    #[error("the header is not UTF-8 (valid up to byte {valid_up_to})")]
    NotUtf8 {
        /// First bad byte of the header.
        valid_up_to: usize,
    },
    /// The header is not the JSON of a safetensors file; duplicate names end here too.
    #[error("the header is not valid: {0}")]
    NotValid(serde_json::Error),
    /// An element type this version does not know.
    #[error(transparent)]
    UnknownDtype(Unfit),
    /// The number of elements or bytes does not fit 64 bits, or the bytes are not whole.
    #[error(transparent)]
    ShapeOverflow(Unfit),
    /// The offsets are reversed or leave the file.
    #[error(transparent)]
    OffsetsOutOfRange(Unfit),
    /// Two tensors share bytes, or bytes belong to none.
    #[error("tensor {tensor}: expected its data to begin at {expected}, got {got}")]
    NotContiguous {
        /// Tensor name.
        tensor: String,
        /// End of the tensor before it.
        expected: usize,
        /// Its own first byte.
        got: usize,
    },
    /// dtype and shape disagree with the offsets.
    #[error(
        "tensor {tensor}: {dtype} of shape {shape} needs {expected} bytes, its offsets hold {got}"
    )]
    SizeMismatch {
        /// Tensor name.
        tensor: String,
        /// Its dtype.
        dtype: Dtype,
        /// Its shape.
        shape: String,
        /// Bytes the dtype and shape need.
        expected: usize,
        /// Bytes between the offsets.
        got: usize,
    },
    /// Data after the last tensor, or less data than the tensors need.
    #[error("expected {expected} bytes of data, got {got}")]
    DataLength {
        /// Bytes the tensors cover.
        expected: usize,
        /// Bytes in the file.
        got: u64,
    },
    /// The safetensors crate found something this reader did not.
    #[error("not a safetensors file: {0}")]
    Layout(SafeTensorError),
}

//! Errors of weights in files, and their parts: what was expected and found, the path of the file, and quoted names.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};

use safetensors::{Dtype, SafeTensorError};

/// A value that isn't what it must be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}: expected {expected}, got {got}")]
pub struct Unfit {
    /// Name of the value, or of the file or tensor that has it.
    pub what: String,
    /// What was expected.
    pub expected: String,
    /// What was found.
    pub got: String,
}

impl Unfit {
    /// An error that says that `what` should be `expected`, and is `got`.
    pub fn new(what: impl ToString, expected: impl ToString, got: impl ToString) -> Self {
        Self {
            what: what.to_string(),
            expected: expected.to_string(),
            got: got.to_string(),
        }
    }
}

/// An error, with the file or folder that it concerns.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {source}")]
pub struct InFile<E: Error + 'static> {
    /// Path of the file or folder.
    pub path: PathBuf,
    /// What is wrong with the file or folder.
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

/// Quotes a name from a file for a terminal: control characters are escaped, and the name is cut at 60 characters.
pub fn quoted(name: &str) -> String {
    let mut shown: String = name.chars().take(60).flat_map(char::escape_debug).collect();
    if name.chars().nth(60).is_some() {
        shown.push('…');
    }
    format!("`{shown}`")
}

/// The word "tensor" and the quoted name, with which errors begin.
pub(crate) fn tensor(name: &str) -> String {
    format!("tensor {}", quoted(name))
}

/// A shape for an error message, cut after eight extents.
pub(crate) fn quoted_shape(shape: &[usize]) -> String {
    match shape.get(..8) {
        Some(head) if shape.len() > 8 => format!("{head:?} and {} more", shape.len() - 8),
        _ => format!("{shape:?}"),
    }
}

/// Error of reading, writing or converting weights. Names that come from a file are quoted, escaped and cut short.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WeightsError {
    /// A file or folder can't be read.
    #[error("cannot read {0}")]
    Read(#[source] InFile<io::Error>),
    /// A file or folder can't be written.
    #[error("cannot write {0}")]
    Write(#[source] InFile<io::Error>),
    /// The path is a pipe or a device, whose size isn't known before it is read.
    #[error("{0}: expected a regular file")]
    NotAFile(PathBuf),
    /// The file is only a pointer that Git LFS leaves in place of a large file.
    #[error(
        "{0}: expected the file, got a pointer of Git LFS to it: `git lfs pull` brings the file"
    )]
    LfsPointer(PathBuf),
    /// The folder has no weights.
    #[error(
        "{0}: expected a .safetensors file or an index of some, got neither: name the folder that has the model's weights"
    )]
    NoWeights(PathBuf),
    /// The file or folder is of another format.
    #[error("{path}: expected safetensors, got {got}: {instead}")]
    Foreign {
        /// Path of the file or folder.
        path: PathBuf,
        /// What the file or folder is.
        got: String,
        /// What to do.
        instead: String,
    },
    /// The folder has several files of weights, and it isn't clear which is meant.
    #[error(transparent)]
    ManyFiles(Unfit),
    /// A JSON file is larger than any checkpoint needs.
    #[error(transparent)]
    TooLarge(Unfit),
    /// The memory for a tensor couldn't be allocated.
    #[error(transparent)]
    OutOfMemory(Unfit),
    /// The header of a safetensors file is invalid.
    #[error(transparent)]
    Header(InFile<HeaderError>),
    /// A GGUF file is invalid.
    #[error(transparent)]
    Gguf(InFile<GgufError>),
    /// An index or a configuration isn't valid JSON of the expected form.
    #[error(transparent)]
    Json(InFile<serde_json::Error>),
    /// A JSON file is a page that a server sent in its place.
    #[error(
        "{0}: expected JSON, got a page in HTML, such as a server's message: download it again"
    )]
    Page(PathBuf),
    /// An index doesn't match the files next to it.
    #[error("{path}: {fault}")]
    Index {
        /// Path of the index.
        path: PathBuf,
        /// What doesn't match.
        fault: String,
    },
    /// Two files of a checkpoint hold a tensor of the same name.
    #[error(transparent)]
    DuplicateTensor(Unfit),
    /// The checkpoint has no tensor of this name.
    #[error("no tensor {0}")]
    UnknownTensor(String),
    /// A tensor has another dtype, shape or value than its use requires.
    #[error(transparent)]
    WrongTensor(Unfit),
    /// A weight is neither a matrix nor a stack of matrices.
    #[error(transparent)]
    Rank(Unfit),
    /// FP8 codes have no scale.
    #[error(transparent)]
    MissingScale(Unfit),
    /// FP8 codes have two tensors of scales.
    #[error(transparent)]
    ManyScales(Unfit),
    /// A block size isn't two positive numbers.
    #[error(transparent)]
    BlockSize(Unfit),
    /// An FP8 scheme has blocks of size 0.
    #[error("expected blocks of at least 1 x 1, got {0}")]
    Scheme(String),
    /// A tensor to write is declared twice, or under a name that the format reserves.
    #[error("tensor {tensor} cannot be declared: {reason}")]
    Declared {
        /// Name of the tensor.
        tensor: String,
        /// Why the tensor was refused.
        reason: &'static str,
    },
    /// More or fewer bytes were written than a tensor has.
    #[error("tensor {tensor}: expected {expected} bytes, got {got}")]
    DataLength {
        /// Name of the tensor.
        tensor: String,
        /// Bytes by dtype and shape.
        expected: u64,
        /// Bytes written.
        got: u64,
    },
    /// Another run is writing to the path, or one was interrupted.
    #[error("{0} exists: another run writes there, or was interrupted")]
    Busy(PathBuf),
    /// The target folder isn't empty.
    #[error("{0}: expected a new or an empty folder")]
    TargetExists(PathBuf),
    /// The target is a file that exists.
    #[error("{0} exists: expected the name of a new file")]
    FileExists(PathBuf),
    /// The target is the same as the source.
    #[error("{0} is what is read")]
    TargetIsSource(PathBuf),
    /// A skipped weight is already FP8, in another scheme than the conversion's.
    #[error(
        "{} is skipped, but it is {}, and a checkpoint is of one kind: {}",
        .0.what, .0.got, .0.expected
    )]
    SkippedFp8(Unfit),
    /// The quantiser failed.
    #[error("tensor {tensor}: {source}")]
    Quantize {
        /// Name of the tensor.
        tensor: String,
        /// Error of the quantiser.
        source: Box<dyn Error + Send + Sync>,
    },
    /// The quantiser returned codes or scales of another number or type than the matrix needs.
    #[error(transparent)]
    Quantized(Unfit),
}

/// The error of asking for or writing `got` bytes of a tensor of `expected` bytes.
pub(crate) fn data_length(tensor: &str, expected: u64, got: u64) -> WeightsError {
    WeightsError::DataLength {
        tensor: quoted(tensor),
        expected,
        got,
    }
}

/// Turns an I/O error into the error that `path` can't be read.
pub(crate) fn read_error(path: &Path) -> impl Fn(io::Error) -> WeightsError + Copy {
    move |source| WeightsError::Read(InFile::at(path)(source))
}

/// Turns an I/O error into the error that `path` can't be written.
pub(crate) fn write_error(path: &Path) -> impl Fn(io::Error) -> WeightsError + Copy {
    move |source| WeightsError::Write(InFile::at(path)(source))
}

/// Error of a refused GGUF file. Names that come from the file are quoted, escaped and cut short.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GgufError {
    /// The file can't be read.
    #[error("cannot read: {0}")]
    Read(io::Error),
    /// The first four bytes aren't the magic number of GGUF.
    #[error(
        "expected a file that begins with `GGUF`, got {0}: download it again, or convert the model with llama.cpp's convert_hf_to_gguf.py"
    )]
    Magic(String),
    /// The version has another layout.
    #[error(transparent)]
    Version(Unfit),
    /// The file ends early, or is too small for a count or length in it.
    #[error(
        "truncated: {what} needs {needs} bytes, {left} are left in the file: download it again"
    )]
    Truncated {
        /// What was being read.
        what: String,
        /// Bytes needed at least.
        needs: u64,
        /// Bytes left in the file.
        left: u64,
    },
    /// Metadata and tensor table are larger than any file needs.
    #[error("expected at most {max} bytes before the tensors, {what} ends behind them")]
    TooLarge {
        /// Largest number of bytes that is accepted.
        max: u64,
        /// What was being read.
        what: String,
    },
    /// A name or a text isn't UTF-8.
    #[error("{what} is not UTF-8 (valid up to byte {valid_up_to})")]
    NotUtf8 {
        /// The text, or what the text belongs to.
        what: String,
        /// Offset of the first invalid byte.
        valid_up_to: usize,
    },
    /// A name is longer than the format allows.
    #[error(transparent)]
    Name(Unfit),
    /// A key or a tensor occurs twice.
    #[error(transparent)]
    Duplicate(Unfit),
    /// A value of the metadata is missing or of the wrong type.
    #[error(transparent)]
    Metadata(Unfit),
    /// A tensor has an impossible shape or type.
    #[error(transparent)]
    Tensor(Unfit),
    /// Data of a tensor isn't aligned, lies outside of the file or overlaps with another tensor's.
    #[error(transparent)]
    Offset(Unfit),
}

/// Error of a refused safetensors header. Names that come from the file are quoted, escaped and cut short.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderError {
    /// The file is shorter than the length field of the header.
    #[error("truncated: expected at least 8 bytes, got {0}: download the file again")]
    TooShort(u64),
    /// The length field points past the end of the file.
    #[error(
        "truncated: the header says {said} bytes, {available} are left in the file: download it again"
    )]
    PastEnd {
        /// Header length in the length field.
        said: u64,
        /// Bytes after the length field.
        available: u64,
    },
    /// The header is larger than any file needs.
    #[error("expected a header of at most {max} bytes, got {got}")]
    TooLarge {
        /// Largest header length that is accepted.
        max: u64,
        /// Header length in the length field.
        got: u64,
    },
    /// The header isn't UTF-8.
    #[error("the header is not UTF-8 (valid up to byte {valid_up_to})")]
    NotUtf8 {
        /// Offset of the first invalid byte of the header.
        valid_up_to: usize,
    },
    /// The header isn't the JSON of a safetensors file; repeated names are refused here, too.
    #[error("the header is not valid: {0}")]
    NotValid(serde_json::Error),
    /// The dtype is unknown to this version.
    #[error(transparent)]
    UnknownDtype(Unfit),
    /// The number of elements or bytes overflows 64 bits, or the elements don't fill whole bytes.
    #[error(transparent)]
    ShapeOverflow(Unfit),
    /// The offsets are reversed or point outside of the file.
    #[error(transparent)]
    OffsetsOutOfRange(Unfit),
    /// Two tensors overlap, or bytes belong to no tensor.
    #[error("tensor {tensor}: expected its data to begin at {expected}, got {got}")]
    NotContiguous {
        /// Name of the tensor.
        tensor: String,
        /// Offset of the end of the previous tensor.
        expected: usize,
        /// Offset of the tensor's first byte.
        got: usize,
    },
    /// The dtype and shape contradict the offsets.
    #[error(
        "tensor {tensor}: {dtype} of shape {shape} needs {expected} bytes, its offsets hold {got}"
    )]
    SizeMismatch {
        /// Name of the tensor.
        tensor: String,
        /// Dtype of the tensor.
        dtype: Dtype,
        /// Shape of the tensor.
        shape: String,
        /// Bytes by dtype and shape.
        expected: usize,
        /// Bytes between the offsets.
        got: usize,
    },
    /// The data is longer or shorter than the tensors need.
    #[error("expected {expected} bytes of data, got {got}: download the file again")]
    DataLength {
        /// Bytes the tensors cover.
        expected: usize,
        /// Bytes in the file.
        got: u64,
    },
    /// The safetensors crate found an error that this reader's own checks didn't.
    #[error("not a safetensors file: {0}")]
    Layout(SafeTensorError),
}

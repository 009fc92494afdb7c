//! Everything that can be wrong with a case file.

use safetensors::{Dtype, SafeTensorError};

/// Why a case file was refused. Names that come from the file are quoted, escaped and cut short.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CaseError {
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
    #[error("no memory for {bytes} bytes")]
    OutOfMemory {
        /// Bytes asked for.
        bytes: usize,
    },
    /// Fewer bytes than the header's length field.
    #[error("truncated: expected at least 8 bytes, got {got}")]
    TooShort {
        /// Bytes present.
        got: u64,
    },
    /// The header's length field points past the end of the file.
    #[error("truncated: the header says {said} bytes, {available} are left in the file")]
    HeaderPastEnd {
        /// Header length as written.
        said: u64,
        /// Bytes after the length field.
        available: u64,
    },
    /// A header no case needs.
    #[error("expected a header of at most {max} bytes, got {got}")]
    HeaderTooLarge {
        /// Largest header accepted.
        max: u64,
        /// Header length as written.
        got: u64,
    },
    /// The header is not text.
    #[error("the header is not UTF-8 (valid up to byte {valid_up_to})")]
    HeaderNotUtf8 {
        /// First bad byte of the header.
        valid_up_to: usize,
    },
    /// The header is not the JSON of a safetensors file; duplicate names end here too.
    #[error("the header is not valid: {0}")]
    HeaderNotValid(serde_json::Error),
    /// The number of elements or bytes does not fit 64 bits.
    #[error("tensor {tensor}: the size of shape {shape} overflows")]
    ShapeOverflow {
        /// Tensor name.
        tensor: String,
        /// Its shape.
        shape: String,
    },
    /// The offsets are reversed or leave the file.
    #[error("tensor {tensor}: offsets {begin}..{end} are not inside the {available} bytes of data")]
    OffsetsOutOfRange {
        /// Tensor name.
        tensor: String,
        /// First byte.
        begin: usize,
        /// One past the last byte.
        end: usize,
        /// Bytes of data in the file.
        available: u64,
    },
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
    /// A metadata entry this version does not know.
    #[error("unknown metadata {key}, expected op, params and tol")]
    UnknownMetadata {
        /// The entry.
        key: String,
    },
    /// A metadata entry that must be there.
    #[error("metadata `{key}` is missing")]
    MissingMetadata {
        /// The entry.
        key: &'static str,
    },
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
        "tolerance of {output}: expected {{\"exact\": true}} or {{\"rel_l2\": x}} with x finite and not negative"
    )]
    BadTolerance {
        /// Output it was written for.
        output: String,
    },
    /// An output without a tolerance.
    #[error("output {output} has no tolerance")]
    MissingTolerance {
        /// The output.
        output: String,
    },
    /// A tolerance without an output.
    #[error("a tolerance is given for {output}, which is not in the file")]
    UnusedTolerance {
        /// The output.
        output: String,
    },
    /// A tensor that is neither input nor output.
    #[error("tensor {tensor}: expected a name that begins with in. or out.")]
    StrayTensor {
        /// Tensor name.
        tensor: String,
    },
    /// Nothing to compare with.
    #[error("the file has no expected output")]
    NoOutputs,
    /// A dtype the reader does not convert to what is wanted.
    #[error("tensor {tensor}: expected {expected}, got {got}")]
    WrongDtype {
        /// Tensor name.
        tensor: String,
        /// What is wanted.
        expected: &'static str,
        /// What the file has.
        got: Dtype,
    },
    /// A truth value other than 0 and 1.
    #[error("tensor {tensor}: expected 0 or 1 at index {index}, got {got}")]
    NotABool {
        /// Tensor name.
        tensor: String,
        /// Flat index.
        index: usize,
        /// The value.
        got: i64,
    },
}

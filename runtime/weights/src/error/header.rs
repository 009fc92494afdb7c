//! Everything that can be wrong with a safetensors header.

use safetensors::{Dtype, SafeTensorError};

use crate::fault::Unfit;

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

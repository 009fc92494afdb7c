//! Everything that can be wrong with a GGUF file.

use std::io;

use crate::fault::Unfit;

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

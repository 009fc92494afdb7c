//! Everything that leaves a case without a verdict.

use crate::case_file::CaseError;
use crate::ops::OpError;
use crate::verdict::CompareError;

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

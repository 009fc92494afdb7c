//! Everything that leaves a case without a verdict.

use crate::case_file::CaseError;
use crate::ops::OpError;

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

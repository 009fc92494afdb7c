//! The one error of the public API.

use moebius_device::OpenError;
use moebius_ops::{Fault, Mismatch};
use moebius_shaders::PlanError;
use moebius_shaders::Unsupported;

/// What sort of thing went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A shape, length, dtype or content of tensors doesn't fit.
    Shape,
    /// A setting or an argument is out of its range, or doesn't go with the others.
    Config,
    /// What a call asks of isn't there yet, or is no longer: scales that aren't calibrated, pages that aren't free.
    State,
    /// The device or this build can't do it, or no device can.
    Unsupported,
    /// The device can't be opened.
    Open,
    /// The device failed while it computed, or isn't the one that the rest is on.
    Device,
}

/// An operation that was refused before anything was launched, or, when reading, that failed.
#[derive(Clone, Debug, thiserror::Error)]
#[error(transparent)]
pub struct Error(Repr);

#[derive(Clone, Debug, thiserror::Error)]
enum Repr {
    #[error(transparent)]
    Mismatch(#[from] Mismatch),
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("the device failed: {0}")]
    Device(String),
}

impl Error {
    /// A failure that showed when something was read.
    pub(crate) fn device(error: impl ToString) -> Self {
        Self(Repr::Device(error.to_string()))
    }

    /// What sort of thing went wrong.
    pub fn kind(&self) -> ErrorKind {
        match &self.0 {
            Repr::Mismatch(mismatch) => match mismatch.fault {
                Fault::Shape => ErrorKind::Shape,
                Fault::Config => ErrorKind::Config,
                Fault::State => ErrorKind::State,
                Fault::Device => ErrorKind::Device,
                Fault::Unsupported => ErrorKind::Unsupported,
            },
            Repr::Unsupported(_) => ErrorKind::Unsupported,
            Repr::Open(_) => ErrorKind::Open,
            Repr::Device(_) => ErrorKind::Device,
        }
    }
}

macro_rules! reasons {
    ($($reason:ident),*) => {$(
        impl From<$reason> for Error {
            fn from(error: $reason) -> Self {
                Self(error.into())
            }
        }
    )*};
}

reasons!(Mismatch, Unsupported, OpenError);

impl From<PlanError> for Error {
    fn from(error: PlanError) -> Self {
        match error {
            PlanError::Mismatch(error) => error.into(),
            PlanError::Unsupported(error) => error.into(),
        }
    }
}

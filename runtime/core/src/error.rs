//! [`Error`], the only error type of the public API.

use moebius_device::OpenError;
use moebius_ops::{Fault, Mismatch};
use moebius_shaders::PlanError;
use moebius_shaders::Unsupported;
use std::sync::Arc;

/// The kinds of errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The shape, length, dtype or content of a tensor doesn't fit.
    Shape,
    /// A setting or an argument is out of its range, or doesn't go with the others.
    Config,
    /// The state that a call needs isn't there (yet, or any more): scales that aren't calibrated, pages that aren't free.
    State,
    /// The device or this build doesn't support the operation, or no device does.
    Unsupported,
    /// The device can't be opened.
    Open,
    /// The device failed while it computed, or isn't the device of the other tensors.
    Device,
    /// Weights that are read when tokens need them can't be read.
    Read,
}

/// The error of an operation that was refused before any launch, or of a read that failed.
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
    #[error("cannot read an expert: {0}")]
    Read(Arc<dyn std::error::Error + Send + Sync>),
}

impl Error {
    /// An error of a device, seen when its results were read.
    pub(crate) fn device(error: impl ToString) -> Self {
        Self(Repr::Device(error.to_string()))
    }

    /// The error of weights that can't be read when tokens need them, for an implementation of
    /// [`ExpertSource`](crate::moe::switching::ExpertSource).
    pub fn unread(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self(Repr::Read(Arc::new(error)))
    }

    /// The kind of this error.
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
            Repr::Read(_) => ErrorKind::Read,
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

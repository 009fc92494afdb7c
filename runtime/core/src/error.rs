//! The one error of the public API.

use moebius_device::OpenError;
use moebius_ops::Mismatch;
use moebius_shaders::PlanError;
use moebius_shaders::Unsupported;

/// What sort of thing went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A shape, length or configuration value doesn't fit.
    Shape,
    /// The device or this build can't do it.
    Unsupported,
    /// The device can't be opened.
    Open,
    /// The device failed while it computed.
    Device,
}

/// An operation that was refused before anything was launched, or, when reading, that failed.
#[derive(Clone, Debug, thiserror::Error)]
#[error(transparent)]
pub struct Error(Repr);

#[derive(Clone, Debug, thiserror::Error)]
enum Repr {
    #[error(transparent)]
    Shape(#[from] Mismatch),
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
            Repr::Shape(_) => ErrorKind::Shape,
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

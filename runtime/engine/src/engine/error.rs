//! Why an engine couldn't go on.

use moebius_ops::Mismatch;

use crate::{Refused, StepError};

/// Why an engine wasn't made, refused a request, or didn't run a step.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// A setting or a token doesn't fit.
    #[error(transparent)]
    Unfit(#[from] Mismatch),
    /// A request could never run.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The scheduler was told what can't be: a fault of the engine's.
    #[error(transparent)]
    Step(#[from] StepError),
    /// The model, or the device below it, refused.
    #[error(transparent)]
    Model(#[from] moebius_model::Error),
    /// A device failed while it computed.
    #[error("the device failed: {0}")]
    Device(String),
}

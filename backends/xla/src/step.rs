//! The boundary between two steps of a loop.

use crate::open::{self, OpenError};
use crate::pjrt::Platform;
use burn::tensor::DType;

/// Why a step can't be ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StepError {
    /// The device can't be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// What was computed before couldn't be sent.
    #[error("operations of the step: {0}")]
    Unsent(String),
}

/// Ends a step: what this thread recorded on the device since the last one runs as one program, without a wait for it.
///
/// A loop that reads a result in each round, or waits or seeds, has such a boundary already. One that does none of it
/// calls this at the end of each round; otherwise its rounds are recorded one after the other, up to 16384 operations,
/// and compiled together.
///
/// # Errors
///
/// [`StepError`]. What fails later shows where a result is read.
pub fn mark_step(platform: Platform, index: usize) -> Result<(), StepError> {
    let device = open::open(platform, index)?;
    let flushed = device.flush();
    flushed.map_err(|error| StepError::Unsent(format!("{error:?}")))?;
    // Burn's fusion holds operations back until a flush, and burn-remote until a request needs a reply, as this cheap one
    // does.
    device.supports_dtype(DType::F32);
    open::recorder(platform, index)?.flush();
    Ok(())
}

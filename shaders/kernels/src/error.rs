//! The two ways a kernel refuses work: its numbers don't fit, or the device can't.

use moebius_ops::Mismatch;

/// A device that lacks what a kernel needs; returned by `plan`, before anything is launched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kernel} is not supported on this device: it needs {needs}, the device has {have}")]
pub struct Unsupported {
    /// Kernel family.
    pub kernel: &'static str,
    /// What the kernel needs.
    pub needs: String,
    /// What the device has.
    pub have: String,
}

impl Unsupported {
    /// `kernel` needs `needs`, and the device has `have`.
    pub fn new(kernel: &'static str, needs: impl ToString, have: impl ToString) -> Self {
        Self {
            kernel,
            needs: needs.to_string(),
            have: have.to_string(),
        }
    }

    /// Refuses what doesn't fit; the texts are only made then.
    pub(crate) fn unless(
        fits: bool,
        kernel: &'static str,
        needs: impl ToString,
        have: impl ToString,
    ) -> Result<(), Self> {
        if fits {
            Ok(())
        } else {
            Err(Self::new(kernel, needs, have))
        }
    }
}

/// Why something isn't planned.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// Its numbers don't fit.
    #[error(transparent)]
    Mismatch(#[from] Mismatch),
    /// The device can't.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
}

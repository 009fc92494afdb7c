//! The errors of plans (a problem's numbers don't fit, or the device lacks something), and launches whose failure reaches the
//! reader of the result.

use cubecl::client::Client;
use cubecl::frontend::push_validation_error;
use cubecl::prelude::*;
use cubecl::server::{Handle, ServerError};
use moebius_ops::Mismatch;

/// The error for a device that lacks what a kernel needs; `plan` returns it before anything is launched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kernel} is not supported on this device: it needs {needs}, the device has {have}")]
pub struct Unsupported {
    /// The kernel family.
    pub kernel: &'static str,
    /// What the kernel needs.
    pub needs: String,
    /// What the device has.
    pub have: String,
}

impl Unsupported {
    /// The error that `kernel` needs `needs` while the device has `have`.
    pub fn new(kernel: &'static str, needs: impl ToString, have: impl ToString) -> Self {
        Self {
            kernel,
            needs: needs.to_string(),
            have: have.to_string(),
        }
    }

    /// Returns an error unless `fits`; the texts are formatted only in that case.
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

/// Why a plan is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The problem's numbers don't fit.
    #[error(transparent)]
    Mismatch(#[from] Mismatch),
    /// The device lacks something.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
}

/// A kernel that no compiler accepts.
#[cube(launch)]
fn failed(output: &mut [u32], #[comptime] reason: String) {
    push_validation_error(reason);
    output[0] = 0;
}

/// Runs `launch`, whose kernels write `outputs`. If a kernel can't be compiled or launched, reading an output, or anything
/// computed from it, fails with the reason.
///
/// CubeCL itself reports at the read what a compiler refuses. But its compiler for processors panics when LLVM or the JIT fails,
/// on a thread that drops the message and leaves the outputs unchanged. So on `cpu` this function waits for the launches (not for
/// the kernels) and marks the outputs if a launch panicked. On other runtimes it doesn't wait, because there only a type that a
/// compiler lacks causes a panic, and plans refuse such types.
pub fn checked(client: &Client, outputs: &[&Handle], launch: impl FnOnce() + Send) {
    if client.name() != "cpu" {
        return launch();
    }
    let Err(error) = client.exclusive(launch) else {
        return;
    };
    let reason = match error {
        ServerError::Generic { reason, .. } => reason,
        other => other.to_string(),
    };
    for output in outputs {
        let bytes = output.size_in_used() as usize;
        // SAFETY: the kernel never runs.
        let output = unsafe { BufferArg::from_raw_parts((*output).clone(), bytes / 4) };
        let (count, dim) = (CubeCount::new_single(), CubeDim::new_1d(1));
        failed::launch(client, count, dim, output, reason.clone());
    }
}

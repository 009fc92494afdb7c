//! The two ways a plan refuses work: its numbers don't fit, or the device can't; and launches whose failure reaches whoever reads the
//! result.

use cubecl::client::Client;
use cubecl::frontend::push_validation_error;
use cubecl::prelude::*;
use cubecl::server::{Handle, ServerError};
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

/// A kernel that no compiler takes.
#[cube(launch)]
fn failed(output: &mut [u32], #[comptime] reason: String) {
    push_validation_error(reason);
    output[0] = 0;
}

/// Runs `launch`, whose kernels write `outputs`: if one can't be compiled or launched, reading any of the outputs, or
/// what is computed from them, is an error with its reason.
///
/// CubeCL reports what a compiler refuses at the read by itself. But its compiler for processors panics where LLVM or the
/// JIT fails, on a thread that drops the message and leaves the outputs as they were. So on `cpu` this waits for the
/// launches (not for the kernels) and marks the outputs if they panicked. Elsewhere it doesn't wait: there only a type
/// that a compiler lacks makes it panic, and plans refuse those.
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

//! Launches whose failure reaches whoever reads the result.

use cubecl::client::Client;
use cubecl::frontend::push_validation_error;
use cubecl::prelude::*;
use cubecl::server::{Handle, ServerError};

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

//! The process's limit on vector instructions, and launches that CubeCL lost, after which results come from memory that was never
//! written. The program of `cargo bench` includes this file as well.
//!
//! When a kernel's compiler panics, CubeCL's thread drops the panic and goes on. Our own operations notice
//! (`moebius_shaders::checked`), Burn's do not; for those, a program learns of it only from its panic hook.

use std::sync::{Mutex, PoisonError};
use std::{env, panic, thread};

use moebius_host::{Simd, SimdError, limit_simd};

/// Variable that limits every command's vector instructions as `--simd` does; the option takes precedence.
const SIMD: &str = "MOEBIUS_SIMD";

/// Message of the first panic in a device's thread since [`lost`] was last called.
static LOST: Mutex<Option<String>> = Mutex::new(None);

/// Limits the process to `asked` or else to the variable's vector instructions; call this before anything runs.
///
/// # Errors
/// [`SimdError`] for an unknown set of instructions, or one that this processor lacks.
pub(crate) fn hold(asked: Option<Simd>) -> Result<(), SimdError> {
    let asked = match (asked, env::var(SIMD)) {
        (None, Ok(text)) if !text.is_empty() => Some(text.parse()?),
        (asked, _) => asked,
    };
    asked.map_or(Ok(()), limit_simd)
}

/// Records panics in the threads that run devices, from now on.
pub(crate) fn listen() {
    let program = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        let device = |name: &str| name.starts_with("DSD-") || name.starts_with("DSU-");
        if thread::current().name().is_some_and(device) {
            let text = info.payload_as_str().unwrap_or("no message");
            let mut lost = LOST.lock().unwrap_or_else(PoisonError::into_inner);
            lost.get_or_insert_with(|| text.to_owned());
        }
        program(info);
    }));
}

/// Message of the first panic in a device's thread since the last call. Such a panic means a lost launch, so results
/// since then are invalid.
pub(crate) fn lost() -> Option<String> {
    LOST.lock().unwrap_or_else(PoisonError::into_inner).take()
}

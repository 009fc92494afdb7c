//! What the process is held to before anything runs, and launches that CubeCL gave up, after which a result would be of memory that
//! nothing wrote. The program of `cargo bench` has this file, too.
//!
//! Where the compiler of a kernel panics, CubeCL's thread drops the panic and goes on. Our own operations hear of it
//! (`moebius_shaders::checked`), Burn's do not, and a program hears of it from its panic hook only.

use std::sync::{Mutex, PoisonError};
use std::{env, panic, thread};

use moebius_host::{Simd, SimdError, limit_simd};

/// Does what `--simd` does, for every command; the option goes before it.
const SIMD: &str = "MOEBIUS_SIMD";

/// What the first thread of a device said that panicked since the last look.
static LOST: Mutex<Option<String>> = Mutex::new(None);

/// Holds the process to the vector instructions that were asked for, before anything runs.
///
/// # Errors
/// [`SimdError`] for a set that there isn't, or that this processor lacks.
pub(crate) fn hold(asked: Option<Simd>) -> Result<(), SimdError> {
    let asked = match (asked, env::var(SIMD)) {
        (None, Ok(text)) if !text.is_empty() => Some(text.parse()?),
        (asked, _) => asked,
    };
    asked.map_or(Ok(()), limit_simd)
}

/// Listens to the threads that run devices, from now on.
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

/// What a thread of a device said that has panicked since the last look: a launch was lost, and with it the result.
pub(crate) fn lost() -> Option<String> {
    LOST.lock().unwrap_or_else(PoisonError::into_inner).take()
}

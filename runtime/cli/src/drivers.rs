//! Settings for graphics drivers, made before they are loaded.
#![allow(
    unsafe_code,
    reason = "drivers read a variable of the environment through C"
)]

use std::env;

const RUNTIME_FOLDER: &str = "XDG_RUNTIME_DIR";

/// Keeps Mesa's drivers from printing an error that is none. They ask a Wayland display for its preferred GPU; where the
/// variable that leads to one isn't set, as on servers, libwayland complains on standard error. A folder that doesn't
/// exist leads to no display either, but to no message. Call this before any thread starts.
pub(crate) fn expect_no_display() {
    if cfg!(target_os = "linux") && env::var_os(RUNTIME_FOLDER).is_none() {
        // SAFETY: `main` calls this first, so no other thread reads the environment.
        unsafe { env::set_var(RUNTIME_FOLDER, "/nonexistent") };
    }
}

//! Registrations that run before everything else, once.
//!
//! CubeCL's compiler registers its operations in constructors. The linker takes a module that never calls
//! them for a command, which runs once, and puts a call at the beginning of every export: 26 ms in every
//! call from JavaScript, measured on two cores of an EPYC. A module that calls them itself is left alone.
#![allow(
    unsafe_code,
    reason = "the linker's function has no declaration that could be safe"
)]

/// Runs all constructors; to be called by the start function and by nothing else.
#[cfg(target_family = "wasm")]
pub(crate) fn run() {
    unsafe extern "C" {
        fn __wasm_call_ctors();
    }
    // SAFETY: the linker makes this function in every module with constructors, it takes and returns
    // nothing, and the start function is called once, before any other export.
    unsafe { __wasm_call_ctors() }
}

/// Elsewhere the system's loader has run them.
#[cfg(not(target_family = "wasm"))]
pub(crate) fn run() {}

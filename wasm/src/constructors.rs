//! Constructors of registered operations, called once before everything else.
//!
//! CubeCL's compiler registers its operations in constructors. The linker takes a module that never calls them for a
//! command, which runs once, and makes every export call them first: 26 ms in every call from JavaScript, measured on
//! two cores of an EPYC. A module that calls them itself is left alone.
#![allow(
    unsafe_code,
    reason = "the linker's function has no declaration that could be safe"
)]

/// Runs all constructors. Only the start function may call this.
#[cfg(target_family = "wasm")]
pub(crate) fn run() {
    unsafe extern "C" {
        fn __wasm_call_ctors();
    }
    // SAFETY: the linker makes this function in every module with constructors, it takes and returns
    // nothing, and the start function is called once, before any other export.
    unsafe { __wasm_call_ctors() }
}

/// On other targets, the system's loader has run the constructors.
#[cfg(not(target_family = "wasm"))]
pub(crate) fn run() {}

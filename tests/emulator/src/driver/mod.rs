//! The functions of `libcuda.so.1` that CubeCL's CUDA runtime calls, through cudarc.
//!
//! Every operation is done when its function returns: streams have nothing to wait for. Handles are
//! addresses of what they stand for, and are as trusted as the real driver trusts them.
#![allow(
    clippy::missing_safety_doc,
    reason = "what a caller owes is what the CUDA driver API's reference says of each function"
)]
#![allow(
    clippy::too_many_arguments,
    reason = "the signatures are the CUDA driver API's"
)]

mod bounds;
pub mod device;
pub mod graph;
pub mod launch;
pub mod memory;
pub mod module;
pub mod names;
pub mod stream;
pub mod unsupported;

use std::sync::atomic::{AtomicU32, Ordering};

/// `CUresult`.
pub type Status = u32;

/// The call did what it says.
pub const SUCCESS: Status = 0;
/// An argument is out of its range.
pub const INVALID_VALUE: Status = 1;
/// The card's memory, or the host's, is used up.
pub const OUT_OF_MEMORY: Status = 2;
/// The card is not one that this driver shows.
pub const NO_DEVICE: Status = 100;
/// There is no such device.
pub const INVALID_DEVICE: Status = 101;
/// A module could not be read.
pub const INVALID_PTX: Status = 218;
/// A text could not be compiled.
pub const INVALID_SOURCE: Status = 300;
/// A handle stands for nothing.
pub const INVALID_HANDLE: Status = 400;
/// There is no such name.
pub const NOT_FOUND: Status = 500;
/// A kernel touched memory that isn't there.
pub const ILLEGAL_ADDRESS: Status = 700;
/// A kernel failed.
pub const LAUNCH_FAILED: Status = 719;
/// The emulator can't do that.
pub const NOT_SUPPORTED: Status = 801;
/// Not while a stream is being captured.
pub const CAPTURE_UNSUPPORTED: Status = 900;
/// The stream is not being captured.
pub const CAPTURE_UNMATCHED: Status = 903;

/// The fault that every later call returns, as on a GPU: the context is lost with it.
static STICKY: AtomicU32 = AtomicU32::new(SUCCESS);

pub(crate) fn lose_context(status: Status) {
    let _ = STICKY.compare_exchange(SUCCESS, status, Ordering::Relaxed, Ordering::Relaxed);
}

/// The fault of an earlier launch, if there was one.
pub(crate) fn context() -> Result<(), Status> {
    match STICKY.load(Ordering::Relaxed) {
        SUCCESS => Ok(()),
        fault => Err(fault),
    }
}

/// Makes a status of what a body came to.
pub(crate) fn status(body: impl FnOnce() -> Result<(), Status>) -> Status {
    body().err().unwrap_or(SUCCESS)
}

/// Writes through a pointer that a caller passed for an answer.
///
/// # Safety
///
/// It is null, or valid for a write.
pub(crate) unsafe fn answer<T>(to: *mut T, value: T) -> Result<(), Status> {
    if to.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: as the caller promises.
    unsafe { to.write(value) };
    Ok(())
}

//! The functions of `libcuda.so.1` that CubeCL's CUDA runtime calls, through cudarc.
//!
//! Every operation is complete when its function returns, so streams never wait. Handles are addresses of the objects they
//! stand for, and are trusted as the real driver trusts them.
#![allow(
    clippy::missing_safety_doc,
    reason = "what a caller owes is what the CUDA driver API's reference says of each function"
)]
#![allow(
    clippy::too_many_arguments,
    reason = "the signatures are the CUDA driver API's"
)]

pub mod device;
pub mod launch;
pub mod memory;
pub mod module;
pub mod stream;

use std::ffi::{CStr, c_char};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::settings;

/// `CUresult`.
pub type Status = u32;

/// A status with its name and its meaning.
struct Known {
    number: Status,
    name: &'static CStr,
    meaning: &'static CStr,
}

macro_rules! statuses {
    ($($(#[$doc:meta])* $constant:ident = $number:expr, $name:expr, $meaning:expr;)*) => {
        $($(#[$doc])* pub const $constant: Status = $number;)*
        const STATUSES: &[Known] = &[$(Known { number: $number, name: $name, meaning: $meaning }),*];
    };
}

statuses! {
    /// The call succeeded.
    SUCCESS = 0, c"CUDA_SUCCESS", c"no error";
    /// An argument is out of range.
    INVALID_VALUE = 1, c"CUDA_ERROR_INVALID_VALUE", c"invalid argument";
    /// The card's or the host's memory is exhausted.
    OUT_OF_MEMORY = 2, c"CUDA_ERROR_OUT_OF_MEMORY", c"out of memory";
    /// The driver was not initialised.
    NOT_INITIALIZED = 3, c"CUDA_ERROR_NOT_INITIALIZED", c"initialization error";
    /// This driver doesn't show the chosen card.
    NO_DEVICE = 100, c"CUDA_ERROR_NO_DEVICE", c"no CUDA-capable device is detected";
    /// No device has this number.
    INVALID_DEVICE = 101, c"CUDA_ERROR_INVALID_DEVICE", c"invalid device ordinal";
    /// A module could not be read.
    INVALID_PTX = 218, c"CUDA_ERROR_INVALID_PTX", c"a PTX JIT compilation failed";
    /// A text couldn't be compiled.
    INVALID_SOURCE = 300, c"CUDA_ERROR_INVALID_SOURCE", c"device kernel image is invalid";
    /// A handle is null or refers to nothing.
    INVALID_HANDLE = 400, c"CUDA_ERROR_INVALID_HANDLE", c"invalid resource handle";
    /// No symbol has this name.
    NOT_FOUND = 500, c"CUDA_ERROR_NOT_FOUND", c"named symbol not found";
    /// A kernel accessed memory outside its buffers.
    ILLEGAL_ADDRESS = 700, c"CUDA_ERROR_ILLEGAL_ADDRESS", c"an illegal memory access was encountered";
    /// A kernel failed.
    LAUNCH_FAILED = 719, c"CUDA_ERROR_LAUNCH_FAILED", c"unspecified launch failure";
    /// The emulator doesn't support the operation.
    NOT_SUPPORTED = 801, c"CUDA_ERROR_NOT_SUPPORTED", c"operation not supported";
    /// The operation isn't permitted while a stream is being captured.
    CAPTURE_UNSUPPORTED = 900, c"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", c"operation not permitted when stream is capturing";
    /// The stream is not being captured.
    CAPTURE_UNMATCHED = 903, c"CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", c"the capture was not initiated in this stream";
}

/// The fault that lost the context, which every later call returns, as on a GPU.
static STICKY: AtomicU32 = AtomicU32::new(SUCCESS);

pub(crate) fn lose_context(status: Status) {
    let _ = STICKY.compare_exchange(SUCCESS, status, Ordering::Relaxed, Ordering::Relaxed);
}

/// Returns the fault of an earlier launch as an error, if there was one, and that of a card that is lost.
pub(crate) fn context() -> Result<(), Status> {
    let file = settings::get().lost.as_deref();
    if file.is_some_and(Path::exists) {
        lose_context(LAUNCH_FAILED);
    }
    match STICKY.load(Ordering::Relaxed) {
        SUCCESS => Ok(()),
        fault => Err(fault),
    }
}

/// Runs a function's body and turns its result into a status.
pub(crate) fn status(body: impl FnOnce() -> Result<(), Status>) -> Status {
    body().err().unwrap_or(SUCCESS)
}

/// Writes an answer through a caller's pointer.
///
/// # Safety
///
/// The pointer is null, or valid for a write.
pub(crate) unsafe fn answer<T>(to: *mut T, value: T) -> Result<(), Status> {
    if to.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: as the caller promises.
    unsafe { to.write(value) };
    Ok(())
}

/// Frees the object of a handle that this driver made: the caller's last use of the handle.
///
/// # Safety
///
/// The handle is null, or came from `Box::into_raw`.
pub(crate) unsafe fn destroy<T>(handle: *mut T) -> Result<(), Status> {
    if handle.is_null() {
        return Err(INVALID_HANDLE);
    }
    // SAFETY: as the caller promises.
    drop(unsafe { Box::from_raw(handle) });
    Ok(())
}

/// Reports a feature that CubeCL may ask for and the emulator lacks.
pub(crate) fn unsupported(what: &str) -> Status {
    eprintln!("moebius-emulator: not supported: {what}");
    NOT_SUPPORTED
}

/// Writes a status's text, or null for an unknown status.
///
/// # Safety
///
/// As [`answer`].
unsafe fn text_of(
    status: Status,
    to: *mut *const c_char,
    text: fn(&Known) -> &'static CStr,
) -> Result<(), Status> {
    let found = STATUSES
        .iter()
        .find(|known| known.number == status)
        .map(text);
    // SAFETY: as the caller promises.
    unsafe { answer(to, found.map_or(std::ptr::null(), CStr::as_ptr)) }?;
    found.map(|_| ()).ok_or(INVALID_VALUE)
}

functions! {
    fn cuGetErrorName(status: Status, to: *mut *const c_char) {
        // SAFETY: the caller's pointer.
        unsafe { text_of(status, to, |known| known.name) }
    }

    fn cuGetErrorString(status: Status, to: *mut *const c_char) {
        // SAFETY: the caller's pointer.
        unsafe { text_of(status, to, |known| known.meaning) }
    }

    /// Unsupported; the arguments are ignored.
    fn cuTensorMapEncodeTiled() { Err(unsupported("cuTensorMapEncodeTiled")) }

    /// Unsupported; the arguments are ignored.
    fn cuTensorMapEncodeIm2col() { Err(unsupported("cuTensorMapEncodeIm2col")) }

    /// Unsupported; the arguments are ignored.
    fn cuTensorMapEncodeIm2colWide() { Err(unsupported("cuTensorMapEncodeIm2colWide")) }
}

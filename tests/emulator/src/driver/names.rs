//! Names and texts of statuses.

use std::ffi::{CStr, c_char};

use super::{INVALID_VALUE, SUCCESS, Status};

/// Number, name and meaning.
const STATUSES: [(Status, &CStr, &CStr); 15] = [
    (0, c"CUDA_SUCCESS", c"no error"),
    (1, c"CUDA_ERROR_INVALID_VALUE", c"invalid argument"),
    (2, c"CUDA_ERROR_OUT_OF_MEMORY", c"out of memory"),
    (3, c"CUDA_ERROR_NOT_INITIALIZED", c"initialization error"),
    (
        100,
        c"CUDA_ERROR_NO_DEVICE",
        c"no CUDA-capable device is detected",
    ),
    (101, c"CUDA_ERROR_INVALID_DEVICE", c"invalid device ordinal"),
    (
        218,
        c"CUDA_ERROR_INVALID_PTX",
        c"a PTX JIT compilation failed",
    ),
    (
        300,
        c"CUDA_ERROR_INVALID_SOURCE",
        c"device kernel image is invalid",
    ),
    (
        400,
        c"CUDA_ERROR_INVALID_HANDLE",
        c"invalid resource handle",
    ),
    (500, c"CUDA_ERROR_NOT_FOUND", c"named symbol not found"),
    (
        700,
        c"CUDA_ERROR_ILLEGAL_ADDRESS",
        c"an illegal memory access was encountered",
    ),
    (
        719,
        c"CUDA_ERROR_LAUNCH_FAILED",
        c"unspecified launch failure",
    ),
    (801, c"CUDA_ERROR_NOT_SUPPORTED", c"operation not supported"),
    (
        900,
        c"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
        c"operation not permitted when stream is capturing",
    ),
    (
        903,
        c"CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
        c"the capture was not initiated in this stream",
    ),
];

fn find(status: Status) -> Option<&'static (Status, &'static CStr, &'static CStr)> {
    STATUSES.iter().find(|(number, ..)| *number == status)
}

unsafe fn give(to: *mut *const c_char, text: Option<&'static CStr>) -> Status {
    if to.is_null() {
        return INVALID_VALUE;
    }
    // SAFETY: the caller's pointer.
    unsafe { to.write(text.map_or(std::ptr::null(), CStr::as_ptr)) };
    text.map_or(INVALID_VALUE, |_| SUCCESS)
}

/// See `cuGetErrorName`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorName(status: Status, to: *mut *const c_char) -> Status {
    // SAFETY: the caller's pointer.
    unsafe { give(to, find(status).map(|found| found.1)) }
}

/// See `cuGetErrorString`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorString(status: Status, to: *mut *const c_char) -> Status {
    // SAFETY: the caller's pointer.
    unsafe { give(to, find(status).map(|found| found.2)) }
}

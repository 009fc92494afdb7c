//! Streams and events.

use std::ffi::c_uint;

use crate::driver::Status;
use crate::driver::stream::{
    Event, Stream, cuEventCreate, cuEventDestroy_v2, cuEventElapsedTime, cuEventRecord,
    cuEventSynchronize, cuStreamCreate, cuStreamDestroy_v2, cuStreamSynchronize, cuStreamWaitEvent,
};

/// See `hipStreamCreateWithFlags`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipStreamCreateWithFlags(to: *mut *mut Stream, flags: c_uint) -> Status {
    // SAFETY: the caller's pointer.
    unsafe { cuStreamCreate(to, flags) }
}

/// See `hipStreamDestroy`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipStreamDestroy(stream: *mut Stream) -> Status {
    // SAFETY: the caller's stream.
    unsafe { cuStreamDestroy_v2(stream) }
}

/// See `hipStreamSynchronize`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipStreamSynchronize(stream: *mut Stream) -> Status {
    // SAFETY: the caller's stream.
    unsafe { cuStreamSynchronize(stream) }
}

/// See `hipStreamWaitEvent`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipStreamWaitEvent(
    stream: *mut Stream,
    event: *mut Event,
    flags: c_uint,
) -> Status {
    // SAFETY: the caller's stream and event.
    unsafe { cuStreamWaitEvent(stream, event, flags) }
}

/// See `hipEventCreateWithFlags`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipEventCreateWithFlags(to: *mut *mut Event, flags: c_uint) -> Status {
    // SAFETY: the caller's pointer.
    unsafe { cuEventCreate(to, flags) }
}

/// See `hipEventDestroy`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipEventDestroy(event: *mut Event) -> Status {
    // SAFETY: the caller's event.
    unsafe { cuEventDestroy_v2(event) }
}

/// See `hipEventRecord`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipEventRecord(event: *mut Event, stream: *mut Stream) -> Status {
    // SAFETY: the caller's event and stream.
    unsafe { cuEventRecord(event, stream) }
}

/// See `hipEventSynchronize`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipEventSynchronize(event: *mut Event) -> Status {
    // SAFETY: the caller's event.
    unsafe { cuEventSynchronize(event) }
}

/// See `hipEventElapsedTime`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipEventElapsedTime(
    to: *mut f32,
    start: *mut Event,
    end: *mut Event,
) -> Status {
    // SAFETY: the caller's pointer and events.
    unsafe { cuEventElapsedTime(to, start, end) }
}

//! Streams and events. What is put into a stream is done at once, or kept while the stream is captured.

use std::ffi::{c_int, c_uint};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use super::launch::Launch;
use super::memory::Address;
use super::{CAPTURE_UNSUPPORTED, INVALID_HANDLE, SUCCESS, Status, answer, context, status};

/// A `CUstream`.
#[derive(Debug, Default)]
pub struct Stream {
    captured: Mutex<Option<Vec<Operation>>>,
}

/// What a stream does.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Launch(Launch),
    Copy {
        to: Address,
        from: Address,
        width: usize,
        height: usize,
        to_pitch: usize,
        from_pitch: usize,
    },
    Fill {
        to: Address,
        value: u8,
        bytes: usize,
    },
}

impl Operation {
    /// Bytes side by side.
    pub(crate) fn copy(to: Address, from: Address, bytes: usize) -> Operation {
        Operation::Copy {
            to,
            from,
            width: bytes,
            height: 1,
            to_pitch: bytes,
            from_pitch: bytes,
        }
    }

    /// Does it.
    ///
    /// # Safety
    ///
    /// The addresses are those of live memory.
    pub(crate) unsafe fn run(&self) -> Result<(), Status> {
        context()?;
        match self {
            Operation::Launch(launch) => launch.run(),
            Operation::Copy {
                to,
                from,
                width,
                height,
                to_pitch,
                from_pitch,
            } => {
                for row in 0..*height {
                    let to = *to as usize + row * to_pitch;
                    let from = *from as usize + row * from_pitch;
                    // SAFETY: as the caller promises.
                    unsafe { copy_row(to, from, *width) };
                }
                Ok(())
            }
            Operation::Fill { to, value, bytes } => {
                let at: *mut u8 = std::ptr::with_exposed_provenance_mut(*to as usize);
                // SAFETY: as the caller promises.
                unsafe { at.write_bytes(*value, *bytes) };
                crate::grid::check::copied(*to as usize, None, *bytes);
                Ok(())
            }
        }
    }
}

unsafe fn copy_row(to: usize, from: usize, bytes: usize) {
    let source: *const u8 = std::ptr::with_exposed_provenance(from);
    let target: *mut u8 = std::ptr::with_exposed_provenance_mut(to);
    // SAFETY: the caller's memory, which may overlap.
    unsafe { std::ptr::copy(source, target, bytes) };
    crate::grid::check::copied(to, Some(from), bytes);
}

/// Does an operation, or keeps it for the graph that the stream is captured into.
///
/// # Safety
///
/// As `Operation::run`; the stream is null or live.
pub(crate) unsafe fn submit(stream: *mut Stream, operation: Operation) -> Status {
    status(|| {
        // SAFETY: the caller's stream.
        if let Some(stream) = unsafe { stream.as_ref() }
            && let Some(captured) = &mut *stream.captured()
        {
            captured.push(operation);
            return Ok(());
        }
        // SAFETY: as the caller promises.
        unsafe { operation.run() }
    })
}

impl Stream {
    pub(crate) fn captured(&self) -> std::sync::MutexGuard<'_, Option<Vec<Operation>>> {
        self.captured.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// See `cuStreamCreate`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamCreate(to: *mut *mut Stream, _flags: c_uint) -> Status {
    status(|| {
        context()?;
        // SAFETY: the caller's pointer.
        unsafe { answer(to, Box::into_raw(Box::default())) }
    })
}

/// See `cuStreamCreateWithPriority`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamCreateWithPriority(
    to: *mut *mut Stream,
    flags: c_uint,
    _priority: c_int,
) -> Status {
    // SAFETY: the caller's pointer.
    unsafe { cuStreamCreate(to, flags) }
}

/// See `cuStreamDestroy_v2`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamDestroy_v2(stream: *mut Stream) -> Status {
    if stream.is_null() {
        return INVALID_HANDLE;
    }
    // SAFETY: from `cuStreamCreate`, and the caller's last use.
    drop(unsafe { Box::from_raw(stream) });
    SUCCESS
}

/// See `cuStreamSynchronize`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamSynchronize(stream: *mut Stream) -> Status {
    // SAFETY: the caller's stream.
    let stream = unsafe { stream.as_ref() };
    if stream.is_some_and(|stream| stream.captured().is_some()) {
        return CAPTURE_UNSUPPORTED;
    }
    status(context)
}

/// See `cuStreamWaitEvent`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamWaitEvent(
    _stream: *mut Stream,
    _event: *mut Event,
    _flags: c_uint,
) -> Status {
    status(context)
}

/// A `CUevent`.
#[derive(Debug, Default)]
pub struct Event {
    at: Mutex<Option<Instant>>,
}

impl Event {
    fn at(&self) -> std::sync::MutexGuard<'_, Option<Instant>> {
        self.at.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// See `cuEventCreate`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventCreate(to: *mut *mut Event, _flags: c_uint) -> Status {
    status(|| {
        context()?;
        // SAFETY: the caller's pointer.
        unsafe { answer(to, Box::into_raw(Box::default())) }
    })
}

/// See `cuEventDestroy_v2`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventDestroy_v2(event: *mut Event) -> Status {
    if event.is_null() {
        return INVALID_HANDLE;
    }
    // SAFETY: from `cuEventCreate`, and the caller's last use.
    drop(unsafe { Box::from_raw(event) });
    SUCCESS
}

/// See `cuEventRecord`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventRecord(event: *mut Event, _stream: *mut Stream) -> Status {
    status(|| {
        context()?;
        // SAFETY: the caller's event.
        let event = unsafe { event.as_ref() }.ok_or(INVALID_HANDLE)?;
        *event.at() = Some(Instant::now());
        Ok(())
    })
}

/// See `cuEventSynchronize`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventSynchronize(_event: *mut Event) -> Status {
    status(context)
}

/// See `cuEventQuery`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventQuery(_event: *mut Event) -> Status {
    status(context)
}

/// See `cuEventElapsedTime`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventElapsedTime(
    to: *mut f32,
    start: *mut Event,
    end: *mut Event,
) -> Status {
    status(|| {
        context()?;
        // SAFETY: the caller's events.
        let (start, end) = unsafe { (start.as_ref(), end.as_ref()) };
        let at = |event: Option<&Event>| event.and_then(|event| *event.at()).ok_or(INVALID_HANDLE);
        let passed = at(end)?.saturating_duration_since(at(start)?);
        // SAFETY: the caller's pointer.
        unsafe { answer(to, passed.as_secs_f32() * 1000.0) }
    })
}

/// See `cuEventElapsedTime_v2`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventElapsedTime_v2(
    to: *mut f32,
    start: *mut Event,
    end: *mut Event,
) -> Status {
    // SAFETY: as there.
    unsafe { cuEventElapsedTime(to, start, end) }
}

//! Memory, whose addresses are pointers here.

use std::ffi::{c_uint, c_void};

use crate::driver::memory::{
    Address, Copy2d, DEVICE, HOST, cuMemAlloc_v2, cuMemAllocHost_v2, cuMemFree_v2, cuMemFreeHost,
    cuMemGetInfo_v2, cuMemcpy2DAsync_v2, cuMemcpyDtoDAsync_v2, cuMemcpyDtoHAsync_v2,
    cuMemcpyHtoDAsync_v2,
};
use crate::driver::stream::Stream;
use crate::driver::unsupported::told;
use crate::driver::{SUCCESS, Status, answer, status};

fn address(pointer: *const c_void) -> Address {
    pointer.expose_provenance() as Address
}

/// See `hipMalloc`. No bytes are no error, as they are for CUDA.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipMalloc(to: *mut *mut c_void, bytes: usize) -> Status {
    if bytes == 0 {
        // SAFETY: the caller's pointer.
        return status(|| unsafe { answer(to, std::ptr::null_mut()) });
    }
    // SAFETY: the caller's pointer; an address is as large as a pointer.
    unsafe { cuMemAlloc_v2(to.cast(), bytes) }
}

/// See `hipFree`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipFree(memory: *mut c_void) -> Status {
    // SAFETY: no pointer is read.
    unsafe { cuMemFree_v2(address(memory)) }
}

/// See `hipHostMalloc`. The card reads the host's memory anyway.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipHostMalloc(
    to: *mut *mut c_void,
    bytes: usize,
    _flags: c_uint,
) -> Status {
    // SAFETY: the caller's pointer.
    unsafe { cuMemAllocHost_v2(to, bytes) }
}

/// See `hipFreeHost`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipFreeHost(memory: *mut c_void) -> Status {
    // SAFETY: from `hipHostMalloc`.
    unsafe { cuMemFreeHost(memory) }
}

/// See `hipMemGetInfo`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipMemGetInfo(free: *mut usize, total: *mut usize) -> Status {
    // SAFETY: the caller's pointers.
    unsafe { cuMemGetInfo_v2(free, total) }
}

/// See `hipMemcpyHtoDAsync`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipMemcpyHtoDAsync(
    to: *mut c_void,
    from: *const c_void,
    bytes: usize,
    stream: *mut Stream,
) -> Status {
    // SAFETY: the caller's stream and memory.
    unsafe { cuMemcpyHtoDAsync_v2(address(to), from, bytes, stream) }
}

/// See `hipMemcpyDtoHAsync`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipMemcpyDtoHAsync(
    to: *mut c_void,
    from: *const c_void,
    bytes: usize,
    stream: *mut Stream,
) -> Status {
    // SAFETY: the caller's stream and memory.
    unsafe { cuMemcpyDtoHAsync_v2(to, address(from), bytes, stream) }
}

/// See `hipMemcpyDtoDAsync`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipMemcpyDtoDAsync(
    to: *mut c_void,
    from: *const c_void,
    bytes: usize,
    stream: *mut Stream,
) -> Status {
    // SAFETY: the caller's stream and memory.
    unsafe { cuMemcpyDtoDAsync_v2(address(to), address(from), bytes, stream) }
}

/// See `hipMemcpy2DAsync`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipMemcpy2DAsync(
    to: *mut c_void,
    to_pitch: usize,
    from: *const c_void,
    from_pitch: usize,
    width: usize,
    height: usize,
    kind: c_uint,
    stream: *mut Stream,
) -> Status {
    // `hipMemcpyKind`, from 0: host to host, host to device, device to host, device to device.
    let (source_kind, target_kind) = match kind {
        0 => (HOST, HOST),
        1 => (HOST, DEVICE),
        2 => (DEVICE, HOST),
        3 => (DEVICE, DEVICE),
        _ => return told("hipMemcpy2DAsync of a kind of its own choice"),
    };
    let copy = Copy2d {
        source_x: 0,
        source_y: 0,
        source_kind,
        source_host: from,
        source_device: address(from),
        source_array: std::ptr::null_mut(),
        source_pitch: from_pitch,
        target_x: 0,
        target_y: 0,
        target_kind,
        target_host: to,
        target_device: address(to),
        target_array: std::ptr::null_mut(),
        target_pitch: to_pitch,
        width,
        height,
    };
    // SAFETY: the caller's stream and memory.
    unsafe { cuMemcpy2DAsync_v2(&raw const copy, stream) }
}

/// See `hipMemPoolTrimTo`: there are no pools.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipMemPoolTrimTo(_pool: *mut c_void, _bytes: usize) -> Status {
    SUCCESS
}

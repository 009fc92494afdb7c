//! The device and its context: one card, whose values are in `card`.

use std::ffi::{c_char, c_int, c_uint, c_void};

use super::{INVALID_DEVICE, INVALID_VALUE, NO_DEVICE, SUCCESS, Status, answer, context, status};
use crate::card::{Card, Maker};
use crate::settings;

/// A toolkit of 12.9, the first that knows all that CubeCL asks for.
pub(crate) const VERSION: c_int = 12090;
pub(crate) const BUS_ID: &[u8] = b"0000:65:00.0";

/// The card with its compute capability, if it is one of NVIDIA's.
fn shown() -> Option<(&'static Card, (c_int, c_int))> {
    let card = settings::get().card;
    match card.maker {
        Maker::Nvidia(major, minor) => Some((card, (major, minor))),
        Maker::Amd(_) => None,
    }
}

fn card(device: c_int) -> Result<&'static Card, Status> {
    let shown = shown().filter(|_| device == 0);
    shown.map(|(card, _)| card).ok_or(INVALID_DEVICE)
}

pub(crate) fn capability() -> Result<(c_int, c_int), Status> {
    shown().map(|(_, capability)| capability).ok_or(NO_DEVICE)
}

/// See `cuInit`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuInit(flags: c_uint) -> Status {
    match flags {
        0 => status(|| capability().map(|_| ())),
        _ => INVALID_VALUE,
    }
}

/// See `cuDriverGetVersion`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDriverGetVersion(version: *mut c_int) -> Status {
    // SAFETY: the caller's pointer.
    status(|| unsafe { answer(version, VERSION) })
}

/// See `cuDeviceGetCount`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetCount(count: *mut c_int) -> Status {
    // SAFETY: the caller's pointer.
    status(|| unsafe { answer(count, c_int::from(shown().is_some())) })
}

/// See `cuDeviceGet`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGet(device: *mut c_int, ordinal: c_int) -> Status {
    // SAFETY: the caller's pointer.
    status(|| card(ordinal).and_then(|_| unsafe { answer(device, ordinal) }))
}

/// Copies a text with its end into the caller's buffer.
pub(crate) unsafe fn text(to: *mut c_char, room: c_int, text: &[u8]) -> Result<(), Status> {
    let room = usize::try_from(room).map_err(|_| INVALID_VALUE)?;
    if to.is_null() || room == 0 {
        return Err(INVALID_VALUE);
    }
    let length = text.len().min(room - 1);
    // SAFETY: the caller's buffer has the room that it says.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr().cast(), to, length);
        to.add(length).write(0);
    }
    Ok(())
}

/// See `cuDeviceGetName`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetName(name: *mut c_char, room: c_int, device: c_int) -> Status {
    // SAFETY: the caller's buffer.
    status(|| unsafe { text(name, room, card(device)?.name.as_bytes()) })
}

/// See `cuDeviceGetPCIBusId`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetPCIBusId(
    id: *mut c_char,
    room: c_int,
    device: c_int,
) -> Status {
    // SAFETY: the caller's buffer.
    status(|| unsafe { card(device).and_then(|_| text(id, room, BUS_ID)) })
}

/// See `cuDeviceGetUuid`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetUuid(uuid: *mut [u8; 16], device: c_int) -> Status {
    // SAFETY: the caller's pointer.
    status(|| card(device).and_then(|_| unsafe { answer(uuid, *b"moebius-emulator") }))
}

/// See `cuDeviceGetUuid_v2`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetUuid_v2(uuid: *mut [u8; 16], device: c_int) -> Status {
    // SAFETY: the caller's pointer.
    unsafe { cuDeviceGetUuid(uuid, device) }
}

/// See `cuDeviceTotalMem_v2`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceTotalMem_v2(bytes: *mut usize, device: c_int) -> Status {
    // SAFETY: the caller's pointer.
    status(|| unsafe { answer(bytes, card(device)?.memory as usize) })
}

/// See `cuDeviceGetAttribute`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetAttribute(
    value: *mut c_int,
    attribute: c_int,
    device: c_int,
) -> Status {
    // SAFETY: the caller's pointer.
    status(|| unsafe { answer(value, attribute_of(card(device)?, attribute)?) })
}

/// `CUdevice_attribute`, by the numbers of `cuda.h`: the limits of all cards, then what tells them apart. What a
/// card doesn't have, as textures here, is 0.
fn attribute_of(card: &Card, attribute: c_int) -> Result<c_int, Status> {
    const LAST: c_int = 160;
    Ok(match attribute {
        1 => 1024,                            // MAX_THREADS_PER_BLOCK
        2 | 3 => 1024,                        // MAX_BLOCK_DIM_X, _Y
        4 => 64,                              // MAX_BLOCK_DIM_Z
        5 => c_int::MAX,                      // MAX_GRID_DIM_X
        6 | 7 => 65535,                       // MAX_GRID_DIM_Y, _Z
        8 => 48 << 10,                        // MAX_SHARED_MEMORY_PER_BLOCK
        9 => 65536,                           // TOTAL_CONSTANT_MEMORY
        10 => card.lanes as c_int,            // WARP_SIZE
        11 => c_int::MAX,                     // MAX_PITCH
        12 | 82 => 65536,                     // MAX_REGISTERS_PER_BLOCK, _PER_MULTIPROCESSOR
        14 => 512,                            // TEXTURE_ALIGNMENT
        15 | 31 => 1,                         // GPU_OVERLAP, CONCURRENT_KERNELS
        19 | 41 => 1,                         // CAN_MAP_HOST_MEMORY, UNIFIED_ADDRESSING
        33 => 0x65,                           // PCI_BUS_ID
        40 => 3,                              // ASYNC_ENGINE_COUNT
        78..=80 => 1,                         // STREAM_PRIORITIES_SUPPORTED, L1 caches
        111 => 1024,                          // RESERVED_SHARED_MEMORY_PER_BLOCK
        115 => 1,                             // MEMORY_POOLS_SUPPORTED
        13 => card.clock_khz,                 // CLOCK_RATE
        16 => card.multiprocessors,           // MULTIPROCESSOR_COUNT
        36 => card.memory_clock_khz,          // MEMORY_CLOCK_RATE
        37 => card.bus_bits,                  // GLOBAL_MEMORY_BUS_WIDTH
        38 => card.l2_bytes,                  // L2_CACHE_SIZE
        39 => card.threads_of_multiprocessor, // MAX_THREADS_PER_MULTIPROCESSOR
        75 => capability()?.0,                // COMPUTE_CAPABILITY_MAJOR
        76 => capability()?.1,                // COMPUTE_CAPABILITY_MINOR
        81 => card.shared_bytes,              // MAX_SHARED_MEMORY_PER_MULTIPROCESSOR
        97 => card.shared_bytes_of_block,     // MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
        106 => card.blocks_of_multiprocessor, // MAX_BLOCKS_PER_MULTIPROCESSOR
        other if (1..=LAST).contains(&other) => 0,
        _ => return Err(INVALID_VALUE),
    })
}

/// The one context there is.
static CONTEXT: u8 = 0;

pub(crate) fn context_handle() -> *mut c_void {
    (&raw const CONTEXT).cast_mut().cast()
}

/// See `cuDevicePrimaryCtxRetain`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxRetain(to: *mut *mut c_void, device: c_int) -> Status {
    // SAFETY: the caller's pointer.
    status(|| card(device).and_then(|_| unsafe { answer(to, context_handle()) }))
}

/// See `cuDevicePrimaryCtxRelease_v2`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxRelease_v2(device: c_int) -> Status {
    status(|| card(device).map(|_| ()))
}

/// See `cuCtxSetCurrent`. A lost context can still be chosen; what is done in it fails.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxSetCurrent(_context: *mut c_void) -> Status {
    SUCCESS
}

/// See `cuCtxGetCurrent`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetCurrent(to: *mut *mut c_void) -> Status {
    // SAFETY: the caller's pointer.
    status(|| unsafe { answer(to, context_handle()) })
}

/// See `cuCtxSynchronize`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxSynchronize() -> Status {
    status(context)
}

/// See `cuCtxGetStreamPriorityRange`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetStreamPriorityRange(
    least: *mut c_int,
    greatest: *mut c_int,
) -> Status {
    // SAFETY: the caller's pointers.
    status(|| unsafe { answer(least, 0).and_then(|()| answer(greatest, -5)) })
}

/// See `cuDeviceCanAccessPeer`: there is one card.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceCanAccessPeer(
    can: *mut c_int,
    _device: c_int,
    _peer: c_int,
) -> Status {
    // SAFETY: the caller's pointer.
    status(|| unsafe { answer(can, 0) })
}

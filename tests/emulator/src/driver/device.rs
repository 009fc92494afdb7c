//! The device and its context: a single card, whose properties are in `card`.

use std::ffi::{c_char, c_int, c_uint, c_void};

use super::{INVALID_DEVICE, INVALID_VALUE, NO_DEVICE, Status, answer, context};
use crate::settings::{self, Card, Maker};

/// The version of toolkit 12.9, the first that has all that CubeCL asks for.
pub(crate) const VERSION: c_int = 12090;
pub(crate) const BUS_ID: &[u8] = b"0000:65:00.0";

/// The card and its compute capability, if it is NVIDIA's.
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

/// Copies a string with its NUL into the caller's buffer.
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

/// `CUdevice_attribute`, by the numbers of `cuda.h`: first the limits that all cards share, then those that differ. Features
/// that a card lacks, such as textures here, are 0.
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

/// The only context: its address is the handle.
static CONTEXT: u8 = 0;

fn context_handle() -> *mut c_void {
    (&raw const CONTEXT).cast_mut().cast()
}

functions! {
    fn cuInit(flags: c_uint) {
        if flags != 0 {
            return Err(INVALID_VALUE);
        }
        capability().map(|_| ())
    }

    fn cuDriverGetVersion(version: *mut c_int) {
        // SAFETY: the caller's pointer.
        unsafe { answer(version, VERSION) }
    }

    fn cuDeviceGetCount(count: *mut c_int) {
        // SAFETY: the caller's pointer.
        unsafe { answer(count, c_int::from(shown().is_some())) }
    }

    fn cuDeviceGet(device: *mut c_int, ordinal: c_int) {
        card(ordinal)?;
        // SAFETY: the caller's pointer.
        unsafe { answer(device, ordinal) }
    }

    fn cuDeviceGetName(name: *mut c_char, room: c_int, device: c_int) {
        // SAFETY: the caller's buffer.
        unsafe { text(name, room, card(device)?.name.as_bytes()) }
    }

    fn cuDeviceGetPCIBusId(id: *mut c_char, room: c_int, device: c_int) {
        card(device)?;
        // SAFETY: the caller's buffer.
        unsafe { text(id, room, BUS_ID) }
    }

    fn cuDeviceGetUuid(uuid: *mut [u8; 16], device: c_int) {
        card(device)?;
        // SAFETY: the caller's pointer.
        unsafe { answer(uuid, *b"moebius-emulator") }
    }

    fn cuDeviceTotalMem_v2(bytes: *mut usize, device: c_int) {
        // SAFETY: the caller's pointer.
        unsafe { answer(bytes, card(device)?.memory as usize) }
    }

    fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: c_int) {
        // SAFETY: the caller's pointer.
        unsafe { answer(value, attribute_of(card(device)?, attribute)?) }
    }

    fn cuDevicePrimaryCtxRetain(to: *mut *mut c_void, device: c_int) {
        card(device)?;
        // SAFETY: the caller's pointer.
        unsafe { answer(to, context_handle()) }
    }

    fn cuDevicePrimaryCtxRelease_v2(device: c_int) { card(device).map(|_| ()) }

    /// A lost context can still be made current, but calls in it fail.
    fn cuCtxSetCurrent(_context: *mut c_void) { Ok(()) }

    fn cuCtxGetCurrent(to: *mut *mut c_void) {
        // SAFETY: the caller's pointer.
        unsafe { answer(to, context_handle()) }
    }

    fn cuCtxSynchronize() { context() }

    fn cuCtxGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) {
        // SAFETY: the caller's pointers.
        unsafe { answer(least, 0).and_then(|()| answer(greatest, -5)) }
    }

    /// There is only one card, so never.
    fn cuDeviceCanAccessPeer(can: *mut c_int, _device: c_int, _peer: c_int) {
        // SAFETY: the caller's pointer.
        unsafe { answer(can, 0) }
    }
}

renamed! {
    fn cuDeviceGetUuid_v2(uuid: *mut [u8; 16], device: c_int) = cuDeviceGetUuid(uuid, device);
}

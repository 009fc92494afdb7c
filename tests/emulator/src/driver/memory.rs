//! The card's memory: host memory, mapped with inaccessible guard pages on both sides.

use std::collections::BTreeMap;
use std::ffi::{c_uchar, c_uint, c_void};
use std::ptr::null_mut;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::stream::{Operation, Stream, submit};
use super::{INVALID_VALUE, OUT_OF_MEMORY, Status, answer, context, unsupported};
use crate::grid::written;
use crate::settings;

/// A `CUdeviceptr`.
pub type Address = u64;

const PAGE: usize = 1 << 16;
/// Bytes of inaccessible memory on each side of a buffer. They take addresses only.
const GUARD: usize = 1 << 20;
/// Alignment of a buffer in bytes, as `cuMemAlloc` promises.
const ALIGNMENT: usize = 512;
/// Fresh buffers up to this many bytes are filled with NaN; in checked runs all are. Larger buffers are pools, most of which is
/// never touched.
const FILLED: usize = 64 << 20;

/// A buffer of the card.
#[derive(Debug)]
pub(crate) struct Buffer {
    pub(crate) bytes: usize,
    mapped: (usize, usize),
}

impl Buffer {
    /// The buffer's accessible pages: start address and bytes.
    pub(crate) fn pages(&self) -> (usize, usize) {
        (self.mapped.0 + GUARD, self.mapped.1 - 2 * GUARD)
    }
}

/// All buffers by their addresses.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    pub(crate) by_address: BTreeMap<usize, Buffer>,
    used: u64,
}

impl Buffers {
    /// The start address and the buffer that contains an address.
    pub(crate) fn around(&self, address: usize) -> Option<(usize, &Buffer)> {
        let (&start, buffer) = self.by_address.range(..=address).next_back()?;
        (address - start < buffer.bytes).then_some((start, buffer))
    }

    pub(crate) fn allocate(&mut self, bytes: usize) -> Result<Address, Status> {
        if bytes == 0 {
            return Err(INVALID_VALUE);
        }
        let size = bytes.checked_next_multiple_of(PAGE).ok_or(OUT_OF_MEMORY)?;
        if self.used + bytes as u64 > settings::get().card.memory {
            return Err(OUT_OF_MEMORY);
        }
        let mapped = size + 2 * GUARD;
        // SAFETY: a new mapping; the part made accessible lies inside it.
        let (start, whole) = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            let whole = libc::mmap(null_mut(), mapped, libc::PROT_NONE, flags, -1, 0);
            if whole == libc::MAP_FAILED {
                return Err(OUT_OF_MEMORY);
            }
            let pages = whole.byte_add(GUARD);
            if libc::mprotect(pages, size, libc::PROT_READ | libc::PROT_WRITE) != 0 {
                libc::munmap(whole, mapped);
                return Err(OUT_OF_MEMORY);
            }
            // The buffer ends where its pages do, as far as alignment permits, so that an access past its end faults.
            let start = pages.byte_add(size - bytes.next_multiple_of(ALIGNMENT));
            if bytes <= FILLED || settings::get().check {
                start.cast::<u8>().write_bytes(0xFF, bytes);
            }
            (start.expose_provenance(), whole.expose_provenance())
        };
        self.used += bytes as u64;
        let mapped = (whole, mapped);
        self.by_address.insert(start, Buffer { bytes, mapped });
        Ok(start as Address)
    }

    fn free(&mut self, address: Address) -> Result<usize, Status> {
        let start = address as usize;
        let buffer = self.by_address.remove(&start).ok_or(INVALID_VALUE)?;
        self.used -= buffer.bytes as u64;
        // SAFETY: the mapping of this buffer, which nothing knows any more.
        unsafe {
            libc::munmap(
                std::ptr::with_exposed_provenance_mut(buffer.mapped.0),
                buffer.mapped.1,
            )
        };
        Ok(buffer.bytes)
    }
}

static BUFFERS: Mutex<Buffers> = Mutex::new(Buffers {
    by_address: BTreeMap::new(),
    used: 0,
});

/// Locks the table of all buffers.
pub(crate) fn buffers() -> MutexGuard<'static, Buffers> {
    BUFFERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `CUDA_MEMCPY2D`.
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs, reason = "the fields are those of the CUDA driver API")]
pub struct Copy2d {
    pub source_x: usize,
    pub source_y: usize,
    pub source_kind: c_uint,
    pub source_host: *const c_void,
    pub source_device: Address,
    pub source_array: *mut c_void,
    pub source_pitch: usize,
    pub target_x: usize,
    pub target_y: usize,
    pub target_kind: c_uint,
    pub target_host: *mut c_void,
    pub target_device: Address,
    pub target_array: *mut c_void,
    pub target_pitch: usize,
    pub width: usize,
    pub height: usize,
}

/// `CU_MEMORYTYPE_HOST`: this side of a copy is host memory.
const HOST: c_uint = 1;
/// `CU_MEMORYTYPE_DEVICE`: this side of a copy is the card's memory.
const DEVICE: c_uint = 2;

functions! {
    fn cuMemAlloc_v2(to: *mut Address, bytes: usize) {
        context()?;
        let address = buffers().allocate(bytes)?;
        // SAFETY: the caller's pointer.
        unsafe { answer(to, address) }
    }

    fn cuMemFree_v2(address: Address) {
        if address == 0 {
            return Ok(());
        }
        let bytes = buffers().free(address)?;
        if settings::get().check {
            written::lock().forget(address as usize, bytes);
        }
        Ok(())
    }

    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) {
        let memory = settings::get().card.memory;
        let used = buffers().used;
        // SAFETY: the caller's pointers.
        unsafe {
            answer(free, (memory - used) as usize)?;
            answer(total, memory as usize)
        }
    }

    fn cuMemAllocHost_v2(to: *mut *mut c_void, bytes: usize) {
        // SAFETY: plain memory, aligned as a page is; freed by `cuMemFreeHost`.
        let memory = unsafe { libc::memalign(4096, bytes.max(1)) };
        if memory.is_null() {
            return Err(OUT_OF_MEMORY);
        }
        // SAFETY: the caller's pointer.
        unsafe { answer(to, memory) }
    }

    fn cuMemFreeHost(memory: *mut c_void) {
        // SAFETY: from `cuMemAllocHost_v2`.
        unsafe { libc::free(memory) };
        Ok(())
    }

    fn cuMemcpyHtoDAsync_v2(to: Address, from: *const c_void, bytes: usize, stream: *mut Stream) {
        // SAFETY: the caller's stream and memory.
        unsafe { submit(stream, Operation::copy(to, from.expose_provenance() as Address, bytes)) }
    }

    fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: Address, bytes: usize, stream: *mut Stream) {
        // SAFETY: the caller's stream and memory.
        unsafe { submit(stream, Operation::copy(to.expose_provenance() as Address, from, bytes)) }
    }

    fn cuMemcpyDtoDAsync_v2(to: Address, from: Address, bytes: usize, stream: *mut Stream) {
        // SAFETY: the caller's stream and memory.
        unsafe { submit(stream, Operation::copy(to, from, bytes)) }
    }

    fn cuMemsetD8Async(to: Address, value: c_uchar, bytes: usize, stream: *mut Stream) {
        // SAFETY: the caller's stream and memory.
        unsafe { submit(stream, Operation::Fill { to, value, bytes }) }
    }

    fn cuMemcpy2DAsync_v2(copy: *const Copy2d, stream: *mut Stream) {
        // SAFETY: the caller's description.
        let copy = unsafe { copy.as_ref() }.ok_or(INVALID_VALUE)?;
        let side = |kind, host: *const c_void, device| match kind {
            HOST => Ok(host.expose_provenance() as Address),
            DEVICE => Ok(device),
            _ => Err(unsupported("cuMemcpy2DAsync_v2 of an array")),
        };
        let from = side(copy.source_kind, copy.source_host, copy.source_device)?;
        let to = side(copy.target_kind, copy.target_host, copy.target_device)?;
        let operation = Operation::Copy {
            to: to + (copy.target_y * copy.target_pitch + copy.target_x) as Address,
            from: from + (copy.source_y * copy.source_pitch + copy.source_x) as Address,
            width: copy.width,
            height: copy.height,
            to_pitch: copy.target_pitch,
            from_pitch: copy.source_pitch,
        };
        // SAFETY: the caller's stream and memory.
        unsafe { submit(stream, operation) }
    }
}

renamed! {
    fn cuMemAllocAsync(to: *mut Address, bytes: usize, _stream: *mut Stream) = cuMemAlloc_v2(to, bytes);
    fn cuMemFreeAsync(address: Address, _stream: *mut Stream) = cuMemFree_v2(address);
    fn cuMemcpyHtoD_v2(to: Address, from: *const c_void, bytes: usize) = cuMemcpyHtoDAsync_v2(to, from, bytes, null_mut());
    fn cuMemcpyDtoH_v2(to: *mut c_void, from: Address, bytes: usize) = cuMemcpyDtoHAsync_v2(to, from, bytes, null_mut());
    fn cuMemcpyDtoD_v2(to: Address, from: Address, bytes: usize) = cuMemcpyDtoDAsync_v2(to, from, bytes, null_mut());
}

//! Stacks for the grid's threads: as large as they are aligned, the thread's state at the low end, a page
//! that must not be touched above it, and memory only where a thread has been.

use std::io;
use std::num::NonZeroUsize;

use corosensei::stack::{Stack, StackPointer};

/// Of one thread's stack. A GPU gives a thread up to 255 registers and local memory beyond; the kernels'
/// arrays are some KiB.
pub(crate) const STACK_BYTES: usize = 1 << 19;
/// The largest page of any Linux that this runs on.
const PAGE: usize = 1 << 16;

/// One stack, given back when dropped.
pub(crate) struct ThreadStack {
    low: NonZeroUsize,
    base: NonZeroUsize,
}

impl ThreadStack {
    /// A stack. Equal frames of different threads would fall on the same lines of the cache if all stacks
    /// began at the same offset, so they don't.
    pub(crate) fn new(number: usize) -> io::Result<ThreadStack> {
        // SAFETY: new mappings; what is unmapped and protected lies inside the one just made.
        let low = unsafe {
            let whole = libc::mmap(
                std::ptr::null_mut(),
                2 * STACK_BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            );
            if whole == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
            let start = whole.expose_provenance();
            let low = start.next_multiple_of(STACK_BYTES);
            if low > start {
                libc::munmap(whole, low - start);
            }
            let end = start + 2 * STACK_BYTES;
            if end > low + STACK_BYTES {
                let rest = std::ptr::with_exposed_provenance_mut(low + STACK_BYTES);
                libc::munmap(rest, end - low - STACK_BYTES);
            }
            let guard = std::ptr::with_exposed_provenance_mut(low + PAGE);
            if libc::mprotect(guard, PAGE, libc::PROT_NONE) != 0 {
                return Err(io::Error::last_os_error());
            }
            low
        };
        let spread = number * 320 % 4096 / 64 * 64;
        let none = || io::Error::from(io::ErrorKind::OutOfMemory);
        Ok(ThreadStack {
            low: NonZeroUsize::new(low).ok_or_else(none)?,
            base: NonZeroUsize::new(low + STACK_BYTES - spread).ok_or_else(none)?,
        })
    }

    /// Where the thread's state lies.
    pub(crate) fn state(&self) -> *mut super::state::Thread {
        std::ptr::with_exposed_provenance_mut(self.low.get())
    }
}

impl Drop for ThreadStack {
    fn drop(&mut self) {
        // SAFETY: the mapping is this stack's own and nothing runs on it any more.
        unsafe {
            libc::munmap(
                std::ptr::with_exposed_provenance_mut(self.low.get()),
                STACK_BYTES,
            )
        };
    }
}

// SAFETY: the memory between limit and base is mapped for as long as the value lives, except for the guard
// page, which the limit includes as it may.
unsafe impl Stack for ThreadStack {
    fn base(&self) -> StackPointer {
        self.base
    }

    fn limit(&self) -> StackPointer {
        self.low.saturating_add(PAGE)
    }
}

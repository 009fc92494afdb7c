//! The state of a thread of the grid, as the kernels' header declares it (`src/device/grid.h`), and its stack.

use std::ffi::c_void;
use std::io;
use std::num::NonZeroUsize;

use corosensei::Yielder;
use corosensei::stack::{Stack, StackPointer};

/// Three counts or positions, x first.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dim3 {
    /// Along x.
    pub(crate) x: u32,
    /// Along y.
    pub(crate) y: u32,
    /// Along z.
    pub(crate) z: u32,
}

impl From<[u32; 3]> for Dim3 {
    fn from([x, y, z]: [u32; 3]) -> Self {
        Self { x, y, z }
    }
}

impl Dim3 {
    /// The number of positions.
    pub(crate) fn count(self) -> u64 {
        u64::from(self.x) * u64::from(self.y) * u64::from(self.z)
    }

    /// The number of a position, x running fastest.
    pub(crate) fn number(self, place: Dim3) -> u32 {
        place.x + self.x * (place.y + self.y * place.z)
    }

    /// The position with this number, x running fastest.
    pub(crate) fn place(self, number: u64) -> Dim3 {
        let (x, y) = (u64::from(self.x), u64::from(self.y));
        let part = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        Dim3 {
            x: part(number % x),
            y: part(number / x % y),
            z: part(number / (x * y)),
        }
    }
}

/// A function that runs once for the lanes of a warp that met: it takes a pointer for each lane, and the set of lanes present.
pub(crate) type Act = unsafe extern "C" fn(lanes: *const *mut c_void, present: u64);

/// The functions that a kernel calls.
#[repr(C)]
pub(crate) struct Calls {
    pub(crate) barrier: unsafe extern "C" fn(*mut Thread, u32),
    pub(crate) together: unsafe extern "C" fn(*mut Thread, u32, u64, Act, *mut c_void),
    pub(crate) access: unsafe extern "C" fn(*mut Thread, *const c_void, u32, u32, *const c_void),
}

/// A block, as its threads see it.
#[repr(C)]
pub(crate) struct Block {
    pub(crate) block: Dim3,
    pub(crate) block_size: Dim3,
    pub(crate) grid_size: Dim3,
    pub(crate) shared_bytes: u32,
    pub(crate) shared: *mut u8,
    pub(crate) calls: *const Calls,
    /// The kernel doesn't see this field and those after it.
    pub(crate) check: *mut super::check::Check,
    pub(crate) number: u64,
}

/// A thread's state, at the lowest address of its stack.
#[repr(C)]
pub(crate) struct Thread {
    pub(crate) thread: Dim3,
    pub(crate) lane: u32,
    pub(crate) line: u32,
    pub(crate) block: *mut Block,
    /// The kernel doesn't see this field.
    pub(crate) yielder: *const Yielder<Go, Wait>,
}

impl Thread {
    /// The state of the thread on whose stack this address lies.
    pub(crate) fn at(stack_address: usize) -> *mut Thread {
        std::ptr::with_exposed_provenance_mut(stack_address & !(STACK_BYTES - 1))
    }
}

/// The order with which a waiting thread is resumed.
#[derive(Clone, Copy)]
pub(crate) enum Go {
    On,
    /// Run the warp's common function, then wait again.
    Act {
        lanes: *const *mut c_void,
        present: u64,
    },
}

/// The reason why a thread waits.
#[derive(Clone, Copy)]
pub(crate) enum Wait {
    Barrier {
        line: u32,
    },
    Together(Meeting),
    Acted,
    /// The thread made a forbidden access: it is never resumed.
    Refused,
}

/// A place where lanes of a warp meet. An empty mask means the lanes that come.
#[derive(Clone, Copy)]
pub(crate) struct Meeting {
    pub(crate) line: u32,
    pub(crate) mask: u64,
    pub(crate) act: Act,
    pub(crate) lane: *mut c_void,
}

/// The way a thread ended.
#[derive(Clone, Copy)]
pub(crate) enum End {
    Returned,
    Trap(Trap),
}

/// A signal that stopped a thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trap {
    pub(crate) signal: i32,
    pub(crate) address: usize,
    pub(crate) code: usize,
}

/// A kernel's entry in its shared object.
#[repr(C)]
pub(crate) struct KernelEntry {
    pub(crate) name: *const std::ffi::c_char,
    pub(crate) thread: unsafe extern "C" fn(*const *mut c_void),
    pub(crate) threads: unsafe extern "C" fn(*const *mut c_void, *mut Thread),
    /// Bytes of each argument; `elements` has the bytes of an element where an argument is a pointer.
    pub(crate) sizes: *const u32,
    pub(crate) elements: *const u32,
    pub(crate) parameters: u32,
    pub(crate) most_threads: u32,
    pub(crate) waits: u32,
    /// Offset of the buffer lengths in the last argument, or in the memory it points to; `length_bytes` is the size of one, 0
    /// without lengths.
    pub(crate) lengths: u32,
    pub(crate) length_bytes: u32,
    /// Whether the last pointer before the lengths' argument is to a buffer without a length, which holds shapes and strides.
    pub(crate) dynamic: u32,
}

/// Bytes of a thread's stack. A GPU gives a thread up to 255 registers and local memory beyond them; the kernels' arrays take
/// some KiB.
pub(crate) const STACK_BYTES: usize = 1 << 19;
/// Bytes of the largest page of any Linux that this runs on.
const PAGE: usize = 1 << 16;

/// The stack of a thread, unmapped when dropped. Its size is its alignment; the thread's state is at the low end, a guard page
/// above it, and memory is taken only where a thread has been.
pub(crate) struct ThreadStack {
    low: NonZeroUsize,
    base: NonZeroUsize,
}

impl ThreadStack {
    /// Maps a stack. Stacks begin at different offsets, because equal frames at equal offsets would compete for the same cache
    /// lines.
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

    /// The address of the thread's state.
    pub(crate) fn state(&self) -> *mut Thread {
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

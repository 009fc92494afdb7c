//! What a thread of the grid knows about itself, as the kernels' header declares it (`src/device/grid.h`).

use std::ffi::c_void;

use corosensei::Yielder;

use super::stack::STACK_BYTES;

/// Three counts or places, x first.
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

impl Dim3 {
    /// How many places there are.
    pub(crate) fn count(self) -> u64 {
        u64::from(self.x) * u64::from(self.y) * u64::from(self.z)
    }

    /// The number of a place, x running fastest.
    pub(crate) fn number(self, place: Dim3) -> u32 {
        place.x + self.x * (place.y + self.y * place.z)
    }

    /// The place with this number, x running fastest.
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

/// Runs once for the lanes of a warp that met: a pointer for each lane, and the set of those present.
pub(crate) type Act = unsafe extern "C" fn(lanes: *const *mut c_void, present: u64);

/// What a kernel calls.
#[repr(C)]
pub(crate) struct Calls {
    pub(crate) barrier: unsafe extern "C" fn(*mut Thread, u32),
    pub(crate) together: unsafe extern "C" fn(*mut Thread, u32, u64, Act, *mut c_void),
    pub(crate) access: unsafe extern "C" fn(*mut Thread, *const c_void, u32, u32, *const c_void),
}

/// The block that a thread belongs to.
#[repr(C)]
pub(crate) struct Block {
    pub(crate) block: Dim3,
    pub(crate) block_size: Dim3,
    pub(crate) grid_size: Dim3,
    pub(crate) shared_bytes: u32,
    pub(crate) shared: *mut u8,
    pub(crate) calls: *const Calls,
    /// From here on only the emulator's own.
    pub(crate) check: *mut super::check::Check,
    pub(crate) number: u64,
}

/// One thread, at the lowest address of its stack.
#[repr(C)]
pub(crate) struct Thread {
    pub(crate) thread: Dim3,
    pub(crate) lane: u32,
    pub(crate) line: u32,
    pub(crate) block: *mut Block,
    /// From here on only the emulator's own.
    pub(crate) yielder: *const Yielder<Go, Wait>,
}

impl Thread {
    /// The thread whose stack this address lies on.
    pub(crate) fn at(stack_address: usize) -> *mut Thread {
        std::ptr::with_exposed_provenance_mut(stack_address & !(STACK_BYTES - 1))
    }
}

/// What a waiting thread is told.
#[derive(Clone, Copy)]
pub(crate) enum Go {
    On,
    /// Do for the warp what it met for, then wait again.
    Act {
        lanes: *const *mut c_void,
        present: u64,
    },
}

/// What a thread waits for.
#[derive(Clone, Copy)]
pub(crate) enum Wait {
    Barrier {
        line: u32,
    },
    Together(Meeting),
    Acted,
    /// An access that must not be made: it is never resumed.
    Refused,
}

/// A place where lanes of a warp meet. A mask of no lanes means those that come.
#[derive(Clone, Copy)]
pub(crate) struct Meeting {
    pub(crate) line: u32,
    pub(crate) mask: u64,
    pub(crate) act: Act,
    pub(crate) lane: *mut c_void,
}

/// How a thread came to its end.
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

/// A kernel as its shared object describes it.
#[repr(C)]
pub(crate) struct KernelEntry {
    pub(crate) name: *const std::ffi::c_char,
    pub(crate) thread: unsafe extern "C" fn(*const *mut c_void),
    pub(crate) threads: unsafe extern "C" fn(*const *mut c_void, *mut Thread),
    /// Of the arguments, and of what pointers among them point to.
    pub(crate) sizes: *const u32,
    pub(crate) elements: *const u32,
    pub(crate) parameters: u32,
    pub(crate) most_threads: u32,
    pub(crate) waits: u32,
    /// Where the lengths of buffers begin in the last argument or in what it points to, and the bytes of one: 0 without any.
    pub(crate) lengths: u32,
    pub(crate) length_bytes: u32,
    /// Whether the last pointer before them is none to a buffer with a length.
    pub(crate) dynamic: u32,
}

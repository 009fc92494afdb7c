//! Host memory that a plugin can use without copying it.

use std::alloc::{self, Layout};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// As aligned as the memory.
#[repr(align(64))]
struct Aligned;

/// Host memory that begins at a multiple of 64 bytes, which XLA asks of memory that it uses in place.
pub struct HostBuffer {
    bytes: NonNull<u8>,
    len: usize,
}

// SAFETY: it owns its bytes, as a `Vec` does.
unsafe impl Send for HostBuffer {}
// SAFETY: as above; a shared one is only read.
unsafe impl Sync for HostBuffer {}

impl HostBuffer {
    /// Where the memory begins: at a multiple of this.
    pub const ALIGNMENT: usize = align_of::<Aligned>();

    /// `len` zero bytes.
    pub fn zeroed(len: usize) -> Self {
        if len == 0 {
            // A pointer that is aligned and never read.
            let bytes = NonNull::<Aligned>::dangling().cast();
            return Self { bytes, len };
        }
        let Ok(layout) = Layout::from_size_align(len, Self::ALIGNMENT) else {
            unreachable!("no memory of more than isize::MAX bytes can be asked for");
        };
        // SAFETY: the layout is not empty.
        let bytes = unsafe { alloc::alloc_zeroed(layout) };
        let Some(bytes) = NonNull::new(bytes) else {
            alloc::handle_alloc_error(layout);
        };
        Self { bytes, len }
    }
}

impl From<&[u8]> for HostBuffer {
    /// A copy of `bytes`.
    fn from(bytes: &[u8]) -> Self {
        let mut buffer = Self::zeroed(bytes.len());
        buffer.copy_from_slice(bytes);
        buffer
    }
}

impl Deref for HostBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `len` initialised bytes that this owns; none are read where `len` is zero.
        unsafe { std::slice::from_raw_parts(self.bytes.as_ptr(), self.len) }
    }
}

impl DerefMut for HostBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `deref`, and `self` is borrowed alone.
        unsafe { std::slice::from_raw_parts_mut(self.bytes.as_ptr(), self.len) }
    }
}

impl fmt::Debug for HostBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostBuffer({} bytes)", self.len)
    }
}

impl Drop for HostBuffer {
    fn drop(&mut self) {
        if self.len == 0 {
            return;
        }
        if let Ok(layout) = Layout::from_size_align(self.len, Self::ALIGNMENT) {
            // SAFETY: the memory was allocated with this layout and is not used again.
            unsafe { alloc::dealloc(self.bytes.as_ptr(), layout) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_aligned_and_holds_what_was_copied() {
        for len in [0, 1, 63, 64, 1000] {
            let bytes: Vec<u8> = (0..len).map(|i| i as u8).collect();
            let buffer = HostBuffer::from(&bytes[..]);
            assert_eq!(buffer.as_ptr() as usize % HostBuffer::ALIGNMENT, 0);
            assert_eq!(&*buffer, &bytes[..]);
        }
    }
}

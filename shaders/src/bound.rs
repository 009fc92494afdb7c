//! Arguments of a launch, checked against the buffers they are bound to: a plan says how much a kernel reads and writes.

use cubecl::prelude::BufferArg;
use cubecl::server::Handle;

/// `len` values of `bytes` bytes in `buffer`.
///
/// # Panics
/// Where the buffer holds fewer.
pub(crate) fn bind(buffer: Handle, len: usize, bytes: usize) -> BufferArg {
    check(&buffer, len * bytes);
    // SAFETY: the buffer holds the values.
    unsafe { BufferArg::from_raw_parts(buffer, len) }
}

/// `len` u32s or f32s in `buffer`.
///
/// # Panics
/// Where the buffer holds fewer.
pub(crate) fn bind_words(buffer: Handle, len: usize) -> BufferArg {
    bind(buffer, len, 4)
}

/// `buffer` without so many bytes at its ends.
///
/// # Panics
/// Where the buffer holds fewer.
pub(crate) fn part(buffer: Handle, [before, after]: [usize; 2]) -> Handle {
    check(&buffer, before + after);
    buffer.offset_start(before as u64).offset_end(after as u64)
}

fn check(buffer: &Handle, planned: usize) {
    let held = buffer.size_in_used();
    assert!(
        planned as u64 <= held,
        "expected a buffer of at least {planned} bytes, as planned, got {held}"
    );
}

//! Buffers as arguments of a launch. A buffer is as long as what it holds: [`crate::Kernels::launch`] cuts those of an operation to
//! their descriptions, and a launch function makes its own as long as it needs them.

use cubecl::client::Client;
use cubecl::prelude::BufferArg;
use cubecl::server::Handle;

/// All of `buffer`.
pub(crate) fn bind(buffer: Handle) -> BufferArg {
    let bytes = buffer.size_in_used() as usize;
    // SAFETY: CubeCL 0.11.3 divides a buffer's bytes by the size of what a kernel reads it as, and reads the number that it is
    // given here nowhere.
    unsafe { BufferArg::from_raw_parts(buffer, bytes) }
}

/// The first `bytes` bytes of `buffer`; all of it where that is none, because no binding is empty.
///
/// # Panics
/// Where the buffer holds fewer.
pub(crate) fn first(buffer: Handle, bytes: usize) -> Handle {
    match check(&buffer, bytes) {
        rest if rest > 0 && bytes > 0 => buffer.offset_end(rest),
        _ => buffer,
    }
}

/// `buffer` without so many bytes at its ends.
///
/// # Panics
/// Where the buffer holds fewer.
pub(crate) fn part(buffer: Handle, [before, after]: [usize; 2]) -> Handle {
    check(&buffer, before + after);
    buffer.offset_start(before as u64).offset_end(after as u64)
}

/// A buffer of `len` u32s or f32s, one where that is none; contents undefined.
pub(crate) fn empty_words(client: &Client, len: usize) -> Handle {
    client.empty(4 * len.max(1))
}

/// Bytes that the buffer holds beside those that are planned.
fn check(buffer: &Handle, planned: usize) -> u64 {
    let held = buffer.size_in_used();
    assert!(
        planned as u64 <= held,
        "expected a buffer of at least {planned} bytes, as planned, got {held}"
    );
    held - planned as u64
}

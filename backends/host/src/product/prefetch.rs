//! Prefetching of values into a cache.

#![allow(
    unsafe_code,
    reason = "Rust has no safe name for the instruction, which touches nothing that a program sees"
)]

/// Bytes of a line of the processor's caches.
const LINE: usize = 64;

/// Prefetches values into the second-level cache, without waiting for them; does nothing on processors other than x86-64.
#[inline(always)]
pub(crate) fn prefetch<E>(values: &[E]) {
    #[cfg(target_arch = "x86_64")]
    for at in (0..size_of_val(values)).step_by(LINE) {
        use core::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        let line = values.as_ptr().wrapping_byte_add(at);
        // SAFETY: every x86-64 processor has the instruction (SSE), and it may be given any address.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(line.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (values, LINE);
}

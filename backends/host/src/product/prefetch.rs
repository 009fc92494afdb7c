//! Reading ahead.

#![allow(
    unsafe_code,
    reason = "Rust has no safe name for the instruction, which touches nothing that a program sees"
)]

/// Bytes of a line of the processor's caches.
const LINE: usize = 64;

/// Has values brought into the second level of the caches, without waiting for them. Nothing where the instruction has no name.
#[inline(always)]
pub(super) fn prefetch<E>(values: &[E]) {
    #[cfg(target_arch = "x86_64")]
    for line in values.chunks(LINE / size_of::<E>()) {
        use core::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: every x86-64 processor has the instruction (SSE), and it may be given any address.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(line.as_ptr().cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (values, LINE);
}

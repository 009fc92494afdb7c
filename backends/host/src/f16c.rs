//! The vector instructions of x86-64-v3, and those that convert numbers in F16, which its name in `pulp` lacks.

#![allow(
    unsafe_code,
    reason = "a call of an instruction that `pulp` lacks is unsafe: the caller must know that the processor has it"
)]

use core::arch::x86_64::{__m128i, __m256, _mm256_cvtph_ps};
use pulp::core_arch::x86::F16c;

pulp::simd_type!({
    /// What code for AVX2 is compiled for.
    pub(crate) struct Avx2 {
        sse: f!("sse"),
        sse2: f!("sse2"),
        fxsr: f!("fxsr"),
        sse3: f!("sse3"),
        ssse3: f!("ssse3"),
        sse4_1: f!("sse4.1"),
        sse4_2: f!("sse4.2"),
        popcnt: f!("popcnt"),
        avx: f!("avx"),
        avx2: f!("avx2"),
        bmi1: f!("bmi1"),
        bmi2: f!("bmi2"),
        fma: f!("fma"),
        lzcnt: f!("lzcnt"),
        pub(crate) f16c: f!("f16c"),
    }
});

/// Converts eight numbers.
#[inline(always)]
pub(crate) fn eight_f16s(_: F16c, numbers: __m128i) -> __m256 {
    // SAFETY: only on a processor with the instruction there is an `F16c`.
    unsafe { _mm256_cvtph_ps(numbers) }
}

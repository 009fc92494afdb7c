//! Products of two factors in bf16, with AVX-512's instruction for pairs of bf16 numbers: each lane makes two multiply-adds, for two
//! neighbouring inner values.
//!
//! The words of a pair lie and move as an f32 does, so that packing, tiles and their order are those of other products. For each value of
//! the result the instruction adds the product of the second numbers to the sum, then that of the first; each addition is rounded once, to
//! nearest even, with subnormal numbers before and after it as 0.

#![allow(
    unsafe_code,
    reason = "a call of code that is compiled for BF16 instructions is unsafe: the caller must know that the processor has them"
)]

use crate::simd::{Simd as Set, simd};
use crate::vector::Kernel;

/// Whether this process multiplies pairs.
pub(super) fn are_used() -> bool {
    simd() == Set::Avx512Bf16
}

/// Runs a kernel whose values are pairs, in a process that [uses](are_used) them.
#[cfg(target_arch = "x86_64")]
pub(super) fn dispatch<K: Kernel>(kernel: K) {
    let Some(avx512) = pulp::x86::V4::try_new().filter(|_| are_used()) else {
        unreachable!("only a process that uses pairs makes products of them");
    };
    // SAFETY: `simd` returns no set that the processor lacks, so that it has BF16, and `V4` stands for all other instructions.
    unsafe { x86::run(kernel, avx512) }
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) fn dispatch<K: Kernel>(_: K) {
    unreachable!("no set of this architecture multiplies pairs")
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use crate::vector::x86::Avx512;
    use crate::vector::{Kernel, Transpose};
    use core::arch::x86_64::_mm512_dpbf16_ps;
    use pulp::Simd;
    use pulp::x86::V4;

    /// Compiles a kernel for the instructions of [`V4`], all of which are named so that its functions are inlined, and for BF16.
    #[target_feature(enable = "sse,sse2,fxsr,sse3,ssse3,sse4.1,sse4.2,popcnt,avx,avx2")]
    #[target_feature(enable = "bmi1,bmi2,fma,lzcnt")]
    #[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512bf16")]
    pub(super) fn run<K: Kernel>(kernel: K, avx512: V4) {
        kernel.run(avx512, Pairs(Avx512(avx512)));
    }

    /// Registers of sixteen pairs. Only [`run`] makes one.
    #[derive(Clone, Copy)]
    struct Pairs(Avx512);

    impl Transpose for Pairs {
        #[inline(always)]
        fn square(self, rows: [&[f32; 8]; 8], to: &mut [f32], step: usize) {
            self.0.square(rows, to, step);
        }

        #[inline(always)]
        fn words<const W: usize, const C: usize>(
            self,
            rows: [&[u8; 16]; 16],
            to: &mut [[u32; C]; W],
            at: usize,
        ) {
            self.0.words(rows, to, at);
        }

        #[inline(always)]
        fn multiply_add<S: Simd>(self, _: S, a: S::f32s, b: S::f32s, sum: S::f32s) -> S::f32s {
            let (a, b, sum) = (pulp::cast(a), pulp::cast(b), pulp::cast(sum));
            // SAFETY: only `run` makes `Pairs`, for a processor with the instruction.
            let sum = unsafe { _mm512_dpbf16_ps(sum, a, b) };
            pulp::cast(sum)
        }
    }
}

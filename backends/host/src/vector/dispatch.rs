//! How a piece of work is compiled for the vectors of a machine, and what is done with its instructions alone.

use crate::simd::{Simd as Set, simd};
use pulp::{Simd, WithSimd};

/// What squares of eight by eight are transposed with, and other steps that vectors have an instruction of their own for.
pub(crate) trait Transpose: Copy {
    /// Row i of the transposed square goes to `to[i * step..]`, one after the other: it may overwrite what is behind the one before.
    fn square(self, rows: [&[f32; 8]; 8], to: &mut [f32], step: usize);

    /// Shifts to the right, by less than 32, in which the top bit is repeated at least at the top.
    #[inline(always)]
    fn down<S: Simd>(self, simd: S, words: S::u32s, by: S::u32s) -> S::u32s {
        let top = simd.and_u32s(words, simd.splat_u32s(0x8000_0000));
        simd.or_u32s(simd.wrapping_dyn_shr_u32s(words, by), top)
    }
}

/// What runs on vectors of one kind.
pub(crate) trait Kernel {
    /// The work, for vectors of these instructions.
    fn run<S: Simd, T: Transpose>(self, simd: S, transpose: T);
}

/// Runs what is compiled for the vectors that this process uses.
pub(crate) fn dispatch<K: Kernel>(kernel: K) {
    let simd = simd();
    #[cfg(target_arch = "x86_64")]
    {
        use Set::{Avx2, Avx512};
        if let Some(avx512) = pulp::x86::V4::try_new().filter(|_| simd == Avx512) {
            return avx512.vectorize(
                #[inline(always)]
                || kernel.run(avx512, x86::Avx512(avx512)),
            );
        }
        if let Some(avx2) = pulp::x86::V3::try_new().filter(|_| simd >= Avx2) {
            return avx2.vectorize(
                #[inline(always)]
                || kernel.run(avx2, x86::Avx2(avx2)),
            );
        }
    }
    match simd {
        Set::Portable => kernel.run(pulp::Scalar::new(), ByElement),
        _ => pulp::Arch::new().dispatch(Portable(kernel)),
    }
}

/// Runs what is compiled for the widest vectors there are, or that the process is held to.
pub(crate) fn vectorized<W: WithSimd>(work: W) -> W::Output {
    // The same choice as of `dispatch`, so that sums have the same bits.
    let simd = simd();
    #[cfg(target_arch = "x86_64")]
    {
        use Set::{Avx2, Avx512};
        if let Some(avx512) = pulp::x86::V4::try_new().filter(|_| simd == Avx512) {
            return avx512.vectorize(
                #[inline(always)]
                || work.with_simd(avx512),
            );
        }
        if let Some(avx2) = pulp::x86::V3::try_new().filter(|_| simd >= Avx2) {
            return avx2.vectorize(
                #[inline(always)]
                || work.with_simd(avx2),
            );
        }
    }
    match simd {
        Set::Portable => work.with_simd(pulp::Scalar::new()),
        _ => pulp::Arch::new().dispatch(work),
    }
}

struct Portable<K>(K);

impl<K: Kernel> WithSimd for Portable<K> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        self.0.run(simd, ByElement);
    }
}

#[derive(Clone, Copy)]
struct ByElement;

impl Transpose for ByElement {
    #[inline(always)]
    fn square(self, rows: [&[f32; 8]; 8], to: &mut [f32], step: usize) {
        for i in 0..8 {
            for (to, row) in to[i * step..][..8].iter_mut().zip(rows) {
                *to = row[i];
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Transpose;
    use core::arch::x86_64::__m256;
    use pulp::Simd;

    /// In registers of eight; written without closures over arrays, which would be calls here.
    #[derive(Clone, Copy)]
    pub(super) struct Avx2(pub(super) pulp::x86::V3);

    impl Transpose for Avx2 {
        #[inline(always)]
        fn square(self, rows: [&[f32; 8]; 8], to: &mut [f32], step: usize) {
            let [a, b, c, d, e, f, g, h] = rows;
            let top = self.columns([load(a), load(b), load(c), load(d)]);
            let bottom = self.columns([load(e), load(f), load(g), load(h)]);
            for i in 0..4 {
                let row = self.0.avx._mm256_permute2f128_ps::<0x20>(top[i], bottom[i]);
                store(row, &mut to[i * step..]);
            }
            for i in 0..4 {
                let row = self.0.avx._mm256_permute2f128_ps::<0x31>(top[i], bottom[i]);
                store(row, &mut to[(i + 4) * step..]);
            }
        }

        #[inline(always)]
        fn down<S: Simd>(self, _: S, words: S::u32s, by: S::u32s) -> S::u32s {
            let avx2 = self.0.avx2;
            pulp::cast(avx2._mm256_srav_epi32(pulp::cast(words), pulp::cast(by)))
        }
    }

    /// Squares in registers of eight, shifts in those of sixteen.
    #[derive(Clone, Copy)]
    pub(super) struct Avx512(pub(super) pulp::x86::V4);

    impl Transpose for Avx512 {
        #[inline(always)]
        fn square(self, rows: [&[f32; 8]; 8], to: &mut [f32], step: usize) {
            Avx2(*self.0).square(rows, to, step);
        }

        #[inline(always)]
        fn down<S: Simd>(self, _: S, words: S::u32s, by: S::u32s) -> S::u32s {
            let avx512 = self.0.avx512f;
            pulp::cast(avx512._mm512_srav_epi32(pulp::cast(words), pulp::cast(by)))
        }
    }

    impl Avx2 {
        /// Columns 0 and 4, 1 and 5, 2 and 6, 3 and 7 of four rows.
        #[inline(always)]
        fn columns(self, [a, b, c, d]: [__m256; 4]) -> [__m256; 4] {
            let avx = self.0.avx;
            let (low, high) = (avx._mm256_unpacklo_ps(a, b), avx._mm256_unpackhi_ps(a, b));
            let (next_low, next_high) =
                (avx._mm256_unpacklo_ps(c, d), avx._mm256_unpackhi_ps(c, d));
            [
                avx._mm256_shuffle_ps::<0x44>(low, next_low),
                avx._mm256_shuffle_ps::<0xEE>(low, next_low),
                avx._mm256_shuffle_ps::<0x44>(high, next_high),
                avx._mm256_shuffle_ps::<0xEE>(high, next_high),
            ]
        }
    }

    #[inline(always)]
    fn load(row: &[f32; 8]) -> __m256 {
        pulp::cast(*row)
    }

    #[inline(always)]
    fn store(row: __m256, to: &mut [f32]) {
        to[..8].copy_from_slice(&pulp::cast::<_, [f32; 8]>(row));
    }
}

//! Which instructions a product is compiled for.

use pulp::Simd;

/// What squares of eight by eight are transposed with.
pub(in crate::ops) trait Transpose: Copy {
    /// Row i of the transposed square goes to `to[i * step..]`, one after the other: it may overwrite what is behind the one before.
    fn square(self, rows: [&[f32; 8]; 8], to: &mut [f32], step: usize);
}

/// What runs on vectors of one kind.
pub(super) trait Kernel {
    fn run<S: Simd, T: Transpose>(self, simd: S, transpose: T);
}

/// Runs what is compiled for the vectors that this process uses.
pub(super) fn dispatch<K: Kernel>(kernel: K) {
    let simd = moebius_device::simd();
    #[cfg(target_arch = "x86_64")]
    {
        use moebius_device::Simd::{Avx2, Avx512};
        if let Some(avx512) = pulp::x86::V4::try_new().filter(|_| simd == Avx512) {
            return avx512.vectorize(
                #[inline(always)]
                || kernel.run(avx512, x86::Avx(avx512.avx)),
            );
        }
        if let Some(avx2) = pulp::x86::V3::try_new().filter(|_| simd >= Avx2) {
            return avx2.vectorize(
                #[inline(always)]
                || kernel.run(avx2, x86::Avx(avx2.avx)),
            );
        }
    }
    match simd {
        moebius_device::Simd::Portable => kernel.run(pulp::Scalar::new(), ByElement),
        _ => pulp::Arch::new().dispatch(Portable(kernel)),
    }
}

struct Portable<K>(K);

impl<K: Kernel> pulp::WithSimd for Portable<K> {
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

    /// In registers of eight; written without closures over arrays, which would be calls here.
    #[derive(Clone, Copy)]
    pub(super) struct Avx(pub(super) pulp::core_arch::x86::Avx);

    impl Transpose for Avx {
        #[inline(always)]
        fn square(self, rows: [&[f32; 8]; 8], to: &mut [f32], step: usize) {
            let [a, b, c, d, e, f, g, h] = rows;
            let top = self.columns([load(a), load(b), load(c), load(d)]);
            let bottom = self.columns([load(e), load(f), load(g), load(h)]);
            for i in 0..4 {
                let row = self.0._mm256_permute2f128_ps::<0x20>(top[i], bottom[i]);
                store(row, &mut to[i * step..]);
            }
            for i in 0..4 {
                let row = self.0._mm256_permute2f128_ps::<0x31>(top[i], bottom[i]);
                store(row, &mut to[(i + 4) * step..]);
            }
        }
    }

    impl Avx {
        /// Columns 0 and 4, 1 and 5, 2 and 6, 3 and 7 of four rows.
        #[inline(always)]
        fn columns(self, [a, b, c, d]: [__m256; 4]) -> [__m256; 4] {
            let avx = self.0;
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

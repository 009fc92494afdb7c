//! Vector code: work is compiled for each set of vector instructions, and a process runs the widest version that it may
//! ([`crate::simd()`]). Also transposed squares, which use instructions of one set only, exponentials and hyperbolic tangents.
//!
//! Both polynomials are those of Cephes' single precision functions (S. Moshier, netlib.org/cephes), within two units in
//! the last place of f32. NaN stays NaN.

use crate::simd::{Simd as Set, simd};
use pulp::bytemuck::bytes_of_mut;
use pulp::{Simd, WithSimd};

/// Operations with an instruction of their own in some sets: the transposition of 8×8 squares and of words, bytes as numbers, tables of
/// bytes, shifts, and products of pairs.
pub(crate) trait Transpose: Copy {
    /// Whether [`Self::number`] converts whole numbers below 2^31 that f32 has.
    const WHOLE: bool = false;

    /// Writes row i of the transposed square to `to[i * step..]`, in the order of i; if `step` is less than 8, each row overwrites the end
    /// of the one before.
    fn square(self, rows: [&[f32; 8]; 8], to: &mut [f32], step: usize);

    /// Writes the first W words of the four of each row, word i of all rows side by side to line i of `to` from place `at` on.
    #[inline(always)]
    fn words<const W: usize, const C: usize>(
        self,
        rows: [&[u8; 16]; 16],
        to: &mut [[u32; C]; W],
        at: usize,
    ) {
        for (column, row) in rows.into_iter().enumerate() {
            for (to, word) in to.iter_mut().zip(row.as_chunks::<4>().0) {
                to[at + column] = u32::from_le_bytes(*word);
            }
        }
    }

    /// Bytes, as many as a register has words, as words.
    #[inline(always)]
    fn bytes<S: Simd>(self, _: S, bytes: &[u8]) -> S::u32s {
        let mut words = [0; 16];
        for (word, byte) in words.iter_mut().zip(bytes) {
            *word = u32::from(*byte);
        }
        S::as_simd_u32s(&words).0[0]
    }

    /// Byte `at` of each word, as a signed number.
    #[inline(always)]
    fn signed_byte<S: Simd>(self, simd: S, words: S::u32s, at: u32) -> S::f32s {
        let moved = simd.wrapping_dyn_shr_u32s(words, simd.splat_u32s(8 * at));
        let byte = simd.and_u32s(moved, simd.splat_u32s(0xFF));
        let above = simd.xor_u32s(byte, simd.splat_u32s(0x80));
        simd.sub_f32s(self.number(simd, above), simd.splat_f32s(128.0))
    }

    /// Whole numbers below 2^23.
    #[inline(always)]
    fn number<S: Simd>(self, simd: S, whole: S::u32s) -> S::f32s {
        // 2^23 has room for them in its lowest bits.
        let room = 0x4B00_0000;
        let sum = simd.or_u32s(whole, simd.splat_u32s(room));
        let room = simd.splat_f32s(f32::from_bits(room));
        simd.sub_f32s(simd.transmute_f32s_u32s(sum), room)
    }

    /// Numbers in F16, two bytes each, as many as a register has words.
    #[inline(always)]
    fn f16s<S: Simd>(self, simd: S, bytes: &[u8]) -> S::f32s {
        let mut words = [0; 16];
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
            *word = u32::from(u16::from_le_bytes(*bytes));
        }
        self.halves(simd, S::as_simd_u32s(&words).0[0], 0)
    }

    /// Converts the f16 number that begins at bit `down` of each word, as [`Stored`](crate::values) converts one.
    #[inline(always)]
    fn halves<S: Simd>(self, simd: S, words: S::u32s, down: u32) -> S::f32s {
        let bits = simd.wrapping_dyn_shr_u32s(words, simd.splat_u32s(down));
        let magnitude = simd.and_u32s(bits, simd.splat_u32s(0x7FFF));
        let magnitude = simd.wrapping_dyn_shl_u32s(magnitude, simd.splat_u32s(13));
        let sign = simd.and_u32s(bits, simd.splat_u32s(0x8000));
        let sign = simd.wrapping_dyn_shl_u32s(sign, simd.splat_u32s(16));
        let small = simd.transmute_f32s_u32s(magnitude);
        let number = simd.mul_f32s(small, simd.splat_f32s(f32::from_bits(0x7780_0000)));
        let least = simd.splat_f32s(f32::from_bits(0x0F80_0000));
        let special = simd.less_than_or_equal_f32s(least, small);
        let ones = simd.splat_u32s(0x7F80_0000);
        let special = simd.select_u32s(special, ones, simd.splat_u32s(0));
        let number = simd.or_u32s(simd.transmute_u32s_f32s(number), special);
        simd.transmute_f32s_u32s(simd.or_u32s(number, sign))
    }

    /// Replaces each byte of words, which is less than 16, by that of a table.
    #[inline(always)]
    fn look_up<S: Simd>(self, _: S, words: S::u32s, table: [i8; 16]) -> S::u32s {
        let mut found = words;
        for byte in bytes_of_mut(&mut found) {
            *byte = table[usize::from(*byte & 15)].cast_unsigned();
        }
        found
    }

    /// Shifts words right by less than 32 bits; the top bit stays set, and may be repeated in the bits below it.
    #[inline(always)]
    fn down<S: Simd>(self, simd: S, words: S::u32s, by: S::u32s) -> S::u32s {
        let top = simd.and_u32s(words, simd.splat_u32s(0x8000_0000));
        simd.or_u32s(simd.wrapping_dyn_shr_u32s(words, by), top)
    }

    /// Adds a · b to a sum: the product of two f32 numbers, or the two products of pairs of bf16 numbers where values are pairs.
    #[inline(always)]
    fn multiply_add<S: Simd>(self, simd: S, a: S::f32s, b: S::f32s, sum: S::f32s) -> S::f32s {
        simd.mul_add_e_f32s(a, b, sum)
    }
}

/// Work that is compiled for each set of vector instructions.
pub(crate) trait Kernel {
    /// Does the work with the given vector instructions.
    fn run<S: Simd, T: Transpose>(self, simd: S, transpose: T);
}

/// Has the compiler align the stack of the function that this is inlined into to lines of the cache. It otherwise keeps vector registers at multiples of
/// 16 bytes there, where many of them are in two lines, and take twice as long.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn align_stack() {
    #[repr(align(64))]
    struct Line([u8; 64]);
    std::hint::black_box(&mut Line([0; 64]).0);
}

/// Runs the version of a kernel for the vector instructions that this process uses.
pub(crate) fn dispatch<K: Kernel>(kernel: K) {
    let simd = simd();
    #[cfg(target_arch = "x86_64")]
    {
        use Set::{Avx2, Avx512};
        if let Some(avx512) = pulp::x86::V4::try_new().filter(|_| simd >= Avx512) {
            return avx512.vectorize(
                #[inline(always)]
                || {
                    align_stack();
                    kernel.run(avx512, x86::Avx512(avx512));
                },
            );
        }
        let avx2 = crate::f16c::Avx2::try_new().zip(pulp::x86::V3::try_new());
        if let Some((all, avx2)) = avx2.filter(|_| simd >= Avx2) {
            return all.vectorize(
                #[inline(always)]
                || {
                    align_stack();
                    kernel.run(avx2, x86::Avx2(avx2, all.f16c));
                },
            );
        }
    }
    elsewhere(simd, Portable(kernel));
}

/// Runs the version of `work` for the widest vector instructions, or for those that the process is limited to.
pub(crate) fn vectorized<W: WithSimd>(work: W) -> W::Output {
    // The choice is that of `dispatch`, so that sums have the same bits.
    let simd = simd();
    #[cfg(target_arch = "x86_64")]
    {
        use Set::{Avx2, Avx512};
        if let Some(avx512) = pulp::x86::V4::try_new().filter(|_| simd >= Avx512) {
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
    elsewhere(simd, work)
}

/// Runs the version for processors without AVX2. The choice of `pulp` has all of x86-64's versions once more, which would take a third of
/// this crate's bytes and of the time to compile it.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn elsewhere<W: WithSimd>(_: Set, work: W) -> W::Output {
    work.with_simd(pulp::Scalar::new())
}

/// Runs the version for the vector instructions of another architecture.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn elsewhere<W: WithSimd>(simd: Set, work: W) -> W::Output {
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
pub(crate) mod x86 {
    use super::Transpose;
    use crate::f16c::eight_f16s;
    use core::arch::x86_64::{__m128i, __m256, __m512i};
    use pulp::Simd;
    use pulp::core_arch::x86::F16c;
    use pulp::x86::V3;

    /// All of it in registers of eight values, written without closures over arrays, which would be function calls here.
    #[derive(Clone, Copy)]
    pub(super) struct Avx2(pub(super) V3, pub(super) F16c);

    impl Transpose for Avx2 {
        const WHOLE: bool = true;

        #[inline(always)]
        fn square(self, rows: [&[f32; 8]; 8], to: &mut [f32], step: usize) {
            square(self.0, rows, to, step);
        }

        #[inline(always)]
        fn words<const W: usize, const C: usize>(
            self,
            rows: [&[u8; 16]; 16],
            to: &mut [[u32; C]; W],
            at: usize,
        ) {
            for (half, rows) in rows.as_chunks::<8>().0.iter().enumerate() {
                let [a, b, c, d, e, f, g, h] = *rows;
                let rows = [
                    self.both(a, e),
                    self.both(b, f),
                    self.both(c, g),
                    self.both(d, h),
                ];
                let words = columns(self.0, rows);
                for (i, to) in to.iter_mut().enumerate() {
                    let words: [u32; 8] = pulp::cast(words[i]);
                    to[at + 8 * half..][..8].copy_from_slice(&words);
                }
            }
        }

        #[inline(always)]
        fn bytes<S: Simd>(self, _: S, bytes: &[u8]) -> S::u32s {
            pulp::cast(self.0.avx2._mm256_cvtepu8_epi32(eight(bytes)))
        }

        #[inline(always)]
        fn signed_byte<S: Simd>(self, simd: S, words: S::u32s, at: u32) -> S::f32s {
            let up = simd.wrapping_dyn_shl_u32s(words, simd.splat_u32s(24 - 8 * at));
            let whole = self.0.avx2._mm256_srai_epi32::<24>(pulp::cast(up));
            pulp::cast(self.0.avx._mm256_cvtepi32_ps(whole))
        }

        #[inline(always)]
        fn number<S: Simd>(self, _: S, whole: S::u32s) -> S::f32s {
            pulp::cast(self.0.avx._mm256_cvtepi32_ps(pulp::cast(whole)))
        }

        #[inline(always)]
        fn f16s<S: Simd>(self, _: S, bytes: &[u8]) -> S::f32s {
            pulp::cast(eight_f16s(self.1, sixteen(bytes)))
        }

        #[inline(always)]
        fn halves<S: Simd>(self, simd: S, words: S::u32s, down: u32) -> S::f32s {
            let (avx, avx2) = (self.0.avx, self.0.avx2);
            let moved = simd.wrapping_dyn_shr_u32s(words, simd.splat_u32s(down));
            let own = pulp::cast(simd.and_u32s(moved, simd.splat_u32s(0xFFFF)));
            let both = avx2._mm256_packus_epi32(own, own);
            let halves = avx2._mm256_permute4x64_epi64::<0b1000>(both);
            pulp::cast(eight_f16s(self.1, avx._mm256_castsi256_si128(halves)))
        }

        #[inline(always)]
        fn look_up<S: Simd>(self, _: S, words: S::u32s, table: [i8; 16]) -> S::u32s {
            let table = pulp::cast([table; 2]);
            pulp::cast(self.0.avx2._mm256_shuffle_epi8(table, pulp::cast(words)))
        }

        #[inline(always)]
        fn down<S: Simd>(self, _: S, words: S::u32s, by: S::u32s) -> S::u32s {
            let avx2 = self.0.avx2;
            pulp::cast(avx2._mm256_srav_epi32(pulp::cast(words), pulp::cast(by)))
        }
    }

    /// Transposition of squares in registers of eight values; words, tables and shifts in registers of sixteen.
    #[derive(Clone, Copy)]
    pub(crate) struct Avx512(pub(crate) pulp::x86::V4);

    impl Transpose for Avx512 {
        const WHOLE: bool = true;

        #[inline(always)]
        fn square(self, rows: [&[f32; 8]; 8], to: &mut [f32], step: usize) {
            square(*self.0, rows, to, step);
        }

        #[inline(always)]
        fn words<const W: usize, const C: usize>(
            self,
            rows: [&[u8; 16]; 16],
            to: &mut [[u32; C]; W],
            at: usize,
        ) {
            let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = rows;
            let rows = [
                self.four([a, e, i, m]),
                self.four([b, f, j, n]),
                self.four([c, g, k, o]),
                self.four([d, h, l, p]),
            ];
            // Words are read as whole registers, for which a processor that has just written halves would wait until they are in the cache.
            let words = self.columns(rows);
            for (i, to) in to.iter_mut().enumerate() {
                let words: [u32; 16] = pulp::cast(words[i]);
                to[at..][..16].copy_from_slice(&words);
            }
        }

        #[inline(always)]
        fn bytes<S: Simd>(self, _: S, bytes: &[u8]) -> S::u32s {
            pulp::cast(self.0.avx512f._mm512_cvtepu8_epi32(sixteen(bytes)))
        }

        #[inline(always)]
        fn signed_byte<S: Simd>(self, simd: S, words: S::u32s, at: u32) -> S::f32s {
            let avx512 = self.0.avx512f;
            let up = simd.wrapping_dyn_shl_u32s(words, simd.splat_u32s(24 - 8 * at));
            let whole = avx512._mm512_srai_epi32::<24>(pulp::cast(up));
            pulp::cast(avx512._mm512_cvtepi32_ps(whole))
        }

        #[inline(always)]
        fn number<S: Simd>(self, _: S, whole: S::u32s) -> S::f32s {
            pulp::cast(self.0.avx512f._mm512_cvtepi32_ps(pulp::cast(whole)))
        }

        #[inline(always)]
        fn f16s<S: Simd>(self, _: S, bytes: &[u8]) -> S::f32s {
            let bytes = bytes.first_chunk::<32>().copied().unwrap_or_default();
            pulp::cast(self.0.avx512f._mm512_cvtph_ps(pulp::cast(bytes)))
        }

        #[inline(always)]
        fn halves<S: Simd>(self, simd: S, words: S::u32s, down: u32) -> S::f32s {
            let avx512 = self.0.avx512f;
            let moved = simd.wrapping_dyn_shr_u32s(words, simd.splat_u32s(down));
            let halves = avx512._mm512_cvtepi32_epi16(pulp::cast(moved));
            pulp::cast(avx512._mm512_cvtph_ps(halves))
        }

        #[inline(always)]
        fn look_up<S: Simd>(self, _: S, words: S::u32s, table: [i8; 16]) -> S::u32s {
            let table = pulp::cast([table; 4]);
            pulp::cast(
                self.0
                    .avx512bw
                    ._mm512_shuffle_epi8(table, pulp::cast(words)),
            )
        }

        #[inline(always)]
        fn down<S: Simd>(self, _: S, words: S::u32s, by: S::u32s) -> S::u32s {
            let avx512 = self.0.avx512f;
            pulp::cast(avx512._mm512_srav_epi32(pulp::cast(words), pulp::cast(by)))
        }
    }

    impl Avx512 {
        /// Sixteen bytes in each quarter of a register.
        #[inline(always)]
        fn four(self, [a, b, c, d]: [&[u8; 16]; 4]) -> __m512i {
            let avx512 = self.0.avx512f;
            let register = avx512._mm512_castsi128_si512(pulp::cast(*a));
            let register = avx512._mm512_inserti32x4::<1>(register, pulp::cast(*b));
            let register = avx512._mm512_inserti32x4::<2>(register, pulp::cast(*c));
            avx512._mm512_inserti32x4::<3>(register, pulp::cast(*d))
        }

        /// The columns of four rows in each quarter.
        #[inline(always)]
        fn columns(self, [a, b, c, d]: [__m512i; 4]) -> [__m512i; 4] {
            let avx512 = self.0.avx512f;
            let low = avx512._mm512_unpacklo_epi32(a, b);
            let high = avx512._mm512_unpackhi_epi32(a, b);
            let next_low = avx512._mm512_unpacklo_epi32(c, d);
            let next_high = avx512._mm512_unpackhi_epi32(c, d);
            [
                avx512._mm512_unpacklo_epi64(low, next_low),
                avx512._mm512_unpackhi_epi64(low, next_low),
                avx512._mm512_unpacklo_epi64(high, next_high),
                avx512._mm512_unpackhi_epi64(high, next_high),
            ]
        }
    }

    impl Avx2 {
        /// Sixteen bytes in each half of a register.
        #[inline(always)]
        fn both(self, low: &[u8; 16], high: &[u8; 16]) -> __m256 {
            let avx = self.0.avx;
            let low = avx._mm256_castps128_ps256(pulp::cast(*low));
            avx._mm256_insertf128_ps::<1>(low, pulp::cast(*high))
        }
    }

    /// [`Transpose::square`] in registers of eight values.
    #[inline(always)]
    fn square(simd: V3, rows: [&[f32; 8]; 8], to: &mut [f32], step: usize) {
        let [a, b, c, d, e, f, g, h] = rows;
        let top = columns(simd, [load(a), load(b), load(c), load(d)]);
        let bottom = columns(simd, [load(e), load(f), load(g), load(h)]);
        for i in 0..4 {
            let row = simd.avx._mm256_permute2f128_ps::<0x20>(top[i], bottom[i]);
            store(row, &mut to[i * step..]);
        }
        for i in 0..4 {
            let row = simd.avx._mm256_permute2f128_ps::<0x31>(top[i], bottom[i]);
            store(row, &mut to[(i + 4) * step..]);
        }
    }

    /// Columns 0 and 4, 1 and 5, 2 and 6, 3 and 7 of four rows.
    #[inline(always)]
    fn columns(V3 { avx, .. }: V3, [a, b, c, d]: [__m256; 4]) -> [__m256; 4] {
        let (low, high) = (avx._mm256_unpacklo_ps(a, b), avx._mm256_unpackhi_ps(a, b));
        let (next_low, next_high) = (avx._mm256_unpacklo_ps(c, d), avx._mm256_unpackhi_ps(c, d));
        [
            avx._mm256_shuffle_ps::<0x44>(low, next_low),
            avx._mm256_shuffle_ps::<0xEE>(low, next_low),
            avx._mm256_shuffle_ps::<0x44>(high, next_high),
            avx._mm256_shuffle_ps::<0xEE>(high, next_high),
        ]
    }

    #[inline(always)]
    fn eight(bytes: &[u8]) -> __m128i {
        let bytes = bytes.first_chunk().copied().unwrap_or_default();
        pulp::cast([u64::from_ne_bytes(bytes), 0])
    }

    #[inline(always)]
    fn sixteen(bytes: &[u8]) -> __m128i {
        pulp::cast(bytes.first_chunk::<16>().copied().unwrap_or_default())
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

/// Evaluates a polynomial by Horner's rule, from the highest coefficient down.
#[inline(always)]
fn polynomial<S: Simd, const N: usize>(simd: S, x: S::f32s, coefficients: [f32; N]) -> S::f32s {
    let mut sum = simd.splat_f32s(coefficients[0]);
    for coefficient in &coefficients[1..] {
        sum = simd.mul_add_e_f32s(sum, x, simd.splat_f32s(*coefficient));
    }
    sum
}

/// Computes eˣ for x up to 88; results below 2⁻¹²⁶ are 0.
#[inline(always)]
pub(crate) fn exp<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    // Adding 1.5 · 2²³ leaves the nearest whole number in the lowest bits.
    let round = simd.splat_f32s(12_582_912.0);
    let shifted = simd.mul_add_e_f32s(x, simd.splat_f32s(std::f32::consts::LOG2_E), round);
    let n = simd.sub_f32s(shifted, round);
    // ln 2 is split into two parts; the first has few bits, so that its product with n is exact.
    let r = simd.negate_mul_add_e_f32s(n, simd.splat_f32s(0.693_359_4), x);
    let r = simd.negate_mul_add_e_f32s(n, simd.splat_f32s(-2.121_944_4e-4), r);
    let high = polynomial(
        simd,
        r,
        [
            1.987_569_1e-4,
            1.398_199_9e-3,
            8.333_452e-3,
            4.166_579_6e-2,
            1.666_666_5e-1,
            0.5,
        ],
    );
    let one = simd.splat_f32s(1.0);
    let rest = simd.mul_add_e_f32s(high, simd.mul_f32s(r, r), r);
    let bits = simd.transmute_u32s_f32s(shifted);
    let exponent = simd.add_u32s(bits, simd.splat_u32s(127));
    let power = simd.wrapping_dyn_shl_u32s(exponent, simd.splat_u32s(23));
    let value = simd.mul_f32s(simd.add_f32s(rest, one), simd.transmute_f32s_u32s(power));
    let vanishes = simd.less_than_f32s(x, simd.splat_f32s(-87.336_54));
    simd.select_f32s(vanishes, simd.splat_f32s(0.0), value)
}

/// Computes tanh x.
#[inline(always)]
pub(crate) fn tanh<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    let one = simd.splat_f32s(1.0);
    let magnitude = simd.abs_f32s(x);
    let e = exp(simd, simd.mul_f32s(magnitude, simd.splat_f32s(-2.0)));
    let far = simd.div_f32s(simd.sub_f32s(one, e), simd.add_f32s(one, e));
    let negative = simd.less_than_f32s(x, simd.splat_f32s(0.0));
    let far = simd.select_f32s(negative, simd.neg_f32s(far), far);
    // Near 0, the difference 1 − e has few significant bits left.
    let square = simd.mul_f32s(x, x);
    let ratio = polynomial(
        simd,
        square,
        [
            -5.704_988_7e-3,
            2.063_909e-2,
            -5.373_971_6e-2,
            1.333_144_2e-1,
            -3.333_328e-1,
        ],
    );
    let near = simd.mul_add_e_f32s(simd.mul_f32s(ratio, square), x, x);
    let is_near = simd.less_than_f32s(magnitude, simd.splat_f32s(0.625));
    simd.select_f32s(is_near, near, far)
}

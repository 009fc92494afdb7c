//! Blocks of codes of neighbouring columns that are interleaved ([`moebius_ops::blocks::interleaved`]): a register has a word of codes of each column, or
//! a byte of each, widened to a word. Levels and scales are computed from those.

use crate::vector::Transpose;
use moebius_ops::blocks::interleaved::ROWS;
use moebius_ops::blocks::{Field, GROUP, Layout, Levels, Scales};
use pulp::Simd;
use pulp::bytemuck::pod_read_unaligned;

/// Columns whose bytes lie side by side; at most as many as a part of a product has.
pub(super) const ACROSS: usize = ROWS;

/// The bytes of a word.
pub(super) const WORD: usize = 4;

/// A word with 1 in each byte.
const EACH: u32 = 0x0101_0101;

/// A byte of each column.
pub(super) type Plane = [u8; ACROSS];

/// Values of a block that share a scale.
#[inline(always)]
pub(super) fn share(layout: &Layout) -> usize {
    match layout.scales {
        Scales::None | Scales::Half { .. } | Scales::Exponent | Scales::Upper => layout.values,
        Scales::SixBits => 32,
        Scales::EightBits { .. } | Scales::Fp8 => GROUP,
    }
}

/// Whether a weight is scale · code + offset without a rounding in between, and scales are numbers in F16 or small multiples of such. Then codes may
/// stay where they are in a word, too large by a power of two, for a scale that is as much too small: to move them takes longer.
pub(super) const fn is_plain(layout: &Layout) -> bool {
    matches!(
        layout.scales,
        Scales::Half { .. } | Scales::SixBits | Scales::EightBits { .. }
    )
}

/// The code whose level is 0, in [plain](is_plain) formats.
const fn zero(levels: Levels) -> u8 {
    match levels {
        Levels::From(zero) => zero,
        _ => 0x80,
    }
}

/// A block of each of [`ACROSS`] columns.
#[derive(Clone, Copy)]
pub(super) struct Blocks<'a> {
    /// The bytes before the blocks of the columns, where there are some.
    pub(super) heads: &'a [Plane],
    /// The bytes of the blocks.
    pub(super) bytes: &'a [Plane],
    /// Words to prefetch meanwhile.
    pub(super) ahead: &'a [i32],
}

/// The first bytes of a block.
#[inline(always)]
fn known<const N: usize>(bytes: &[Plane]) -> &[Plane; N] {
    let Some(bytes) = bytes.first_chunk() else {
        unreachable!("blocks have all bytes of their layout");
    };
    bytes
}

/// What the scales of a block of each of a register's columns have in common.
#[derive(Clone, Copy)]
pub(super) struct Common<S: Simd> {
    /// Factors of scales, and of what is added.
    factors: [S::f32s; 2],
    /// Scales and minima of six bits, a byte each, of both halves of the block.
    six_bits: [[S::u32s; 2]; 2],
}

impl<S: Simd> Common<S> {
    /// No scales.
    #[inline(always)]
    pub(super) fn none(simd: S) -> Self {
        Self {
            factors: [simd.splat_f32s(0.0); 2],
            six_bits: [[simd.splat_u32s(0); 2]; 2],
        }
    }
}

/// A register's columns of blocks.
#[derive(Clone, Copy)]
pub(super) struct Columns<'a, S, T> {
    simd: S,
    transpose: T,
    blocks: Blocks<'a>,
    /// The number of the register.
    v: usize,
}

impl<'a, S: Simd, T: Transpose> Columns<'a, S, T> {
    /// The columns of register `v`.
    #[inline(always)]
    pub(super) fn of((simd, transpose): (S, T), blocks: Blocks<'a>, v: usize) -> Self {
        Self {
            simd,
            transpose,
            blocks,
            v,
        }
    }

    /// Byte `at` of the blocks.
    #[inline(always)]
    fn at(self, at: usize) -> S::u32s {
        let bytes = &self.blocks.bytes[at][self.v * S::U32_LANES..][..S::U32_LANES];
        self.transpose.bytes(self.simd, bytes)
    }

    /// The word from byte `at` of the blocks on.
    #[inline(always)]
    fn word_at(self, at: usize) -> S::u32s {
        self.line(known(&self.blocks.bytes[at..]))
    }

    /// The register's columns of a line of words.
    #[inline(always)]
    fn line(self, line: &[Plane; WORD]) -> S::u32s {
        let width = WORD * S::U32_LANES;
        pod_read_unaligned(&line.as_flattened()[width * self.v..][..width])
    }

    /// Some bits of words, moved down.
    #[inline(always)]
    fn bits(self, words: S::u32s, down: u32, mask: u32) -> S::u32s {
        let simd = self.simd;
        let moved = simd.wrapping_dyn_shr_u32s(words, simd.splat_u32s(down));
        simd.and_u32s(moved, simd.splat_u32s(mask))
    }

    /// Some bits of words, moved up.
    #[inline(always)]
    fn up(self, words: S::u32s, up: u32) -> S::u32s {
        let simd = self.simd;
        simd.wrapping_dyn_shl_u32s(words, simd.splat_u32s(up))
    }

    /// A field of the codes of four values from `first` on, a byte for each, moved up.
    #[inline(always)]
    fn field(self, field: Field, first: usize, up: u32) -> S::u32s {
        if field.run == 1 {
            // Neighbouring bits are interleaved so that four of them have the same place in the four bytes of their word: those of the first four
            // fours are moved up together.
            let (fours, byte) = (first % 32 / 4, field.at + first / 32 * WORD);
            let word = self.word_at(byte);
            let word = self.up(word, if fours < 4 { up } else { 0 });
            let down = if fours < 4 { 0 } else { 4 - up } + fours as u32 % 4;
            return self.bits(word, down, EACH << up);
        }
        let (byte, down) = field.place(first);
        let word = self.word_at(byte);
        match field.bits {
            8 => word,
            bits => self.up(self.bits(word, down, EACH * (0xFF >> (8 - bits))), up),
        }
    }

    /// The codes of four values from `first` on, a byte for each: in [plain](is_plain) formats the difference of a level and that of code 0, elsewhere the
    /// level as a signed number.
    #[inline(always)]
    pub(super) fn codes(self, layout: &Layout, first: usize) -> S::u32s {
        let simd = self.simd;
        let mut codes = self.field(layout.low, first, 0);
        if let Some(high) = layout.high {
            codes = simd.or_u32s(codes, self.field(high, first, layout.low.bits));
        }
        let moved = simd.splat_u32s(0x80 * EACH);
        match layout.levels {
            Levels::From(_) => codes,
            Levels::Signed => simd.xor_u32s(codes, moved),
            Levels::FromZero => {
                let zero = self.bits(self.at(0), 0, 15);
                let two = simd.or_u32s(zero, self.up(zero, 8));
                let four = simd.or_u32s(two, self.up(two, 16));
                // No byte of these takes from the next.
                let above = simd.sub_u32s(simd.add_u32s(codes, moved), four);
                simd.xor_u32s(above, moved)
            }
            Levels::Table(mut table) => {
                if is_plain(layout) {
                    for level in &mut table {
                        *level ^= i8::MIN;
                    }
                }
                self.transpose.look_up(simd, codes, table)
            }
            Levels::F16 | Levels::Bf16 => unreachable!("numbers of 16 bits have no levels"),
        }
    }

    /// Whether the codes in byte `at` of words stay there.
    #[inline(always)]
    fn stay(layout: &Layout, at: usize) -> bool {
        // Those of eight bits would be below 0 in the last byte.
        let fits = matches!(layout.levels, Levels::From(_));
        is_plain(layout) && T::WHOLE && (at < WORD - 1 || fits)
    }

    /// The codes in byte `at` of words as numbers, which are multiplied by [`Self::scale_of_byte`].
    #[inline(always)]
    pub(super) fn number(self, layout: &Layout, codes: S::u32s, at: usize) -> S::f32s {
        let (simd, down) = (self.simd, 8 * at as u32);
        if !is_plain(layout) {
            return self.transpose.signed_byte(simd, codes, at as u32);
        }
        let whole = if Self::stay(layout, at) {
            simd.and_u32s(codes, simd.splat_u32s(0xFF << down))
        } else {
            self.bits(codes, down, 0xFF)
        };
        self.transpose.number(simd, whole)
    }

    /// What the numbers of byte `at` of words are multiplied by.
    #[inline(always)]
    pub(super) fn scale_of_byte(self, layout: &Layout, scale: S::f32s, at: usize) -> S::f32s {
        let simd = self.simd;
        if !Self::stay(layout, at) || at == 0 {
            return scale;
        }
        let small = f32::from_bits((127 - 8 * at as u32) << 23);
        simd.mul_f32s(scale, simd.splat_f32s(small))
    }

    /// Code `two` + `at` of the blocks, which [is a number](Levels::are_numbers): one of two in a word.
    #[inline(always)]
    pub(super) fn of_16_bits(self, layout: &Layout, two: usize, at: usize) -> S::f32s {
        let simd = self.simd;
        if matches!(layout.levels, Levels::F16) {
            return self.half(2 * (two + at));
        }
        let words = self.word_at(2 * two);
        simd.transmute_f32s_u32s(match at {
            0 => self.up(words, 16),
            _ => simd.and_u32s(words, simd.splat_u32s(0xFFFF_0000)),
        })
    }

    /// What the scales of a block have in common.
    #[inline(always)]
    pub(super) fn common(self, scales: Scales) -> Common<S> {
        let simd = self.simd;
        let none = simd.splat_f32s(0.0);
        let factors = match scales {
            Scales::SixBits => [self.half(0), simd.neg_f32s(self.half(2))],
            Scales::Half { least: true } => [self.half(0), self.half(2)],
            Scales::Half { least: false } => [self.half(0), none],
            Scales::EightBits { all, .. } => [self.half(all), none],
            Scales::Exponent => [self.half_of_exponent(), none],
            Scales::Upper => {
                let low = simd.and_u32s(self.at(0), simd.splat_u32s(0xF0));
                let bits = self.word([low, self.at(1), self.at(2)]);
                [simd.transmute_f32s_u32s(self.up(bits, 8)), none]
            }
            Scales::Fp8 | Scales::None => [none; 2],
        };
        let six_bits = match scales {
            Scales::SixBits => self.six_bits(),
            _ => [[simd.splat_u32s(0); 2]; 2],
        };
        Common { factors, six_bits }
    }

    /// The scale of value `value` of the blocks, and what is added, as [`Scales`] describes them; in [plain](is_plain) formats what is added where the code
    /// is 0.
    #[inline(always)]
    pub(super) fn scale(self, layout: &Layout, common: Common<S>, value: usize) -> [S::f32s; 2] {
        let simd = self.simd;
        let [scale, offset] = match layout.scales {
            Scales::SixBits => {
                let [first, second] = common.six_bits;
                let [scale, least] = if value < 128 { first } else { second };
                let down = value / 32 % 4 * 8;
                let number = |words| {
                    self.transpose
                        .number(simd, self.bits(words, down as u32, 63))
                };
                [
                    simd.mul_f32s(common.factors[0], number(scale)),
                    simd.mul_f32s(common.factors[1], number(least)),
                ]
            }
            Scales::EightBits { each, .. } => {
                let own = self.at(each + value / GROUP);
                let own = self.transpose.signed_byte(simd, own, 0);
                [simd.mul_f32s(common.factors[0], own), common.factors[1]]
            }
            Scales::Fp8 => [self.of_row(value / GROUP), common.factors[1]],
            _ => common.factors,
        };
        if !is_plain(layout) || layout.scales.has_offsets() {
            return [scale, offset];
        }
        let zero = simd.splat_f32s(-f32::from(zero(layout.levels)));
        [scale, simd.mul_f32s(scale, zero)]
    }

    /// The word of these bytes, the lowest first.
    #[inline(always)]
    fn word<const N: usize>(self, bytes: [S::u32s; N]) -> S::u32s {
        let simd = self.simd;
        let mut word = bytes[0];
        for (i, byte) in bytes.iter().enumerate().skip(1) {
            let up = simd.splat_u32s(8 * i as u32);
            word = simd.or_u32s(word, simd.wrapping_dyn_shl_u32s(*byte, up));
        }
        word
    }

    /// A number in F16 at byte `at`.
    #[inline(always)]
    fn half(self, at: usize) -> S::f32s {
        let (numbers, width) = (known::<2>(&self.blocks.bytes[at..]), 2 * S::U32_LANES);
        let own = &numbers.as_flattened()[width * self.v..][..width];
        self.transpose.f16s(self.simd, own)
    }

    /// 2^(e − 128), as a product of two powers that f32 has for every e.
    #[inline(always)]
    fn half_of_exponent(self) -> S::f32s {
        let simd = self.simd;
        let exponent = self.at(0);
        let one = simd.wrapping_dyn_shr_u32s(exponent, simd.splat_u32s(1));
        let other = simd.sub_u32s(exponent, one);
        let (from, up) = (simd.splat_u32s(63), simd.splat_u32s(23));
        let one = simd.wrapping_dyn_shl_u32s(simd.add_u32s(one, from), up);
        let other = simd.wrapping_dyn_shl_u32s(simd.add_u32s(other, from), up);
        simd.mul_f32s(
            simd.transmute_f32s_u32s(one),
            simd.transmute_f32s_u32s(other),
        )
    }

    /// Four scales with six bits each, and four minima, of the first half of the block, and those of the second, a byte each.
    #[inline(always)]
    fn six_bits(self) -> [[S::u32s; 2]; 2] {
        let simd = self.simd;
        let [scale, least, both] = [self.word_at(4), self.word_at(8), self.word_at(12)];
        let first = |words| self.bits(words, 0, EACH * 63);
        // The upper two bits are those above six of the first half.
        let upper = |words| self.bits(words, 2, EACH * 0x30);
        [
            [first(scale), first(least)],
            [
                simd.or_u32s(self.bits(both, 0, EACH * 15), upper(scale)),
                simd.or_u32s(self.bits(both, 4, EACH * 15), upper(least)),
            ],
        ]
    }

    /// The scale of a group in a row that has one, too ([`Scales::Fp8`]).
    #[inline(always)]
    fn of_row(self, group: usize) -> S::f32s {
        let simd = self.simd;
        let own = self.at(group);
        // The bits of half of a number in E4M3 at this place of an f32 are too small by the factor 2^119.
        let bits = simd.and_u32s(own, simd.splat_u32s(0x7F));
        let bits = simd.wrapping_dyn_shl_u32s(bits, simd.splat_u32s(20));
        let half = simd.transmute_f32s_u32s(bits);
        let half = simd.mul_f32s(half, simd.splat_f32s(f32::from_bits(246 << 23)));
        let row = self.line(known(self.blocks.heads));
        let scale = simd.and_u32s(row, simd.splat_u32s(0x7FFF_FFFF));
        let product = simd.mul_f32s(half, simd.transmute_f32s_u32s(scale));
        // What is added to the bits is negative where the row's word has a sign.
        let moved = simd.wrapping_dyn_shr_u32s(own, simd.splat_u32s(7));
        let sign = simd.wrapping_dyn_shr_u32s(row, simd.splat_u32s(31));
        let ones = simd.sub_u32s(simd.splat_u32s(0), sign);
        let moved = simd.add_u32s(simd.xor_u32s(moved, ones), sign);
        simd.transmute_f32s_u32s(simd.add_u32s(simd.transmute_u32s_f32s(product), moved))
    }
}

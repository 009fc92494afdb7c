//! Blocks of codes of neighbouring columns, turned into lanes: 16 bytes of sixteen blocks at a time become words in lanes, and these codes and
//! scales in whole registers, which are multiplied.

use crate::values::half;
use crate::vector::Transpose;
use moebius_ops::blocks::{Field, GROUP, Layout, Levels, Scales};
use pulp::Simd;

/// Columns whose codes are put in lanes together; at most as many as a part of a product has.
pub(super) const ACROSS: usize = 32;

/// The number of codes in a word.
pub(super) const CODES: usize = 4;

/// 2^23 as an f32: a number below, in its lowest bits, is added to it.
pub(super) const WHOLE: u32 = 0x4B00_0000;

/// Where the words of a block's first 16 bytes, or of those with its scales, are among the raw ones.
const HEAD: usize = 0;
/// Where those of 16 bytes are that end with what all scales of [`Scales::EightBits`] are multiplied by.
const ALL: usize = 4;
/// Where those with the low bits of codes are, of at most 128 bytes.
const LOW: usize = 8;
/// Where those with the high bits are, of at most 64 bytes.
const HIGH: usize = 40;

/// Words of each column that a block is turned into.
const RAW: usize = 56;

/// Columns whose bytes are turned together.
pub(super) const SQUARE: usize = 16;

/// The bytes of a block of each of [`ACROSS`] columns, as words in lanes.
#[derive(Default)]
pub(super) struct Raw(pub(super) [Square; ACROSS / SQUARE]);

/// Those of sixteen columns. Vectors as wide as a line of the caches begin with one.
#[repr(align(64))]
pub(super) struct Square {
    words: [[u32; SQUARE]; RAW],
    /// The word before the blocks of each row.
    pub(super) of_rows: [u32; SQUARE],
}

impl Default for Square {
    fn default() -> Self {
        Self {
            words: [[0; SQUARE]; RAW],
            of_rows: [0; SQUARE],
        }
    }
}

/// How the blocks of a format lie in memory, and its table of levels.
pub(super) type Form<'a> = (&'a Layout, &'a [u32; 16]);

/// The bytes of a table of levels, four times, with 128 added so that they have no signs.
pub(super) const fn table(levels: Levels) -> [u32; 16] {
    let mut words = [0; 16];
    if let Levels::Table(levels) = levels {
        let mut at = 0;
        while at < 64 {
            let byte = levels[at % 16].cast_unsigned() ^ 0x80;
            words[at / 4] |= (byte as u32) << (8 * (at % 4));
            at += 1;
        }
    }
    words
}

impl Square {
    /// Turns the bytes of a block of each column into lanes.
    #[inline(always)]
    pub(super) fn turn<T: Transpose, const BYTES: usize>(
        &mut self,
        transpose: T,
        layout: &Layout,
        blocks: &[&[u8; BYTES]; SQUARE],
    ) {
        match layout.scales {
            Scales::EightBits { each, all } => {
                self.turn_bytes::<T, BYTES, 4>(transpose, blocks, [all + 2 - GROUP, ALL]);
                self.turn_bytes::<T, BYTES, 4>(transpose, blocks, [each, HEAD]);
            }
            Scales::SixBits => self.turn_bytes::<T, BYTES, 4>(transpose, blocks, [0, HEAD]),
            // These scales, and zeros, are in the first word.
            Scales::Half { .. } | Scales::Exponent | Scales::Upper | Scales::Fp8 => {
                self.turn_bytes::<T, BYTES, 1>(transpose, blocks, [0, HEAD]);
            }
        }
        // One after the other: in a loop over both, the compiler would divide by numbers that it knows.
        self.turn_field(transpose, blocks, (layout, layout.low), LOW);
        if let Some(high) = layout.high {
            self.turn_field(transpose, blocks, (layout, high), HIGH);
        }
    }

    /// Turns the bytes with some bits of all codes into the words from `to` on.
    #[inline(always)]
    fn turn_field<T: Transpose, const BYTES: usize>(
        &mut self,
        transpose: T,
        blocks: &[&[u8; BYTES]; SQUARE],
        (layout, field): (&Layout, Field),
        to: usize,
    ) {
        for piece in 0..(layout.values / field.per_byte()).div_ceil(GROUP) {
            let places = [field.at + GROUP * piece, to + GROUP / CODES * piece];
            self.turn_bytes::<T, BYTES, 4>(transpose, blocks, places);
        }
    }

    /// Turns 16 bytes of each block, from byte `at` on, into the first W of their four words, which are put from word `to` on.
    #[inline(always)]
    fn turn_bytes<T: Transpose, const BYTES: usize, const W: usize>(
        &mut self,
        transpose: T,
        blocks: &[&[u8; BYTES]; SQUARE],
        [at, to]: [usize; 2],
    ) {
        let mut bytes = [&[0; GROUP]; SQUARE];
        for (bytes, block) in bytes.iter_mut().zip(blocks) {
            *bytes = block[at..]
                .first_chunk()
                .unwrap_or_else(|| unreachable!("the block has all of these bytes"));
        }
        let to = self.words[to..]
            .first_chunk_mut::<W>()
            .unwrap_or_else(|| unreachable!("there is room for all words of a block"));
        transpose.words(bytes, to, 0);
    }
}

/// Values of a block that share a scale.
#[inline(always)]
pub(super) fn share(layout: &Layout) -> usize {
    match layout.scales {
        Scales::Half { .. } | Scales::Exponent | Scales::Upper => layout.values,
        Scales::SixBits => 32,
        Scales::EightBits { .. } | Scales::Fp8 => GROUP,
    }
}

/// A register's columns of a block in raw words.
#[derive(Clone, Copy)]
pub(super) struct Block<'a, S> {
    simd: S,
    square: &'a Square,
    /// The register among those of the square.
    v: usize,
}

impl<'a, S: Simd> Block<'a, S> {
    /// The columns of register `v`.
    #[inline(always)]
    pub(super) fn of(simd: S, raw: &'a Raw, v: usize) -> Self {
        let registers = SQUARE / S::F32_LANES;
        let (square, v) = (&raw.0[v / registers], v % registers);
        Self { simd, square, v }
    }

    /// A raw word of each column.
    #[inline(always)]
    fn word(self, word: usize) -> S::u32s {
        S::as_simd_u32s(&self.square.words[word]).0[self.v]
    }

    /// Some bits of a raw word, moved down.
    #[inline(always)]
    fn bits(self, word: usize, down: u32, mask: u32) -> S::u32s {
        let simd = self.simd;
        let moved = simd.wrapping_dyn_shr_u32s(self.word(word), simd.splat_u32s(down));
        simd.and_u32s(moved, simd.splat_u32s(mask))
    }

    /// Four codes of the group that begins with `value`: those of word `word` of its four.
    #[inline(always)]
    pub(super) fn codes<T: Transpose>(
        self,
        transpose: T,
        (layout, table): Form<'_>,
        place: [usize; 2],
    ) -> S::u32s {
        let simd = self.simd;
        let mut codes = self.field(LOW, layout.low, place);
        if let Some(high) = layout.high {
            let up = simd.splat_u32s(layout.low.bits);
            let high = simd.wrapping_dyn_shl_u32s(self.field(HIGH, high, place), up);
            codes = simd.or_u32s(codes, high);
        }
        match layout.levels {
            Levels::Signed => simd.xor_u32s(codes, simd.splat_u32s(0x8080_8080)),
            Levels::Table(_) => transpose.look_up(simd, codes, table),
            Levels::From(_) | Levels::FromZero => codes,
        }
    }

    /// The bits of a field of four codes; those of the whole field are in the words from `from` on.
    #[inline(always)]
    fn field(self, from: usize, field: Field, [value, word]: [usize; 2]) -> S::u32s {
        if field.run < GROUP {
            return self.spread(from, value + CODES * word);
        }
        let (byte, down) = field.place(value);
        let mask = (0xFF_u32 >> (8 - field.bits)) * 0x0101_0101;
        self.bits(from + (byte - field.at) / CODES + word, down, mask)
    }

    /// Neighbouring bits of four codes from code `code` of 32 on, each in a byte of its own.
    #[inline(always)]
    fn spread(self, word: usize, code: usize) -> S::u32s {
        let simd = self.simd;
        let four = self.bits(word, code as u32, 15);
        let twice = simd.wrapping_dyn_shl_u32s(four, simd.splat_u32s(7));
        let twice = simd.or_u32s(four, twice);
        let all = simd.wrapping_dyn_shl_u32s(twice, simd.splat_u32s(14));
        simd.and_u32s(simd.or_u32s(twice, all), simd.splat_u32s(0x0101_0101))
    }

    /// The code whose level is 0, plus 2^23.
    #[inline(always)]
    pub(super) fn zero(self, levels: Levels) -> S::f32s {
        let simd = self.simd;
        let zero = match levels {
            Levels::Signed | Levels::Table(_) => simd.splat_u32s(128),
            Levels::From(zero) => simd.splat_u32s(u32::from(zero)),
            Levels::FromZero => self.bits(HEAD, 0, 15),
        };
        simd.transmute_f32s_u32s(simd.or_u32s(zero, simd.splat_u32s(WHOLE)))
    }

    /// The scale of value `value` of the block, and what is added, as [`Scales`] describes them.
    #[inline(always)]
    pub(super) fn scale(self, scales: Scales, value: usize) -> [S::f32s; 2] {
        let simd = self.simd;
        let none = simd.splat_f32s(0.0);
        match scales {
            Scales::Half { least: false } => [self.half(HEAD, 0), none],
            Scales::Half { least: true } => [self.half(HEAD, 0), self.half(HEAD, 16)],
            Scales::Exponent => [self.half_of_exponent(), none],
            Scales::SixBits => self.six_bits(value / 32),
            Scales::EightBits { .. } => {
                let group = value / GROUP;
                let own = self.bits(HEAD + group / 4, 8 * (group % 4) as u32, 0xFF);
                let own = simd.xor_u32s(own, simd.splat_u32s(0x80));
                let own = self.number(own, 128);
                [simd.mul_f32s(self.half(ALL + 3, 16), own), none]
            }
            Scales::Upper => {
                let bits = self.bits(HEAD, 0, 0x00FF_FFF0);
                let bits = simd.wrapping_dyn_shl_u32s(bits, simd.splat_u32s(8));
                [simd.transmute_f32s_u32s(bits), none]
            }
            Scales::Fp8 => [self.of_row(value / GROUP), none],
        }
    }

    /// A whole number below 2^23, minus another.
    #[inline(always)]
    fn number(self, whole: S::u32s, minus: u32) -> S::f32s {
        let simd = self.simd;
        let whole = simd.or_u32s(whole, simd.splat_u32s(WHOLE));
        let minus = simd.splat_f32s(f32::from_bits(WHOLE | minus));
        simd.sub_f32s(simd.transmute_f32s_u32s(whole), minus)
    }

    /// A number in F16 in a raw word.
    #[inline(always)]
    fn half(self, word: usize, down: u32) -> S::f32s {
        half(self.simd, self.word(word), down)
    }

    /// 2^(e − 128), as a product of two powers that f32 has for every e.
    #[inline(always)]
    fn half_of_exponent(self) -> S::f32s {
        let simd = self.simd;
        let exponent = self.bits(HEAD, 0, 0xFF);
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

    /// The scale and the negative minimum of pair `group` of eight with six bits each.
    #[inline(always)]
    fn six_bits(self, group: usize) -> [S::f32s; 2] {
        let simd = self.simd;
        let lane = 8 * (group % 4) as u32;
        let [scale, least] = if group < 4 {
            [self.bits(HEAD + 1, lane, 63), self.bits(HEAD + 2, lane, 63)]
        } else {
            let scale = self.bits(HEAD + 3, lane, 15);
            let least = self.bits(HEAD + 3, lane + 4, 15);
            [
                simd.or_u32s(scale, self.bits(HEAD + 1, lane + 2, 0x30)),
                simd.or_u32s(least, self.bits(HEAD + 2, lane + 2, 0x30)),
            ]
        };
        let scale = simd.mul_f32s(self.half(HEAD, 0), self.number(scale, 0));
        let least = simd.mul_f32s(self.half(HEAD, 16), self.number(least, 0));
        let sign = simd.splat_u32s(0x8000_0000);
        let negative = simd.xor_u32s(simd.transmute_u32s_f32s(least), sign);
        [scale, simd.transmute_f32s_u32s(negative)]
    }

    /// The scale of a group in a row that has one, too ([`Scales::Fp8`]).
    #[inline(always)]
    fn of_row(self, group: usize) -> S::f32s {
        let simd = self.simd;
        let own = self.bits(HEAD, 8 * group as u32, 0xFF);
        // The bits of half of a number in E4M3 at this place of an f32 are too small by the factor 2^119.
        let bits = simd.and_u32s(own, simd.splat_u32s(0x7F));
        let bits = simd.wrapping_dyn_shl_u32s(bits, simd.splat_u32s(20));
        let half = simd.transmute_f32s_u32s(bits);
        let half = simd.mul_f32s(half, simd.splat_f32s(f32::from_bits(246 << 23)));
        let row = S::as_simd_u32s(&self.square.of_rows).0[self.v];
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

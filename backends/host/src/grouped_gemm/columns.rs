//! Blocks of codes of neighbouring columns, whose bytes lie side by side ([`moebius_ops::blocks::interleaved`]): a byte of each column is widened to
//! a register of words, from which levels and scales are computed.

use crate::vector::Transpose;
use moebius_ops::blocks::interleaved::ROWS;
use moebius_ops::blocks::{Field, GROUP, Layout, Levels, Scales};
use pulp::Simd;

/// Columns whose bytes lie side by side; at most as many as a part of a product has.
pub(super) const ACROSS: usize = ROWS;

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

/// Whether codes are their levels, and have all of their bits in one byte. Then bytes are widened first: to take registers of bytes apart takes longer
/// than the few instructions for words in place of bytes.
pub(super) const fn is_plain(layout: &Layout) -> bool {
    layout.high.is_none() && matches!(layout.levels, Levels::From(0))
}

/// A block of each of [`ACROSS`] columns.
#[derive(Clone, Copy)]
pub(super) struct Blocks<'a> {
    /// The bytes before the blocks of the columns, where there are some.
    pub(super) heads: &'a [Plane],
    /// The bytes of the blocks.
    pub(super) bytes: &'a [Plane],
}

/// Some bits of the sixteen codes of a group: from bit `down` of a byte for each code, or from the bit of its number.
#[derive(Clone, Copy)]
enum Group<'a> {
    Bytes(&'a [Plane; GROUP], u32),
    Bits(&'a [Plane; GROUP / 8]),
}

impl<'a> Group<'a> {
    /// Those of a field from value `first` of the blocks on.
    #[inline(always)]
    fn of(blocks: Blocks<'a>, field: Field, first: usize) -> Self {
        let (byte, down) = field.place(first);
        let bytes = &blocks.bytes[byte..];
        if field.run < GROUP {
            Self::Bits(known(bytes))
        } else {
            Self::Bytes(known(bytes), down)
        }
    }

    /// The bytes with code `value` of the group, and the lowest of its bits.
    #[inline(always)]
    fn place(self, value: usize) -> (&'a Plane, u32) {
        match self {
            Self::Bytes(bytes, down) => (&bytes[value], down),
            Self::Bits(bytes) => (&bytes[value / 8], (value % 8) as u32),
        }
    }

    /// Those of code `value` of the group.
    #[inline(always)]
    fn bits<T: Transpose>(self, transpose: T, field: Field, value: usize) -> Plane {
        let (plane, down) = self.place(value);
        match field.bits {
            8 => *plane,
            bits => transpose.field(*plane, down, 0xFF >> (8 - bits)),
        }
    }
}

/// The first bytes of a block.
#[inline(always)]
fn known<const N: usize>(bytes: &[Plane]) -> &[Plane; N] {
    let Some(bytes) = bytes.first_chunk() else {
        unreachable!("blocks have all bytes of their layout");
    };
    bytes
}

/// The codes of a group, in a layout.
#[derive(Clone, Copy)]
pub(super) struct Codes<'a> {
    low: Group<'a>,
    high: Option<Group<'a>>,
    /// The codes whose level is 0, in their lowest four bits, where each block has its own.
    zeros: &'a Plane,
}

impl<'a> Codes<'a> {
    /// Those from value `first` of the blocks on.
    #[inline(always)]
    pub(super) fn of(blocks: Blocks<'a>, layout: &Layout, first: usize) -> Self {
        let high = layout.high.map(
            #[inline(always)]
            |high| Group::of(blocks, high, first),
        );
        let low = Group::of(blocks, layout.low, first);
        let zeros = &blocks.bytes[0];
        Self { low, high, zeros }
    }

    /// The levels of code `value` of the group, as signed bytes.
    #[inline(always)]
    pub(super) fn levels<T: Transpose>(self, transpose: T, layout: &Layout, value: usize) -> Plane {
        let mut codes = self.low.bits(transpose, layout.low, value);
        if let (Some(high), Some(of)) = (self.high, chosen(layout)) {
            let (plane, bit) = high.place(value);
            return transpose.above(codes, transpose.chosen(*plane, bit, of), 0);
        }
        if let (Some(high), Some(field)) = (self.high, layout.high) {
            let high = high.bits(transpose, field, value);
            codes = transpose.above(codes, high, layout.low.bits);
        }
        match layout.levels {
            Levels::Signed | Levels::From(0) => codes,
            Levels::From(zero) => transpose.minus(codes, [zero; ACROSS]),
            Levels::FromZero => transpose.minus(codes, transpose.field(*self.zeros, 0, 15)),
            Levels::Table(table) => transpose.look_up(codes, table),
            Levels::F16 | Levels::Bf16 => unreachable!("numbers of 16 bits have no levels"),
        }
    }
}

/// The upper bits of the level of a code without its highest bit, if these, and the bits of the code below, are all of the level: of 0 and of 1.
#[inline(always)]
fn chosen(layout: &Layout) -> Option<[u8; 2]> {
    layout.high.filter(|high| high.bits == 1)?;
    let above = 1 << layout.low.bits;
    match layout.levels {
        Levels::From(0) => Some([0, above]),
        Levels::From(zero) if zero == above => Some([zero.wrapping_neg(), 0]),
        _ => None,
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

    /// A byte of each column.
    #[inline(always)]
    fn byte(self, plane: &Plane) -> S::u32s {
        self.transpose.bytes(self.simd, self.own(plane))
    }

    /// The register's columns of a plane.
    #[inline(always)]
    fn own(self, plane: &Plane) -> &[u8] {
        &plane[self.v * S::U32_LANES..][..S::U32_LANES]
    }

    /// Byte `at` of the blocks.
    #[inline(always)]
    fn at(self, at: usize) -> S::u32s {
        self.byte(&self.blocks.bytes[at])
    }

    /// Some bits of words, moved down.
    #[inline(always)]
    fn bits(self, words: S::u32s, down: u32, mask: u32) -> S::u32s {
        let simd = self.simd;
        let moved = simd.wrapping_dyn_shr_u32s(words, simd.splat_u32s(down));
        simd.and_u32s(moved, simd.splat_u32s(mask))
    }

    /// Codes `value` of a group that are [plain](is_plain), as numbers.
    #[inline(always)]
    pub(super) fn plain(self, codes: Codes<'_>, layout: &Layout, value: usize) -> S::f32s {
        let (plane, down) = codes.low.place(value);
        let codes = self.bits(self.byte(plane), down, 0xFF >> (8 - layout.low.bits));
        self.transpose.number(self.simd, codes)
    }

    /// Signed bytes of the register's columns, as numbers.
    #[inline(always)]
    pub(super) fn numbers(self, bytes: &Plane) -> S::f32s {
        self.transpose.signed_bytes(self.simd, self.own(bytes))
    }

    /// Codes `value` of the blocks, which [are numbers](Levels::are_numbers).
    #[inline(always)]
    pub(super) fn of_16_bits(self, layout: &Layout, value: usize) -> S::f32s {
        let simd = self.simd;
        let [low, high] = [self.at(2 * value), self.at(2 * value + 1)];
        if matches!(layout.levels, Levels::F16) {
            return self.transpose.halves(simd, self.word([low, high]), 0);
        }
        let low = simd.wrapping_dyn_shl_u32s(low, simd.splat_u32s(16));
        let high = simd.wrapping_dyn_shl_u32s(high, simd.splat_u32s(24));
        simd.transmute_f32s_u32s(simd.or_u32s(low, high))
    }

    /// The scale of value `value` of the blocks, and what is added, as [`Scales`] describes them.
    #[inline(always)]
    pub(super) fn scale(self, scales: Scales, value: usize) -> [S::f32s; 2] {
        let simd = self.simd;
        let none = simd.splat_f32s(0.0);
        match scales {
            Scales::None => [simd.splat_f32s(1.0), none],
            Scales::Half { least: false } => [self.half(0), none],
            Scales::Half { least: true } => [self.half(0), self.half(2)],
            Scales::Exponent => [self.half_of_exponent(), none],
            Scales::SixBits => self.six_bits(value / 32),
            Scales::EightBits { each, all } => {
                let own = self.numbers(&self.blocks.bytes[each + value / GROUP]);
                [simd.mul_f32s(self.half(all), own), none]
            }
            Scales::Upper => {
                let low = simd.and_u32s(self.at(0), simd.splat_u32s(0xF0));
                let bits = self.word([low, self.at(1), self.at(2)]);
                let bits = simd.wrapping_dyn_shl_u32s(bits, simd.splat_u32s(8));
                [simd.transmute_f32s_u32s(bits), none]
            }
            Scales::Fp8 => [self.of_row(value / GROUP), none],
        }
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
        let word = self.word([self.at(at), self.at(at + 1)]);
        self.transpose.halves(self.simd, word, 0)
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

    /// The scale and the negative minimum of pair `group` of eight with six bits each.
    #[inline(always)]
    fn six_bits(self, group: usize) -> [S::f32s; 2] {
        let (simd, lane) = (self.simd, group % 4);
        let (scale, least) = (self.at(4 + lane), self.at(8 + lane));
        let [scale, least] = if group < 4 {
            [self.bits(scale, 0, 63), self.bits(least, 0, 63)]
        } else {
            let both = self.at(12 + lane);
            [
                simd.or_u32s(self.bits(both, 0, 15), self.bits(scale, 2, 0x30)),
                simd.or_u32s(self.bits(both, 4, 15), self.bits(least, 2, 0x30)),
            ]
        };
        let scale = simd.mul_f32s(self.half(0), self.transpose.number(simd, scale));
        let least = simd.mul_f32s(self.half(2), self.transpose.number(simd, least));
        let sign = simd.splat_u32s(0x8000_0000);
        let negative = simd.xor_u32s(simd.transmute_u32s_f32s(least), sign);
        [scale, simd.transmute_f32s_u32s(negative)]
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
        let [a, b, c, d] = known(self.blocks.heads);
        let row = self.word([self.byte(a), self.byte(b), self.byte(c), self.byte(d)]);
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

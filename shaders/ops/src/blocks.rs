//! Weights as blocks of codes with scales, in the bytes that GGUF files have (what ggml calls quantized types), and those of 4 bits of GPTQ,
//! AWQ, compressed-tensors and ModelOpt, whose codes, scale and zero of a group, or two of NVFP4's groups, become a block.
//!
//! A row of a matrix consists of whole blocks of 16 to 256 values. The value of a code is scale · level, plus an offset in formats that
//! have one. [`BlockFormat::layout`] describes every format in the same words: where the bits of the codes lie ([`Field`]), which level
//! a code has ([`Levels`]), and how scales are stored ([`Scales`]). Devices keep these bytes as they are, each row padded to whole words of 32
//! bits. A row may begin with a word of its own before its blocks, which holds a scale ([`BlockFormat::head`]). On processors
//! neighbouring rows lie side by side ([`interleaved`]).
//!
//! A scale has at most 18 significant bits, and a level so few that their product is exact in f32. An offset is therefore added with
//! one rounding, whether or not a compiler fuses the two, and all devices that keep subnormal numbers decode the same bits, which are
//! those of ggml.
//!
//! Numbers of 16 bits, of F16 and BF16, are such codes, too: they are their own levels, without a scale.
//!
//! Only the scales of NVFP4 have all 24 bits: they are products themselves, of a number in E4M3 and a scale of the row. That product is rounded, and
//! so is its product with a level. An addition of integers to the bits of the first ([`Scales::Fp8`]) stands between the two, so that no
//! compiler can multiply in another order.

use crate::error::Mismatch;
use crate::fp8::{LANES_PER_WORD, pack};
use half::{bf16, f16};
use serde::{Deserialize, Serialize};
use std::ops::Range;

pub mod interleaved;

named! {
    /// A format of blocks, by ggml's name in lower case where ggml has it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum BlockFormat {
        /// 32 codes of 8 bits, and a scale.
        #[serde(rename = "q8_0")]
        Q8_0 = "q8_0",
        /// 32 codes of 4 bits with offset 8, and a scale.
        #[serde(rename = "q4_0")]
        Q4_0 = "q4_0",
        /// 32 codes of 4 bits, a scale and a minimum.
        #[serde(rename = "q4_1")]
        Q4_1 = "q4_1",
        /// 32 codes of 5 bits with offset 16, and a scale.
        #[serde(rename = "q5_0")]
        Q5_0 = "q5_0",
        /// 32 codes of 5 bits, a scale and a minimum.
        #[serde(rename = "q5_1")]
        Q5_1 = "q5_1",
        /// 8 × 32 codes of 4 bits, with scales and minima of 6 bits.
        #[serde(rename = "q4_k")]
        Q4K = "q4_k",
        /// 8 × 32 codes of 5 bits, with scales and minima of 6 bits.
        #[serde(rename = "q5_k")]
        Q5K = "q5_k",
        /// 16 × 16 codes of 6 bits with offset 32, with scales of 8 bits.
        #[serde(rename = "q6_k")]
        Q6K = "q6_k",
        /// 32 codes of 4 bits that index a table of non-uniform values, and a scale.
        #[serde(rename = "iq4_nl")]
        Iq4Nl = "iq4_nl",
        /// 32 values in E2M1, and a scale in E8M0.
        Mxfp4 = "mxfp4",
        /// 32 codes of 4 bits, a zero of 4 bits and a scale of 20.
        Int4_32 = "int4_32",
        /// 64 codes of 4 bits, a zero of 4 bits and a scale of 20.
        Int4_64 = "int4_64",
        /// 128 codes of 4 bits, a zero of 4 bits and a scale of 20.
        Int4_128 = "int4_128",
        /// 2 × 16 values in E2M1, each with a scale in E4M3, and a scale for each row.
        Nvfp4 = "nvfp4",
        /// 16 numbers in F16.
        F16 = "f16",
        /// 16 numbers in BF16.
        Bf16 = "bf16",
    }
}

/// Values that share a scale in every format, and whose codes lie in neighbouring bytes or in neighbouring bits.
pub const GROUP: usize = 16;

/// Values of the 16 codes of IQ4_NL, in finer steps around 0.
pub const UNEVEN: [i8; 16] = [
    -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113,
];

/// Twice the values of the 16 codes of E2M1 (OCP MX, 2023); ggml has no −0.
pub const TWICE_E2M1: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// The values of codes in E2M1 times `scale`, the first code of a byte in its low half. −0 stays what it is.
pub fn e2m1_values(codes: &[u8], scale: f32) -> impl Iterator<Item = f32> {
    let halves = codes.iter().flat_map(|byte| [byte & 15, byte >> 4]);
    halves.map(move |code| {
        let value = f32::from(TWICE_E2M1[usize::from(code & 7)]) / 2.0 * scale;
        if code & 8 == 0 { value } else { -value }
    })
}

/// How the blocks of a format lie in memory. Places are bytes, counted from the first of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Values per block.
    pub values: usize,
    /// Bytes per block.
    pub bytes: usize,
    /// The codes, or their low bits.
    pub low: Field,
    /// The bits of the codes above those.
    pub high: Option<Field>,
    /// The numbers that codes stand for.
    pub levels: Levels,
    /// What levels are multiplied by, and what is added to them.
    pub scales: Scales,
}

/// Some bits of every code. A byte has those of values that lie `run` apart, the first in its lowest bits; `run` such bytes, which have
/// the codes of neighbouring values, lie side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// The first byte.
    pub at: usize,
    /// Bits of a code: 1, 2, 4 or 8, or 16 of codes that [are numbers](Levels::are_numbers), which take two bytes each.
    pub bits: u32,
    /// Neighbouring values in neighbouring bytes: a multiple of [`GROUP`], or 1 for values in neighbouring bits.
    pub run: usize,
}

impl Field {
    /// Values with bits in the same byte.
    pub const fn per_byte(self) -> usize {
        8 / self.bits as usize
    }

    /// The byte and the lowest bit of value `value` of a block.
    #[inline(always)]
    pub const fn place(self, value: usize) -> (usize, u32) {
        let across = self.run * self.per_byte();
        let byte = self.at + value / across * self.run + value % self.run;
        (
            byte,
            self.bits * (value / self.run % self.per_byte()) as u32,
        )
    }

    /// A code's bits, the lowest ones.
    #[inline(always)]
    const fn mask(self) -> u8 {
        (0xFF_u32 >> (8 - self.bits)) as u8
    }

    /// The bits of the group of values from `first` on.
    #[inline(always)]
    fn of_group(self, block: &[u8], first: usize) -> [u8; GROUP] {
        let (byte, shift) = self.place(first);
        let mask = self.mask();
        if self.run < GROUP {
            let bytes = &block[byte..][..GROUP / 8];
            return std::array::from_fn(|lane| bytes[lane / 8] >> (lane % 8) & mask);
        }
        let bytes = &block[byte..][..GROUP];
        std::array::from_fn(|lane| bytes[lane] >> shift & mask)
    }

    /// Puts bits of all codes of a block, from bit `from` of each on, where [`Field::of_group`] reads them, whatever was there.
    #[inline]
    fn put(self, codes: &[u8], from: u32, block: &mut [u8]) {
        let bytes = block[self.at..].chunks_mut(self.run);
        let codes = codes.chunks(self.run * self.per_byte());
        for (codes, bytes) in codes.zip(bytes) {
            bytes.fill(0);
            for (at, codes) in codes.chunks(self.run).enumerate() {
                let shift = self.bits * at as u32;
                for (byte, code) in bytes.iter_mut().zip(codes) {
                    *byte |= (code >> from & self.mask()) << shift;
                }
            }
        }
    }
}

impl Layout {
    /// The bytes of a block that have bits of codes, which are whole words.
    pub const fn code_bytes(&self) -> Range<usize> {
        let of_low = self.values * self.low.bits as usize / 8;
        let (mut start, mut end) = (self.low.at, self.low.at + of_low);
        if let Some(high) = self.high {
            if high.at < start {
                start = high.at;
            } else {
                end += self.values * high.bits as usize / 8;
            }
        }
        start..end
    }

    /// Bytes that are read together where byte `at` of a block is the first of some: a word of codes or of scales of 6 bits, a number of 16 bits, or a byte.
    pub const fn unit(&self, at: usize) -> usize {
        let Range { start, end } = self.code_bytes();
        if start <= at && at < end {
            return match self.levels {
                Levels::F16 => 2,
                _ => LANES_PER_WORD,
            };
        }
        match self.scales {
            Scales::Half { least: false } if at < 2 => 2,
            Scales::Half { least: true } | Scales::SixBits if at < 4 => 2,
            Scales::SixBits => LANES_PER_WORD,
            Scales::EightBits { all, .. } if at == all => 2,
            _ => 1,
        }
    }

    /// The codes of the group of values from `first` on.
    #[inline(always)]
    fn codes(&self, block: &[u8], first: usize) -> [u8; GROUP] {
        let mut codes = self.low.of_group(block, first);
        if let Some(high) = self.high {
            let upper = high.of_group(block, first);
            for (code, upper) in codes.iter_mut().zip(upper) {
                *code |= upper << self.low.bits;
            }
        }
        codes
    }

    /// Puts the codes of all values of a block, in the order of the values, into its bytes. Those of the scales stay as they are. Codes have at most 8 bits.
    #[inline]
    pub fn put(&self, codes: &[u8], block: &mut [u8]) {
        self.low.put(codes, 0, block);
        if let Some(high) = self.high {
            high.put(codes, self.low.bits, block);
        }
    }
}

/// The numbers that codes stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Levels {
    /// The code as a signed number of 8 bits.
    Signed,
    /// The code minus a number.
    From(u8),
    /// The code minus a number of its block: the low four bits of the first byte.
    FromZero,
    /// A table of the 16 codes of 4 bits.
    Table([i8; 16]),
    /// The code as a number in F16, which is the value.
    F16,
    /// The code as a number in BF16, which is the value.
    Bf16,
}

impl Levels {
    /// Whether codes are numbers of 16 bits, those of a block one after the other and nothing else: they are the values.
    pub const fn are_numbers(self) -> bool {
        matches!(self, Self::F16 | Self::Bf16)
    }

    /// The value of a code that [is a number](Self::are_numbers).
    #[inline(always)]
    fn number(self, code: [u8; 2]) -> f32 {
        match self {
            Self::F16 => f16::from_le_bytes(code).to_f32(),
            _ => bf16::from_le_bytes(code).to_f32(),
        }
    }

    /// The code whose level is 0, where levels are differences from one.
    #[inline(always)]
    fn zero(self, block: &[u8]) -> f32 {
        match self {
            Self::From(zero) => f32::from(zero),
            Self::FromZero => f32::from(block[0] & 15),
            Self::Signed | Self::Table(_) | Self::F16 | Self::Bf16 => 0.0,
        }
    }

    #[inline(always)]
    fn level(self, code: u8, zero: f32) -> f32 {
        match self {
            Self::Signed => f32::from(code.cast_signed()),
            Self::From(_) | Self::FromZero => f32::from(code) - zero,
            Self::Table(table) => f32::from(table[usize::from(code & 15)]),
            Self::F16 | Self::Bf16 => unreachable!("numbers of 16 bits have no levels"),
        }
    }
}

/// What the levels of a block are multiplied by, and what is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scales {
    /// Nothing: levels are values.
    None,
    /// A scale in F16 at the beginning, and, if `least`, a number in F16 after it that is added.
    Half {
        /// Whether there is such a number.
        least: bool,
    },
    /// The exponent of half of a scale at the beginning: 2^(e − 128). The largest exponent is no NaN, in ggml.
    Exponent,
    /// Two numbers in F16, and eight scales and minima of 6 bits in the twelve bytes after them, each pair for 32 values: a scale is a
    /// product of the first number, and what is subtracted one of the second.
    SixBits,
    /// Signed scales of 8 bits for 16 values each, from byte `each` on, times a number in F16 at `all`.
    EightBits {
        /// The first scale.
        each: usize,
        /// What all of them are multiplied by.
        all: usize,
    },
    /// The upper 20 bits of a number in f32, which hold every number in F16 and in BF16: the upper four bits of the first byte, and the two bytes
    /// after it.
    Upper,
    /// Halves of scales in E4M3 for 16 values each, from the first byte on, times a scale in f32 of the row, which is the word before its blocks
    /// without the sign. E4M3 takes seven bits, of which 0x7F is 480 and no NaN. The eighth adds 1 to the bits of the product, or subtracts it
    /// where the row's word has a sign; that of a scale of 0 is 0.
    ///
    /// A file that divides its scales by a number has quotients that one number in f32 can't replace: of the products with its reciprocal,
    /// rounded, some are neighbours of the quotients, but all on the same side.
    Fp8,
}

impl Scales {
    /// Whether something is added to the products.
    pub const fn has_offsets(self) -> bool {
        matches!(self, Self::Half { least: true } | Self::SixBits)
    }

    /// Whether rows begin with a scale of their own.
    pub const fn has_rows(self) -> bool {
        matches!(self, Self::Fp8)
    }

    /// The scale of value `value` of a block and the group around it, and what is added. `head` is the word before the blocks of the row.
    #[inline(always)]
    fn of_value(self, head: u32, block: &[u8], value: usize) -> [f32; 2] {
        let half = |at: usize| f16::from_le_bytes([block[at], block[at + 1]]).to_f32();
        match self {
            Self::None => [1.0, 0.0],
            Self::Half { least } => [half(0), if least { half(2) } else { 0.0 }],
            Self::Exponent => [half_of_exponent(block[0]), 0.0],
            Self::SixBits => {
                let [scale, least] = six_bits(&block[4..16], value / 32);
                [half(0) * f32::from(scale), -(half(2) * f32::from(least))]
            }
            Self::EightBits { each, all } => {
                let scale = f32::from(block[each + value / GROUP].cast_signed());
                [half(all) * scale, 0.0]
            }
            Self::Upper => {
                let bytes = [0, block[0] & 0xF0, block[1], block[2]];
                [f32::from_le_bytes(bytes), 0.0]
            }
            Self::Fp8 => [of_row(head, block[value / GROUP]), 0.0],
        }
    }
}

/// The scale of a group whose byte is `own`, in a row that begins with `head` ([`Scales::Fp8`]).
#[inline(always)]
fn of_row(head: u32, own: u8) -> f32 {
    let product = half_of_e4m3(own & 0x7F) * f32::from_bits(head & 0x7FFF_FFFF);
    let (bits, moved) = (product.to_bits(), u32::from(own >> 7));
    f32::from_bits(if head >> 31 == 0 {
        bits.wrapping_add(moved)
    } else {
        bits.wrapping_sub(moved)
    })
}

/// Half of a number in E4M3 without a sign, for a table with twice the values; 0x7F is 480.
const fn half_of_e4m3(code: u8) -> f32 {
    match code {
        // These are subnormal in E4M3.
        0..8 => code as f32 / 1024.0,
        _ => f32::from_bits(((code as u32) << 20) + (119 << 23)),
    }
}

/// 2^(exponent − 128), half of a scale in E8M0, for a table with twice the values.
pub const fn half_of_exponent(exponent: u8) -> f32 {
    let exponent = exponent as u32;
    f32::from_bits(match exponent {
        // These are subnormal.
        0 | 1 => 0x0020_0000 << exponent,
        _ => (exponent - 1) << 23,
    })
}

/// The scale and the minimum of pair `group` of eight, with six bits each, from 12 bytes. For the last four pairs, the upper two bits lie
/// in the bytes of the first four.
#[inline(always)]
pub fn six_bits(packed: &[u8], group: usize) -> [u8; 2] {
    let lane = group % 4;
    let [scale, least, both] = [packed[lane], packed[lane + 4], packed[lane + 8]];
    if group < 4 {
        [scale & 63, least & 63]
    } else {
        [both & 15 | scale >> 6 << 4, both >> 4 | least >> 6 << 4]
    }
}

const fn field(at: usize, bits: u32, run: usize) -> Field {
    Field { at, bits, run }
}

/// The layout of a block of numbers of 16 bits.
const fn numbers(levels: Levels) -> Layout {
    Layout {
        values: GROUP,
        bytes: 2 * GROUP,
        low: field(0, 16, GROUP),
        high: None,
        levels,
        scales: Scales::None,
    }
}

/// The layout of a block of integers of four bits: a zero and a scale, and the codes after them.
const fn int4(values: usize) -> Layout {
    Layout {
        values,
        bytes: 3 + values / 2,
        low: field(3, 4, 16),
        high: None,
        levels: Levels::FromZero,
        scales: Scales::Upper,
    }
}

impl BlockFormat {
    /// How blocks of this format lie in memory.
    pub const fn layout(self) -> Layout {
        use Levels::{From, Signed, Table};
        const fn of(
            [values, bytes]: [usize; 2],
            low: Field,
            high: Option<Field>,
            levels: Levels,
            scales: Scales,
        ) -> Layout {
            Layout {
                values,
                bytes,
                low,
                high,
                levels,
                scales,
            }
        }
        const E2M1: Levels = Table(TWICE_E2M1);
        const SCALE: Scales = Scales::Half { least: false };
        const AND_LEAST: Scales = Scales::Half { least: true };
        const LAST: Scales = Scales::EightBits {
            each: 192,
            all: 208,
        };
        match self {
            Self::Q8_0 => of([32, 34], field(2, 8, 32), None, Signed, SCALE),
            Self::Q4_0 => of([32, 18], field(2, 4, 16), None, From(8), SCALE),
            Self::Q4_1 => of([32, 20], field(4, 4, 16), None, From(0), AND_LEAST),
            Self::Q5_0 => {
                let high = Some(field(2, 1, 1));
                of([32, 22], field(6, 4, 16), high, From(16), SCALE)
            }
            Self::Q5_1 => {
                let high = Some(field(4, 1, 1));
                of([32, 24], field(8, 4, 16), high, From(0), AND_LEAST)
            }
            Self::Q4K => {
                let low = field(16, 4, 32);
                of([256, 144], low, None, From(0), Scales::SixBits)
            }
            Self::Q5K => {
                let (low, high) = (field(48, 4, 32), Some(field(16, 1, 32)));
                of([256, 176], low, high, From(0), Scales::SixBits)
            }
            Self::Q6K => {
                let (low, high) = (field(0, 4, 64), Some(field(128, 2, 32)));
                of([256, 210], low, high, From(32), LAST)
            }
            Self::Iq4Nl => of([32, 18], field(2, 4, 16), None, Table(UNEVEN), SCALE),
            Self::Mxfp4 => of([32, 17], field(1, 4, 16), None, E2M1, Scales::Exponent),
            Self::Int4_32 => int4(32),
            Self::Int4_64 => int4(64),
            Self::Int4_128 => int4(128),
            Self::Nvfp4 => of([32, 18], field(2, 4, 16), None, E2M1, Scales::Fp8),
            Self::F16 => numbers(Levels::F16),
            Self::Bf16 => numbers(Levels::Bf16),
        }
    }

    /// Checks that rows of `k` values are whole blocks.
    ///
    /// # Errors
    /// [`Mismatch`] if they aren't.
    pub fn check(self, k: usize) -> Result<(), Mismatch> {
        let values = self.layout().values;
        let expected = format_args!("a multiple of {values} for {self}");
        Mismatch::unless(k.is_multiple_of(values), "row of blocks", expected, k)
    }

    /// The words before the blocks of every row: one in formats whose rows have a scale, else none.
    pub const fn head(self) -> usize {
        self.layout().scales.has_rows() as usize
    }

    /// The bytes of the blocks of a row of `k` values and of what is before them, without padding.
    pub const fn row_bytes(self, k: usize) -> usize {
        let Layout { values, bytes, .. } = self.layout();
        LANES_PER_WORD * self.head() + k / values * bytes
    }

    /// The words of a row of `k` values.
    pub const fn row_words(self, k: usize) -> usize {
        self.row_bytes(k).div_ceil(LANES_PER_WORD)
    }

    /// Pads rows of `k` values, in the bytes of a file, to whole words.
    ///
    /// # Errors
    /// [`Mismatch`] for rows that aren't whole blocks, and bytes that aren't whole rows.
    pub fn to_words(self, bytes: &[u8], k: usize) -> Result<Vec<u32>, Mismatch> {
        self.check(k)?;
        let row = self.row_bytes(k).max(1);
        let expected = format_args!("whole rows of {row}");
        let whole = bytes.len().is_multiple_of(row);
        Mismatch::unless(whole, "bytes of blocks", expected, bytes.len())?;
        // A growing vector would take up to twice the memory of a large weight.
        let mut words = Vec::with_capacity(bytes.len() / row * self.row_words(k));
        for row in bytes.chunks(row) {
            let (whole, rest) = row.as_chunks::<LANES_PER_WORD>();
            words.extend(whole.iter().map(|bytes| u32::from_le_bytes(*bytes)));
            words.extend(pack(rest));
        }
        Ok(words)
    }

    /// Decodes rows of `k` values from their words.
    pub fn decoded(self, words: &[u32], k: usize) -> Vec<f32> {
        let rows = words.chunks_exact(self.row_words(k).max(1));
        let mut values = vec![0.0; rows.len() * k];
        for (words, values) in rows.zip(values.chunks_exact_mut(k.max(1))) {
            let (head, words) = words.split_at(self.head());
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            self.decode(head.first().copied().unwrap_or(0), &bytes, 0, values);
        }
        values
    }

    /// Decodes values from value `first` on of the blocks that `bytes` begins with. Both ends are those of groups of [`GROUP`] values. `head` is the
    /// word before the blocks of the row, where there is one ([`BlockFormat::head`]).
    #[inline(always)]
    pub fn decode(self, head: u32, bytes: &[u8], first: usize, out: &mut [f32]) {
        macro_rules! by_format {
            ($($format:ident)*) => {
                match self {
                    // Sizes that the compiler knows make loops of vector instructions.
                    $(Self::$format => decode(&const { Self::$format.layout() }, head, bytes, first, out),)*
                }
            };
        }
        by_format!(Q8_0 Q4_0 Q4_1 Q5_0 Q5_1 Q4K Q5K Q6K Iq4Nl Mxfp4 Int4_32 Int4_64 Int4_128 Nvfp4 F16 Bf16);
    }
}

/// Does what [`BlockFormat::decode`] does for a layout.
#[inline(always)]
fn decode(layout: &Layout, head: u32, bytes: &[u8], first: usize, out: &mut [f32]) {
    for (group, out) in out.as_chunks_mut::<GROUP>().0.iter_mut().enumerate() {
        let value = first + GROUP * group;
        let block = &bytes[value / layout.values * layout.bytes..][..layout.bytes];
        if layout.levels.are_numbers() {
            for (out, code) in out.iter_mut().zip(block.as_chunks().0) {
                *out = layout.levels.number(*code);
            }
            continue;
        }
        let value = value % layout.values;
        let [scale, offset] = layout.scales.of_value(head, block, value);
        let zero = layout.levels.zero(block);
        for (out, code) in out.iter_mut().zip(layout.codes(block, value)) {
            let value = scale * layout.levels.level(code, zero);
            // The sum with 0 would lose the sign of a zero.
            *out = if layout.scales.has_offsets() {
                value + offset
            } else {
                value
            };
        }
    }
}

#[cfg(test)]
#[path = "blocks_tests.rs"]
mod tests;

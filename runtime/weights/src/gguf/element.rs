//! Types of GGUF tensors, by their numbers in a file, and the decoding of their blocks, which encoding is judged by.
//!
//! The formats are those of ggml; [`moebius_ops::blocks`] decodes those in which devices keep weights. A 4-bit code in the low half of a byte
//! belongs to the first half of its group, and one in the high half to the second. Scales are multiplied in the same order as in ggml, so
//! that values are equal bit for bit.

use std::fmt;

use half::f16;
use moebius_ops::blocks::{BlockFormat, UNEVEN};

use crate::widen::halves;

/// Type of a tensor in a GGUF file: its values are stored in blocks along the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GgmlType {
    name: &'static str,
    number: u32,
    /// Values per block.
    pub(super) values: usize,
    /// Bytes per block.
    pub(super) bytes: usize,
}

/// Types that can be decoded.
pub const DECODED: &[GgmlType] = &[
    GgmlType::F32,
    GgmlType::F16,
    GgmlType::BF16,
    GgmlType::Q8_0,
    GgmlType::Q4_0,
    GgmlType::Q4_1,
    GgmlType::Q5_0,
    GgmlType::Q5_1,
    GgmlType::Q2_K,
    GgmlType::Q3_K,
    GgmlType::Q4_K,
    GgmlType::Q5_K,
    GgmlType::Q6_K,
    GgmlType::TQ1_0,
    GgmlType::TQ2_0,
    GgmlType::IQ4_NL,
    GgmlType::IQ4_XS,
    GgmlType::MXFP4,
];

/// Types of which only the sizes are known, so that an error can name the type of a file that can't be loaded.
const OTHERS: &[GgmlType] = &[
    kind("Q8_K", 15, 256, 292),
    kind("IQ2_XXS", 16, 256, 66),
    kind("IQ2_XS", 17, 256, 74),
    kind("IQ3_XXS", 18, 256, 98),
    kind("IQ1_S", 19, 256, 50),
    kind("IQ3_S", 21, 256, 110),
    kind("IQ2_S", 22, 256, 82),
    kind("I8", 24, 1, 1),
    kind("I16", 25, 1, 2),
    kind("I32", 26, 1, 4),
    kind("I64", 27, 1, 8),
    kind("F64", 28, 1, 8),
    kind("IQ1_M", 29, 256, 56),
    kind("NVFP4", 40, 64, 36),
    kind("Q1_0", 41, 128, 18),
];

const fn kind(name: &'static str, number: u32, values: usize, bytes: usize) -> GgmlType {
    GgmlType {
        name,
        number,
        values,
        bytes,
    }
}

#[allow(
    non_upper_case_globals,
    reason = "the names that the format gives to its types"
)]
impl GgmlType {
    /// Floating point of 32 bits, IEEE 754.
    pub const F32: Self = kind("F32", 0, 1, 4);
    /// Floating point of 16 bits, IEEE 754.
    pub const F16: Self = kind("F16", 1, 1, 2);
    /// The upper 16 bits of F32.
    pub const BF16: Self = kind("BF16", 30, 1, 2);
    /// 32 codes of 8 bits, and a scale.
    pub const Q8_0: Self = kind("Q8_0", 8, 32, 34);
    /// 32 codes of 4 bits with offset 8, and a scale.
    pub const Q4_0: Self = kind("Q4_0", 2, 32, 18);
    /// 32 codes of 4 bits, a scale and a minimum.
    pub const Q4_1: Self = kind("Q4_1", 3, 32, 20);
    /// 32 codes of 5 bits with offset 16, and a scale.
    pub const Q5_0: Self = kind("Q5_0", 6, 32, 22);
    /// 32 codes of 5 bits, a scale and a minimum.
    pub const Q5_1: Self = kind("Q5_1", 7, 32, 24);
    /// 16 × 16 codes of 2 bits, with scales and minima of 4 bits.
    pub const Q2_K: Self = kind("Q2_K", 10, 256, 84);
    /// 16 × 16 codes of 3 bits with offset 4, with scales of 6 bits.
    pub const Q3_K: Self = kind("Q3_K", 11, 256, 110);
    /// 8 × 32 codes of 4 bits, with scales and minima of 6 bits.
    pub const Q4_K: Self = kind("Q4_K", 12, 256, 144);
    /// 8 × 32 codes of 5 bits, with scales and minima of 6 bits.
    pub const Q5_K: Self = kind("Q5_K", 13, 256, 176);
    /// 16 × 16 codes of 6 bits, with scales of 8 bits.
    pub const Q6_K: Self = kind("Q6_K", 14, 256, 210);

    /// 256 values of −1, 0 or 1, five in a byte, and a scale.
    pub const TQ1_0: Self = kind("TQ1_0", 34, 256, 54);
    /// 256 values of −1, 0 or 1 in 2 bits, and a scale.
    pub const TQ2_0: Self = kind("TQ2_0", 35, 256, 66);
    /// 32 codes of 4 bits that index a table of non-uniform values, and a scale.
    pub const IQ4_NL: Self = kind("IQ4_NL", 20, 32, 18);
    /// 8 × 32 codes like those of [`IQ4_NL`](Self::IQ4_NL), with scales of 6 bits.
    pub const IQ4_XS: Self = kind("IQ4_XS", 23, 256, 136);
    /// 32 values in E2M1, and a scale in E8M0.
    pub const MXFP4: Self = kind("MXFP4", 39, 32, 17);

    pub(super) fn of(number: u32) -> Option<Self> {
        let mut all = DECODED.iter().chain(OTHERS);
        all.find(|kind| kind.number == number).copied()
    }

    /// The type with this name that can be decoded, whatever the case of its letters.
    pub fn named(name: &str) -> Option<Self> {
        let mut all = DECODED.iter();
        all.find(|kind| kind.name.eq_ignore_ascii_case(name))
            .copied()
    }

    /// The type's number in a file.
    pub(super) fn number(self) -> u32 {
        self.number
    }

    /// Name of the type in the GGUF format.
    pub const fn name(self) -> &'static str {
        self.name
    }

    /// The format of this type's blocks, if devices keep weights in it.
    pub fn blocks(self) -> Option<BlockFormat> {
        let mut all = BlockFormat::ALL.into_iter();
        all.find(|format| Self::of_blocks(*format) == Some(self))
    }

    /// The type whose blocks have this format; `None` for formats that GGUF doesn't know.
    pub const fn of_blocks(format: BlockFormat) -> Option<Self> {
        Some(match format {
            BlockFormat::Q8_0 => Self::Q8_0,
            BlockFormat::Q4_0 => Self::Q4_0,
            BlockFormat::Q4_1 => Self::Q4_1,
            BlockFormat::Q5_0 => Self::Q5_0,
            BlockFormat::Q5_1 => Self::Q5_1,
            BlockFormat::Q4K => Self::Q4_K,
            BlockFormat::Q5K => Self::Q5_K,
            BlockFormat::Q6K => Self::Q6_K,
            BlockFormat::Iq4Nl => Self::IQ4_NL,
            BlockFormat::Mxfp4 => Self::MXFP4,
            BlockFormat::F16 => Self::F16,
            BlockFormat::Bf16 => Self::BF16,
            BlockFormat::Int4_32 | BlockFormat::Int4_64 | BlockFormat::Int4_128 => return None,
            // GGUF's NVFP4 has blocks of 64 values, and its scale of all in another tensor.
            BlockFormat::Nvfp4 => return None,
        })
    }

    /// Whether values of this type can be decoded.
    pub fn is_decoded(self) -> bool {
        DECODED.contains(&self)
    }

    /// Bytes of this many values, which must be whole blocks; `None` where they aren't, or where the size overflows 64 bits.
    pub(super) fn size(self, values: u64) -> Option<u64> {
        let blocks = values / self.values as u64;
        let whole = values.is_multiple_of(self.values as u64);
        whole
            .then(|| blocks.checked_mul(self.bytes as u64))
            .flatten()
    }
}

impl fmt::Display for GgmlType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Decodes whole blocks of a decodable type to `out`, which must have the exact length.
pub(super) fn decode(kind: GgmlType, bytes: &[u8], out: &mut [f32]) {
    match kind {
        GgmlType::F32 => {
            for (four, out) in bytes.as_chunks::<4>().0.iter().zip(out) {
                *out = f32::from_le_bytes(*four);
            }
        }
        GgmlType::F16 => halves(bytes, out),
        GgmlType::BF16 => {
            for (pair, out) in bytes.as_chunks::<2>().0.iter().zip(out) {
                *out = f32::from_bits(u32::from(u16::from_le_bytes(*pair)) << 16);
            }
        }
        GgmlType::Q2_K => blocks(bytes, out, q2_k),
        GgmlType::Q3_K => blocks(bytes, out, q3_k),
        GgmlType::TQ1_0 => blocks(bytes, out, tq1_0),
        GgmlType::TQ2_0 => blocks(bytes, out, tq2_0),
        GgmlType::IQ4_XS => blocks(bytes, out, iq4_xs),
        other => match other.blocks() {
            Some(format) => format.decode(0, bytes, 0, out),
            None => unreachable!("{other} isn't among those that are read"),
        },
    }
}

/// Decodes blocks of `BYTES` bytes to `VALUES` values each; sizes that the compiler knows need no bounds checks inside.
fn blocks<const BYTES: usize, const VALUES: usize>(
    bytes: &[u8],
    out: &mut [f32],
    block: impl Fn(&[u8; BYTES], &mut [f32; VALUES]),
) {
    let (bytes, out) = (bytes.as_chunks().0, out.as_chunks_mut().0);
    for (bytes, out) in bytes.iter().zip(out) {
        block(bytes, out);
    }
}

fn half(low: u8, high: u8) -> f32 {
    f16::from_le_bytes([low, high]).to_f32()
}

/// Decodes 2-bit codes. Each byte holds one code of each of four groups of 32, and each half of a group has a scale and a minimum of four
/// bits.
fn q2_k(block: &[u8; 84], out: &mut [f32; 256]) {
    let (scales, rest) = block.split_at(16);
    let (codes, rest) = rest.split_at(64);
    let (d, least) = (half(rest[0], rest[1]), half(rest[2], rest[3]));
    let codes = codes.as_chunks::<32>().0.iter();
    let scales = scales.as_chunks::<8>().0.iter();
    for ((codes, scales), out) in codes.zip(scales).zip(out.as_chunks_mut::<128>().0) {
        for (i, out) in out.iter_mut().enumerate() {
            let scale = scales[i / 16];
            let code = codes[i % 32] >> (i / 32 * 2) & 3;
            *out = d * f32::from(scale & 15) * f32::from(code) - least * f32::from(scale >> 4);
        }
    }
}

/// Decodes 3-bit codes with offset 4: the low two bits lie as in [`q2_k`], the third of group g in bit g of 32 bytes. Scales have six bits
/// with offset 32: the low four lie in halves of eight bytes, the upper two in four more bytes.
fn q3_k(block: &[u8; 110], out: &mut [f32; 256]) {
    let (third, rest) = block.split_at(32);
    let (codes, rest) = rest.split_at(64);
    let (packed, d) = (&rest[..12], half(rest[12], rest[13]));
    let factors: [f32; 16] = std::array::from_fn(|i| {
        let low = packed[i % 8] >> (i / 8 * 4) & 15;
        let upper = packed[8 + i % 4] >> (i / 4 * 2) & 3;
        d * (f32::from(low | upper << 4) - 32.0)
    });
    for (i, out) in out.iter_mut().enumerate() {
        let (group, lane) = (i / 32, i % 32);
        let low = codes[i / 128 * 32 + lane] >> (group % 4 * 2) & 3;
        let code = low | (third[lane] >> group & 1) << 2;
        *out = factors[i / 16] * (f32::from(code) - 4.0);
    }
}

/// Decodes digits of base 3, minus 1. A byte holds a fraction of 256 whose first digits of base 3 are the values: those of 32 bytes come first,
/// then those of 16, then four digits each of the last four bytes.
fn tq1_0(block: &[u8; 54], out: &mut [f32; 256]) {
    let d = half(block[52], block[53]);
    let parts = [(0..32, 5), (32..48, 5), (48..52, 4)];
    let mut at = 0;
    for (bytes, digits) in parts {
        let mut power = 1_u8;
        for _ in 0..digits {
            for &byte in &block[bytes.clone()] {
                let rest = u16::from(byte.wrapping_mul(power));
                out[at] = d * (f32::from((rest * 3) >> 8) - 1.0);
                at += 1;
            }
            power = power.wrapping_mul(3);
        }
    }
}

/// Decodes 2-bit codes with offset 1, which lie as in [`q2_k`].
fn tq2_0(block: &[u8; 66], out: &mut [f32; 256]) {
    let d = half(block[64], block[65]);
    for (i, out) in out.iter_mut().enumerate() {
        let code = block[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
        *out = d * (f32::from(code) - 1.0);
    }
}

/// Decodes 32 codes of 4 bits by a table of their values, times `factor`.
fn looked_up(table: &[i8; 16], factor: f32, codes: &[u8], out: &mut [f32]) {
    let (low, high) = out.split_at_mut(16);
    for ((code, low), high) in codes.iter().zip(low).zip(high) {
        *low = factor * f32::from(table[usize::from(code & 15)]);
        *high = factor * f32::from(table[usize::from(code >> 4)]);
    }
}

/// Decodes eight groups with scales of six bits with offset 32: the low four bits lie in halves of four bytes, the upper two in the 16-bit
/// word before these.
fn iq4_xs(block: &[u8; 136], out: &mut [f32; 256]) {
    let d = half(block[0], block[1]);
    let (upper, low) = (u16::from_le_bytes([block[2], block[3]]), &block[4..8]);
    let codes = block[8..].as_chunks::<16>().0.iter();
    for (group, (codes, out)) in codes.zip(out.as_chunks_mut::<32>().0).enumerate() {
        let low = u16::from(low[group / 2] >> (group % 2 * 4) & 15);
        let scale = f32::from(low | (upper >> (2 * group) & 3) << 4) - 32.0;
        looked_up(&UNEVEN, d * scale, codes, out);
    }
}

#[cfg(test)]
#[path = "element_tests.rs"]
mod tests;

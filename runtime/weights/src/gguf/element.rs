//! Types of tensors, known by their numbers in a file, and their blocks of codes to values.
//!
//! The formats are those of ggml. A code of four bits that is in the low half of a byte belongs to the first half of its group, one in the
//! high half to the second. Scales are multiplied in the order in which ggml does it, so that values have its bits.

use std::fmt;

use half::f16;
use half::slice::HalfFloatSliceExt;

/// How the values of a tensor of a GGUF file are stored: in blocks along its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GgmlType {
    name: &'static str,
    number: u32,
    /// Values of a block.
    pub(super) values: usize,
    /// Its bytes.
    pub(super) bytes: usize,
}

/// Those that are decoded.
pub const DECODED: &[GgmlType] = &[
    GgmlType::F32,
    GgmlType::F16,
    GgmlType::BF16,
    GgmlType::Q8_0,
    GgmlType::Q4_0,
    GgmlType::Q4_1,
    GgmlType::Q4_K,
    GgmlType::Q6_K,
];

/// Those whose sizes alone are known, so that a file with some can be told what keeps it from being loaded.
const OTHERS: &[GgmlType] = &[
    kind("Q5_0", 6, 32, 22),
    kind("Q5_1", 7, 32, 24),
    kind("Q2_K", 10, 256, 84),
    kind("Q3_K", 11, 256, 110),
    kind("Q5_K", 13, 256, 176),
    kind("Q8_K", 15, 256, 292),
    kind("IQ2_XXS", 16, 256, 66),
    kind("IQ2_XS", 17, 256, 74),
    kind("IQ3_XXS", 18, 256, 98),
    kind("IQ1_S", 19, 256, 50),
    kind("IQ4_NL", 20, 32, 18),
    kind("IQ3_S", 21, 256, 110),
    kind("IQ2_S", 22, 256, 82),
    kind("IQ4_XS", 23, 256, 136),
    kind("I8", 24, 1, 1),
    kind("I16", 25, 1, 2),
    kind("I32", 26, 1, 4),
    kind("I64", 27, 1, 8),
    kind("F64", 28, 1, 8),
    kind("IQ1_M", 29, 256, 56),
    kind("TQ1_0", 34, 256, 54),
    kind("TQ2_0", 35, 256, 66),
    kind("MXFP4", 39, 32, 17),
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
    /// Floating point of 32 bits.
    pub const F32: Self = kind("F32", 0, 1, 4);
    /// Of 16 bits.
    pub const F16: Self = kind("F16", 1, 1, 2);
    /// 16 bits of those of F32.
    pub const BF16: Self = kind("BF16", 30, 1, 2);
    /// 32 codes of 8 bits and a scale.
    pub const Q8_0: Self = kind("Q8_0", 8, 32, 34);
    /// 32 codes of 4 bits around 8 and a scale.
    pub const Q4_0: Self = kind("Q4_0", 2, 32, 18);
    /// 32 codes of 4 bits, a scale and a minimum.
    pub const Q4_1: Self = kind("Q4_1", 3, 32, 20);
    /// 8 × 32 codes of 4 bits, with scales and minima of 6 bits.
    pub const Q4_K: Self = kind("Q4_K", 12, 256, 144);
    /// 16 × 16 codes of 6 bits, with scales of 8 bits.
    pub const Q6_K: Self = kind("Q6_K", 14, 256, 210);

    pub(super) fn of(number: u32) -> Option<Self> {
        let mut all = DECODED.iter().chain(OTHERS);
        all.find(|kind| kind.number == number).copied()
    }

    /// What the format calls it.
    pub fn name(self) -> &'static str {
        self.name
    }

    /// Whether its values can be read.
    pub fn is_decoded(self) -> bool {
        DECODED.contains(&self)
    }

    /// Bytes of so many values, which are whole blocks; `None` where they aren't, or don't fit 64 bits.
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

/// Writes the values of whole blocks of a decoded type to `out`, which has room for exactly them.
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
        GgmlType::Q8_0 => blocks(bytes, out, q8_0),
        GgmlType::Q4_0 => blocks(bytes, out, q4_0),
        GgmlType::Q4_1 => blocks(bytes, out, q4_1),
        GgmlType::Q4_K => blocks(bytes, out, q4_k),
        GgmlType::Q6_K => blocks(bytes, out, q6_k),
        other => unreachable!("{other} isn't among those that are read"),
    }
}

/// Blocks of `BYTES` bytes and `VALUES` values, each by itself: extents that the compiler knows need no checks inside.
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

/// Many at a time, which `half` converts by vector instructions.
fn halves(bytes: &[u8], out: &mut [f32]) {
    const MANY: usize = 256;
    let mut wide = [f16::ZERO; MANY];
    for (bytes, out) in bytes.chunks(2 * MANY).zip(out.chunks_mut(MANY)) {
        for (pair, wide) in bytes.as_chunks::<2>().0.iter().zip(&mut wide) {
            *wide = f16::from_le_bytes(*pair);
        }
        wide[..out.len()].convert_to_f32_slice(out);
    }
}

fn half(low: u8, high: u8) -> f32 {
    f16::from_le_bytes([low, high]).to_f32()
}

fn q8_0(block: &[u8; 34], out: &mut [f32; 32]) {
    let d = half(block[0], block[1]);
    for i in 0..32 {
        out[i] = d * f32::from(block[2 + i].cast_signed());
    }
}

fn q4_0(block: &[u8; 18], out: &mut [f32; 32]) {
    let d = half(block[0], block[1]);
    for i in 0..16 {
        let byte = block[2 + i];
        out[i] = d * (f32::from(byte & 15) - 8.0);
        out[16 + i] = d * (f32::from(byte >> 4) - 8.0);
    }
}

fn q4_1(block: &[u8; 20], out: &mut [f32; 32]) {
    let (d, least) = (half(block[0], block[1]), half(block[2], block[3]));
    for i in 0..16 {
        let byte = block[4 + i];
        out[i] = d * f32::from(byte & 15) + least;
        out[16 + i] = d * f32::from(byte >> 4) + least;
    }
}

/// Scale and minimum of group `group` of eight, of twelve bytes: six bits each, of the last four groups' the upper two in the bytes
/// of the first four.
fn scale_and_least(packed: &[u8], group: usize) -> [u8; 2] {
    match group {
        0..4 => [packed[group] & 63, packed[group + 4] & 63],
        _ => {
            let (low, over) = (packed[group + 4], [packed[group - 4], packed[group]]);
            [low & 15 | over[0] >> 6 << 4, low >> 4 | over[1] >> 6 << 4]
        }
    }
}

fn q4_k(block: &[u8; 144], out: &mut [f32; 256]) {
    let (d, least) = (half(block[0], block[1]), half(block[2], block[3]));
    let (packed, codes) = (&block[4..16], &block[16..]);
    let factors = |group| {
        let [scale, minimum] = scale_and_least(packed, group);
        [d * f32::from(scale), least * f32::from(minimum)]
    };
    let codes = codes.as_chunks::<32>().0.iter();
    for (pair, (codes, out)) in codes.zip(out.as_chunks_mut::<64>().0).enumerate() {
        let [low, high] = [factors(2 * pair), factors(2 * pair + 1)];
        for i in 0..32 {
            out[i] = low[0] * f32::from(codes[i] & 15) - low[1];
            out[32 + i] = high[0] * f32::from(codes[i] >> 4) - high[1];
        }
    }
}

fn q6_k(block: &[u8; 210], out: &mut [f32; 256]) {
    let (low, rest) = block.split_at(128);
    let (high, rest) = rest.split_at(64);
    let d = half(rest[16], rest[17]);
    let scales = rest[..16].as_chunks::<8>().0.iter();
    let codes = low.as_chunks::<64>().0.iter().zip(high.as_chunks::<32>().0);
    let halves = codes.zip(scales).zip(out.as_chunks_mut::<128>().0);
    for (((low, high), scales), out) in halves {
        let scale = scales.map(|scale| d * f32::from(scale.cast_signed()));
        for i in 0..32 {
            // Two scales for each 32 values.
            let second = i / 16;
            let code = |four: u8, two: u8| f32::from(four & 15 | (two & 3) << 4) - 32.0;
            out[i] = scale[second] * code(low[i], high[i]);
            out[32 + i] = scale[2 + second] * code(low[32 + i], high[i] >> 2);
            out[64 + i] = scale[4 + second] * code(low[i] >> 4, high[i] >> 4);
            out[96 + i] = scale[6 + second] * code(low[32 + i] >> 4, high[i] >> 6);
        }
    }
}

#[cfg(test)]
#[path = "element_tests.rs"]
mod tests;

//! Types of tensors, known by their numbers in a file.

use std::fmt;

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

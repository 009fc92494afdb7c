//! FP8 scales: which values share one, how it follows from their largest magnitude, and how it is stored.
//!
//! x ≈ code · scale: decoding multiplies a code by its scale. A block with largest finite magnitude amax has scale = amax ·
//! 2^margin / MAX, where MAX is the format's largest value. The scale is 1 for a block of zeros, never below 2⁻¹²⁶ (some devices
//! would flush smaller ones to 0), and never above the largest f32. NaN and infinities don't count for amax, so that one of them
//! doesn't cost its neighbours their precision.
//!
//! MX scales are E8M0 bytes: 2^(byte − 127), the smallest power of two that is at least amax · 2^margin / MAX. Source: OCP
//! Microscaling Formats 1.0, rounded up as in Transformer Engine, so that nothing saturates.

use std::fmt;

use crate::fp8::Fp8Format;
use serde::{Deserialize, Serialize};

/// Which values of a matrix share a scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Granularity {
    /// All values: scales \[1, 1\].
    Tensor,
    /// The values of a row: scales \[rows, 1\].
    Row,
    /// A rectangle of r × c values, cut at the edges: scales \[⌈rows/r⌉, ⌈columns/c⌉\].
    Block {
        /// Rows r of a rectangle.
        rows: usize,
        /// Columns c of a rectangle.
        columns: usize,
    },
    /// 32 neighbouring values of a row: scales \[rows, ⌈columns/32⌉\] as E8M0 bytes, packed four to a word along a row.
    Mx,
}

/// The storage type of a scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ScaleType {
    /// An f32.
    F32,
    /// A power of two as a byte, four to a word, lane 0 in the low byte.
    E8M0,
}

/// Values per MX scale.
pub const MX_BLOCK: usize = 32;

/// The E8M0 byte whose value is 1.
pub const E8M0_ONE: u8 = 127;

impl Granularity {
    /// Blocks of `rows` × `columns` values.
    pub const fn of_blocks(rows: usize, columns: usize) -> Self {
        Self::Block { rows, columns }
    }

    /// The granularity's name in kernel names.
    pub fn name(self) -> String {
        match self {
            Self::Tensor => "tensor".to_owned(),
            Self::Row => "row".to_owned(),
            Self::Block { rows, columns } if rows == columns => format!("block{rows}"),
            Self::Block { rows, columns } => format!("block{rows}x{columns}"),
            Self::Mx => "mx".to_owned(),
        }
    }

    /// The rows and columns of a block in a matrix of `rows` × `columns`, at least 1 each.
    pub fn block(self, rows: usize, columns: usize) -> [usize; 2] {
        let block = match self {
            Self::Tensor => [rows, columns],
            Self::Row => [1, columns],
            Self::Block { rows, columns } => [rows, columns],
            Self::Mx => [1, MX_BLOCK],
        };
        block.map(|size| size.max(1))
    }

    /// The number of blocks of a matrix of `rows` × `columns`, down and across.
    pub fn blocks(self, rows: usize, columns: usize) -> [usize; 2] {
        let [r, c] = self.block(rows, columns);
        [rows.div_ceil(r), columns.div_ceil(c)]
    }

    /// The storage type of the scales.
    pub fn scale_type(self) -> ScaleType {
        match self {
            Self::Mx => ScaleType::E8M0,
            _ => ScaleType::F32,
        }
    }

    /// The shape of the tensor of scales: f32s, or words of four E8M0 bytes.
    pub fn scale_shape(self, rows: usize, columns: usize) -> [usize; 2] {
        let [down, across] = self.blocks(rows, columns);
        match self.scale_type() {
            ScaleType::F32 => [down, across],
            ScaleType::E8M0 => [down, across.div_ceil(4)],
        }
    }
}

/// The scale of a block whose largest finite magnitude is `amax`, on the host.
pub fn scale_host(amax: f32, format: Fp8Format, margin: i32) -> f32 {
    if amax == 0.0 {
        return 1.0;
    }
    let scale = f64::from(amax) * f64::from(margin).exp2() / f64::from(format.max());
    (scale as f32).clamp(f32::MIN_POSITIVE, f32::MAX)
}

/// The E8M0 byte of a block whose largest finite magnitude is `amax`, on the host.
pub fn e8m0_host(amax: f32, format: Fp8Format, margin: i32) -> u8 {
    if amax == 0.0 {
        return E8M0_ONE;
    }
    let (amax, max) = (amax.to_bits(), format.max().to_bits());
    let above = i32::from(amax & 0x7F_FFFF > max & 0x7F_FFFF);
    let exponent = (amax >> 23) as i32 - (max >> 23) as i32 + above;
    (exponent + margin + i32::from(E8M0_ONE)).clamp(1, 254) as u8
}

/// The value of an E8M0 byte, on the host: NaN for 255, 2⁻¹²⁷ for 0.
pub fn e8m0_value(byte: u8) -> f32 {
    match byte {
        0 => f32::MIN_POSITIVE / 2.0,
        255 => f32::NAN,
        _ => f32::from_bits(u32::from(byte) << 23),
    }
}

/// How a matrix is quantised: the format of its codes, and which values share a scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Fp8Scheme {
    /// Format of the codes.
    pub format: Fp8Format,
    /// Which values share a scale.
    pub granularity: Granularity,
}

impl fmt::Display for Fp8Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.format.name())?;
        match self.granularity {
            Granularity::Tensor => f.write_str(" tensor"),
            Granularity::Row => f.write_str(" row"),
            Granularity::Mx => f.write_str(" mx"),
            Granularity::Block { rows, columns } => write!(f, " {rows}x{columns}"),
        }
    }
}

impl Fp8Scheme {
    /// The number of scales in a file for a matrix of `rows` × `columns`, down and across. A tensor and a row have one even when
    /// empty.
    pub fn grid(self, rows: usize, columns: usize) -> [usize; 2] {
        match self.granularity {
            Granularity::Tensor => [1, 1],
            Granularity::Row => [rows, 1],
            granularity => granularity.blocks(rows, columns),
        }
    }
}

/// Scales on the host, matrix by matrix, row by row, without padding.
#[derive(Clone, Debug, PartialEq)]
pub enum HostScales {
    /// One f32 per block.
    F32(Vec<f32>),
    /// One byte per block, whose value is 2^(byte − 127).
    E8M0(Vec<u8>),
}

impl HostScales {
    /// The scales of blocks whose largest finite magnitudes are `amaxes`.
    pub fn of_amaxes(kind: ScaleType, amaxes: &[f32], format: Fp8Format, margin: i32) -> Self {
        let amaxes = amaxes.iter();
        match kind {
            ScaleType::F32 => Self::F32(
                amaxes
                    .map(|&amax| scale_host(amax, format, margin))
                    .collect(),
            ),
            ScaleType::E8M0 => Self::E8M0(
                amaxes
                    .map(|&amax| e8m0_host(amax, format, margin))
                    .collect(),
            ),
        }
    }

    /// The number of scales.
    pub fn len(&self) -> usize {
        match self {
            Self::F32(scales) => scales.len(),
            Self::E8M0(scales) => scales.len(),
        }
    }

    /// Whether there are no scales.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The storage type of the scales.
    pub fn scale_type(&self) -> ScaleType {
        match self {
            Self::F32(_) => ScaleType::F32,
            Self::E8M0(_) => ScaleType::E8M0,
        }
    }

    /// The scales as f32.
    pub fn to_f32(&self) -> Vec<f32> {
        match self {
            Self::F32(scales) => scales.clone(),
            Self::E8M0(scales) => scales.iter().map(|&byte| e8m0_value(byte)).collect(),
        }
    }

    /// The scales as stored in a file: little-endian f32s, or E8M0 bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::F32(scales) => scales.iter().flat_map(|s| s.to_le_bytes()).collect(),
            Self::E8M0(scales) => scales.clone(),
        }
    }
}

#[cfg(test)]
#[path = "scaling_tests.rs"]
mod tests;

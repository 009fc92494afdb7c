//! Scales as files have them.

use moebius_ops::scaling::{ScaleType, e8m0_value};

/// Scales on the host, matrix by matrix, row by row, without padding.
#[derive(Clone, Debug, PartialEq)]
pub enum HostScales {
    /// One for each block.
    F32(Vec<f32>),
    /// A byte for each block: 2^(byte − 127).
    E8M0(Vec<u8>),
}

impl HostScales {
    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Self::F32(scales) => scales.len(),
            Self::E8M0(scales) => scales.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How they are kept.
    pub fn scale_type(&self) -> ScaleType {
        match self {
            Self::F32(_) => ScaleType::F32,
            Self::E8M0(_) => ScaleType::E8M0,
        }
    }

    /// The factors.
    pub fn to_f32(&self) -> Vec<f32> {
        match self {
            Self::F32(scales) => scales.clone(),
            Self::E8M0(scales) => scales.iter().map(|&byte| e8m0_value(byte)).collect(),
        }
    }

    /// As they are in a file: little-endian f32s, or bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::F32(scales) => scales.iter().flat_map(|s| s.to_le_bytes()).collect(),
            Self::E8M0(scales) => scales.clone(),
        }
    }
}

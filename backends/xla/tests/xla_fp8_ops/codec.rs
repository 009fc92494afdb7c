//! The oracle of codes: the nearest of all values of a format.

use moebius_ops::fp8::{Fp8Format as Format, Overflow};

pub(crate) const FORMATS: [Format; 2] = [Format::E4M3, Format::E5M2];

/// The value of a code, from its sign, exponent and mantissa.
pub(crate) fn decode(code: u8, format: Format) -> f64 {
    let (mantissa_bits, bias) = match format {
        Format::E4M3 => (3, 7),
        Format::E5M2 => (2, 15),
    };
    let sign = if code & 0x80 == 0 { 1.0 } else { -1.0 };
    let exponent = i32::from((code & 0x7F) >> mantissa_bits);
    let mantissa = f64::from(code & ((1 << mantissa_bits) - 1)) / f64::from(1 << mantissa_bits);
    match (format, code & 0x7F) {
        (Format::E4M3, 0x7F) | (Format::E5M2, 0x7D..) => f64::NAN,
        (Format::E5M2, 0x7C) => sign * f64::INFINITY,
        _ if exponent == 0 => sign * mantissa * f64::from(1 - bias).exp2(),
        _ => sign * (1.0 + mantissa) * f64::from(exponent - bias).exp2(),
    }
}

/// Encodes by search among the values of a format, which ascend with their codes.
pub(crate) struct Encoder {
    format: Format,
    overflow: Overflow,
    /// Magnitudes of the finite codes, and the one that would come next.
    values: Vec<f64>,
}

impl Encoder {
    pub(crate) fn new(format: Format, overflow: Overflow) -> Self {
        let last = match format {
            Format::E4M3 => 0x7E,
            Format::E5M2 => 0x7B,
        };
        let mut values: Vec<f64> = (0..=last).map(|code| decode(code, format)).collect();
        let step = values[values.len() - 1] - values[values.len() - 2];
        values.push(values[values.len() - 1] + step);
        Self {
            format,
            overflow,
            values,
        }
    }

    pub(crate) fn encode(&self, x: f32) -> u8 {
        let sign = if x.is_sign_negative() { 0x80 } else { 0 };
        if x.is_nan() {
            return sign
                | match self.format {
                    Format::E4M3 => 0x7F,
                    Format::E5M2 => 0x7E,
                };
        }
        let magnitude = f64::from(x.abs());
        let above = self.values.partition_point(|value| *value < magnitude);
        let beyond = self.values.len() - 1;
        let nearest = match above {
            0 => 0,
            above if above > beyond => beyond,
            above => {
                let (low, high) = (self.values[above - 1], self.values[above]);
                let middle = (low + high) / 2.0;
                let up = magnitude > middle || (magnitude == middle && above % 2 == 0);
                above - usize::from(!up)
            }
        };
        let code = match self.overflow {
            Overflow::Saturate => nearest.min(beyond - 1),
            Overflow::Ieee => nearest,
        };
        sign | code as u8
    }
}

/// Bytes four to a word, each of `rows` rows padded with zeros.
pub(crate) fn pack_rows(bytes: &[u8], row: usize) -> Vec<u32> {
    let rows = bytes.chunks(row.max(1));
    let words = rows.flat_map(|row| {
        row.chunks(4).map(|lanes| {
            let mut word = [0; 4];
            word[..lanes.len()].copy_from_slice(lanes);
            u32::from_le_bytes(word)
        })
    });
    words.collect()
}

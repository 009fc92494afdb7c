//! FP8 codec: E4M3 (fn) and E5M2, four codes in a u32 word, lane 0 in the low byte.
//!
//! A code is sign · exponent · mantissa; E4M3 has bias 7, no infinity and NaN at 0x7F, E5M2 has
//! bias 15 and IEEE infinities. Encoding rounds to nearest even. Host and device do the same
//! integer arithmetic on the bits of the f32, so no backend's rounding mode, flush of subnormals
//! or fast-math setting can change a code. Source: OCP OFP8, ONNX float8 specification.
//!
//! Bytes moved per 4 values: encode 16 read + 4 written, decode 4 read + 16 written. No FLOPs.

use crate::error::{ShapeError, Unsupported};
use crate::grid::Grid;
use crate::launched;
use cubecl::prelude::*;
use cubecl::server::Handle;
use moebius_device::Capability;
use serde::{Deserialize, Serialize};

/// Codes in one u32 word.
pub const LANES_PER_WORD: usize = 4;

/// An 8-bit floating-point format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fp8Format {
    /// 4 exponent bits, 3 mantissa bits, largest value 448, no infinity.
    E4M3,
    /// 5 exponent bits, 2 mantissa bits, largest value 57344.
    E5M2,
}

/// What encoding does with a magnitude beyond the largest value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Overflow {
    /// The largest value, for ±inf too; NaN stays NaN.
    Saturate,
    /// NaN in E4M3, infinity in E5M2.
    Ieee,
}

impl Fp8Format {
    /// Its name in names of kernels.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::E4M3 => "e4m3",
            Self::E5M2 => "e5m2",
        }
    }

    /// Mantissa bits.
    pub const fn mantissa_bits(self) -> u32 {
        match self {
            Self::E4M3 => 3,
            Self::E5M2 => 2,
        }
    }

    /// Exponent bias.
    pub const fn bias(self) -> u32 {
        match self {
            Self::E4M3 => 7,
            Self::E5M2 => 15,
        }
    }

    /// Code of the largest finite value.
    pub const fn max_code(self) -> u8 {
        match self {
            Self::E4M3 => 0x7E,
            Self::E5M2 => 0x7B,
        }
    }

    /// Code NaN encodes to, sign aside.
    pub const fn nan_code(self) -> u8 {
        match self {
            Self::E4M3 => 0x7F,
            Self::E5M2 => 0x7E,
        }
    }

    /// Largest finite value.
    pub const fn max(self) -> f32 {
        match self {
            Self::E4M3 => 448.0,
            Self::E5M2 => 57344.0,
        }
    }
}

/// The code of `value`, on the host.
pub fn encode_host(value: f32, format: Fp8Format, overflow: Overflow) -> u8 {
    let bits = value.to_bits();
    let sign = ((bits >> 24) & 0x80) as u8;
    let magnitude = bits & 0x7FFF_FFFF;
    if magnitude > 0x7F80_0000 {
        return sign | format.nan_code();
    }
    let (mantissa, bias) = (format.mantissa_bits(), format.bias());
    let exponent = magnitude >> 23;
    let code = if exponent + bias > 127 {
        let shift = 23 - mantissa;
        round_to_even(magnitude, shift) - ((127 - bias) << mantissa)
    } else {
        // Below the smallest normal: a count of smallest subnormals. 25 shifts everything out.
        let shift = (23 - mantissa + 128 - bias)
            .saturating_sub(exponent)
            .min(25);
        round_to_even((magnitude & 0x7F_FFFF) | 0x80_0000, shift)
    };
    let limit = u32::from(format.max_code());
    let code = match overflow {
        Overflow::Saturate => code.min(limit),
        Overflow::Ieee => code.min(limit + 1),
    };
    sign | code as u8
}

/// The value of `code`, on the host; exact.
pub fn decode_host(code: u8, format: Fp8Format) -> f32 {
    let sign = u32::from(code & 0x80) << 24;
    let magnitude = u32::from(code & 0x7F);
    let (mantissa, bias) = (format.mantissa_bits(), format.bias());
    let exponent = magnitude >> mantissa;
    let bits = if magnitude >= first_nan(format) {
        0x7FC0_0000
    } else if format == Fp8Format::E5M2 && exponent == 31 {
        0x7F80_0000
    } else if exponent == 0 {
        // 2^(1 - bias - mantissa) is a power of two, so the product is exact.
        (magnitude as f32 * subnormal_step(format)).to_bits()
    } else {
        (magnitude << (23 - mantissa)) + ((127 - bias) << 23)
    };
    f32::from_bits(sign | bits)
}

/// Packs codes four to a word, lane 0 in the low byte; the last word is padded with zero codes.
pub fn pack(codes: &[u8]) -> Vec<u32> {
    codes
        .chunks(LANES_PER_WORD)
        .map(|lanes| {
            let mut bytes = [0; LANES_PER_WORD];
            bytes[..lanes.len()].copy_from_slice(lanes);
            u32::from_le_bytes(bytes)
        })
        .collect()
}

/// The first `len` codes of packed `words`.
pub fn unpack(words: &[u32], len: usize) -> Vec<u8> {
    let codes = words.iter().flat_map(|word| word.to_le_bytes());
    codes.take(len).collect()
}

const fn first_nan(format: Fp8Format) -> u32 {
    match format {
        Fp8Format::E4M3 => 0x7F,
        Fp8Format::E5M2 => 0x7D,
    }
}

/// Value of the smallest subnormal.
const fn subnormal_step(format: Fp8Format) -> f32 {
    match format {
        Fp8Format::E4M3 => 1.0 / 512.0,
        Fp8Format::E5M2 => 1.0 / 65536.0,
    }
}

/// `value / 2^shift`, ties to even; `shift` is 1 to 25.
fn round_to_even(value: u32, shift: u32) -> u32 {
    (value + (1 << (shift - 1)) - 1 + ((value >> shift) & 1)) >> shift
}

#[cube]
fn round_to_even_cube(value: u32, shift: u32) -> u32 {
    (value + (1u32 << (shift - 1)) - 1 + ((value >> shift) & 1)) >> shift
}

/// The code of the f32 with these bits, as [`encode_host`].
#[cube]
pub(crate) fn encode_bits(
    bits: u32,
    #[comptime] format: Fp8Format,
    #[comptime] overflow: Overflow,
) -> u32 {
    let mantissa = comptime!(format.mantissa_bits());
    let bias = comptime!(format.bias());
    let sign = (bits >> 24) & 0x80;
    let magnitude = bits & 0x7FFF_FFFF;
    let exponent = magnitude >> 23;

    let normal_shift = comptime!(23 - mantissa);
    let rebias = comptime!((127 - bias) << mantissa);
    let subnormal_base = comptime!(23 - mantissa + 128 - bias);
    let shift = clamp(subnormal_base - min(exponent, subnormal_base - 1), 1, 25);
    let subnormal = round_to_even_cube((magnitude & 0x7F_FFFF) | 0x80_0000, shift);
    let normal = round_to_even_cube(magnitude, normal_shift) - rebias;

    let limit = comptime!(match overflow {
        Overflow::Saturate => u32::from(format.max_code()),
        Overflow::Ieee => u32::from(format.max_code()) + 1,
    });
    let is_normal = exponent + bias > 127;
    let code = min(select(is_normal, normal, subnormal), limit);
    let nan = comptime!(u32::from(format.nan_code()));
    sign | select(magnitude > 0x7F80_0000, nan, code)
}

/// The bits of the f32 with this code (0 to 255): the value of [`decode_host`], or some NaN.
///
/// A subnormal code is a normal number of the smallest exponent, less its implicit bit, so nothing
/// is converted and no f32 is subnormal; the other exponents move by adding to the bits.
#[cube]
pub(crate) fn decode_bits(code: u32, #[comptime] format: Fp8Format) -> u32 {
    let mantissa = comptime!(format.mantissa_bits());
    let bias = comptime!(format.bias());
    let sign = (code & 0x80) << 24;
    let magnitude = code & 0x7F;
    let shift = comptime!(23 - mantissa);
    let rebias = comptime!((127 - bias) << 23);
    let above = comptime!((128 - bias) << 23);
    let implicit = comptime!(f32::from_bits((128 - bias) << 23));
    let first_normal = comptime!(1u32 << mantissa);

    let normal = (magnitude << shift) + rebias;
    let subnormal = u32::reinterpret(f32::reinterpret((magnitude << shift) + above) - implicit);
    let finite = select(magnitude < first_normal, subnormal, normal);
    let bits = if comptime!(format == Fp8Format::E5M2) {
        // Exponent 31 moves to 255: infinity and NaN stay what they are.
        let special = (magnitude << shift) + comptime!(2 * ((127 - bias) << 23));
        select(magnitude >= 0x7C, special, finite)
    } else {
        select(magnitude >= 0x7F, 0x7FC0_0000u32, finite)
    };
    sign | bits
}

/// words\[i\] = codes of x\[4i .. 4i+4\], zero codes past the end; x comes as the bits of its f32.
#[cube(launch_unchecked)]
fn fp8_encode(
    x: &[u32],
    words: &mut [u32],
    len: usize,
    #[comptime] format: Fp8Format,
    #[comptime] overflow: Overflow,
) {
    if ABSOLUTE_POS < words.len() {
        let first = ABSOLUTE_POS * 4;
        let mut word = 0u32;
        #[unroll]
        for lane in 0..4usize {
            if first + lane < len {
                let shift = comptime!(8 * lane as u32);
                word |= encode_bits(x[first + lane], format, overflow) << shift;
            }
        }
        words[ABSOLUTE_POS] = word;
    }
}

/// y\[4i .. 4i+4\] = values of words\[i\], as the bits of their f32.
#[cube(launch_unchecked)]
fn fp8_decode(words: &[u32], y: &mut [u32], len: usize, #[comptime] format: Fp8Format) {
    if ABSOLUTE_POS < words.len() {
        let first = ABSOLUTE_POS * 4;
        let word = words[ABSOLUTE_POS];
        #[unroll]
        for lane in 0..4usize {
            if first + lane < len {
                let shift = comptime!(8 * lane as u32);
                y[first + lane] = decode_bits((word >> shift) & 0xFF, format);
            }
        }
    }
}

/// A cast of `len` values between f32 and FP8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Problem {
    len: usize,
    format: Fp8Format,
}

impl Problem {
    /// A cast of `len` values, given a buffer of `words` packed words.
    ///
    /// # Errors
    /// [`ShapeError`] when `words` isn't ceil(len / 4).
    pub fn new(len: usize, words: usize, format: Fp8Format) -> Result<Self, ShapeError> {
        ShapeError::check("fp8 words", len.div_ceil(LANES_PER_WORD), words)?;
        Ok(Self { len, format })
    }

    fn words(&self) -> usize {
        self.len.div_ceil(LANES_PER_WORD)
    }
}

/// A [`Problem`] this device can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    problem: Problem,
    grid: Grid,
}

/// Plans a cast: one unit per word.
///
/// # Errors
/// [`Unsupported`] when the values exceed one binding or the cubes one grid.
pub fn plan(problem: Problem, device: &Capability) -> Result<Plan, Unsupported> {
    crate::fits_binding("fp8_cast", problem.len * 4, device)?;
    let grid = Grid::elementwise("fp8_cast", problem.words(), device)?;
    Ok(Plan { problem, grid })
}

fn encode_name(format: Fp8Format, overflow: Overflow) -> String {
    let mode = format!("{overflow:?}").to_lowercase();
    format!("fp8_encode_{}_{mode}", format.name())
}

/// Enqueues words = encode(x).
pub fn launch_encode(client: &Client, plan: &Plan, overflow: Overflow, x: Handle, words: Handle) {
    let Plan { problem, grid } = *plan;
    if problem.len == 0 {
        return;
    }
    // SAFETY: `Problem::new` ties the lengths of both buffers; units past the last word return.
    unsafe {
        launched::note(|| encode_name(problem.format, overflow));
        fp8_encode::launch_unchecked(
            client,
            grid.count(),
            grid.dim(),
            BufferArg::from_raw_parts(x, problem.len),
            BufferArg::from_raw_parts(words, problem.words()),
            problem.len,
            problem.format,
            overflow,
        );
    }
}

/// Enqueues y = decode(words).
pub fn launch_decode(client: &Client, plan: &Plan, words: Handle, y: Handle) {
    let Plan { problem, grid } = *plan;
    if problem.len == 0 {
        return;
    }
    // SAFETY: `Problem::new` ties the lengths of both buffers; units past the last word return.
    unsafe {
        launched::note(|| format!("fp8_decode_{}", problem.format.name()));
        fp8_decode::launch_unchecked(
            client,
            grid.count(),
            grid.dim(),
            BufferArg::from_raw_parts(words, problem.words()),
            BufferArg::from_raw_parts(y, problem.len),
            problem.len,
            problem.format,
        );
    }
}

/// Encoders of every format and overflow mode, and decoders of every format.
#[cfg(feature = "emit")]
pub(crate) fn entries() -> Vec<crate::emit::KernelEntry> {
    use crate::emit::{KernelEntry, Machine, buffer};
    let planned = |at: &Machine, format| {
        plan(Problem::new(4096, 1024, format)?, &at.capability)
            .map_err(crate::error::PlanError::from)
    };
    let mut entries = Vec::new();
    for format in [Fp8Format::E4M3, Fp8Format::E5M2] {
        for overflow in [Overflow::Saturate, Overflow::Ieee] {
            let name = encode_name(format, overflow);
            entries.push(KernelEntry::new(("fp8", "encode"), name, move |at| {
                let (settings, device, target) = at.parts(planned(at, format)?.grid.dim());
                Ok(Box::new(fp8_encode::Fp8Encode::new(
                    settings,
                    device,
                    target,
                    buffer(),
                    buffer(),
                    (),
                    format,
                    overflow,
                )))
            }));
        }
        let name = format!("fp8_decode_{}", format.name());
        entries.push(KernelEntry::new(("fp8", "decode"), name, move |at| {
            let (settings, device, target) = at.parts(planned(at, format)?.grid.dim());
            Ok(Box::new(fp8_decode::Fp8Decode::new(
                settings,
                device,
                target,
                buffer(),
                buffer(),
                (),
                format,
            )))
        }));
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FORMATS: [Fp8Format; 2] = [Fp8Format::E4M3, Fp8Format::E5M2];

    #[test]
    fn every_finite_code_round_trips() {
        for format in FORMATS {
            for code in 0..=255u8 {
                let value = decode_host(code, format);
                if value.is_finite() {
                    assert_eq!(encode_host(value, format, Overflow::Saturate), code);
                }
            }
        }
    }

    #[test]
    fn limits_match_the_specification() {
        assert_eq!(decode_host(0x7E, Fp8Format::E4M3), 448.0);
        assert_eq!(decode_host(0x7B, Fp8Format::E5M2), 57344.0);
        assert_eq!(decode_host(0x01, Fp8Format::E4M3), 2f32.powi(-9));
        assert_eq!(decode_host(0x01, Fp8Format::E5M2), 2f32.powi(-16));
        assert!(decode_host(0x7F, Fp8Format::E4M3).is_nan());
        assert_eq!(decode_host(0xFC, Fp8Format::E5M2), f32::NEG_INFINITY);
        let e4m3 = |value, overflow| encode_host(value, Fp8Format::E4M3, overflow);
        assert_eq!(e4m3(464.0, Overflow::Ieee), 0x7E);
        assert_eq!(e4m3(464.1, Overflow::Ieee), 0x7F);
        assert_eq!(e4m3(f32::INFINITY, Overflow::Saturate), 0x7E);
    }

    proptest! {
        /// The code is one of the two neighbours, and the nearer one (or the even one).
        #[test]
        fn encoding_is_nearest(value in -500.0f32..500.0, e5m2: bool) {
            let format = if e5m2 { Fp8Format::E5M2 } else { Fp8Format::E4M3 };
            let got = f64::from(decode_host(encode_host(value, format, Overflow::Saturate), format));
            let nearest = (0..=255u8)
                .map(|code| f64::from(decode_host(code, format)))
                .filter(|candidate| candidate.is_finite())
                .map(|candidate| (candidate - f64::from(value)).abs())
                .fold(f64::INFINITY, f64::min);
            prop_assert_eq!((got - f64::from(value)).abs(), nearest);
        }

        #[test]
        fn packing_round_trips(codes: Vec<u8>) {
            prop_assert_eq!(unpack(&pack(&codes), codes.len()), codes);
        }
    }
}

//! Weights of 4-bit floats (E2M1) with a scale for each few neighbours of a row: NVFP4 and MXFP4.
//!
//! | | codes, the first of a byte in its low half | scales | scale of all |
//! |---|---|---|---|
//! | NVFP4 of compressed-tensors | `weight_packed` U8 \[n, k / 2\] | `weight_scale` E4M3 \[n, k / 16\] | divides: `weight_global_scale` |
//! | NVFP4 of ModelOpt | `weight` U8 \[n, k / 2\] | `weight_scale` E4M3 \[n, k / 16\] | multiplies: `weight_scale_2` |
//! | MXFP4 of compressed-tensors | `weight_packed` U8 \[n, k / 2\] | `weight_scale` E8M0 \[n, k / 32\] | none |
//! | MXFP4 of ModelOpt | `weight` U8 \[n, k / 2\] | `weight_scale` U8 \[n, k / 32\] | none |
//! | MLX | `weight` U32 \[.., n, k / 8\] | `scales` U8 \[.., n, k / 16 or 32\] | none |

use std::ops::Range;

use moebius_ops::blocks::BlockFormat;
use moebius_ops::fp8::{Fp8Format, decode_host};
use moebius_ops::scaling::e8m0_value;
use safetensors::Dtype;

use super::blocks::{PAIRS, put};
use super::part::{Part, Parts, ReadParts};
use crate::error::WeightsError;

/// The values of the codes of E2M1 without a sign (OCP MX, 2023).
const E2M1: [f32; 8] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];

/// Format of the scales; it also says how many neighbours share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scale {
    E4m3,
    E8m0,
}

impl Scale {
    /// Number of neighbours with the same scale.
    fn group(self) -> usize {
        match self {
            Self::E4m3 => 16,
            Self::E8m0 => 32,
        }
    }

    fn value(self, byte: u8) -> f32 {
        match self {
            Self::E4m3 => decode_host(byte, Fp8Format::E4M3),
            Self::E8m0 => e8m0_value(byte),
        }
    }
}

/// What a weight's scales are multiplied or divided by.
#[derive(Debug)]
enum Whole {
    None,
    Times(Part),
    Over(Part),
}

/// A weight of 4-bit floats.
#[derive(Debug)]
pub(super) struct Fours {
    pub(super) codes: Part,
    scales: Part,
    scale: Scale,
    whole: Whole,
}

impl Fours {
    /// A weight of compressed-tensors; `None` where its tensors don't fit.
    pub(super) fn compressed(of: Parts<'_>) -> Option<Self> {
        let (codes, scales) = (of.get("weight_packed")?, of.get("weight_scale")?);
        let (scale, whole) = match of.get("weight_global_scale") {
            Some(whole) => (Scale::E4m3, Whole::Over(whole)),
            None => (Scale::E8m0, Whole::None),
        };
        let fits = codes.info.dtype == Dtype::U8;
        Self::fitting(codes, scales, scale, whole).filter(|_| fits)
    }

    /// A weight of ModelOpt; `None` where its tensors don't fit.
    pub(super) fn modelopt(of: Parts<'_>) -> Option<Self> {
        let whole = Whole::Times(of.get("weight_scale_2")?);
        let (codes, scales) = (of.get("weight")?, of.get("weight_scale")?);
        Self::fitting(codes, scales, Scale::E4m3, whole)
    }

    /// MXFP4 of ModelOpt; `None` where its tensors don't fit.
    pub(super) fn of_bytes(of: Parts<'_>) -> Option<Self> {
        let (codes, scales) = (of.get("weight")?, of.get("weight_scale")?);
        Self::fitting(codes, scales, Scale::E8m0, Whole::None)
    }

    /// A weight of MLX in `mode`; `None` where its tensors don't fit, or the mode is another one.
    pub(super) fn of_mlx(of: Parts<'_>, mode: Option<&str>) -> Option<Self> {
        let scale = match mode {
            Some("mxfp4") => Scale::E8m0,
            Some("nvfp4") => Scale::E4m3,
            _ => return None,
        };
        let (codes, scales) = (of.get("weight")?, of.get("scales")?);
        Self::fitting(codes, scales, scale, Whole::None)
    }

    fn fitting(codes: Part, scales: Part, scale: Scale, whole: Whole) -> Option<Self> {
        let dtypes = match scale {
            Scale::E4m3 => [Dtype::F8_E4M3, Dtype::U8],
            Scale::E8m0 => [Dtype::F8_E8M0, Dtype::U8],
        };
        let of_whole = match &whole {
            Whole::None => true,
            Whole::Times(part) | Whole::Over(part) => part.is_number(),
        };
        let made = Self {
            codes,
            scales,
            scale,
            whole,
        };
        let shape = made.shape()?;
        let (outer, columns) = (shape.split_last()?.1, shape.last()?);
        let (across, above) = made.scales.info.shape.split_last()?;
        let fits = columns.is_multiple_of(scale.group())
            && above == outer
            && *across == columns / scale.group()
            && dtypes.contains(&made.scales.info.dtype)
            && of_whole;
        fits.then_some(made)
    }

    /// Extents of the weight: those of the codes, with two values in a byte.
    pub(super) fn shape(&self) -> Option<Vec<usize>> {
        let bits = self.codes.info.dtype.bitsize();
        let mut shape = self.codes.info.shape.clone();
        let last = shape.last_mut()?;
        *last = last.checked_mul(bits / 4)?;
        (shape.len() >= 2).then_some(shape)
    }

    /// Appends the values, row-major: code · (scale · or / the scale of all), each product rounded to f32.
    pub(super) fn decode(
        &self,
        read: &dyn ReadParts,
        values: &mut Vec<f32>,
    ) -> Result<(), WeightsError> {
        let number = |part: &Part| {
            let value = read.floats(part)?.first().copied().unwrap_or(f32::NAN);
            let fits = value.is_finite() && value > 0.0;
            let wrong = || read.unfit(part, "a positive number", &value.to_string());
            fits.then_some(value).ok_or_else(wrong)
        };
        let (times, over) = match &self.whole {
            Whole::None => (1.0, 1.0),
            Whole::Times(part) => (number(part)?, 1.0),
            Whole::Over(part) => (1.0, number(part)?),
        };
        let codes = read.bytes(&self.codes)?;
        let scales = read.bytes(&self.scales)?;
        self.check_scales(&scales, read)?;
        for (codes, &scale) in codes.chunks_exact(self.scale.group() / 2).zip(&scales) {
            let scale = self.scale.value(scale) * times / over;
            let halves = codes.iter().flat_map(|byte| [byte & 15, byte >> 4]);
            values.extend(halves.map(|code| {
                let value = E2M1[usize::from(code & 7)] * scale;
                if code & 8 == 0 { value } else { -value }
            }));
        }
        Ok(())
    }

    fn check_scales(&self, scales: &[u8], read: &dyn ReadParts) -> Result<(), WeightsError> {
        let mut each = scales.iter().map(|&scale| self.scale.value(scale));
        match each.find(|scale| !scale.is_finite()) {
            Some(bad) => Err(read.unfit(&self.scales, "finite scales", &bad.to_string())),
            None => Ok(()),
        }
    }

    /// The format of the blocks that devices decode: MXFP4 has one. Theirs of NVFP4 would need the scale of all beside the blocks.
    pub(super) fn blocks(&self) -> Option<BlockFormat> {
        (self.scale == Scale::E8m0).then_some(BlockFormat::Mxfp4)
    }

    /// Fills `out` with the blocks of rows of MXFP4, of `columns` values each.
    ///
    /// # Errors
    /// As [`Fours::decode`].
    pub(super) fn read_blocks(
        &self,
        rows: Range<usize>,
        columns: usize,
        read: &dyn ReadParts,
        out: &mut [u8],
    ) -> Result<(), WeightsError> {
        const HALF: usize = PAIRS / 2;
        let across = (columns / PAIRS) as u64;
        let [from, to] = [rows.start, rows.end].map(|row| row as u64 * across);
        let scales = read.some(&self.scales, from..to)?;
        self.check_scales(&scales, read)?;
        let codes = read.some(&self.codes, HALF as u64 * from..HALF as u64 * to)?;
        let blocks = out.as_chunks_mut::<{ 1 + HALF }>().0.iter_mut();
        let codes = codes.as_chunks::<HALF>().0;
        for ((block, scale), codes) in blocks.zip(scales).zip(codes) {
            block[0] = scale;
            let code = |at: usize| codes[at / 2] >> (at % 2 * 4) & 15;
            put(std::array::from_fn(code), &mut block[1..]);
        }
        Ok(())
    }
}

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

use moebius_ops::blocks::{BlockFormat, e2m1_values};
use moebius_ops::fp8::{Fp8Format, decode_host};
use moebius_ops::scaling::e8m0_value;
use safetensors::Dtype;

use super::blocks::PAIRS;
use super::part::{Part, Parts, ReadParts};
use crate::error::WeightsError;

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

    /// The format of blocks with such scales.
    fn format(self) -> BlockFormat {
        match self {
            Self::E4m3 => BlockFormat::Nvfp4,
            Self::E8m0 => BlockFormat::Mxfp4,
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

/// The smallest and the largest scale of all that rows of blocks have: no product that their decoding makes of it is subnormal or infinite.
const OF_ROWS: [f32; 2] = [f32::from_bits(37 << 23), f32::from_bits(217 << 23)];

/// What the rows of NVFP4 in blocks have of the scale of all ([`moebius_ops::blocks::Scales::Fp8`]).
struct Rows {
    /// The word before the blocks of every row.
    head: u32,
    /// The highest bit of each scale in E4M3: whether the weight's scale is a neighbour of the product.
    moved: [u8; 128],
}

impl Rows {
    /// Those of scales that are multiplied by `whole`, a positive number.
    fn times(whole: f32) -> Self {
        Self {
            head: whole.to_bits(),
            moved: [0; 128],
        }
    }

    /// Those of scales that are divided by `whole`, a positive number. `None` where a quotient isn't next to its product with the reciprocal, or
    /// where quotients lie on both sides of their products. There is no such number: a reciprocal is off by half a unit of its last place at most,
    /// and so are products with it, all in the same direction, by less than a unit of theirs.
    fn over(whole: f32) -> Option<Self> {
        let mut rows = Self::times(1.0 / whole);
        let mut below: Option<bool> = None;
        for (code, moved) in (0..).zip(&mut rows.moved[..0x7F]) {
            let scale = Scale::E4m3.value(code);
            let [quotient, product] = [scale / whole, scale * (1.0 / whole)].map(f32::to_bits);
            if quotient == product {
                continue;
            }
            let down = quotient < product;
            if quotient.abs_diff(product) != 1 || below.is_some_and(|below| below != down) {
                return None;
            }
            (below, *moved) = (Some(down), 0x80);
        }
        rows.head |= u32::from(below == Some(true)) << 31;
        Some(rows)
    }
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
        let (times, over) = match &self.whole {
            Whole::None => (1.0, 1.0),
            Whole::Times(part) => (number(part, read)?, 1.0),
            Whole::Over(part) => (1.0, number(part, read)?),
        };
        let codes = read.bytes(&self.codes)?;
        let scales = read.bytes(&self.scales)?;
        self.check_scales(&scales, read)?;
        for (codes, &scale) in codes.chunks_exact(self.scale.group() / 2).zip(&scales) {
            let scale = self.scale.value(scale) * times / over;
            values.extend(e2m1_values(codes, scale));
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

    /// The format of the blocks that devices decode; `None` for NVFP4 in rows that are no whole blocks, which have two of its groups.
    pub(super) fn blocks(&self) -> Option<BlockFormat> {
        let columns = self.shape()?.last().copied()?;
        columns.is_multiple_of(PAIRS).then_some(self.scale.format())
    }

    /// The bytes before the blocks of every row of NVFP4, whose scales get their highest bits.
    ///
    /// # Errors
    /// As [`Fours::decode`], and [`WeightsError::WrongTensor`] for negative scales, and a scale of all that rows can't have.
    fn head(&self, scales: &mut [u8], read: &dyn ReadParts) -> Result<Vec<u8>, WeightsError> {
        if let Some(bad) = scales.iter().find(|scale| **scale >= 0x80) {
            let got = format!("{}: decode the weights", self.scale.value(*bad));
            return Err(read.unfit(&self.scales, "scales that aren't negative", &got));
        }
        let rows = self.rows(read)?;
        for scale in scales {
            *scale |= rows.moved[usize::from(*scale)];
        }
        Ok(rows.head.to_le_bytes().to_vec())
    }

    /// What rows of blocks have of the scale of all.
    ///
    /// # Errors
    /// As [`Fours::decode`], and [`WeightsError::WrongTensor`] for a scale that rows can't have.
    fn rows(&self, read: &dyn ReadParts) -> Result<Rows, WeightsError> {
        let (part, whole, rows) = match &self.whole {
            Whole::None => return Ok(Rows::times(1.0)),
            Whole::Times(part) => {
                let whole = number(part, read)?;
                (part, whole, Some(Rows::times(whole)))
            }
            Whole::Over(part) => {
                let whole = number(part, read)?;
                (part, whole, Rows::over(whole))
            }
        };
        let [least, most] = OF_ROWS;
        let fits = |rows: &Rows| {
            let scale = f32::from_bits(rows.head & 0x7FFF_FFFF);
            (least..=most).contains(&scale)
        };
        rows.filter(fits).ok_or_else(|| {
            let got = format!("{whole}: decode the weights");
            read.unfit(part, "a number from 2^-90 to 2^90", &got)
        })
    }

    /// Fills `out` with the blocks of rows of `columns` values each.
    ///
    /// # Errors
    /// As [`Fours::decode`], and [`WeightsError::WrongTensor`] for scales of NVFP4 that are negative or that rows can't have.
    pub(super) fn read_blocks(
        &self,
        rows: Range<usize>,
        columns: usize,
        read: &dyn ReadParts,
        out: &mut [u8],
    ) -> Result<(), WeightsError> {
        const HALF: usize = PAIRS / 2;
        let (of_group, of_block) = (self.scale.group() / 2, PAIRS / self.scale.group());
        let across = columns / PAIRS * of_block;
        let [from, to] = [rows.start, rows.end].map(|row| row as u64 * across as u64);
        let mut scales = read.some(&self.scales, from..to)?;
        self.check_scales(&scales, read)?;
        let codes = read.some(&self.codes, of_group as u64 * from..of_group as u64 * to)?;
        let head = match self.scale {
            Scale::E4m3 => self.head(&mut scales, read)?,
            Scale::E8m0 => Vec::new(),
        };
        let scales = scales.chunks_exact(of_block);
        let mut parts = scales.zip(codes.as_chunks::<HALF>().0);
        let format = self.scale.format();
        let layout = format.layout();
        for row in out.chunks_exact_mut(format.row_bytes(columns).max(1)) {
            let (first, blocks) = row.split_at_mut(head.len());
            first.copy_from_slice(&head);
            for (block, (scales, codes)) in blocks.chunks_exact_mut(layout.bytes).zip(&mut parts) {
                block[..scales.len()].copy_from_slice(scales);
                let code = |at: usize| codes[at / 2] >> (at % 2 * 4) & 15;
                layout.put(&std::array::from_fn::<_, PAIRS, _>(code), block);
            }
        }
        Ok(())
    }
}

/// The only value of a part, a positive number.
fn number(part: &Part, read: &dyn ReadParts) -> Result<f32, WeightsError> {
    let value = read.floats(part)?.first().copied().unwrap_or(f32::NAN);
    let fits = value.is_finite() && value > 0.0;
    let wrong = || read.unfit(part, "a positive number", &value.to_string());
    fits.then_some(value).ok_or_else(wrong)
}

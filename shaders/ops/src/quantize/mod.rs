//! FP8 quantisation of a stack of matrices into codes and scales, and dequantisation.
//!
//! code = encode(x / scale), y = decode(code) · scale. A block of values shares a scale, which follows from its largest finite
//! magnitude ([`crate::scaling`]) or is given. With f32 scales, x / scale is a division, as exact as the target's; with E8M0
//! scales it is exact. NaN and infinities are encoded as [`crate::fp8::Overflow`] says.
//!
//! Shapes: x and y \[M, rows, columns\] of the element type; words u32 \[M, rows, ⌈columns/4⌉\], where every row is padded with
//! zero codes; scales f32 \[M, down, across\], or words of four E8M0 bytes \[M, rows, ⌈across/4⌉\] padded with zeros
//! ([`scale_shape`](crate::scaling::Granularity::scale_shape)). Blocks are cut at the edges of their matrix. Given scales must be
//! positive and finite; others, and f32 scales below 2⁻¹²⁶, give unspecified codes and values. On a device that flushes
//! subnormals, a value below 2⁻¹²⁶ counts as 0 in x / scale, but still counts in the largest magnitude. Bytes: x once or twice,
//! and a quarter of the bytes of f32 for the words.
//!
//! [`quantize_host`] quantises matrices on the host; functions whose names end in `_reference` are the oracles.

mod host;
mod oracle;

pub use host::{
    Blocks, LEAST_SQUARES_TRIED, Quantized, amax_host, decoded_codes, least_squares_factors,
    quantize_host,
};
pub use oracle::{
    Scales, amax_reference, dequantize_reference, encode_reference, scales_reference,
};

use crate::element::Element;
use crate::error::{Fault, INDEX, Mismatch, fits};
use crate::fp8::{Fp8Format, LANES_PER_WORD, Overflow};
use crate::scaling::{Fp8Scheme, Granularity, ScaleType};
use serde::{Deserialize, Serialize};

/// The largest absolute margin, in powers of two.
pub const MARGIN_MAX: i32 = 64;

getters! {
    /// The description of a stack of matrices and its quantisation.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Problem {
        /// The shape \[M, rows, columns\].
        shape: [usize; 3],
        /// Type of x and y.
        element: Element,
        /// Which values share a scale.
        granularity: Granularity,
        /// Format of the codes.
        format: Fp8Format,
        /// How to encode magnitudes beyond the largest value.
        overflow: Overflow => with_overflow,
        /// The power of two by which scales are enlarged, as headroom.
        margin: i32,
    }
}

impl Problem {
    /// A problem over `shape` = \[M, rows, columns\] values that saturates and has no margin.
    ///
    /// # Errors
    /// [`Mismatch`] for a block without rows or columns, or an index that would not fit 31 bits.
    pub fn new(
        shape: [usize; 3],
        element: Element,
        granularity: Granularity,
        format: Fp8Format,
    ) -> Result<Self, Mismatch> {
        check_granularity(granularity)?;
        let [matrices, rows, columns] = shape;
        // The padding of a row to whole words must not overflow either.
        let padded = columns.checked_next_multiple_of(LANES_PER_WORD * LANES_PER_WORD);
        let padded = padded.unwrap_or(usize::MAX);
        let right = fits(&[padded, rows.max(1), matrices.max(1)]);
        let got = format_args!("{matrices} x {rows} x {columns}");
        Mismatch::unless(right, "fp8 values", INDEX, got)?;
        Ok(Self {
            shape,
            element,
            granularity,
            format,
            overflow: Overflow::Saturate,
            margin: 0,
        })
    }

    /// A copy whose scales are 2^`margin` times as large.
    ///
    /// # Errors
    /// [`Mismatch`] when `margin` is beyond ±[`MARGIN_MAX`].
    pub fn with_margin(self, margin: i32) -> Result<Self, Mismatch> {
        check_margin(margin)?;
        Ok(Self { margin, ..self })
    }

    /// Repeats the constructor's checks for a deserialised problem.
    pub(crate) fn check(&self) -> Result<(), Mismatch> {
        Self::new(self.shape, self.element, self.granularity, self.format)?;
        check_margin(self.margin)
    }

    /// The shape of the words \[M, rows, ⌈columns/4⌉\].
    pub fn words_shape(&self) -> [usize; 3] {
        let [matrices, rows, columns] = self.shape;
        [matrices, rows, columns.div_ceil(LANES_PER_WORD)]
    }

    /// The shape of the scales: f32 \[M, down, across\], or words of E8M0 bytes \[M, rows, ⌈across/4⌉\].
    pub fn scales_shape(&self) -> [usize; 3] {
        let [matrices, rows, columns] = self.shape;
        let [down, across] = self.granularity.scale_shape(rows, columns);
        [matrices, down, across]
    }

    /// The number of values M · rows · columns.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether there are no values, so that nothing is launched.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of words of the codes.
    pub fn words(&self) -> usize {
        self.words_shape().iter().product()
    }

    /// The number of elements of the tensor of scales.
    pub fn scales(&self) -> usize {
        self.scales_shape().iter().product()
    }

    /// Rows and columns of a block.
    pub fn block(&self) -> [usize; 2] {
        let [_, rows, columns] = self.shape;
        let [r, c] = self.granularity.block(rows, columns);
        // Clamped to the matrix, because larger sizes could overflow indices.
        [r.min(rows.max(1)), c.min(columns.max(1))]
    }

    /// Blocks of a matrix, down and across.
    pub fn blocks(&self) -> [usize; 2] {
        let [_, rows, columns] = self.shape;
        self.granularity.blocks(rows, columns)
    }

    /// Whether a word may hold codes of two blocks.
    pub fn cuts_words(&self) -> bool {
        let [_, across] = self.blocks();
        across > 1 && !self.block()[1].is_multiple_of(LANES_PER_WORD)
    }

    /// The number of scales across a matrix, padded to whole words.
    pub fn padded_across(&self) -> usize {
        let [_, across] = self.blocks();
        across.next_multiple_of(self.scales_per_word())
    }

    /// The number of scales per word: 4 for E8M0, 1 for f32.
    pub fn scales_per_word(&self) -> usize {
        match self.granularity {
            Granularity::Mx => LANES_PER_WORD,
            _ => 1,
        }
    }
}

/// Checks that a block isn't empty.
///
/// # Errors
/// [`Mismatch`] for a block without rows or columns.
pub fn check_granularity(granularity: Granularity) -> Result<(), Mismatch> {
    match granularity {
        Granularity::Block { rows, columns } if rows == 0 || columns == 0 => {
            let got = format!("{rows} x {columns}");
            Err(Fault::Config.error("block of a scale", "at least 1 x 1", got))
        }
        _ => Ok(()),
    }
}

/// Checks the margin of scales.
///
/// # Errors
/// [`Mismatch`] when `margin` is beyond ±[`MARGIN_MAX`].
pub fn check_margin(margin: i32) -> Result<(), Mismatch> {
    let right = margin.unsigned_abs() <= MARGIN_MAX.unsigned_abs();
    let expected = format_args!("-{MARGIN_MAX} to {MARGIN_MAX}");
    Fault::Config.unless(right, "margin of a scale", expected, margin)
}

getters! {
    /// The largest finite magnitude of a tensor as f32 \[1\]: amax = max |x| over the finite x, subnormals included; 0 if no x is
    /// finite.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct AmaxProblem {
        /// The number of values, at least 1.
        #[allow(clippy::len_without_is_empty, reason = "there is at least one")]
        len: usize,
        /// The type of the values.
        element: Element,
    }
}

impl AmaxProblem {
    /// A problem over `len` values.
    ///
    /// # Errors
    /// [`Mismatch`] when `len` is 0 or an index would not fit 31 bits.
    pub fn new(len: usize, element: Element) -> Result<Self, Mismatch> {
        let right = (1..=i32::MAX as usize).contains(&len);
        Mismatch::unless(right, "values of an amax", "1 to 2^31 - 1", len)?;
        Ok(Self { len, element })
    }
}

/// How a block's scale follows from its values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScaleRule {
    /// From the block's largest magnitude, so that no value saturates.
    #[default]
    Largest,
    /// The scale with the least squared error among sixteen: the scale of [`Self::Largest`] and fifteen larger ones, spaced by
    /// 1/16 octave. No value saturates, and smaller blocks gain more. MX scales don't support it. On a device it takes seventeen
    /// quantisations and sixteen dequantisations, and memory for a few copies of the values in f32. A block whose squares under-
    /// or overflow in f32 keeps its first scale.
    LeastSquares,
}

/// The settings of a quantisation: code = encode(x / scale) with scale = amax · 2^margin / MAX, where amax is the largest finite
/// magnitude among the values that share a scale, and MAX the format's largest value.
///
/// A block of zeros has scale 1; no scale is below 2⁻¹²⁶. NaN and infinities don't count for amax. An MX scale is the smallest
/// power of two that is at least amax · 2^margin / MAX. [`ScaleRule::LeastSquares`] also tries larger scales.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quantizer {
    /// Format of the codes.
    pub format: Fp8Format,
    /// Which values share a scale.
    pub granularity: Granularity,
    /// How to encode magnitudes beyond the largest value: infinities, and also finite values if scales are given or the margin is
    /// negative.
    #[serde(default = "saturate")]
    pub overflow: Overflow,
    /// The power of two by which scales are enlarged, −64 to 64.
    #[serde(default)]
    pub margin: i32,
    /// How scales follow from the values.
    #[serde(default)]
    pub scales: ScaleRule,
}

fn saturate() -> Overflow {
    Overflow::Saturate
}

impl Quantizer {
    /// A quantiser that saturates and has no margin.
    pub fn new(format: Fp8Format, granularity: Granularity) -> Self {
        Self {
            format,
            granularity,
            overflow: saturate(),
            margin: 0,
            scales: ScaleRule::Largest,
        }
    }

    /// A copy with another overflow mode.
    #[must_use]
    pub fn with_overflow(self, overflow: Overflow) -> Self {
        Self { overflow, ..self }
    }

    /// A copy whose scales are 2^`margin` times as large.
    #[must_use]
    pub fn with_margin(self, margin: i32) -> Self {
        Self { margin, ..self }
    }

    /// A copy with another rule for scales.
    #[must_use]
    pub fn with_scales(self, scales: ScaleRule) -> Self {
        Self { scales, ..self }
    }

    /// Checks the settings; every quantisation does so, too.
    ///
    /// # Errors
    /// [`Mismatch`] for a margin beyond ±64, a block without rows or columns, or least squares with MX scales or a negative
    /// margin.
    pub fn validate(&self) -> Result<(), Mismatch> {
        check_granularity(self.granularity)?;
        let searched = self.scales == ScaleRule::LeastSquares;
        let fits = !searched || self.granularity.scale_type() == ScaleType::F32;
        Fault::Config.unless(fits, "scales by least squares", "f32", "E8M0")?;
        // A negative margin makes values saturate, which the search doesn't take into account.
        let fits = !searched || self.margin >= 0;
        Fault::Config.unless(
            fits,
            "margin of scales by least squares",
            "0 to 64",
            self.margin,
        )?;
        check_margin(self.margin)
    }

    /// The quantisation of a stack of matrices of `shape` by these settings.
    ///
    /// # Errors
    /// [`Mismatch`] under the conditions of [`Self::validate`] and [`Problem::new`].
    pub fn problem(&self, shape: [usize; 3], element: Element) -> Result<Problem, Mismatch> {
        self.validate()?;
        let problem = Problem::new(shape, element, self.granularity, self.format)?;
        let problem = problem.with_overflow(self.overflow);
        problem.with_margin(self.margin)
    }
}

impl From<Fp8Scheme> for Quantizer {
    fn from(scheme: Fp8Scheme) -> Self {
        Self::new(scheme.format, scheme.granularity)
    }
}

impl From<Quantizer> for Fp8Scheme {
    fn from(quantizer: Quantizer) -> Self {
        Self {
            format: quantizer.format,
            granularity: quantizer.granularity,
        }
    }
}

//! FP8 quantisation: codes and scales of a stack of matrices, and back.
//!
//! code = encode(x / scale), y = decode(code) · scale, where a block of values shares a scale that
//! follows from its largest finite magnitude ([`crate::scaling`]) or is given. Quotients of f32
//! scales are divisions, as exact as the target's; those of E8M0 scales are exact. NaN and
//! infinities are encoded as such ([`crate::fp8::Overflow`]).
//!
//! Shapes: x and y \[M, rows, columns\] of the element type, words u32 \[M, rows, ⌈columns/4⌉\] where
//! every row is padded with zero codes, scales f32 \[M, down, across\] or words of four E8M0 bytes
//! \[M, rows, ⌈across/4⌉\], padded with zeros ([`scale_shape`](crate::scaling::Granularity::scale_shape)). Blocks end at the edges
//! of their matrix. Given scales are positive and finite; others, and f32 scales below 2⁻¹²⁶,
//! make codes or values that no contract covers. A value below 2⁻¹²⁶ counts as 0 in a quotient on
//! a device that flushes subnormals, though not in the largest magnitude. Bytes: x once
//! or twice, a quarter of f32 for the words.
//!
//! [`quantize_host`] quantises matrices on the host; functions that end in `_reference` are the oracle.

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

/// The largest margin either way, in powers of two.
pub const MARGIN_MAX: i32 = 64;

getters! {
    /// A stack of matrices and how its values are scaled.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Problem {
        /// \[M, rows, columns\].
        shape: [usize; 3],
        /// Type of x and y.
        element: Element,
        /// Which values share a scale.
        granularity: Granularity,
        /// Format of the codes.
        format: Fp8Format,
        /// What becomes of magnitudes beyond the largest value.
        overflow: Overflow => with_overflow,
        /// Powers of two that scales have to spare.
        margin: i32,
    }
}

impl Problem {
    /// Of `shape` = \[M, rows, columns\] values; saturating, without a margin.
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
        // Padding a row to a word must not overflow either.
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

    /// A copy with scales 2^`margin` times as large.
    ///
    /// # Errors
    /// [`Mismatch`] beyond ±[`MARGIN_MAX`].
    pub fn with_margin(self, margin: i32) -> Result<Self, Mismatch> {
        check_margin(margin)?;
        Ok(Self { margin, ..self })
    }

    /// Checks what the constructor does, of a problem that was read.
    pub(crate) fn check(&self) -> Result<(), Mismatch> {
        Self::new(self.shape, self.element, self.granularity, self.format)?;
        check_margin(self.margin)
    }

    /// \[M, rows, ⌈columns/4⌉\].
    pub fn words_shape(&self) -> [usize; 3] {
        let [matrices, rows, columns] = self.shape;
        [matrices, rows, columns.div_ceil(LANES_PER_WORD)]
    }

    /// \[M, down, across\] f32s or words of E8M0 bytes.
    pub fn scales_shape(&self) -> [usize; 3] {
        let [matrices, rows, columns] = self.shape;
        let [down, across] = self.granularity.scale_shape(rows, columns);
        [matrices, down, across]
    }

    /// Values M · rows · columns.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether there are no values; then nothing is launched.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Words of the codes.
    pub fn words(&self) -> usize {
        self.words_shape().iter().product()
    }

    /// Elements of the tensor of scales.
    pub fn scales(&self) -> usize {
        self.scales_shape().iter().product()
    }

    /// Rows and columns of a block.
    pub fn block(&self) -> [usize; 2] {
        let [_, rows, columns] = self.shape;
        let [r, c] = self.granularity.block(rows, columns);
        // Indices past the matrix would only overflow.
        [r.min(rows.max(1)), c.min(columns.max(1))]
    }

    /// Blocks of a matrix, down and across.
    pub fn blocks(&self) -> [usize; 2] {
        let [_, rows, columns] = self.shape;
        self.granularity.blocks(rows, columns)
    }

    /// Whether a word may have values of two blocks.
    pub fn cuts_words(&self) -> bool {
        let [_, across] = self.blocks();
        across > 1 && !self.block()[1].is_multiple_of(LANES_PER_WORD)
    }

    /// Blocks across a matrix, a whole number of words of scales.
    pub fn padded_across(&self) -> usize {
        let [_, across] = self.blocks();
        across.next_multiple_of(self.scales_per_word())
    }

    /// Scales of a word, or 1.
    pub fn scales_per_word(&self) -> usize {
        match self.granularity {
            Granularity::Mx => LANES_PER_WORD,
            _ => 1,
        }
    }
}

/// Checks that a block holds something.
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

/// Checks a margin.
///
/// # Errors
/// [`Mismatch`] beyond ±[`MARGIN_MAX`].
pub fn check_margin(margin: i32) -> Result<(), Mismatch> {
    let right = margin.unsigned_abs() <= MARGIN_MAX.unsigned_abs();
    let expected = format_args!("-{MARGIN_MAX} to {MARGIN_MAX}");
    Fault::Config.unless(right, "margin of a scale", expected, margin)
}

getters! {
    /// The largest finite magnitude of a tensor, as an f32 \[1\]: amax = max |x| over the finite x, 0 without any; subnormals count.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct AmaxProblem {
        /// Values, at least one.
        #[allow(clippy::len_without_is_empty, reason = "there is at least one")]
        len: usize,
        /// Their type.
        element: Element,
    }
}

impl AmaxProblem {
    /// Of `len` values.
    ///
    /// # Errors
    /// [`Mismatch`] for none, or an index that would not fit 31 bits.
    pub fn new(len: usize, element: Element) -> Result<Self, Mismatch> {
        let right = (1..=i32::MAX as usize).contains(&len);
        Mismatch::unless(right, "values of an amax", "1 to 2^31 - 1", len)?;
        Ok(Self { len, element })
    }
}

/// How the scale of values that share one follows from them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScaleRule {
    /// From their largest magnitude, so that none saturates.
    #[default]
    Largest,
    /// Of that scale and fifteen larger ones, each a sixteenth of an octave above the one before, that with the least squared error. None
    /// saturates, and the fewer values share a scale, the more there is to gain. Not for MX scales. On a device it takes seventeen quantisations
    /// and sixteen dequantisations, and memory for the values in f32 a few times over. Where squares under- or overflow in f32, a block
    /// keeps its first scale.
    LeastSquares,
}

/// code = encode(x / scale) with scale = amax · 2^margin / MAX, where amax is the largest finite
/// magnitude among the values that share a scale.
///
/// A block of zeros has scale 1; no scale is below 2⁻¹²⁶. NaN and infinities take no part in amax.
/// An MX scale is the power of two at or above that quotient. [`ScaleRule::LeastSquares`] looks for better scales above.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quantizer {
    /// Format of the codes.
    pub format: Fp8Format,
    /// Which values share a scale.
    pub granularity: Granularity,
    /// What becomes of magnitudes beyond the largest value: of infinities, and, where scales are
    /// given or the margin is negative, of others.
    #[serde(default = "saturate")]
    pub overflow: Overflow,
    /// Powers of two that scales have to spare, −64 to 64.
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
    /// Saturating, without a margin.
    pub fn new(format: Fp8Format, granularity: Granularity) -> Self {
        Self {
            format,
            granularity,
            overflow: saturate(),
            margin: 0,
            scales: ScaleRule::Largest,
        }
    }

    /// With another overflow mode.
    #[must_use]
    pub fn with_overflow(self, overflow: Overflow) -> Self {
        Self { overflow, ..self }
    }

    /// With scales 2^`margin` times as large.
    #[must_use]
    pub fn with_margin(self, margin: i32) -> Self {
        Self { margin, ..self }
    }

    /// With scales by another rule.
    #[must_use]
    pub fn with_scales(self, scales: ScaleRule) -> Self {
        Self { scales, ..self }
    }

    /// Checks the settings; whatever quantises does so, too.
    ///
    /// # Errors
    /// [`Mismatch`] for a margin beyond ±64, a block without rows or columns, or least squares of MX scales or with
    /// a negative margin.
    pub fn validate(&self) -> Result<(), Mismatch> {
        check_granularity(self.granularity)?;
        let searched = self.scales == ScaleRule::LeastSquares;
        let fits = !searched || self.granularity.scale_type() == ScaleType::F32;
        Fault::Config.unless(fits, "scales by least squares", "f32", "E8M0")?;
        // Values would saturate, which the search doesn't weigh.
        let fits = !searched || self.margin >= 0;
        Fault::Config.unless(
            fits,
            "margin of scales by least squares",
            "0 to 64",
            self.margin,
        )?;
        check_margin(self.margin)
    }

    /// The quantisation of a stack of matrices.
    ///
    /// # Errors
    /// Those of [`Self::validate`] and [`Problem::new`].
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

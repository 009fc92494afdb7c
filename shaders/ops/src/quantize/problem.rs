//! A stack of matrices that is quantised.

use crate::element::Element;
use crate::error::{Fault, INDEX, Mismatch, fits};
use crate::fp8::{Fp8Format, LANES_PER_WORD, Overflow};
use crate::scaling::Granularity;
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

impl Problem {
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

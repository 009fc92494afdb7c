//! How a tensor is quantised.

use super::problem::{Problem, check_granularity, check_margin};
use crate::element::Element;
use crate::error::{Fault, Mismatch};
use crate::fp8::{Fp8Format, Overflow};
use crate::scaling::{Fp8Scheme, Granularity, ScaleType};
use serde::{Deserialize, Serialize};

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

//! How a training rounds to FP8.

use crate::Error;
use crate::check::{check_size, check_within};
use moebius_ops::Mismatch;
use moebius_ops::fp8::Fp8Format;
use serde::{Deserialize, Serialize};

/// The longest history that is kept.
const MAX_HISTORY: usize = 1 << 16;

/// The largest margin, either way: beyond it nothing of a tensor is left.
const MAX_MARGIN: f64 = 32.0;

/// Which formats a training multiplies in, and where their scales come from.
///
/// x ≈ code · scale with scale = amax · 2^margin / MAX, one each for the inputs, the weights and the
/// gradients of every product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fp8Recipe {
    /// Of inputs and weights.
    pub forward: Fp8Format,
    /// Of gradients of outputs.
    pub backward: Fp8Format,
    /// Where amax comes from.
    pub scaling: Fp8Scaling,
    /// Powers of two left free above amax; a delayed scale may meet larger values than its history.
    pub margin: i32,
}

/// Where the amax of a scale comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Fp8Scaling {
    /// The tensor itself: nothing saturates, and every tensor is read twice.
    Current,
    /// The steps before, as in Transformer Engine: a tensor is read once.
    Delayed {
        /// Steps that are remembered, this one included.
        history_len: usize,
        /// What of them counts.
        algorithm: AmaxAlgorithm,
    },
}

/// Which amax of a history counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AmaxAlgorithm {
    /// The largest.
    Max,
    /// The last step's.
    MostRecent,
}

setters! { Fp8Recipe:
    /// A copy with other scaling.
    with_scaling: scaling: Fp8Scaling,
    /// A copy with another margin.
    with_margin: margin: i32,
}

impl Fp8Recipe {
    /// E4M3 forward, E5M2 backward, scales from the largest amax of 1024 steps, no margin.
    pub fn delayed() -> Self {
        Self {
            forward: Fp8Format::E4M3,
            backward: Fp8Format::E5M2,
            scaling: Fp8Scaling::Delayed {
                history_len: 1024,
                algorithm: AmaxAlgorithm::Max,
            },
            margin: 0,
        }
    }

    /// E4M3 forward, E5M2 backward, scales from each tensor itself, no margin.
    pub fn current() -> Self {
        Self {
            scaling: Fp8Scaling::Current,
            ..Self::delayed()
        }
    }

    /// Checks what can be wrong with a recipe from elsewhere.
    ///
    /// # Errors
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) for a history outside 1..=65536 or a margin
    /// outside −32..=32.
    pub fn validate(&self) -> Result<(), Error> {
        Ok(self.check()?)
    }

    pub(crate) fn check(&self) -> Result<(), Mismatch> {
        if let Fp8Scaling::Delayed { history_len, .. } = self.scaling {
            check_size("amax history", history_len, MAX_HISTORY)?;
        }
        let margin = f64::from(self.margin);
        check_within("fp8 margin", margin, -MAX_MARGIN, MAX_MARGIN)
    }

    /// The formats of inputs, weights and gradients, in the order of all states.
    pub(crate) fn formats(&self) -> [Fp8Format; 3] {
        [self.forward, self.forward, self.backward]
    }
}

impl Default for Fp8Recipe {
    fn default() -> Self {
        Self::delayed()
    }
}

#[cfg(test)]
#[path = "recipe_tests.rs"]
mod tests;

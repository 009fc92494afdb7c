//! The largest finite magnitude: amax = max |x| over the finite x, 0 without any, as an f32 \[1\]; subnormals count.

use crate::element::Element;
use crate::error::ShapeError;

/// The largest finite magnitude of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AmaxProblem {
    len: usize,
    element: Element,
}

impl AmaxProblem {
    /// Of `len` values.
    ///
    /// # Errors
    /// [`ShapeError`] for none, or an index that would not fit 31 bits.
    pub fn new(len: usize, element: Element) -> Result<Self, ShapeError> {
        if len == 0 || len > i32::MAX as usize {
            return Err(ShapeError::new("values of an amax", "1 to 2^31 - 1", len));
        }
        Ok(Self { len, element })
    }

    /// Values, at least one.
    #[allow(clippy::len_without_is_empty, reason = "there is at least one")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Their type.
    pub fn element(&self) -> Element {
        self.element
    }
}

/// The oracle: the largest finite magnitude, 0 without any.
pub fn amax_reference(x: &[f32]) -> f32 {
    let finite = x.iter().filter(|x| x.is_finite());
    finite.fold(0.0, |amax: f32, x| amax.max(x.abs()))
}

//! Shapes of tensors.

use std::fmt;

use super::error::Error;
use crate::ElementType;

/// The type that a plugin names by its `PJRT_Buffer_Type`.
pub(super) fn from_code(number: i32) -> Result<ElementType, Error> {
    let mut all = ElementType::ALL.into_iter();
    let known = all.find(|element| element.pjrt() == number);
    known.ok_or(Error::UnknownElementType(number))
}

/// The element type and the dimensions of a tensor; no dimensions for a scalar.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TensorSpec {
    /// The type of its elements.
    pub element: ElementType,
    /// Its dimensions, the one whose neighbours lie furthest apart first.
    pub dims: Vec<usize>,
}

impl TensorSpec {
    /// A tensor of `element` with `dims`.
    pub fn new(element: ElementType, dims: impl Into<Vec<usize>>) -> Self {
        Self {
            element,
            dims: dims.into(),
        }
    }

    /// The bytes that it takes in host memory: the product of `dims` and the width of an element.
    ///
    /// # Errors
    ///
    /// [`Error::TooLarge`] when a dimension or the product is past what the C API can say (`i64`).
    pub fn bytes(&self) -> Result<usize, Error> {
        let too_large = || Error::TooLarge(self.clone());
        // A zero dimension makes the product zero, but must not hide one that does not fit.
        let all: Option<usize> = self
            .dims
            .iter()
            .filter(|&&dim| dim != 0)
            .try_fold(self.element.bytes(), |bytes, &dim| bytes.checked_mul(dim));
        let all = all
            .filter(|&bytes| i64::try_from(bytes).is_ok())
            .ok_or_else(too_large)?;
        Ok(if self.dims.contains(&0) { 0 } else { all })
    }

    /// The dimensions as the C API takes them, where [`Self::bytes`] has refused those that do not fit.
    pub(super) fn signed_dims(&self) -> Vec<i64> {
        self.dims.iter().map(|&dim| dim as i64).collect()
    }
}

impl fmt::Display for TensorSpec {
    /// The type in StableHLO text, e.g. `tensor<2x3xf32>`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("tensor<")?;
        for dim in &self.dims {
            write!(f, "{dim}x")?;
        }
        write!(f, "{}>", self.element)
    }
}

#[cfg(test)]
#[path = "tensor_tests.rs"]
mod tests;

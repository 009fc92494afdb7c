//! Types of tensors as a plugin says them.

use super::error::Error;
use crate::ElementType;
use crate::stablehlo::TensorType;

/// The type that a plugin names by its `PJRT_Buffer_Type`.
pub(super) fn from_code(number: i32) -> Result<ElementType, Error> {
    let mut all = ElementType::ALL.into_iter();
    let known = all.find(|element| element.pjrt() == number);
    known.ok_or(Error::UnknownElementType(number))
}

/// The bytes that a tensor takes in host memory: the product of its extents and the width of an element.
///
/// # Errors
///
/// [`Error::TooLarge`] when an extent or the product is past what the C API can say (`i64`).
pub(super) fn host_bytes(ty: &TensorType) -> Result<usize, Error> {
    // An extent of zero makes the product zero, but must not hide one that does not fit.
    let extents = ty.shape.iter().filter(|&&extent| extent != 0);
    let mut extents = extents.copied();
    let all = extents.try_fold(ty.element.bytes(), usize::checked_mul);
    let all = all.filter(|&bytes| i64::try_from(bytes).is_ok());
    let all = all.ok_or_else(|| Error::TooLarge(ty.clone()))?;
    Ok(if ty.shape.contains(&0) { 0 } else { all })
}

#[cfg(test)]
#[path = "tensor_tests.rs"]
mod tests;

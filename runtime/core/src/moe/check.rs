//! What a layer checks before it computes.

pub(super) use crate::check::cast_param;
use crate::check::{check_device, check_same, element};
use crate::fp8::Weight;
use crate::fp8::training::Fp8Product;
use burn::module::Param;
use burn::tensor::{DType, Device, Tensor};
use moebius_ops::ShapeError;

/// The dtype and the device that all weights of a layer share.
#[derive(Clone, Debug)]
pub(super) struct Like {
    pub(super) dtype: DType,
    pub(super) device: Device,
}

impl Like {
    /// Those of `tensor`, which must have a dtype that kernels know.
    pub(super) fn of<const D: usize>(tensor: &Tensor<D>) -> Result<Self, ShapeError> {
        element(tensor.dtype())?;
        Ok(Self {
            dtype: tensor.dtype(),
            device: tensor.device(),
        })
    }

    /// Checks shape, dtype and device of a weight.
    pub(super) fn check<const D: usize>(
        &self,
        what: &'static str,
        weight: &Param<Tensor<D>>,
        shape: [usize; D],
    ) -> Result<(), ShapeError> {
        let weight = weight.val();
        check_same(what, weight.dims(), shape)?;
        check_same(what, weight.dtype(), self.dtype)?;
        check_device(what, weight.device(), &self.device)
    }

    /// Those of a weight.
    pub(super) fn of_weight(weight: &Weight<3>) -> Result<Self, ShapeError> {
        element(weight.dtype())?;
        Ok(Self {
            dtype: weight.dtype(),
            device: weight.device(),
        })
    }

    /// Checks shape, dtype and device of a weight in any precision, and the scales it trains with.
    pub(super) fn check_weight(
        &self,
        what: &'static str,
        weight: &Weight<3>,
        shape: [usize; 3],
    ) -> Result<(), ShapeError> {
        check_same(what, weight.dims(), shape)?;
        check_same(what, weight.dtype(), self.dtype)?;
        check_device(what, weight.device(), &self.device)?;
        weight.product().map_or(Ok(()), Fp8Product::check)
    }

    /// Checks a weight that is there exactly when `present`.
    pub(super) fn check_optional<const D: usize>(
        &self,
        what: &'static str,
        weight: &Option<Param<Tensor<D>>>,
        present: bool,
        shape: [usize; D],
    ) -> Result<(), ShapeError> {
        match weight {
            Some(weight) if present => self.check(what, weight, shape),
            None if !present => Ok(()),
            _ => {
                let word = |present: bool| if present { "present" } else { "absent" };
                Err(ShapeError::new(what, word(present), word(weight.is_some())))
            }
        }
    }
}

/// Checks that a size is at least 1.
pub(super) fn check_positive(what: &'static str, size: usize) -> Result<(), ShapeError> {
    if size == 0 {
        return Err(ShapeError::new(what, "at least 1", size));
    }
    Ok(())
}

/// Checks that a size is in 1..=`most`.
pub(super) fn check_size(what: &'static str, size: usize, most: usize) -> Result<(), ShapeError> {
    if (1..=most).contains(&size) {
        return Ok(());
    }
    Err(ShapeError::new(what, format!("1 to {most}"), size))
}

/// Checks that a number lies in `from..=to`, both finite.
pub(super) fn check_within(
    what: &'static str,
    number: f64,
    from: f64,
    to: f64,
) -> Result<(), ShapeError> {
    if number >= from && number <= to {
        return Ok(());
    }
    Err(ShapeError::new(what, format!("{from} to {to}"), number))
}

/// Checks a probability that must leave something.
pub(super) fn check_probability(what: &'static str, number: f64) -> Result<(), ShapeError> {
    if (0.0..1.0).contains(&number) {
        return Ok(());
    }
    Err(ShapeError::new(what, "0 or more, and below 1", number))
}

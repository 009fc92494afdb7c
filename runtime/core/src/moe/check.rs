//! Checks that a layer makes before it computes.

use crate::check::{check_device, check_same, element};
use crate::fp8::Weight;
use crate::fp8::training::Fp8Product;
use burn::module::Param;
use burn::tensor::{DType, Device, Tensor};
use moebius_ops::Mismatch;

/// The dtype and the device that all weights of a layer share.
#[derive(Clone, Debug)]
pub(super) struct Like {
    pub(super) dtype: DType,
    pub(super) device: Device,
}

impl Like {
    /// The dtype and device of `tensor`; the kernels must know the dtype.
    pub(super) fn of<const D: usize>(tensor: &Tensor<D>) -> Result<Self, Mismatch> {
        Self::new(tensor.dtype(), tensor.device())
    }

    /// A dtype, which the kernels must know, and a device.
    pub(super) fn new(dtype: DType, device: Device) -> Result<Self, Mismatch> {
        element(dtype)?;
        Ok(Self { dtype, device })
    }

    /// What the matrix of logits is like: in f32 it may be so in a layer of any dtype, since logits are.
    pub(super) fn for_logits<const D: usize>(&self, matrix: &Param<Tensor<D>>) -> Self {
        let dtype = match matrix.dtype() {
            DType::F32 => DType::F32,
            _ => self.dtype,
        };
        Self {
            dtype,
            device: self.device.clone(),
        }
    }

    /// Checks x \[.., H\] of width `hidden`.
    pub(super) fn check_input<const D: usize>(
        &self,
        x: &Tensor<D>,
        hidden: usize,
    ) -> Result<(), Mismatch> {
        let last = x.dims().last().copied().unwrap_or(0);
        Mismatch::check("last dimension of x", hidden, last)?;
        check_same("dtype of x", x.dtype(), self.dtype)?;
        check_device("device of x", x.device(), &self.device)
    }

    /// Checks shape, dtype and device of a weight.
    pub(super) fn check<const D: usize>(
        &self,
        what: &'static str,
        weight: &Param<Tensor<D>>,
        shape: [usize; D],
    ) -> Result<(), Mismatch> {
        check_same(what, weight.dims(), shape)?;
        check_same(what, weight.dtype(), self.dtype)?;
        check_device(what, weight.device(), &self.device)
    }

    /// Checks shape, dtype and device of a weight in any precision, and the scales it trains with.
    pub(super) fn check_weight(
        &self,
        what: &'static str,
        weight: &Weight<3>,
        shape: [usize; 3],
    ) -> Result<(), Mismatch> {
        check_same(what, weight.dims(), shape)?;
        check_same(what, weight.dtype(), self.dtype)?;
        check_device(what, weight.device(), &self.device)?;
        weight.product().map_or(Ok(()), Fp8Product::check)
    }

    /// Checks a weight that must be present exactly when `present` is true.
    pub(super) fn check_optional<const D: usize>(
        &self,
        what: &'static str,
        weight: &Option<Param<Tensor<D>>>,
        present: bool,
        shape: [usize; D],
    ) -> Result<(), Mismatch> {
        match weight {
            Some(weight) if present => self.check(what, weight, shape),
            None if !present => Ok(()),
            _ => {
                let word = |present: bool| if present { "present" } else { "absent" };
                Err(Mismatch::new(what, word(present), word(weight.is_some())))
            }
        }
    }
}

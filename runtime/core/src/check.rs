//! What every operation checks of its tensors.

use burn::module::Param;
use burn::tensor::{DType, Device, Tensor};
use moebius_ops::{Element, ShapeError};
use std::fmt::Debug;

/// Checks for the same device, recording gradients or not alike.
pub(crate) fn check_device(
    what: &'static str,
    got: Device,
    expected: &Device,
) -> Result<(), ShapeError> {
    if got.is_autodiff() != expected.is_autodiff() {
        return Err(differs(what, &got, expected));
    }
    check_same(what, &got, expected)
}

/// Checks that two things are the same.
pub(crate) fn check_same<T: PartialEq + Debug>(
    what: &'static str,
    got: T,
    expected: T,
) -> Result<(), ShapeError> {
    if got == expected {
        return Ok(());
    }
    Err(differs(what, &got, &expected))
}

fn differs(what: &'static str, got: &impl Debug, expected: &impl Debug) -> ShapeError {
    ShapeError::new(what, format!("{expected:?}"), format!("{got:?}"))
}

/// The kernels' name of a dtype.
pub(crate) fn element(dtype: DType) -> Result<Element, ShapeError> {
    match dtype {
        DType::F32 => Ok(Element::F32),
        DType::F16 => Ok(Element::F16),
        DType::BF16 => Ok(Element::Bf16),
        other => Err(ShapeError::new(
            "dtype",
            "f32, f16 or bf16",
            format!("{other:?}"),
        )),
    }
}

/// A parameter in another dtype; it stays a leaf, trained or frozen as before.
pub(crate) fn cast_param<const D: usize>(
    param: Param<Tensor<D>>,
    dtype: DType,
) -> Param<Tensor<D>> {
    param.map(|tensor| {
        let trained = tensor.is_require_grad();
        tensor.cast(dtype).detach().set_require_grad(trained)
    })
}

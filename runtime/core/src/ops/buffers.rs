//! Tensors of the CubeCL backend as buffers.

use burn::tensor::{DType, Shape};
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::ops::numeric::empty_device_contiguous_dtype;
use burn_cubecl::tensor::CubeTensor;
use cubecl::server::Handle;

/// A new tensor beside `like`, contents undefined.
pub(super) fn empty_like<const D: usize>(
    like: &CubeTensor,
    shape: [usize; D],
    dtype: DType,
) -> CubeTensor {
    let (client, device) = (like.client.clone(), like.device.clone());
    empty_device_contiguous_dtype(client, device, Shape::from(shape), dtype)
}

/// The buffer of a tensor laid out row by row.
pub(super) fn handle(tensor: CubeTensor) -> Handle {
    into_contiguous(tensor).handle
}

/// The plan of a call on a CubeCL device; [`crate::device::capability`] gave it one.
pub(super) fn planned<P>(plan: Option<P>) -> P {
    match plan {
        Some(plan) => plan,
        None => unreachable!("a call on a CubeCL device carries a plan"),
    }
}

/// Values in another dtype.
pub(super) fn cast_like(values: CubeTensor, dtype: DType) -> CubeTensor {
    if values.dtype == dtype {
        return values;
    }
    burn_cubecl::kernel::cast(values, dtype)
}

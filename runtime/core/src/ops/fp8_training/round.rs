//! Values to the nearest of a format and back, with one scale for all of them.

use super::RoundCall;
use crate::ops::Fp8Ops;
use burn::backend::tensor::FloatTensor;
use burn::backend::{TensorMetadata, get_device_settings};
use burn::tensor::{FloatDType, Shape};
use moebius_shaders::fp8::Overflow;

/// What came out.
pub(crate) struct Rounded<B: burn::backend::Backend> {
    /// The shape and dtype of what went in.
    pub(crate) y: FloatTensor<B>,
    /// \[1\] f32: the largest finite magnitude.
    pub(crate) amax: FloatTensor<B>,
}

/// decode(encode(x / s)) · s with the scale \[1\] that is given, or the one of x's own amax. What
/// isn't finite stays what it is: the largest value in its place would hide an overflow from loss
/// scaling.
pub(crate) fn round<B: Fp8Ops>(
    x: FloatTensor<B>,
    scale: Option<FloatTensor<B>>,
    call: &RoundCall,
) -> Rounded<B> {
    let (shape, dtype) = (x.shape(), x.dtype());
    let flat = B::float_reshape(x, Shape::new([call.cast.len]));
    let flat = B::float_cast(flat, FloatDType::F32);
    let bools = get_device_settings::<B>(&flat.device()).bool_dtype;
    let infinite = B::float_is_inf(flat.clone(), bools);
    let unknown = B::bool_or(B::float_is_nan(flat.clone(), bools), infinite.clone());
    let amax = B::float_max_abs(B::float_mask_fill(flat.clone(), unknown, 0.0.into()));
    let scale = scale.unwrap_or_else(|| {
        let divisor = call.cast.format.max() * (-call.margin as f32).exp2();
        let scale = B::float_div_scalar(amax.clone(), divisor.into());
        let scale = B::float_clamp(scale, f32::MIN_POSITIVE.into(), f32::MAX.into());
        let zero = B::float_equal_elem(amax.clone(), 0.0.into(), bools);
        B::float_mask_fill(scale, zero, 1.0.into())
    });
    let codes = B::fp8_encode(
        B::float_div(flat.clone(), scale.clone()),
        call.cast.clone(),
        Overflow::Saturate,
    );
    let y = B::float_mul(B::fp8_decode(codes, call.cast.clone()), scale);
    let y = B::float_mask_where(y, infinite, flat);
    let y = B::float_cast(B::float_reshape(y, shape), dtype.into());
    Rounded { y, amax }
}

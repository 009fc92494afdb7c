//! Values to the nearest of a format and back, with one scale for all of them.

use super::RoundCall;
use crate::ops::{QuantizeOps, Scales};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, TensorMetadata, get_device_settings};
use burn::tensor::Shape;

/// What came out.
pub(crate) struct Rounded<B: Backend> {
    /// The shape and dtype of what went in.
    pub(crate) y: FloatTensor<B>,
    /// \[1\] f32: the largest finite magnitude, where a scale was given.
    pub(crate) amax: Option<FloatTensor<B>>,
}

/// decode(encode(x / s)) · s with the scale \[1\] that is given, or the one of x's own amax. What is
/// infinite stays so: the largest value in its place would hide an overflow from loss scaling.
pub(crate) fn round<B: QuantizeOps>(
    x: FloatTensor<B>,
    scale: Option<FloatTensor<B>>,
    call: &RoundCall,
) -> Rounded<B> {
    let (shape, quantize) = (x.shape(), call.quantize.clone());
    let x = B::float_reshape(x, Shape::from(quantize.problem.shape()));
    let bools = get_device_settings::<B>(&x.device()).bool_dtype;
    let infinite = B::float_is_inf(x.clone(), bools);
    let (y, amax) = match scale {
        None => (B::fp8_fake_quantize(x.clone(), quantize), None),
        Some(scale) => {
            let scale = B::float_reshape(scale, Shape::new([1, 1, 1]));
            let amax = B::fp8_amax(x.clone(), call.amax.clone());
            let y = B::fp8_fake_quantize_by(x.clone(), Scales::F32(scale), quantize);
            (y, Some(amax))
        }
    };
    let y = B::float_mask_where(y, infinite, x);
    Rounded {
        y: B::float_reshape(y, shape),
        amax,
    }
}

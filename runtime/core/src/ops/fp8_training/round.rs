//! Values to the nearest of a format and back, with one scale for all of them.

use super::RoundCall;
use crate::ops::call::{Call, Operations};
use crate::ops::tensors::{Tensors, Value};
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
pub(crate) fn round<B: Operations>(
    x: FloatTensor<B>,
    scale: Option<FloatTensor<B>>,
    call: &RoundCall,
) -> Rounded<B> {
    let shape = x.shape();
    let x = B::float_reshape(x, Shape::from(call.shape));
    let bools = get_device_settings::<B>(&x.device()).bool_dtype;
    let infinite = B::float_is_inf(x.clone(), bools);
    let scale = scale.map(|scale| B::float_reshape(scale, Shape::new([1, 1, 1])));
    let result = |call: &Call, operands: Vec<FloatTensor<B>>| {
        let operands = Tensors(operands.into_iter().map(Value::Float).collect());
        let mut results = B::moebius_run(operands, call.clone()).0;
        results.swap_remove(0).float()
    };
    let amax = call.amax.as_ref().map(|amax| result(amax, vec![x.clone()]));
    let operands = [x.clone()].into_iter().chain(scale);
    let y = result(&call.quantize, operands.collect());
    let y = B::float_mask_where(y, infinite, x);
    Rounded {
        y: B::float_reshape(y, shape),
        amax,
    }
}

//! Fake quantisation: values as their codes have them, without the codes.

use super::least_squares;
use super::tensor::Fp8Scales;
use crate::Error;
use crate::check::{element, reshaped, stacked};
use crate::ops::{DeviceValue, quantize};
use burn::tensor::Tensor;
use moebius_ops::quantize::{Quantizer, ScaleRule};

/// y = decode(encode(x / scale)) · scale in x's shape and dtype: what FP8 makes of x, with scales
/// from x, or with `scales` where they are given.
///
/// On a recording device the gradient passes straight through.
///
/// # Errors
/// [`ErrorKind::Shape`](crate::ErrorKind::Shape) when x is neither a matrix nor a stack, isn't f32,
/// f16 or bf16, or doesn't fit the scales; [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported)
/// when the device lacks the dtype or x exceeds a binding.
pub fn fake_quantize<const D: usize>(
    x: Tensor<D>,
    quantizer: &Quantizer,
    scales: Option<&Fp8Scales>,
) -> Result<Tensor<D>, Error> {
    let shape = x.dims();
    let x = stacked(x)?;
    let problem = quantizer.problem(x.dims(), element(x.dtype())?)?;
    if let Some(scales) = scales {
        let shape = problem.scales_shape();
        scales.check(shape, quantizer.granularity, &x.device())?;
    }
    if problem.is_empty() {
        return Ok(reshaped(x, shape));
    }
    let scales = match scales {
        // The gradient passes straight through, and none goes to the scales.
        None if quantizer.scales == ScaleRule::LeastSquares => Some(DeviceValue::from(
            least_squares::scales(x.clone().without_autodiff(), problem)?,
        )),
        scales => scales.cloned().map(Fp8Scales::into_value),
    };
    Ok(quantize::fake_quantize(x, scales, problem)?.reshape(shape))
}

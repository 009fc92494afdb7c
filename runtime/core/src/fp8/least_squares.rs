//! Scales by the error that they leave, on a device.

use crate::Error;
use crate::ops::quantize;
use burn::tensor::{FloatDType, Int, Tensor};
use moebius_ops::Element;
use moebius_ops::quantize::{Problem, least_squares_factors};

/// Scales \[M, down, across\] of x \[M, rows, columns\]: s · 2^(i/16), where s is what the largest magnitude gives, of each block the one
/// with the least Σ (code · scale − x)². A block with a value that isn't finite keeps s. The scales are f32.
pub(super) fn scales(x: Tensor<3>, problem: Problem) -> Result<Tensor<3>, Error> {
    let (words, first) = quantize::quantize(x.clone(), problem)?;
    let largest: Tensor<3> = first.floats();
    let values = x.clone().cast(FloatDType::F32);
    let mut least = squares(words, largest.clone(), values.clone(), &problem)?;
    let mut scales = largest.clone();
    for factor in least_squares_factors().into_iter().skip(1) {
        let tried = (largest.clone() * factor).clamp_max(f32::MAX);
        let words = quantize::quantize_by(x.clone(), tried.clone().into(), problem)?;
        let error = squares(words, tried.clone(), values.clone(), &problem)?;
        // Not so where either is NaN.
        let better = error.clone().lower(least.clone());
        scales = scales.mask_where(better.clone(), tried);
        least = least.mask_where(better, error);
    }
    Ok(scales)
}

/// Σ (code · scale − x)² of each block \[M, down, across\].
fn squares(
    words: Tensor<3, Int>,
    scales: Tensor<3>,
    x: Tensor<3>,
    problem: &Problem,
) -> Result<Tensor<3>, Error> {
    let shape = problem.shape();
    let [down, across] = problem.blocks();
    let [high, wide] = problem.block();
    let decoded = Problem::new(shape, Element::F32, problem.granularity(), problem.format())?;
    let apart = quantize::dequantize(words, scales.into(), decoded)? - x;
    let apart = padded(apart, 1, down * high);
    let apart = padded(apart, 2, across * wide).square();
    let blocks = apart.reshape([shape[0], down, high, across, wide]);
    let sums = blocks.sum_dim(4).sum_dim(2);
    Ok(sums.reshape([shape[0], down, across]))
}

/// Zeros behind x, so that the last blocks are whole.
fn padded(x: Tensor<3>, axis: usize, size: usize) -> Tensor<3> {
    let mut shape = x.dims();
    let missing = size - shape[axis];
    if missing == 0 {
        return x;
    }
    shape[axis] = missing;
    let zeros = Tensor::zeros(shape, (&x.device(), x.dtype()));
    Tensor::cat(vec![x, zeros], axis)
}

#[cfg(test)]
#[cfg(feature = "flex")]
#[path = "least_squares_tests.rs"]
mod tests;

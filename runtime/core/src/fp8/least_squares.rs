//! Scales by the error that they leave.

use super::quantizer::{Quantizer, ScaleRule};
use super::tensor::{Fp8Layout, Fp8Scales, Fp8Tensor};
use crate::Error;
use burn::tensor::{FloatDType, Tensor};
use moebius_ops::ShapeError;

/// Scales that are tried.
pub const LEAST_SQUARES_TRIED: usize = 16;

/// What the scale of the largest magnitude is multiplied by for the scales that are tried, itself the first: 2^(i/16). A whole octave more is
/// the same codes with another exponent, but for those that lose bits at the end of their range; smaller scales saturate, which never paid
/// for 32 values or more of SmolLM2's weights.
pub fn least_squares_factors() -> [f32; LEAST_SQUARES_TRIED] {
    std::array::from_fn(|i| (i as f64 / LEAST_SQUARES_TRIED as f64).exp2() as f32)
}

/// x by scales s · 2^(i/16), where s is what the largest magnitude gives: of each block the one with the least Σ (code · scale − x)².
/// A block with a value that isn't finite keeps s.
pub(super) fn quantize(x: Tensor<3>, quantizer: &Quantizer) -> Result<Fp8Tensor, Error> {
    let x = x.without_autodiff();
    let plain = Quantizer {
        scales: ScaleRule::Largest,
        ..*quantizer
    };
    let first = Fp8Tensor::quantize(x.clone(), &plain)?;
    let Fp8Scales::F32(largest) = first.scales().clone() else {
        return Err(ShapeError::new("least squares", "f32 scales", "E8M0 scales").into());
    };
    let values = x.clone().cast(FloatDType::F32);
    let mut least = squares(&first, values.clone())?;
    let mut scales = largest.clone();
    for factor in least_squares_factors().into_iter().skip(1) {
        let tried = (largest.clone() * factor).clamp_max(f32::MAX);
        let codes = Fp8Tensor::quantize_by(x.clone(), Fp8Scales::F32(tried.clone()), &plain)?;
        let error = squares(&codes, values.clone())?;
        // Not so where either is NaN.
        let better = error.clone().lower(least.clone());
        scales = scales.mask_where(better.clone(), tried);
        least = least.mask_where(better, error);
    }
    Fp8Tensor::quantize_by(x, Fp8Scales::F32(scales), &plain)
}

/// Σ (code · scale − x)² of each block \[M, down, across\].
fn squares(codes: &Fp8Tensor, x: Tensor<3>) -> Result<Tensor<3>, Error> {
    let Fp8Layout {
        shape: [matrices, rows, columns],
        granularity,
        ..
    } = codes.layout();
    let [down, across] = granularity.blocks(rows, columns);
    let [high, wide] = granularity.block(rows, columns);
    let [high, wide] = [high.min(rows), wide.min(columns)];
    let apart = codes.dequantize(FloatDType::F32)? - x;
    let apart = padded(apart, 1, down * high);
    let apart = padded(apart, 2, across * wide).square();
    let blocks = apart.reshape([matrices, down, high, across, wide]);
    let sums = blocks.sum_dim(4).sum_dim(2);
    Ok(sums.reshape([matrices, down, across]))
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

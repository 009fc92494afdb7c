//! W8A8 products by FP8 matrix instructions.

use super::activations::ActivationScaling;
use super::matrices::Fp8Matrices;
use crate::{Error, ops};
use burn::tensor::Tensor;
use moebius_ops::fp8_mma;
use moebius_ops::grouped_gemm::{self, Fp8Weights};

/// y \[rows, out\] f32 of x \[rows, in\], rounded to codes as `activations` says, and checked weights.
///
/// # Errors
/// [`ErrorKind::Shape`](crate::ErrorKind::Shape) for activations that aren't dynamic and for scales
/// the instructions can't follow, [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) where
/// there are no such instructions.
pub(super) fn multiply(
    x: Tensor<2>,
    activations: &ActivationScaling,
    weights: &Fp8Matrices,
) -> Result<Tensor<2>, Error> {
    let quantizer = activations.dynamic()?;
    let [_, n, k] = weights.layout().shape;
    let product = grouped_gemm::Problem {
        fp8: Some(weights.weights()),
        ..grouped_gemm::Problem::dense(x.dims()[0], n, k)?
    };
    let codes = Fp8Weights {
        format: quantizer.format,
        granularity: quantizer.granularity,
    };
    let problem = fp8_mma::Problem::new(product, codes)?;
    let [rows, columns] = x.dims();
    let codes = quantizer.problem([1, rows, columns], x.dtype())?;
    ops::fp8_mma::run(x.unsqueeze(), codes, weights.coded(None), problem)
}

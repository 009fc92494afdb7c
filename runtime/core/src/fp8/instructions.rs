//! W8A8 products by FP8 matrix instructions.

use super::activations::ActivationScaling;
use super::matrices::Fp8Matrices;
use super::tensor::Fp8Tensor;
use crate::{Error, device};
use burn::tensor::Tensor;
use moebius_shaders::Unsupported;
use moebius_shaders::fp8_mma::{self, Plan};
use moebius_shaders::grouped_gemm::{self, Fp8Weights};

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
    let Some(capability) = device::capability(&x.device())? else {
        let needs = "kernels for FP8 matrix instructions";
        return Err(Unsupported::new("fp8_mma", needs, "a portable body without").into());
    };
    let plan = fp8_mma::plan(problem, &capability, true)?;
    launch(&Fp8Tensor::quantize(x, &quantizer)?, weights, plan)
}

#[cfg(feature = "cube")]
fn launch(x: &Fp8Tensor, weights: &Fp8Matrices, plan: Plan) -> Result<Tensor<2>, Error> {
    use crate::ops::{Fp8MmaCall, Fp8MmaOps};
    use burn::backend::Dispatch;
    let (words, scales) = (x.words().clone(), x.scales().clone());
    let y = Dispatch::fp8_mma(
        words.into_dispatch(),
        scales.into_dispatch(),
        weights.coded(None),
        Fp8MmaCall { plan },
    );
    Ok(Tensor::from_dispatch(y))
}

#[cfg(not(feature = "cube"))]
fn launch(_: &Fp8Tensor, _: &Fp8Matrices, _: Plan) -> Result<Tensor<2>, Error> {
    Err(Unsupported::new("fp8_mma", "a build with kernels", "one without").into())
}

//! Products of FP8 codes by matrix instructions; shapes as in [`moebius_shaders::fp8_mma`]. Only
//! CubeCL devices can have them, and they have no derivative.

mod cube;
#[cfg(all(feature = "cube", feature = "fusion"))]
mod lazy;

#[cfg(feature = "cube")]
use super::{CodedWeights, Scales};
use super::{DeviceWeights, quantize};
use crate::{Error, device};
#[cfg(feature = "cube")]
use burn::backend::Dispatch;
#[cfg(feature = "cube")]
use burn::backend::tensor::{FloatTensor, IntTensor};
#[cfg(feature = "cube")]
use burn::backend::{Backend, backend_extension};
use burn::tensor::Tensor;
use moebius_ops::fp8_mma::Problem;
use moebius_ops::quantize as codes;
use moebius_shaders::Unsupported;
use moebius_shaders::fp8_mma::{self, Plan};

/// y \[m,n\] f32 of x \[1,m,k\], whose codes are those of `codes`, and of weights without a bias.
///
/// # Errors
/// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) where there are no such instructions.
pub(crate) fn run(
    x: Tensor<3>,
    codes: codes::Problem,
    weights: DeviceWeights,
    problem: Problem,
) -> Result<Tensor<2>, Error> {
    let plan = device::plan(&x.device(), |device| fp8_mma::plan(problem, device, true))?;
    let Some(plan) = plan else {
        let needs = "kernels for FP8 matrix instructions";
        return Err(Unsupported::new("fp8_mma", needs, "a portable body without").into());
    };
    launch(x, codes, weights, plan)
}

#[cfg(feature = "cube")]
fn launch(
    x: Tensor<3>,
    codes: codes::Problem,
    weights: DeviceWeights,
    plan: Plan,
) -> Result<Tensor<2>, Error> {
    let (words, scales) = quantize::quantize(x, codes)?;
    let y = Dispatch::fp8_mma(words.into_dispatch(), scales, weights, Fp8MmaCall { plan });
    Ok(Tensor::from_dispatch(y))
}

#[cfg(not(feature = "cube"))]
fn launch(_: Tensor<3>, _: codes::Problem, _: DeviceWeights, _: Plan) -> Result<Tensor<2>, Error> {
    Err(Unsupported::new("fp8_mma", "a build with kernels", "one without").into())
}

/// A planned product.
#[cfg(feature = "cube")]
#[derive(Clone, Debug)]
pub(crate) struct Fp8MmaCall {
    pub(crate) plan: Plan,
}

#[cfg(feature = "cube")]
#[backend_extension(Cube, Fusion: cfg(feature = "fusion"))]
pub(crate) trait Fp8MmaOps: Backend {
    /// y \[m, n\] f32 of the words and scales of x \[m, k\]; the weights have no bias.
    #[fusion(meta = lazy::output)]
    fn fp8_mma(
        words: IntTensor<Self>,
        #[extension_type] scales: Scales<Self>,
        #[extension_type] weights: CodedWeights<Self>,
        call: Fp8MmaCall,
    ) -> FloatTensor<Self>;
}

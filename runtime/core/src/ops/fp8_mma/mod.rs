//! Products of FP8 codes by matrix instructions; shapes as in [`moebius_ops::fp8_mma`]. Only
//! CubeCL devices can have them, and they have no derivative.

use super::call::{Kernels, Request};
use super::{CodedWeights, quantize};
use crate::{Error, device};
use burn::tensor::Tensor;
use moebius_device::Capability;
use moebius_ops::Product;
use moebius_ops::fp8_mma::Problem;
use moebius_ops::quantize as codes;
use moebius_shaders::Unsupported;
use moebius_shaders::fp8_mma::{self, Operands};

/// y \[m,n\] f32 of x \[1,m,k\], whose codes are those of `codes`, and of weights without a bias.
///
/// # Errors
/// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) where there are no such instructions.
pub(crate) fn run(
    x: Tensor<3>,
    codes: codes::Problem,
    weights: CodedWeights,
    problem: Problem,
) -> Result<Tensor<2>, Error> {
    let device = x.device();
    if device::capability(&device)?.is_none() {
        let needs = "kernels for FP8 matrix instructions";
        return Err(Unsupported::new("fp8_mma", needs, "a portable body without").into());
    }
    let plan = |device: &Capability| -> Result<Kernels, Unsupported> {
        let plan = fp8_mma::plan(problem, device, true)?;
        Ok(Kernels::of(plan, |client, plan, operands: Operands| {
            fp8_mma::launch(client, plan, &operands);
        }))
    };
    let call = Request::plan(Product::Fp8Codes(problem), &device, plan)?;
    let (words, scales) = quantize::quantize(x, codes)?;
    let call = call.reads([words]).reads([scales]).reads([weights.codes]);
    Ok(call.reads([weights.scales]).run().floats())
}

//! Products with FP8 weights, in panels of codes, which are decoded while they are loaded or multiplied by matrix
//! instructions; shapes as in [`moebius_ops::grouped_gemm`] and [`moebius_ops::fp8_mma`]. They have no derivative.

#[cfg(feature = "flex")]
mod decode;
#[cfg(feature = "flex")]
mod few;
#[cfg(feature = "flex")]
pub(super) mod flex;
#[cfg(feature = "flex")]
mod host;

use super::call::{Kernels, Request};
use super::sort::Sorted;
use super::{Assignment, DeviceValue, quantize};
use crate::{Error, device};
use burn::tensor::{Int, Tensor};
use moebius_ops::grouped_gemm::Problem;
use moebius_ops::{Product, fp8_mma, quantize as codes};
use moebius_shaders::grouped_gemm::{self, Choice, Variant};
use moebius_shaders::{Unsupported, fp8_mma as mma};

/// Weights as codes.
#[derive(Clone, Debug)]
pub(crate) struct CodedWeights {
    /// Panels of words.
    pub(crate) codes: Tensor<3, Int>,
    pub(crate) scales: DeviceValue,
    /// \[E,n\] in the dtype of x.
    pub(crate) bias: Option<Tensor<2>>,
}

/// \[R,n\]: `problem` of x \[T,k\] or \[R,k\]; sorted rows by the tiles of the `variant` of their sort. The
/// caller has checked the shapes.
pub(crate) fn run(
    x: Tensor<2>,
    weights: CodedWeights,
    sorted: Option<&Sorted>,
    (problem, variant): (Problem, Option<Variant>),
) -> Result<Tensor<2>, Error> {
    let choice = Choice {
        variant,
        allow_unproven: false,
    };
    let kernels = |plan| Kernels::of(plan, grouped_gemm::launch);
    let plan = |device: &_| grouped_gemm::plan(problem, device, choice).map(kernels);
    let call = Request::plan(Product::Fp8Linear(problem), &x.device(), plan)?.reads([x]);
    let call = call.reads([weights.codes]).reads([weights.scales]);
    let sort = sorted.into_iter().flat_map(Sorted::segments);
    let call = call.reads(sort).reads(weights.bias);
    Ok(call.beside(sorted.and_then(Sorted::tiles)).run().floats())
}

/// y \[m,n\] f32 of x \[1,m,k\], whose codes are those of `codes`, and of weights without a bias.
pub(crate) fn multiply_codes(
    x: Tensor<3>,
    codes: codes::Problem,
    weights: CodedWeights,
    problem: fp8_mma::Problem,
) -> Result<Tensor<2>, Error> {
    let device = x.device();
    if device::capability(&device)?.is_none() {
        let needs = "kernels for FP8 matrix instructions";
        return Err(Unsupported::new("fp8_mma", needs, "a portable body without").into());
    }
    let kernels = |plan| Kernels::of(plan, mma::launch);
    let plan = |device: &_| mma::plan(problem, device, true).map(kernels);
    let call = Request::plan(Product::Fp8Codes(problem), &device, plan)?;
    let (words, scales) = quantize::quantize(x, codes)?;
    let call = call.reads([words]).reads([scales]).reads([weights.codes]);
    Ok(call.reads([weights.scales]).run().floats())
}

impl Assignment {
    /// \[R,n\]: `problem` of x \[T,k\] or \[R,k\] and FP8 weights.
    pub(crate) fn fp8_linear(
        &self,
        x: Tensor<2>,
        weights: CodedWeights,
        problem: Problem,
    ) -> Result<Tensor<2>, Error> {
        run(x, weights, Some(&self.sorted), (problem, self.variant))
    }
}

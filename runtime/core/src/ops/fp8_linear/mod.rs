//! Products with FP8 weights, in panels of codes; shapes as in [`moebius_ops::grouped_gemm`].
//! They have no derivative.

#[cfg(feature = "flex")]
pub(super) mod flex;
#[cfg(feature = "flex")]
mod host;

use super::call::{Kernels, Request};
use super::sort::Sorted;
use super::{Assignment, DeviceValue};
use crate::Error;
use burn::tensor::{Int, Tensor};
use moebius_device::Capability;
use moebius_ops::Product;
use moebius_ops::grouped_gemm::Problem;
use moebius_shaders::PlanError;
use moebius_shaders::grouped_gemm::{self, Choice, Operands, Variant};

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
///
/// # Errors
/// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) when the device can't run it.
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
    let plan = |device: &Capability| kernels(problem, choice, device);
    let call = Request::plan(Product::Fp8Linear(problem), &x.device(), plan)?.reads([x]);
    let call = call.reads([weights.codes]).reads([weights.scales]);
    let sort = sorted.into_iter().flat_map(Sorted::segments);
    let call = call.reads(sort).reads(weights.bias);
    Ok(call.beside(sorted.and_then(Sorted::tiles)).run().floats())
}

fn kernels(problem: Problem, choice: Choice, device: &Capability) -> Result<Kernels, PlanError> {
    let plan = grouped_gemm::plan(problem, device, choice)?;
    Ok(Kernels::of(plan, |client, plan, operands: Operands| {
        grouped_gemm::launch(client, plan, &operands);
    }))
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

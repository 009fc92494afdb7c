//! Products with FP8 weights, in panels of codes; shapes as in [`moebius_shaders::grouped_gemm`].
//! They have no derivative.

#[cfg(feature = "cube")]
mod cube;
#[cfg(feature = "flex")]
mod flex;
#[cfg(feature = "flex")]
mod host;
#[cfg(feature = "fusion")]
mod lazy;
#[cfg(feature = "xla")]
mod xla;

use super::{Assignment, Grouping, Maybe, Scales};
use crate::{Error, device};
use burn::backend::Dispatch;
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, ExtensionType, backend_extension};
use burn::tensor::Tensor;
use moebius_ops::grouped_gemm::Problem;
use moebius_shaders::grouped_gemm::{self, Choice, Variant};

/// \[R,n\]: `problem` of x \[T,k\] or \[R,k\]; sorted rows by the tiles of the `variant` of their sort. The
/// caller has checked the shapes.
///
/// # Errors
/// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) when the device can't run it.
pub(crate) fn run(
    x: Tensor<2>,
    weights: CodedWeights<Dispatch>,
    grouping: Grouping<Dispatch>,
    (problem, variant): (Problem, Option<Variant>),
) -> Result<Tensor<2>, Error> {
    let choice = Choice {
        variant,
        allow_unproven: false,
    };
    let plan = device::plan(&x.device(), |device| {
        grouped_gemm::plan(problem, device, choice)
    })?;
    let call = Fp8LinearCall { problem, plan };
    let y = Dispatch::fp8_linear(x.into_dispatch(), weights, grouping, call);
    Ok(Tensor::from_dispatch(y))
}

impl Assignment {
    /// \[R,n\]: `problem` of x \[T,k\] or \[R,k\] and FP8 weights.
    pub(crate) fn fp8_linear(
        &self,
        x: Tensor<2>,
        weights: CodedWeights<Dispatch>,
        problem: moebius_ops::grouped_gemm::Problem,
    ) -> Result<Tensor<2>, Error> {
        run(x, weights, self.grouping(), (problem, self.variant))
    }
}

/// A product.
#[derive(Clone, Debug)]
pub(crate) struct Fp8LinearCall {
    pub(crate) problem: moebius_ops::grouped_gemm::Problem,
    pub(crate) plan: Option<grouped_gemm::Plan>,
}

/// Weights as codes.
#[derive(ExtensionType, Clone, Debug)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub(crate) struct CodedWeights<B: Backend> {
    /// Panels of words.
    pub(crate) codes: IntTensor<B>,
    #[extension_type]
    pub(crate) scales: Scales<B>,
    /// \[E,n\] in the dtype of x.
    #[extension_type]
    pub(crate) bias: Maybe<B>,
}

#[backend_extension(
    Cube: cfg(feature = "cube"),
    Flex: cfg(feature = "flex"),
    Remote: cfg(feature = "xla"),
    Capture: cfg(feature = "xla"),
    Fusion: cfg(feature = "fusion"),
)]
pub(crate) trait Fp8LinearOps: Backend {
    /// \[R,n\] of x \[T,k\] or \[R,k\]: a product, bias, activation and gate per expert.
    #[fusion(meta = lazy::output)]
    fn fp8_linear(
        x: FloatTensor<Self>,
        #[extension_type] weights: CodedWeights<Self>,
        #[extension_type] grouping: Grouping<Self>,
        call: Fp8LinearCall,
    ) -> FloatTensor<Self>;
}

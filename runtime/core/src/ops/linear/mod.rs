//! One product per expert: rows · W_eᵀ + b_e for the sorted rows of expert e, or an ordinary product of
//! all rows; shapes as in [`moebius_shaders::grouped_gemm`].

#[cfg(feature = "autodiff")]
mod autodiff;
#[cfg(feature = "cube")]
mod cube;
#[cfg(feature = "flex")]
mod flex;
#[cfg(feature = "fusion")]
mod lazy;
#[cfg(feature = "xla")]
mod xla;

use super::{Assignment, Grouping, Maybe};
use crate::check::element;
use crate::{Error, device};
use burn::backend::Dispatch;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, ExtensionType, backend_extension};
use burn::tensor::{DType, Tensor};
#[cfg(any(feature = "fusion", feature = "xla"))]
use moebius_ops::Product;
use moebius_ops::ShapeError;
use moebius_ops::grouped_gemm::{self, Problem};
use moebius_shaders::grouped_gemm::Variant;
use moebius_shaders::moe::linear;

/// \[R,n\]: `problem` of rows \[R,k\], w \[E,n,k\] and a bias \[E,n\] where it has one; sorted rows by the tiles
/// of the `variant` of their sort. The caller has checked the shapes.
///
/// # Errors
/// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) when the device can't run it.
pub(crate) fn run(
    rows: Tensor<2>,
    w: Tensor<3>,
    bias: Option<Tensor<2>>,
    grouping: Grouping<Dispatch>,
    (problem, variant): (Problem, Option<Variant>),
) -> Result<Tensor<2>, Error> {
    let device = rows.device();
    let problem = Problem {
        bias: bias.is_some(),
        ..problem
    };
    let plan = device::plan(&device, |capability| {
        let (rows, experts) = (problem.row_bound, problem.experts);
        let variant = variant.unwrap_or_else(|| Variant::portable(rows, experts, capability));
        linear::plan(problem, variant, device.is_autodiff(), capability)
    })?;
    let call = LinearCall { problem, plan };
    let bias = bias.map(Tensor::into_dispatch).into();
    let (rows, w) = (rows.into_dispatch(), w.into_dispatch());
    let y = Dispatch::moe_grouped_linear(rows, w, bias, grouping, call);
    Ok(Tensor::from_dispatch(y))
}

impl Assignment {
    /// \[R,n\]: rows \[R,k\] · W_eᵀ + b_e, W \[E,n,k\], b \[E,n\].
    pub(crate) fn linear(
        &self,
        rows: Tensor<2>,
        w: Tensor<3>,
        bias: Option<Tensor<2>>,
    ) -> Result<Tensor<2>, Error> {
        let [_, n, k] = w.dims();
        let problem = self.product([n, k], rows.dtype())?;
        run(rows, w, bias, self.grouping(), (problem, self.variant))
    }

    /// A product of the sorted rows \[R,k\] and \[n,k\]ᵀ per expert.
    pub(crate) fn product(
        &self,
        [n, k]: [usize; 2],
        dtype: DType,
    ) -> Result<grouped_gemm::Problem, ShapeError> {
        let r = &self.routing;
        let problem = grouped_gemm::Problem::new(r.slots(), r.experts(), r.top_k(), n, k)?;
        Ok(grouped_gemm::Problem {
            element: element(dtype)?,
            rows: grouped_gemm::Source::Sorted,
            row_bound: self.row_bound,
            ..problem
        })
    }
}

/// A product per expert.
#[derive(Clone, Debug)]
pub(crate) struct LinearCall {
    pub(crate) problem: grouped_gemm::Problem,
    pub(crate) plan: Option<linear::Plan>,
}

#[cfg(any(feature = "fusion", feature = "xla"))]
impl LinearCall {
    /// The backward pass.
    fn backward(&self, needs: Needs) -> Product {
        Product::LinearBackward {
            problem: self.problem,
            rows: needs.rows,
            w: needs.w,
            bias: needs.bias,
        }
    }
}

/// Gradients of a product; absent where they aren't wanted.
#[derive(ExtensionType, Clone, Debug)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub(crate) struct LinearGradients<B: Backend> {
    #[extension_type]
    pub(crate) rows: Maybe<B>,
    #[extension_type]
    pub(crate) w: Maybe<B>,
    #[extension_type]
    pub(crate) bias: Maybe<B>,
}

/// Which gradients a backward pass must compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Needs {
    pub(crate) rows: bool,
    pub(crate) w: bool,
    pub(crate) bias: bool,
}

#[backend_extension(
    Cube: cfg(feature = "cube"),
    Flex: cfg(feature = "flex"),
    Remote: cfg(feature = "xla"),
    Capture: cfg(feature = "xla"),
    Fusion: cfg(feature = "fusion"),
    Autodiff: cfg(feature = "autodiff"),
)]
pub(crate) trait LinearOps: Backend {
    #[fusion(meta = lazy::output)]
    fn moe_grouped_linear(
        rows: FloatTensor<Self>,
        w: FloatTensor<Self>,
        #[extension_type] bias: Maybe<Self>,
        #[extension_type] grouping: Grouping<Self>,
        call: LinearCall,
    ) -> FloatTensor<Self>;
}

/// What only a backward pass runs.
#[backend_extension(
    Cube: cfg(feature = "cube"),
    Flex: cfg(feature = "flex"),
    Remote: cfg(feature = "xla"),
    Capture: cfg(feature = "xla"),
    Fusion: cfg(feature = "fusion"),
)]
pub(crate) trait LinearGradientOps: Backend {
    #[fusion(meta = lazy::gradients)]
    fn moe_grouped_linear_backward(
        dy: FloatTensor<Self>,
        rows: FloatTensor<Self>,
        w: FloatTensor<Self>,
        #[extension_type] grouping: Grouping<Self>,
        needs: Needs,
        call: LinearCall,
    ) -> LinearGradients<Self>;
}

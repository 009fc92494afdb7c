//! One product per expert: rows · W_eᵀ + b_e for the sorted rows of expert e, or an ordinary product of
//! all rows; shapes as in [`moebius_ops::grouped_gemm`].

#[cfg(feature = "flex")]
pub(super) mod flex;
pub(crate) mod fp8;

use super::call::Request;
use super::{Assignment, Sorted};
use crate::Error;
use crate::check::element;
use burn::tensor::{DType, Tensor};
use moebius_ops::grouped_gemm::{self, Problem};
use moebius_ops::{GroupedGemm, Mismatch};
use moebius_shaders::ProductHow;
use moebius_shaders::grouped_gemm::Variant;

/// \[R,n\]: `problem` of rows \[R,k\], w \[E,n,k\] and a bias \[E,n\] where it has one; sorted rows by the tiles
/// of the `variant` of their sort. The caller has checked the shapes.
pub(crate) fn run(
    rows: Tensor<2>,
    w: Tensor<3>,
    bias: Option<Tensor<2>>,
    sorted: Option<&Sorted>,
    (problem, variant): (Problem, Option<Variant>),
) -> Result<Tensor<2>, Error> {
    let problem = Problem {
        bias: bias.is_some(),
        ..problem
    };
    let how = ProductHow {
        variant,
        ..ProductHow::default()
    };
    let call = Request::new(GroupedGemm::Linear(problem), &rows.device(), &how)?.reads([rows]);
    let call = call.reads([w]);
    let call = call.reads(sorted.map(|sorted| &sorted.offsets)).reads(bias);
    let order = sorted.map(|sorted| ("order", sorted.order.clone()));
    let call = call.beside(order).beside(sorted.and_then(Sorted::tiles));
    Ok(call.run().floats())
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
        run(rows, w, bias, Some(&self.sorted), (problem, self.variant))
    }

    /// A product of the sorted rows \[R,k\] and \[n,k\]ᵀ per expert.
    pub(crate) fn product(
        &self,
        [n, k]: [usize; 2],
        dtype: DType,
    ) -> Result<grouped_gemm::Problem, Mismatch> {
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

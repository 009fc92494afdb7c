//! Rows of tokens in and out of the order of their experts; shapes as in
//! [`moebius_shaders::permute`].

#[cfg(feature = "autodiff")]
mod autodiff;
#[cfg(feature = "cube")]
mod cube;
#[cfg(feature = "flex")]
mod flex;
#[cfg(feature = "flex")]
pub(super) mod host;
#[cfg(feature = "fusion")]
mod lazy;
#[cfg(feature = "xla")]
mod xla;

use super::{Assignment, Maybe, Sorted};
use crate::check::element;
use crate::{Error, device};
use burn::backend::Dispatch;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, ExtensionType, backend_extension};
use burn::tensor::Tensor;
use moebius_ops::Element;
use moebius_ops::permute::RowsProblem;
use moebius_shaders::permute::{self, neighbours};

impl Assignment {
    fn rows_call(&self, rows: &Tensor<2>) -> Result<RowsCall, Error> {
        let (width, element, device) = (rows.dims()[1], element(rows.dtype())?, &rows.device());
        let problem = RowsProblem::new(&self.routing, self.row_bound, width, element)?;
        let plan = device::plan(device, |device| permute::plan_rows(problem, device))?;
        Ok(RowsCall { problem, plan })
    }

    /// \[R, width\]: the token of every sorted row of x \[T, width\].
    pub(crate) fn gather(&self, x: Tensor<2>) -> Result<Tensor<2>, Error> {
        let call = self.rows_call(&x)?;
        let rows = Dispatch::moe_gather(x.into_dispatch(), self.sorted.clone(), call);
        Ok(Tensor::from_dispatch(rows))
    }

    /// \[T, width\]: Σ_k w_tk · row of slot (t,k), in slot order; weights of 1 when `None`.
    pub(crate) fn combine(
        &self,
        rows: Tensor<2>,
        weights: Option<Tensor<2>>,
    ) -> Result<Tensor<2>, Error> {
        let call = self.rows_call(&rows)?;
        let weights = weights.map(Tensor::into_dispatch).into();
        let y = Dispatch::moe_combine(rows.into_dispatch(), weights, self.sorted.clone(), call);
        Ok(Tensor::from_dispatch(y))
    }

    /// \[R, 3·width\]: every row between its neighbours in its expert and its sequence of
    /// `sequence` tokens, or after its two predecessors when `causal`; zeros beyond the ends.
    pub(crate) fn neighbours(
        &self,
        rows: Tensor<2>,
        sequence: usize,
        causal: bool,
    ) -> Result<Tensor<2>, Error> {
        let (slots, experts) = (self.routing.slots(), self.routing.experts());
        let sort = moebius_ops::permute::Problem::new(slots, experts, 1)?
            .with_row_bound(self.row_bound)?;
        let (width, top_k) = (rows.dims()[1], self.routing.top_k());
        let problem =
            moebius_ops::permute::neighbours::Problem::new(sort, width, top_k, sequence, causal)?;
        let element = element(rows.dtype())?;
        let plan = |device: &_| neighbours::plan(problem, element, device);
        let plan = device::plan(&rows.device(), plan)?;
        let call = NeighboursCall {
            problem,
            element,
            plan,
        };
        let rows = Dispatch::moe_neighbours(rows.into_dispatch(), self.sorted.clone(), call);
        Ok(Tensor::from_dispatch(rows))
    }
}

/// A move of rows of `width` elements.
#[derive(Clone, Debug)]
pub(crate) struct RowsCall {
    pub(crate) problem: moebius_ops::permute::RowsProblem,
    pub(crate) plan: Option<permute::RowsPlan>,
}

/// Rows beside their neighbours in the sequence of their expert.
#[derive(Clone, Debug)]
pub(crate) struct NeighboursCall {
    pub(crate) problem: moebius_ops::permute::neighbours::Problem,
    pub(crate) element: Element,
    pub(crate) plan: Option<neighbours::Plan>,
}

#[cfg(any(feature = "fusion", feature = "xla"))]
impl NeighboursCall {
    /// The move, or its gradient.
    fn operation(&self, backward: bool) -> moebius_ops::Rows {
        moebius_ops::Rows::Neighbours {
            problem: self.problem,
            element: self.element,
            backward,
        }
    }
}

/// Gradients of a combination.
#[derive(ExtensionType, Clone, Debug)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub(crate) struct CombineGradients<B: Backend> {
    pub(crate) rows: FloatTensor<B>,
    pub(crate) weights: FloatTensor<B>,
}

#[backend_extension(
    Cube: cfg(feature = "cube"),
    Flex: cfg(feature = "flex"),
    Remote: cfg(feature = "xla"),
    Capture: cfg(feature = "xla"),
    Fusion: cfg(feature = "fusion"),
    Autodiff: cfg(feature = "autodiff"),
)]
pub(crate) trait RowsOps: Backend {
    /// \[R, width\]: the token of every sorted row.
    #[fusion(meta = lazy::gathered)]
    fn moe_gather(
        x: FloatTensor<Self>,
        #[extension_type] sorted: Sorted<Self>,
        call: RowsCall,
    ) -> FloatTensor<Self>;

    /// \[T, width\]: the weighted sum of a token's rows; weights of 1 when absent.
    #[fusion(meta = lazy::combined)]
    fn moe_combine(
        rows: FloatTensor<Self>,
        #[extension_type] weights: Maybe<Self>,
        #[extension_type] sorted: Sorted<Self>,
        call: RowsCall,
    ) -> FloatTensor<Self>;

    /// \[R, 3·width\].
    #[fusion(meta = lazy::neighbours)]
    fn moe_neighbours(
        rows: FloatTensor<Self>,
        #[extension_type] sorted: Sorted<Self>,
        call: NeighboursCall,
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
pub(crate) trait RowsGradients: Backend {
    #[fusion(meta = lazy::combine_gradients)]
    fn moe_combine_backward(
        dy: FloatTensor<Self>,
        rows: FloatTensor<Self>,
        weights: FloatTensor<Self>,
        #[extension_type] sorted: Sorted<Self>,
        call: RowsCall,
    ) -> CombineGradients<Self>;

    #[fusion(meta = lazy::neighbours_gradient)]
    fn moe_neighbours_backward(
        dy: FloatTensor<Self>,
        #[extension_type] sorted: Sorted<Self>,
        call: NeighboursCall,
    ) -> FloatTensor<Self>;
}

//! Rows of tokens in and out of the order of their experts; shapes as in [`moebius_ops::permute`].

#[cfg(feature = "flex")]
pub(super) mod flex;
#[cfg(feature = "flex")]
pub(super) mod host;
mod sorting;

pub(crate) use sorting::Sorted;

use super::call::{Kernels, Request};
use super::{Assignment, DeviceValue};
use crate::Error;
use crate::check::element;
use burn::tensor::Tensor;
use moebius_ops::permute::{self, RowsProblem, neighbours};
use moebius_ops::{Permute, ShapeError};
use moebius_shaders::Lookup;
use moebius_shaders::permute::neighbours::{launch, launch_backward, plan as plan_neighbours};
use moebius_shaders::permute::{combine, dispatch, plan_rows, weights_gradient};

impl Assignment {
    fn rows(&self, rows: &Tensor<2>) -> Result<RowsProblem, ShapeError> {
        let (width, element) = (rows.dims()[1], element(rows.dtype())?);
        RowsProblem::new(&self.routing, self.row_bound, width, element)
    }

    /// \[R, width\]: the token of every sorted row of x \[T, width\].
    pub(crate) fn gather(&self, x: Tensor<2>) -> Result<Tensor<2>, Error> {
        let (problem, sorted) = (self.rows(&x)?, &self.sorted);
        let plan = |device: &_| {
            let kernels =
                |plan| Kernels::of(plan, dispatch::launch).and_back(plan, combine::launch);
            plan_rows(problem, device).map(kernels)
        };
        let call = Request::plan(Permute::Gather(problem), &x.device(), plan)?.reads([x]);
        let call = call.reads(sorted.segments());
        let positions = ("positions", sorted.positions.clone());
        Ok(call.beside([positions]).run().floats())
    }

    /// \[T, width\]: Σ_k w_tk · row of slot (t,k), in slot order; weights of 1 when `None`.
    pub(crate) fn combine(
        &self,
        rows: Tensor<2>,
        weights: Option<Tensor<2>>,
    ) -> Result<Tensor<2>, Error> {
        let (problem, sorted) = (self.rows(&rows)?, &self.sorted);
        let weighted = weights.is_some();
        let combine = Permute::Combine { problem, weighted };
        let kernels = |plan| {
            Kernels::of(plan, combine::launch).with_backward(move |client, b| {
                dispatch::launch(client, &plan, b.fill());
                if weighted {
                    weights_gradient::launch(client, &plan, b.fill());
                }
            })
        };
        let plan = |device: &_| plan_rows(problem, device).map(kernels);
        let call = Request::plan(combine, &rows.device(), plan)?.reads([rows]);
        let call = call.reads([&sorted.positions]).reads(weights);
        let [order, offsets] = sorted.segments().map(DeviceValue::clone);
        let beside = [("order", order), ("offsets", offsets)];
        Ok(call.beside(beside).run().floats())
    }

    /// \[R, 3·width\]: every row between its neighbours in its expert and its sequence of
    /// `sequence` tokens, or after its two predecessors when `causal`; zeros beyond the ends.
    pub(crate) fn neighbours(
        &self,
        rows: Tensor<2>,
        sequence: usize,
        causal: bool,
    ) -> Result<Tensor<2>, Error> {
        let (r, sorted) = (&self.routing, &self.sorted);
        let sort = permute::Problem::new(r.slots(), r.experts(), 1)?;
        let sort = sort.with_row_bound(self.row_bound)?;
        let width = rows.dims()[1];
        let problem = neighbours::Problem::new(sort, width, r.top_k(), sequence, causal)?;
        let element = element(rows.dtype())?;
        let neighbours = Permute::Neighbours {
            problem,
            element,
            backward: false,
        };
        let kernels = |plan| Kernels::of(plan, launch).and_back(plan, launch_backward);
        let plan = |device: &_| plan_neighbours(problem, element, device).map(kernels);
        let call = Request::plan(neighbours, &rows.device(), plan)?.reads([rows]);
        Ok(call.reads(sorted.segments()).run().floats())
    }
}

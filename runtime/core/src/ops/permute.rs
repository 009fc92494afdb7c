//! Rows of tokens in and out of the order of their experts; shapes as in [`moebius_ops::permute`].

#[cfg(feature = "flex")]
pub(super) mod flex;
mod sorting;

pub(crate) use sorting::Sorted;

use super::call::Request;
use super::{Assignment, DeviceValue};
use crate::Error;
use crate::check::element;
use burn::tensor::kind::Basic;
use burn::tensor::{Int, Tensor};
use moebius_ops::permute::RowsProblem;
use moebius_ops::{Mismatch, Permute, routing};

impl Assignment {
    fn rows(&self, rows: &Tensor<2>) -> Result<RowsProblem, Mismatch> {
        let (width, element) = (rows.dims()[1], element(rows.dtype())?);
        RowsProblem::new(&self.routing, self.row_bound, width, element)
    }

    /// \[R, width\]: the token of every sorted row of x \[T, width\].
    pub(crate) fn gather(&self, x: Tensor<2>) -> Result<Tensor<2>, Error> {
        let (problem, sorted) = (self.rows(&x)?, &self.sorted);
        let call = Request::new(Permute::Gather(problem), &x.device(), &None)?;
        let call = call.reads([x]).reads(sorted.segments());
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
        let call = Request::new(combine, &rows.device(), &None)?.reads([rows]);
        let call = call.reads([&sorted.positions]).reads(weights);
        let [order, offsets] = sorted.segments().map(DeviceValue::clone);
        let beside = [("order", order), ("offsets", offsets)];
        Ok(call.beside(beside).run().floats())
    }

    /// \[R, 3·width\]: every row between its neighbours in its expert and its sequence of
    /// `sequence` tokens, or after its two predecessors when `causal`; zeros beyond the ends.
    pub(crate) fn neighbours(&self, rows: Tensor<2>, sequence: usize, causal: bool) -> Tensor<2> {
        let (rows, owners) = (self.defined(rows), self.owners(sequence));
        let places = if causal { [-2, -1, 0] } else { [-1, 0, 1] };
        let seen = places.map(|by| {
            let same = beside(owners.clone(), by, -1).equal(owners.clone());
            let hidden = same.bool_not().unsqueeze_dim::<2>(1).expand(rows.dims());
            beside(rows.clone(), by, 0).mask_fill(hidden, 0.0)
        });
        Tensor::cat(seen.into(), 1)
    }

    /// \[R\]: a number for the expert and the sequence of each sorted row.
    fn owners(&self, sequence: usize) -> Tensor<1, Int> {
        let (rows, experts) = (self.row_bound, self.routing.experts());
        let slots = self.sorted.order.clone().words::<1>().narrow(0, 0, rows);
        let ends = self
            .sorted
            .offsets
            .clone()
            .words::<1>()
            .narrow(0, 1, experts);
        let row = Tensor::<1, Int>::arange(0..rows as i64, &slots.device()).cast(slots.dtype());
        let before = row.unsqueeze_dim::<2>(1).expand([rows, experts]);
        let ended = before.greater_equal(ends.unsqueeze::<2>().expand([rows, experts]));
        let expert = ended
            .int()
            .cast(slots.dtype())
            .sum_dim(1)
            .squeeze_dim::<1>(1);
        let sequence_slots = sequence * self.routing.top_k();
        let sequences = self.routing.slots().div_ceil(sequence_slots);
        let of_sequence = slots.div_scalar(sequence_slots as i64);
        expert.mul_scalar(sequences as i64) + of_sequence
    }
}

/// \[T, width\]: row t times w_t of weights \[T,1\] in f32, without a sort. It is an operation of ours because Burn's fusion may make one
/// rounding of such a product and a sum after it, and bits would depend on what comes after.
pub(crate) fn weighted(rows: Tensor<2>, weights: Tensor<2>) -> Result<Tensor<2>, Error> {
    let ([count, width], device) = (rows.dims(), rows.device());
    let routing = routing::Problem::new(count, 1, 1)?;
    let problem = RowsProblem::new(&routing, count, width, element(rows.dtype())?)?;
    let combine = Permute::Combine {
        problem,
        weighted: true,
    };
    let in_order = Tensor::<1, Int>::arange(0..count as i64, &device);
    let call = Request::new(combine, &device, &None)?.reads([rows]);
    let call = call.reads([in_order.clone()]).reads([weights]);
    // The sort that gradients read: all rows are one expert's.
    let offsets = Tensor::<1, Int>::arange(0..2, &device).mul_scalar(count as i64);
    let sort = [("order", in_order.into()), ("offsets", offsets.into())];
    Ok(call.beside(sort).run().floats())
}

/// Row r + `by` of x in place of row r, `outside` where there is none.
fn beside<const D: usize, K: Basic>(x: Tensor<D, K>, by: i64, outside: i64) -> Tensor<D, K> {
    let mut shape = x.dims();
    let rows = shape[0];
    let moved = rows.min(by.unsigned_abs() as usize);
    if moved == 0 {
        return x;
    }
    shape[0] = moved;
    let none = Tensor::full(shape, outside, (&x.device(), x.dtype()));
    if moved == rows {
        none
    } else if by < 0 {
        Tensor::cat(vec![none, x.narrow(0, 0, rows - moved)], 0)
    } else {
        Tensor::cat(vec![x.narrow(0, moved, rows - moved), none], 0)
    }
}

//! Moved rows recorded for XLA.

use super::{CombineGradients, NeighboursCall, RowsCall, RowsGradients, RowsOps};
use crate::ops::xla::record;
use crate::ops::{Maybe, Sorted};
use burn::backend::tensor::FloatTensor;
use moebius_ops::Rows;
use moebius_xla::{BackendRouter, RouterChannel};

impl<C: RouterChannel> RowsOps for BackendRouter<C> {
    fn moe_gather(x: FloatTensor<Self>, sorted: Sorted<Self>, call: RowsCall) -> FloatTensor<Self> {
        let inputs = vec![x, sorted.order, sorted.offsets];
        record::<C>(Rows::Gather(call.problem), inputs).take()
    }

    fn moe_combine(
        rows: FloatTensor<Self>,
        weights: Maybe<Self>,
        sorted: Sorted<Self>,
        call: RowsCall,
    ) -> FloatTensor<Self> {
        let weights = weights.into_option();
        let combine = Rows::Combine {
            problem: call.problem,
            weighted: weights.is_some(),
        };
        let inputs = [rows, sorted.positions].into_iter().chain(weights);
        record::<C>(combine, inputs.collect()).take()
    }

    fn moe_neighbours(
        rows: FloatTensor<Self>,
        sorted: Sorted<Self>,
        call: NeighboursCall,
    ) -> FloatTensor<Self> {
        let inputs = vec![rows, sorted.order, sorted.offsets];
        record::<C>(call.operation(false), inputs).take()
    }
}

impl<C: RouterChannel> RowsGradients for BackendRouter<C> {
    fn moe_combine_backward(
        dy: FloatTensor<Self>,
        rows: FloatTensor<Self>,
        weights: FloatTensor<Self>,
        sorted: Sorted<Self>,
        call: RowsCall,
    ) -> CombineGradients<Self> {
        let Sorted {
            order,
            offsets,
            positions,
            ..
        } = sorted;
        let inputs = vec![dy, rows, weights, order, offsets, positions];
        let mut results = record::<C>(Rows::CombineBackward(call.problem), inputs);
        CombineGradients {
            rows: results.take(),
            weights: results.take(),
        }
    }

    fn moe_neighbours_backward(
        dy: FloatTensor<Self>,
        sorted: Sorted<Self>,
        call: NeighboursCall,
    ) -> FloatTensor<Self> {
        let inputs = vec![dy, sorted.order, sorted.offsets];
        record::<C>(call.operation(true), inputs).take()
    }
}

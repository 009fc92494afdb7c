//! Moved rows recorded for XLA.

use super::{CombineGradients, NeighboursCall, RowsCall, RowsGradients, RowsOps};
use crate::ops::xla::{Recorded, Results};
use crate::ops::{Maybe, Sorted};
use burn::backend::TensorMetadata;
use burn::backend::tensor::FloatTensor;
use moebius_xla::custom::Call;
use moebius_xla::custom::neighbours::{Neighbours, Sequences};
use moebius_xla::custom::rows::{Rows, Sizes};
use moebius_xla::{BackendRouter, RouterChannel};

fn sizes(call: &RowsCall) -> Sizes {
    let p = &call.problem;
    Sizes {
        tokens: p.tokens(),
        experts: p.experts(),
        top_k: p.top_k(),
        row_bound: p.row_bound(),
        width: p.width(),
    }
}

/// The move of rows that are sorted into `sorted`.
fn neighbours<C: RouterChannel>(
    x: Recorded<C>,
    sorted: Sorted<BackendRouter<C>>,
    call: &NeighboursCall,
    backward: bool,
) -> Recorded<C> {
    let p = &call.problem;
    let call = Call::Neighbours(Neighbours {
        sequences: Sequences {
            slots: sorted.order.shape()[0],
            experts: sorted.offsets.shape()[0] - 1,
            row_bound: p.row_bound(),
            sequence_slots: p.sequence() * p.top_k(),
        },
        width: p.width(),
        causal: p.causal(),
        backward,
    });
    Results::<C>::of(&call, vec![x, sorted.order, sorted.offsets]).take()
}

impl<C: RouterChannel> RowsOps for BackendRouter<C> {
    fn moe_gather(x: FloatTensor<Self>, sorted: Sorted<Self>, call: RowsCall) -> FloatTensor<Self> {
        let call = Call::Rows(Rows::Gather(sizes(&call)));
        Results::<C>::of(&call, vec![x, sorted.order, sorted.offsets]).take()
    }

    fn moe_combine(
        rows: FloatTensor<Self>,
        weights: Maybe<Self>,
        sorted: Sorted<Self>,
        call: RowsCall,
    ) -> FloatTensor<Self> {
        let weights = weights.into_option();
        let call = Call::Rows(Rows::Combine {
            sizes: sizes(&call),
            weighted: weights.is_some(),
        });
        let inputs = [rows, sorted.positions].into_iter().chain(weights);
        Results::<C>::of(&call, inputs.collect()).take()
    }

    fn moe_neighbours(
        rows: FloatTensor<Self>,
        sorted: Sorted<Self>,
        call: NeighboursCall,
    ) -> FloatTensor<Self> {
        neighbours(rows, sorted, &call, false)
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
        let call = Call::Rows(Rows::CombineBackward(sizes(&call)));
        let Sorted {
            order,
            offsets,
            positions,
            ..
        } = sorted;
        let inputs = vec![dy, rows, weights, order, offsets, positions];
        let mut results = Results::<C>::of(&call, inputs);
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
        neighbours(dy, sorted, &call, true)
    }
}

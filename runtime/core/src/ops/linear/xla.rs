//! Products recorded for XLA.

use super::{LinearCall, LinearGradientOps, LinearGradients, LinearOps, Needs};
use crate::ops::xla::record;
use crate::ops::{Grouping, Maybe};
use burn::backend::tensor::FloatTensor;
use moebius_ops::Product;
use moebius_xla::{BackendRouter, RouterChannel};

impl<C: RouterChannel> LinearOps for BackendRouter<C> {
    fn moe_grouped_linear(
        rows: FloatTensor<Self>,
        w: FloatTensor<Self>,
        bias: Maybe<Self>,
        grouping: Grouping<Self>,
        call: LinearCall,
    ) -> FloatTensor<Self> {
        let inputs = [rows, w].into_iter().chain(grouping.offsets());
        let inputs = inputs.chain(bias.into_option());
        record::<C>(Product::Linear(call.problem), inputs.collect()).take()
    }
}

impl<C: RouterChannel> LinearGradientOps for BackendRouter<C> {
    fn moe_grouped_linear_backward(
        dy: FloatTensor<Self>,
        rows: FloatTensor<Self>,
        w: FloatTensor<Self>,
        grouping: Grouping<Self>,
        needs: Needs,
        call: LinearCall,
    ) -> LinearGradients<Self> {
        let inputs = [dy, rows, w].into_iter().chain(grouping.offsets());
        let mut results = record::<C>(call.backward(needs), inputs.collect());
        LinearGradients {
            rows: results.take_if(needs.rows).into(),
            w: results.take_if(needs.w).into(),
            bias: results.take_if(needs.bias).into(),
        }
    }
}

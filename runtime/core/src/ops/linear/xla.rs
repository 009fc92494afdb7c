//! Products recorded for XLA.

use super::{LinearCall, LinearGradientOps, LinearGradients, LinearOps, Needs};
use crate::ops::xla::Results;
use crate::ops::{Grouping, Maybe};
use burn::backend::tensor::FloatTensor;
use moebius_xla::custom::{Call, linear};
use moebius_xla::{BackendRouter, RouterChannel};

fn descriptor(call: &LinearCall, bias: bool) -> linear::Linear {
    let problem = &call.problem;
    linear::Linear {
        row_bound: problem.row_bound,
        experts: problem.experts,
        n: problem.n,
        k: problem.k,
        bias,
        dense: problem.dense,
    }
}

impl<C: RouterChannel> LinearOps for BackendRouter<C> {
    fn moe_grouped_linear(
        rows: FloatTensor<Self>,
        w: FloatTensor<Self>,
        bias: Maybe<Self>,
        grouping: Grouping<Self>,
        call: LinearCall,
    ) -> FloatTensor<Self> {
        let bias = bias.into_option();
        let call = Call::Linear(descriptor(&call, bias.is_some()));
        let inputs = [rows, w].into_iter().chain(grouping.offsets()).chain(bias);
        Results::<C>::of(&call, inputs.collect()).take()
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
        let call = Call::LinearBackward(linear::LinearBackward {
            linear: descriptor(&call, needs.bias),
            rows: needs.rows,
            w: needs.w,
            dbias: needs.bias,
        });
        let inputs = [dy, rows, w].into_iter().chain(grouping.offsets());
        let mut results = Results::<C>::of(&call, inputs.collect());
        LinearGradients {
            rows: results.take_if(needs.rows).into(),
            w: results.take_if(needs.w).into(),
            bias: results.take_if(needs.bias).into(),
        }
    }
}

//! Products with FP8 weights, recorded for XLA.

use super::{CodedWeights, Fp8LinearCall, Fp8LinearOps};
use crate::ops::Grouping;
use crate::ops::xla::record;
use burn::backend::tensor::FloatTensor;
use moebius_ops::Product;
use moebius_xla::{BackendRouter, RouterChannel};

impl<C: RouterChannel> Fp8LinearOps for BackendRouter<C> {
    fn fp8_linear(
        x: FloatTensor<Self>,
        weights: CodedWeights<Self>,
        grouping: Grouping<Self>,
        call: Fp8LinearCall,
    ) -> FloatTensor<Self> {
        let sort = match grouping {
            Grouping::Dense => Vec::new(),
            Grouping::Sorted(sorted) => vec![sorted.order, sorted.offsets],
        };
        let operands = [x, weights.codes, weights.scales.into_tensor()].into_iter();
        let operands = operands.chain(sort).chain(weights.bias.into_option());
        record::<C>(Product::Fp8Linear(call.problem), operands.collect()).take()
    }
}

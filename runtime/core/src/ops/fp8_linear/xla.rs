//! Products with FP8 weights, recorded for XLA.

use super::{CodedWeights, Fp8LinearCall, Fp8LinearOps};
use crate::ops::Grouping;
use crate::ops::experts::xla::activation;
use crate::ops::fp8::xla::format;
use crate::ops::quantize::xla::granularity;
use crate::ops::xla::Results;
use burn::backend::tensor::FloatTensor;
use moebius_ops::grouped_gemm::{self, Problem};
use moebius_xla::custom::Call;
use moebius_xla::custom::fp8_linear::{Fp8Linear, Routing, Source};
use moebius_xla::{BackendRouter, RouterChannel};

fn linear(p: &Problem, routing: Option<Routing>) -> Call {
    let Some(weights) = p.fp8 else {
        unreachable!("a call with FP8 weights has a problem with codes");
    };
    Call::Fp8Linear(Fp8Linear {
        rows: p.row_bound,
        experts: p.experts,
        n: p.n,
        k: p.k,
        format: format(weights.format),
        granularity: granularity(weights.granularity),
        bias: p.bias,
        activation: p.activation.map(activation),
        gated: p.gated,
        routing,
    })
}

impl<C: RouterChannel> Fp8LinearOps for BackendRouter<C> {
    fn fp8_linear(
        x: FloatTensor<Self>,
        weights: CodedWeights<Self>,
        grouping: Grouping<Self>,
        call: Fp8LinearCall,
    ) -> FloatTensor<Self> {
        let p = &call.problem;
        let sort = match grouping {
            Grouping::Dense => Vec::new(),
            Grouping::Sorted(sorted) => vec![sorted.order, sorted.offsets],
        };
        let routing = (!sort.is_empty()).then(|| Routing {
            tokens: p.slots / p.top_k,
            top_k: p.top_k,
            source: match p.rows {
                grouped_gemm::Source::Tokens => Source::Tokens,
                grouped_gemm::Source::Sorted => Source::Sorted,
            },
        });
        let operands = [x, weights.codes, weights.scales.into_tensor()].into_iter();
        let operands = operands.chain(sort).chain(weights.bias.into_option());
        Results::<C>::of(&linear(p, routing), operands.collect()).take()
    }
}

//! Calls on Flex: each family runs on processors.

use super::call::{Call, Operations};
use super::host::Operands;
use super::tensors::Tensors;
use super::{
    attention, exact, experts, grouped_gemm, kv_cache, permute, quantize, routing,
    segment_attention,
};
use burn::backend::Flex;
use moebius_ops::Operation;
use moebius_ops::attention::HostRule;

impl Operations for Flex {
    fn moebius_run(operands: Tensors<Self>, call: Box<Call>) -> Tensors<Self> {
        let b = Operands::new(call.operands(), operands.0);
        let computed = match &call.operation {
            Operation::Quantize(operation) => quantize::flex::run(operation, b),
            Operation::Routing(operation) => routing::flex::run(operation, b),
            Operation::Permute(operation) => permute::flex::run(operation, b),
            Operation::GroupedGemm(operation) => grouped_gemm::flex::run(operation, b),
            Operation::Experts(operation) => experts::flex::run(operation, call.clock.as_ref(), b),
            Operation::SegmentAttention(operation) => segment_attention::flex::run(operation, b),
            Operation::Attention(operation) => {
                let rule = call.rule.as_deref();
                attention::flex::run(operation, rule.map(|rule| rule as &dyn HostRule), b)
            }
            Operation::KvCache(operation) => kv_cache::flex::run(operation, b),
            Operation::Exact(operation) => exact::flex::run(operation, b),
        };
        let results = computed.into_iter().zip(&call.signature.results);
        let tensors = results.map(|(computed, info)| computed.into_tensor(info));
        Tensors(tensors.collect())
    }
}

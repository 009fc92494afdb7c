//! Calls on Flex: the portable body of each family.

use super::call::{Call, Operations};
use super::host::Operands;
use super::tensors::Tensors;
use super::{
    attention, experts, fp8_linear, kv_cache, linear, quantize, router, rows, segment_attention,
    sort,
};
use burn::backend::Flex;
use moebius_ops::{Operation, Product, Routing, Rows};

impl Operations for Flex {
    fn moebius_run(operands: Tensors<Self>, call: Call) -> Tensors<Self> {
        let b = Operands::new(call.operands(), operands.0);
        Tensors(match &call.operation {
            Operation::Quantization(operation) => quantize::flex::run(operation, b),
            Operation::Routing(Routing::Sort { problem, .. }) => sort::flex::run(problem, b),
            Operation::Routing(operation) => router::flex::run(operation, b),
            Operation::Rows(Rows::Attention {
                problem, backward, ..
            }) => segment_attention::flex::run(problem, *backward, b),
            Operation::Rows(operation) => rows::flex::run(operation, b),
            Operation::Product(product) => multiplied(product, &call, b),
            Operation::Attention(operation) => {
                attention::flex::run(operation, call.rule.as_deref(), b)
            }
            Operation::KvCache(operation) => kv_cache::flex::run(operation, b),
        })
    }
}

fn multiplied(product: &Product, call: &Call, b: Operands) -> Vec<super::tensors::Value<Flex>> {
    match product {
        Product::Linear(problem) => linear::flex::run(problem, b),
        Product::LinearBackward {
            problem,
            rows,
            w,
            bias,
        } => linear::flex::gradients(problem, [*rows, *w, *bias], b),
        Product::Fp8Linear(problem) => fp8_linear::flex::run(problem, b),
        Product::Experts { problem, keep } => {
            experts::flex::run(problem, *keep, call.clock.as_ref(), b)
        }
        Product::ExpertsBackward {
            problem,
            x,
            weights,
            ..
        } => experts::flex::gradients(problem, [*x, *weights], b),
        Product::Fp8Codes(_) => unreachable!("a product of codes needs matrix instructions"),
    }
}

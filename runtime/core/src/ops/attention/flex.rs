//! Attention on Flex, in f32.

use crate::ops::host::{Computed, Floats, Operands, words};
use moebius_host::attention::{self, Results};
use moebius_ops::attention::{Dropout, HostRule, Problem};
use moebius_ops::{Attention, AttentionPass};

/// Runs the forward pass, or a backward pass through o or its log-sum-exp.
pub(in crate::ops) fn run(
    operation: &Attention,
    rule: Option<&dyn HostRule>,
    mut b: Operands,
) -> Vec<Computed> {
    let names = ["q", "k", "v", "slopes", "bias", "relative", "sinks"];
    let floats = names.map(|name| Floats::of(&mut b, name));
    let operands = attention::Operands {
        rule,
        ..operands(&operation.problem, &floats, &mut b)
    };
    let results: Vec<Vec<f32>> = match operation.pass {
        AttentionPass::Forward => attention::forward(&operands).into(),
        AttentionPass::Output(_) | AttentionPass::LogSumExp(_) => {
            let results = ["o", "do", "lse", "dlse"].map(|name| Floats::of(&mut b, name));
            let [o, d_o, lse, d_lse] = results.each_ref().map(Floats::values);
            let results = Results { o, d_o, lse, d_lse };
            attention::backward(&operands, operation.pass, &results)
        }
    };
    results.into_iter().map(Computed::from).collect()
}

fn operands<'a>(
    problem: &'a Problem,
    floats: &'a [Floats; 7],
    b: &mut Operands,
) -> attention::Operands<'a> {
    let mut table = |name| b.maybe_word(name).map(words).unwrap_or_default();
    let dropout = <[u32; Dropout::WORDS]>::try_from(table("dropout"));
    let [q, k, v, slopes, bias, relative, sinks] = floats.each_ref().map(Floats::values);
    attention::Operands {
        problem,
        q,
        k,
        v,
        slopes,
        bias,
        relative,
        sinks,
        dropout: dropout.ok().map(Dropout::of),
        rule: None,
        query_documents: table("query_documents"),
        key_documents: table("key_documents"),
        blocks: table("blocks"),
        mask: table("mask"),
    }
}

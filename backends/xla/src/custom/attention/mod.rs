//! Attention under score rules, and its gradients: [`moebius_ops::attention`].
//!
//! Few scores are computed at once. More are computed in blocks of queries over blocks of keys, with the softmax rescaled as its
//! largest score grows (Milakov & Gimelshein 2018): memory follows from the rows and the tables, and a block of queries visits
//! only the keys that the rules without tables let it see. Both forms are one program text, with loops around it or without.
//! Heads that share keys lie one below the other as rows of one product, so that keys and values aren't repeated.
//!
//! A row of NaN reaches what sees it and nothing else: weights of pairs that aren't seen are selected to be 0, and elements that
//! aren't finite, whose products with 0 are NaN, are added apart ([`product`]).
//!
//! | file | what it computes |
//! |---|---|
//! | `terms.rs` | what scores are computed from |
//! | `walk.rs` | blocks and the loops over them |
//! | `scores.rs`, `relative.rs` | scores of a tile, and which of its pairs are seen |
//! | `product.rs` | sums of rows by weights |
//! | `forward.rs`, `backward.rs` | the passes |

mod backward;
mod dropout;
mod forward;
mod product;
mod relative;
mod scores;
mod terms;
mod walk;

pub(crate) use forward::forward;
pub(super) use scores::{Places, all, by_place};
pub use terms::Tiling;
pub(crate) use terms::{Tables, Terms};

use super::values::float;
use crate::stablehlo::{Builder, Value};
use backward::{Of, backward};
use moebius_ops::{Attention, AttentionPass, Operation};

/// The results of the operation, of operands that were checked.
pub(super) fn lower(
    b: &Builder,
    operation: &Attention,
    inputs: &[Value],
    tiling: Tiling,
) -> Vec<Value> {
    let signature = Operation::from(*operation).signature();
    let named = |name: &str| {
        let place = signature.operands.iter().position(|x| x.name == name);
        place.map(|place| inputs[place])
    };
    let there = |name: &str| {
        named(name).unwrap_or_else(|| unreachable!("a description of this pass has {name}"))
    };
    let tables = Tables {
        query_documents: named("query_documents"),
        key_documents: named("key_documents"),
        blocks: named("blocks"),
        mask: named("mask"),
        slopes: named("slopes"),
        bias: named("bias"),
        relative: named("relative"),
        sinks: named("sinks"),
        dropout: named("dropout"),
    };
    let terms = Terms::new(&operation.problem, tables);
    let element = float(operation.problem.element());
    let rows = |name: &str| b.convert(there(name), element);
    let qkv = ["q", "k", "v"].map(rows);
    let (of, wanted) = match operation.pass {
        AttentionPass::Forward => return forward(b, &terms, qkv, tiling).to_vec(),
        AttentionPass::Output(wanted) => {
            let (o, gradient) = (rows("o"), rows("do"));
            (Of::Output { o, gradient }, wanted)
        }
        AttentionPass::LogSumExp(wanted) => {
            let gradient = there("dlse");
            (Of::LogSumExp { gradient }, wanted)
        }
    };
    backward(b, &terms, qkv, (there("lse"), of), (wanted, tiling))
}

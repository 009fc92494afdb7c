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
mod walk;

pub(crate) use forward::forward;
pub(super) use scores::{Places, all, by_place};

use super::float;
use crate::stablehlo::{Builder, Value};
use backward::{Of, backward};
use moebius_ops::attention::{Problem, Rule};
use moebius_ops::{Attention, AttentionPass, Operation};

/// In which parts the scores of an attention are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tiling {
    /// The most scores B · Hq · Sq · Skv that are computed at once.
    pub whole: usize,
    /// Queries and keys of a block where there are more.
    pub block: usize,
}

impl Default for Tiling {
    /// 2²⁴ scores, 64 MiB in f32, and blocks of 128.
    fn default() -> Self {
        Self {
            whole: 1 << 24,
            block: 128,
        }
    }
}

/// What scores are computed from, beside queries and keys.
pub(crate) struct Terms<'a> {
    /// Sizes and rules. Element types and widths are those of the operands.
    pub(crate) problem: &'a Problem,
    /// The problem's scale and cap; Burn's are f64.
    pub(crate) scale: f64,
    pub(crate) cap: f64,
    pub(crate) tables: Tables,
}

/// The operands that rules and sinks read, by their names in the description.
#[derive(Clone, Copy, Default)]
pub(crate) struct Tables {
    pub(crate) query_documents: Option<Value>,
    pub(crate) key_documents: Option<Value>,
    pub(crate) blocks: Option<Value>,
    /// Words or booleans.
    pub(crate) mask: Option<Value>,
    pub(crate) slopes: Option<Value>,
    pub(crate) bias: Option<Value>,
    pub(crate) relative: Option<Value>,
    pub(crate) sinks: Option<Value>,
    pub(crate) dropout: Option<Value>,
}

impl<'a> Terms<'a> {
    pub(crate) fn new(problem: &'a Problem, tables: Tables) -> Self {
        let cap = problem.rules().iter().find_map(|rule| match rule {
            Rule::Softcap(cap) => Some(f64::from(cap)),
            _ => None,
        });
        Self {
            problem,
            scale: f64::from(problem.scale()),
            cap: cap.unwrap_or(1.0),
            tables,
        }
    }
}

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

//! What scores are computed from, and in which parts.

use crate::stablehlo::Value;
use moebius_ops::attention::{Problem, Rule};

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

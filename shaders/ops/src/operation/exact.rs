//! Operations that have the same bits on every device.

use super::operands::{Computed, Operands};
use super::{Signature, signature, signature_where};
use crate::attention::few_elements;
use crate::element::Element;
use crate::error::{Fault, Mismatch};
use crate::exact::{Activate, Combine, Function, Norm, Product, Rotate, Seen};
use crate::kv_cache::{Attend, Step, reference};
use crate::routing::{self, Problem, reference_with_bias};
use serde::{Deserialize, Serialize};

/// An operation of [`crate::exact`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Exact {
    /// A function of each of `elements` numbers.
    Map {
        /// The function.
        function: Function,
        /// The number of elements.
        elements: usize,
    },
    /// Products with the matrices of experts.
    Product(Product),
    /// The activation of rows.
    Activate(Activate),
    /// The norm of rows.
    Norm(Norm),
    /// The choice of experts by their scores.
    Route {
        /// The description of the choice, without groups.
        problem: Problem,
        /// Whether a bias is added to the scores that decide the choice.
        bias: bool,
    },
    /// Weighted sums of each token's rows.
    Combine(Combine),
    /// The rotation of pairs of elements.
    Rotate(Rotate),
    /// Attention over cached tokens.
    Attend(Attend),
}

impl Exact {
    pub(super) fn signature(&self) -> Signature {
        let f32s = |name, sizes: &[(char, usize)]| signature(name, Element::F32, sizes);
        match self {
            Self::Map { elements, .. } => f32s("exact map", &[('n', *elements)]),
            Self::Product(p) => {
                let sizes = [
                    ('m', p.rows / p.share.max(1)),
                    ('k', p.k),
                    ('E', p.experts),
                    ('n', p.n),
                    ('R', p.rows),
                ];
                some("exact product", &sizes, |tensor| match tensor {
                    "indices" => p.chosen,
                    "b" => p.bias,
                    _ => true,
                })
            }
            Self::Activate(p) => {
                let sizes = [('R', p.rows), ('c', p.columns()), ('F', p.inter)];
                f32s("exact activation", &sizes)
            }
            Self::Norm(p) => f32s("exact norm", &[('R', p.rows), ('n', p.width)]),
            Self::Route { problem, bias } => {
                let sizes = super::routing::sizes(problem);
                some("exact route", &sizes, |tensor| tensor != "bias" || *bias)
            }
            Self::Combine(p) => {
                let sizes = [('S', p.tokens * p.top_k), ('n', p.width), ('T', p.tokens)];
                some("exact combine", &sizes, |tensor| match tensor {
                    "weights" => p.weighted,
                    "base" => p.based,
                    _ => true,
                })
            }
            Self::Rotate(p) => {
                let sizes = [
                    ('B', p.batch),
                    ('Q', p.tokens),
                    ('H', p.heads),
                    ('D', p.width),
                    ('b', p.tables()),
                    ('h', p.half),
                ];
                f32s("exact rotate", &sizes)
            }
            Self::Attend(p) => {
                let s = p.attention().sizes();
                let own = [('H', s.heads), ('Q', s.queries)];
                let sizes = super::kv_cache::sizes(p.layout(), s.batch, p.table());
                let sizes = [&sizes[..], &own].concat();
                some("exact attention", &sizes, |tensor| {
                    tensor != "sinks" || p.attention().sinks()
                })
            }
        }
    }

    pub(super) fn check(&self) -> Result<(), Mismatch> {
        match self {
            Self::Map { elements, .. } => Mismatch::index("elements", &[*elements]),
            Self::Product(p) => p.check(),
            Self::Activate(p) => p.check(),
            Self::Norm(p) => p.check(),
            Self::Route { problem, .. } => {
                problem.check()?;
                check_groups(problem)
            }
            Self::Combine(p) => p.check(),
            Self::Rotate(p) => p.check(),
            Self::Attend(p) => {
                p.check()?;
                let s = p.attention().sizes();
                few_elements("scores", &[s.batch, s.heads, s.queries, s.keys])?;
                Seen::of(p).map(drop)
            }
        }
    }

    pub(super) fn compute(&self, b: &Operands<'_>) -> Result<Computed, Mismatch> {
        let y = match self {
            Self::Map { function, .. } => {
                let x = b.floats("x").iter();
                x.map(|x| function.reference(*x)).collect()
            }
            Self::Product(p) => {
                let indices = b.words("indices");
                p.reference(b.floats("x"), b.floats("W"), indices, b.floats("b"))
            }
            Self::Activate(p) => p.reference(b.floats("x")),
            Self::Norm(p) => p.reference(b.floats("x"), b.floats("gamma")),
            Self::Route { problem, .. } => return Ok(routed(problem, b)),
            Self::Combine(p) => {
                p.reference(b.floats("rows"), b.floats("weights"), b.floats("base"))
            }
            Self::Rotate(p) => p.reference(b.floats("x"), [b.floats("cos"), b.floats("sin")]),
            Self::Attend(p) => {
                let step = Step {
                    table: b.words("table"),
                    spans: b.words("spans"),
                };
                let (pool, q) = (b.words("pool"), b.floats("q"));
                let attended = reference(p, pool, step, q, b.tables());
                return Ok(vec![("o", attended.o.into())]);
            }
        };
        Ok(vec![("y", y.into())])
    }
}

/// The signature `name` of tensors in f32, of those alone for whose names `there` is true.
fn some(name: &str, sizes: &[(char, usize)], there: impl Fn(&str) -> bool) -> Signature {
    signature_where(name, Element::F32, sizes, there)
}

/// Refuses a choice among groups.
fn check_groups(problem: &Problem) -> Result<(), Mismatch> {
    let (what, none) = (
        "expert groups of an exact choice",
        problem.groups().is_none(),
    );
    let got = problem.groups().map_or(0, |groups| groups.count);
    Fault::Unsupported.unless(none, what, "none", got)
}

fn routed(problem: &Problem, b: &Operands<'_>) -> Computed {
    let (logits, bias) = (b.f32s("logits"), b.maybe_f32s("bias"));
    let routing::Routed {
        indices,
        weights,
        probs,
        lse,
    } = reference_with_bias(problem, &logits, None, bias.as_deref());
    vec![
        ("indices", indices.into()),
        ("weights", weights.into()),
        ("probs", probs.into()),
        ("lse", lse.into()),
    ]
}

//! Rows in and out of the order of their experts, and what looks along a sequence.

use super::{Signature, TensorInfo, f32s, floats, signature, words};
use crate::element::Element;
use crate::error::ShapeError;
use crate::permute::{RowsProblem, neighbours};
use crate::segment_attention;
use serde::{Deserialize, Serialize};

/// An operation of [`crate::permute`] on rows, or of [`crate::segment_attention`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Rows {
    /// The token of every sorted row: [`crate::permute::dispatch`] without weights.
    Gather(RowsProblem),
    /// The sum of a token's rows: [`crate::permute::combine`].
    Combine {
        /// The rows.
        problem: RowsProblem,
        /// Whether there are weights other than 1.
        weighted: bool,
    },
    /// Gradients of a weighted sum: of the rows and of the weights.
    CombineBackward(RowsProblem),
    /// Rows beside their neighbours: [`crate::permute::neighbours`].
    Neighbours {
        /// The rows and their sequences.
        problem: neighbours::Problem,
        /// Type of the rows.
        element: Element,
        /// The gradient instead.
        backward: bool,
    },
    /// Attention within a sequence: [`crate::segment_attention`].
    Attention {
        /// The attention.
        problem: segment_attention::Problem,
        /// One expert has all rows, in the order of the tokens: there is no sort.
        dense: bool,
    },
    /// Gradients of an attention.
    AttentionBackward {
        /// The attention.
        problem: segment_attention::Problem,
        /// As of the forward pass.
        dense: bool,
    },
}

pub(super) fn order(slots: usize) -> Option<TensorInfo> {
    Some(words("order", [slots]))
}

pub(super) fn offsets(experts: usize) -> Option<TensorInfo> {
    Some(words("offsets", [experts + 1]))
}

pub(super) fn positions(slots: usize) -> Option<TensorInfo> {
    Some(words("positions", [slots]))
}

impl Rows {
    pub(super) fn signature(&self) -> Signature {
        let tokens =
            |name, p: &RowsProblem| Some(floats(name, [p.tokens(), p.width()], p.element()));
        let rows =
            |name, p: &RowsProblem| Some(floats(name, [p.row_bound(), p.width()], p.element()));
        let weights = |name, p: &RowsProblem| Some(f32s(name, [p.tokens(), p.top_k()]));
        match self {
            Self::Gather(p) => signature(
                "gather rows",
                [tokens("x", p), order(p.slots()), offsets(p.experts())],
                [rows("rows", p)],
            ),
            Self::Combine {
                problem: p,
                weighted,
            } => {
                let weights = weighted.then(|| weights("weights", p)).flatten();
                let operands = [rows("rows", p), positions(p.slots()), weights];
                signature("combine rows", operands, [tokens("y", p)])
            }
            Self::CombineBackward(p) => {
                let operands = [
                    tokens("dy", p),
                    rows("rows", p),
                    weights("weights", p),
                    order(p.slots()),
                    offsets(p.experts()),
                    positions(p.slots()),
                ];
                let results = [rows("drows", p), weights("dweights", p)];
                signature("combine rows backward", operands, results)
            }
            Self::Neighbours {
                problem: p,
                element,
                backward,
            } => {
                let of = |name, width| Some(floats(name, [p.row_bound(), width], *element));
                let (one, all) = (p.width(), neighbours::PLACES * p.width());
                let (name, from, to) = match backward {
                    true => ("neighbours backward", of("dout", all), of("dx", one)),
                    false => ("neighbours", of("x", one), of("out", all)),
                };
                let sort = p.sort();
                signature(
                    name,
                    [from, order(sort.slots()), offsets(sort.experts())],
                    [to],
                )
            }
            Self::Attention { problem, dense } => attention(problem, *dense),
            Self::AttentionBackward { problem, dense } => attention_backward(problem, *dense),
        }
    }

    pub(super) fn check(&self) -> Result<(), ShapeError> {
        match self {
            Self::Gather(problem)
            | Self::Combine { problem, .. }
            | Self::CombineBackward(problem) => problem.check(),
            Self::Neighbours { problem, .. } => problem.check(),
            Self::Attention { problem, dense } | Self::AttentionBackward { problem, dense } => {
                problem.check()?;
                let segments = problem.segments();
                if !dense {
                    return Ok(());
                }
                ShapeError::check("experts of dense rows", 1, segments.experts())?;
                ShapeError::check("dense rows", segments.slots(), segments.rows())
            }
        }
    }
}

/// Rows of all heads.
fn heads(name: &'static str, p: &segment_attention::Problem) -> Option<TensorInfo> {
    Some(floats(
        name,
        [p.rows(), p.heads() * p.head_dim()],
        p.element,
    ))
}

fn lse(p: &segment_attention::Problem) -> Option<TensorInfo> {
    Some(f32s("lse", [p.rows(), p.heads()]))
}

/// Order and offsets, unless there is no sort.
fn sort(p: &segment_attention::Problem, dense: bool) -> [Option<TensorInfo>; 2] {
    let segments = p.segments();
    match dense {
        true => [None, None],
        false => [order(segments.slots()), offsets(segments.experts())],
    }
}

fn attention(p: &segment_attention::Problem, dense: bool) -> Signature {
    let [order, offsets] = sort(p, dense);
    let operands = [heads("q", p), heads("k", p), heads("v", p), order, offsets];
    signature("segment attention", operands, [heads("o", p), lse(p)])
}

fn attention_backward(p: &segment_attention::Problem, dense: bool) -> Signature {
    let [order, offsets] = sort(p, dense);
    let (q, k, v) = (heads("q", p), heads("k", p), heads("v", p));
    let operands = [
        q,
        k,
        v,
        order,
        offsets,
        heads("o", p),
        lse(p),
        heads("do", p),
    ];
    let results = [heads("dq", p), heads("dk", p), heads("dv", p)];
    signature("segment attention backward", operands, results)
}

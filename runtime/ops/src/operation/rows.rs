//! Rows in and out of the order of their experts, and what looks along a sequence.

use super::{Signature, signature};
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
        /// The gradients of q, k and v instead.
        backward: bool,
    },
}

impl Rows {
    pub(super) fn signature(&self) -> Signature {
        match self {
            Self::Gather(p) => moved("gather rows", p),
            Self::Combine { problem, weighted } => {
                moved("combine rows", problem).with(&["weights"], *weighted)
            }
            Self::CombineBackward(p) => moved("combine rows backward", p),
            Self::Neighbours {
                problem: p,
                element,
                backward,
            } => {
                let sizes = [
                    ('R', p.row_bound()),
                    ('S', p.sort().slots()),
                    ('B', p.sort().experts() + 1),
                    ('n', p.width()),
                    ('m', neighbours::PLACES * p.width()),
                ];
                let names = ["neighbours", "neighbours backward"];
                signature(names[usize::from(*backward)], *element, &sizes)
            }
            Self::Attention {
                problem,
                dense,
                backward,
            } => attention(problem, *dense, *backward),
        }
    }

    pub(super) fn check(&self) -> Result<(), ShapeError> {
        match self {
            Self::Gather(problem)
            | Self::Combine { problem, .. }
            | Self::CombineBackward(problem) => problem.check(),
            Self::Neighbours { problem, .. } => problem.check(),
            Self::Attention { problem, dense, .. } => {
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

fn moved(name: &str, p: &RowsProblem) -> Signature {
    let sizes = [
        ('T', p.tokens()),
        ('K', p.top_k()),
        ('S', p.slots()),
        ('B', p.experts() + 1),
        ('R', p.row_bound()),
        ('n', p.width()),
    ];
    signature(name, p.element(), &sizes)
}

/// Of h heads; dense rows have no sort.
fn attention(p: &segment_attention::Problem, dense: bool, backward: bool) -> Signature {
    let segments = p.segments();
    let sizes = [
        ('R', p.rows()),
        ('h', p.heads()),
        ('n', p.heads() * p.head_dim()),
        ('S', segments.slots()),
        ('B', segments.experts() + 1),
    ];
    let names = ["segment attention", "segment attention backward"];
    signature(names[usize::from(backward)], p.element(), &sizes).with(&["order", "offsets"], !dense)
}

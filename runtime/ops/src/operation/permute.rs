//! Slots in the order of their experts, and rows in and out of it.

use super::routing::sizes;
use super::{Signature, signature};
use crate::element::Element;
use crate::error::ShapeError;
use crate::permute::{RowsProblem, sorting};
use serde::{Deserialize, Serialize};

/// An operation of [`crate::permute`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Permute {
    /// Slots sorted by expert.
    Sort {
        /// The sort.
        problem: sorting::Problem,
        /// Whether a mask says who takes any.
        mask: bool,
    },
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
}

impl Permute {
    pub(super) fn signature(&self) -> Signature {
        match self {
            Self::Sort { problem, mask } => {
                let sizes = sizes(&problem.routing());
                let signature = signature("sort", Element::F32, &sizes);
                let factors = problem.factors();
                signature.with(&["mask"], *mask).with(&["factors"], factors)
            }
            Self::Gather(p) => moved("gather rows", p),
            Self::Combine { problem, weighted } => {
                moved("combine rows", problem).with(&["weights"], *weighted)
            }
            Self::CombineBackward(p) => moved("combine rows backward", p),
        }
    }

    pub(super) fn check(&self) -> Result<(), ShapeError> {
        match self {
            Self::Sort { problem, .. } => problem.check(),
            Self::Gather(problem)
            | Self::Combine { problem, .. }
            | Self::CombineBackward(problem) => problem.check(),
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

//! The sort of slots by expert, and moves of rows into and out of that order.

use super::operands::{Computed, Operands};
use super::routing::sizes;
use super::{Signature, signature_where};
use crate::element::Element;
use crate::error::Mismatch;
use crate::permute::{
    self, RowsProblem, capacities_reference, capacity, combine, dispatch, sorting, weights_gradient,
};
use serde::{Deserialize, Serialize};

/// An operation of [`crate::permute`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Permute {
    /// The sort of slots by expert.
    Sort {
        /// The description of the sort.
        problem: sorting::Problem,
        /// Whether a mask says which experts take slots.
        mask: bool,
    },
    /// Copies the token of every sorted row: [`crate::permute::dispatch`] without weights.
    Gather(RowsProblem),
    /// Sums the rows of each token: [`crate::permute::combine`].
    Combine {
        /// The description of the rows.
        problem: RowsProblem,
        /// Whether the rows have weights; otherwise every weight is 1.
        weighted: bool,
    },
    /// The gradients of a weighted sum: of the rows and of the weights.
    CombineBackward(RowsProblem),
}

impl Permute {
    pub(super) fn signature(&self) -> Signature {
        match self {
            Self::Sort { problem, mask } => {
                let sizes = sizes(&problem.routing());
                signature_where("sort", Element::F32, &sizes, |tensor| match tensor {
                    "mask" => *mask,
                    "factors" => problem.factors(),
                    _ => true,
                })
            }
            Self::Gather(p) => moved("gather rows", p, true),
            Self::Combine { problem, weighted } => moved("combine rows", problem, *weighted),
            Self::CombineBackward(p) => moved("combine rows backward", p, true),
        }
    }

    pub(super) fn check(&self) -> Result<(), Mismatch> {
        match self {
            Self::Sort { problem, .. } => problem.check(),
            Self::Gather(problem)
            | Self::Combine { problem, .. }
            | Self::CombineBackward(problem) => problem.check(),
        }
    }

    pub(super) fn compute(&self, b: &Operands<'_>) -> Result<Computed, Mismatch> {
        let (sorted, positions) = (b.sorted(0), b.words("positions"));
        Ok(match self {
            Self::Sort { problem, .. } => sort(problem, b),
            Self::Gather(p) => {
                let rows = dispatch::reference(p, &sorted, None, b.floats("x"))?;
                vec![("rows", rows.into())]
            }
            Self::Combine { problem, weighted } => {
                let weights = weighted.then(|| b.floats("weights"));
                let y = combine::reference(problem, positions, weights, b.floats("rows"))?;
                vec![("y", y.into())]
            }
            Self::CombineBackward(p) => {
                let (dy, rows, weights) = (b.floats("dy"), b.floats("rows"), b.floats("weights"));
                let drows = dispatch::reference(p, &sorted, Some(weights), dy)?;
                let dweights = weights_gradient::reference(p, positions, dy, rows)?;
                vec![("drows", drows.into()), ("dweights", dweights.into())]
            }
        })
    }
}

fn sort(sort: &sorting::Problem, b: &Operands<'_>) -> Computed {
    let (slots, experts) = (sort.slots(), sort.experts());
    let mut keys = b.words("indices").to_vec();
    if let Some(rule) = sort.capacity() {
        let (mask, factors) = (b.mask(), b.maybe_f32s("factors"));
        let (mask, factors) = (mask.as_deref(), factors.as_deref());
        let capacities = capacities_reference(&rule, slots, experts, mask, factors);
        keys = capacity::reference(&keys, &b.f32s("weights"), &capacities);
    }
    let sorted = permute::reference(&keys, experts);
    let dropped = slots as u32 - sorted.offsets[experts];
    vec![
        ("order", sorted.order.into()),
        ("offsets", sorted.offsets.into()),
        ("positions", sorted.positions.into()),
        ("dropped", vec![dropped].into()),
    ]
}

/// The signature `name` of a move of rows, with their weights if it has any and `weighted` is true.
fn moved(name: &str, p: &RowsProblem, weighted: bool) -> Signature {
    let sizes = [
        ('T', p.tokens()),
        ('K', p.top_k()),
        ('S', p.slots()),
        ('B', p.experts() + 1),
        ('R', p.row_bound()),
        ('n', p.width()),
    ];
    signature_where(name, p.element(), &sizes, |tensor| {
        tensor != "weights" || weighted
    })
}

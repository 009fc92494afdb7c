//! Feed-forward experts.

use super::routing::sizes;
use super::{Signature, signature};
use crate::error::ShapeError;
use crate::experts::Problem;
use crate::permute::check_row_bound;
use serde::{Deserialize, Serialize};

/// An operation of [`crate::experts`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Experts {
    /// The sum of a token's experts.
    Forward {
        /// The experts and the batch.
        problem: Problem,
        /// Whether the first product before its activation is a result, too.
        keep: bool,
    },
    /// The gradients.
    Backward {
        /// The experts and the batch.
        problem: Problem,
        /// Whether the forward kept its first product; it is computed again otherwise.
        pre: bool,
        /// Whether the gradient of x is needed.
        x: bool,
        /// Whether those of the weights and biases are.
        weights: bool,
    },
}

impl Experts {
    pub(super) fn signature(&self) -> Signature {
        match self {
            Self::Forward { problem: p, keep } => described("experts", p)
                .with(&["pre"], *keep)
                .with(&["b_in", "b_out"], p.bias),
            Self::Backward {
                problem: p,
                pre,
                x,
                weights,
            } => described("experts backward", p)
                .with(&["pre"], *pre)
                .with(&["dx"], *x)
                .with(&["b_in", "b_out", "db_in", "db_out"], p.bias)
                .with(&["dw_in", "dw_out", "db_in", "db_out"], *weights),
        }
    }

    pub(super) fn check(&self) -> Result<(), ShapeError> {
        let (Self::Forward { problem: p, .. } | Self::Backward { problem: p, .. }) = self;
        p.routing.check()?;
        check_row_bound(p.row_bound, p.routing.slots())?;
        p.check()
    }
}

fn described(name: &str, p: &Problem) -> Signature {
    let [t, e, k, s, b] = sizes(&p.routing);
    let (h, f) = (('H', p.hidden), ('F', p.inter));
    let (c, r) = (('C', p.columns_in()), ('R', p.row_bound));
    signature(name, p.element, &[t, e, k, s, b, h, f, c, r])
}

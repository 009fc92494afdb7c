//! Feed-forward experts.

use super::operands::{Computed, Operands};
use super::routing::sizes;
use super::{Signature, signature_where};
use crate::error::Mismatch;
use crate::experts::{Problem, ReferenceInputs, reference, reference_backward};
use crate::grouped_gemm;
use crate::permute::{Sorted, check_row_bound};
use serde::{Deserialize, Serialize};

/// An operation of [`crate::experts`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Experts {
    /// The forward pass: for each token, the weighted sum of its experts' outputs.
    Forward {
        /// The description of the experts and the batch.
        problem: Problem,
        /// Whether the first product before its activation is a result, too.
        keep: bool,
    },
    /// The backward pass.
    Backward {
        /// The description of the experts and the batch.
        problem: Problem,
        /// Whether the first product is an operand; without it, the backward pass computes it again.
        pre: bool,
        /// Whether to compute the gradient of x.
        x: bool,
        /// Whether to compute the gradients of the weights and biases.
        weights: bool,
    },
}

impl Experts {
    pub(super) fn signature(&self) -> Signature {
        match self {
            Self::Forward { problem, keep } => {
                described("experts", problem, |tensor| tensor != "pre" || *keep)
            }
            Self::Backward {
                problem,
                pre,
                x,
                weights,
            } => described("experts backward", problem, |tensor| match tensor {
                "pre" => *pre,
                "dx" => *x,
                "dw_in" | "dw_out" => *weights,
                "db_in" | "db_out" => *weights && problem.bias,
                _ => true,
            }),
        }
    }

    pub(super) fn check(&self) -> Result<(), Mismatch> {
        let (Self::Forward { problem: p, .. } | Self::Backward { problem: p, .. }) = self;
        p.routing.check()?;
        check_row_bound(p.row_bound, p.routing.slots())?;
        p.check()
    }

    pub(super) fn compute(&self, b: &Operands<'_>) -> Result<Computed, Mismatch> {
        let (Self::Forward { problem, .. } | Self::Backward { problem, .. }) = self;
        // The capacity has already dropped slots in the sort.
        let p = Problem {
            capacity: None,
            ..*problem
        };
        let [x, w_in, w_out] = ["x", "w_in", "w_out"].map(|name| b.f32s(name));
        let [b_in, b_out] = ["b_in", "b_out"].map(|name| b.maybe_f32s(name));
        let (sorted, ones) = (b.sorted(p.row_bound), vec![1.0; p.routing.slots()]);
        let inputs = ReferenceInputs {
            x: &x,
            indices: &experts_of_slots(&sorted),
            weights: if p.dense { &ones } else { b.floats("weights") },
            w_in: &w_in,
            b_in: b_in.as_deref(),
            w_out: &w_out,
            b_out: b_out.as_deref(),
        };
        if let Self::Backward { .. } = self {
            let d = reference_backward(&p, &inputs, b.floats("dy"));
            return Ok(vec![
                ("dx", d.x.into()),
                ("dweights", d.weights.into()),
                ("dw_in", d.w_in.into()),
                ("dw_out", d.w_out.into()),
                ("db_in", d.b_in.into()),
                ("db_out", d.b_out.into()),
            ]);
        }
        let first = grouped_gemm::Problem {
            n: p.columns_in(),
            gated: false,
            activation: None,
            ..p.up()?
        };
        let pre = grouped_gemm::reference(&first, &sorted, b.floats("x"), &w_in, b_in.as_deref());
        let (y, _) = reference(&p, &inputs)?;
        Ok(vec![("y", y.into()), ("pre", pre.into())])
    }
}

/// The expert of each slot, from the slot's sorted row; E for a slot without a row.
fn experts_of_slots(sorted: &Sorted) -> Vec<u32> {
    let ends = &sorted.offsets[1..];
    let expert = |row: &u32| ends.partition_point(|end| end <= row) as u32;
    sorted.positions.iter().map(expert).collect()
}

/// The signature `name` of the experts, of those tensors alone for whose names `there` is true. A dense network has no router weights and no
/// results of a sort.
fn described(name: &str, p: &Problem, there: impl Fn(&str) -> bool) -> Signature {
    let [t, e, k, s, b] = sizes(&p.routing);
    let (h, f) = (('H', p.hidden), ('F', p.inter));
    let (c, r) = (('C', p.columns_in()), ('R', p.row_bound));
    let sizes = [t, e, k, s, b, h, f, c, r];
    signature_where(name, p.element, &sizes, |tensor| match tensor {
        "weights" | "order" | "offsets" | "positions" | "dweights" => !p.dense,
        "b_in" | "b_out" => p.bias,
        other => there(other),
    })
}

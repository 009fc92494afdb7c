//! Attention within a sequence.

use super::operands::{Computed, Operands};
use super::{Signature, signature};
use crate::error::Mismatch;
use crate::segment_attention::{
    Inputs, Problem, reference, reference_backward, reference_segments,
};
use serde::{Deserialize, Serialize};

/// An operation of [`crate::segment_attention`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentAttention {
    /// The attention.
    pub problem: Problem,
    /// One expert has all rows, in the order of the tokens: there is no sort.
    pub dense: bool,
    /// The gradients of q, k and v instead.
    pub backward: bool,
}

impl SegmentAttention {
    /// Of h heads; dense rows have no sort.
    pub(super) fn signature(&self) -> Signature {
        let (p, segments) = (&self.problem, self.problem.segments());
        let sizes = [
            ('R', p.rows()),
            ('h', p.heads()),
            ('n', p.heads() * p.head_dim()),
            ('S', segments.slots()),
            ('B', segments.experts() + 1),
        ];
        let names = ["segment attention", "segment attention backward"];
        let signature = signature(names[usize::from(self.backward)], p.element(), &sizes);
        signature.with(&["order", "offsets"], !self.dense)
    }

    pub(super) fn check(&self) -> Result<(), Mismatch> {
        self.problem.check()?;
        if !self.dense {
            return Ok(());
        }
        let segments = self.problem.segments();
        Mismatch::check("experts of dense rows", 1, segments.experts())?;
        Mismatch::check("dense rows", segments.slots(), segments.rows())
    }

    pub(super) fn compute(&self, b: &Operands<'_>) -> Result<Computed, Mismatch> {
        let p = &self.problem;
        let segments = reference_segments(&p.segments(), &b.sorted(p.rows()));
        let inputs = Inputs {
            q: b.floats("q"),
            k: b.floats("k"),
            v: b.floats("v"),
        };
        if self.backward {
            let d = reference_backward(p, &segments, &inputs, b.floats("do"));
            return Ok(vec![
                ("dq", d.dq.into()),
                ("dk", d.dk.into()),
                ("dv", d.dv.into()),
            ]);
        }
        let attended = reference(p, &segments, &inputs);
        Ok(vec![("o", attended.o.into()), ("lse", attended.lse.into())])
    }
}

//! Attention within a sequence.

use super::operands::{Computed, Operands};
use super::{HostTensor, Signature, signature};
use crate::error::Mismatch;
use crate::segment_attention::{Problem, reference, reference_backward, reference_segments};
use serde::{Deserialize, Serialize};

/// An operation of [`crate::segment_attention`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentAttention {
    /// The description of the attention.
    pub problem: Problem,
    /// Whether to compute the gradients of q, k and v instead of o and lse.
    pub backward: bool,
}

impl SegmentAttention {
    /// The operands and results.
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
        signature(names[usize::from(self.backward)], p.element(), &sizes)
    }

    pub(super) fn check(&self) -> Result<(), Mismatch> {
        self.problem.check()
    }

    pub(super) fn compute(&self, b: &Operands<'_>) -> Result<Computed, Mismatch> {
        let p = &self.problem;
        let segments = reference_segments(&p.segments(), &b.sorted(p.rows()));
        let qkv = ["q", "k", "v"].map(|name| b.floats(name));
        if self.backward {
            let gradients = reference_backward(p, &segments, qkv, b.floats("do"));
            let names = ["dq", "dk", "dv"].into_iter();
            return Ok(names.zip(gradients.map(HostTensor::from)).collect());
        }
        let results = reference(p, &segments, qkv).map(HostTensor::from);
        Ok(["o", "lse"].into_iter().zip(results).collect())
    }
}

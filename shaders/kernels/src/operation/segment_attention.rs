//! The kernels of [`moebius_ops::SegmentAttention`].

use super::{Buffers, Family, Kernels};
use crate::Lookup;
use crate::prelude::*;
use crate::segment_attention::{Plan, launch, launch_backward, launch_segments, plan};
use cubecl::prelude::*;
use moebius_ops::SegmentAttention;

impl Family for SegmentAttention {
    type How = ();

    fn kernels(&self, (): &(), device: &Capability) -> Result<Kernels, PlanError> {
        let plan = plan(self.problem, device)?;
        Ok(if self.backward {
            Kernels::new(plan, |client, plan, b| {
                launch_backward(client, plan, (&b, segments(client, plan, b)).fill());
            })
        } else {
            Kernels::new(plan, |client, plan, b| {
                launch(client, plan, (&b, segments(client, plan, b)).fill());
            })
        })
    }
}

/// Finds the segment of every row: its first row, and one past its last, u32 \[R,2\].
fn segments(client: &Client, plan: &Plan, b: Buffers<'_>) -> (&'static str, Handle) {
    let segments = empty_words(client, 2 * plan.problem.rows());
    let (order, offsets) = (b.get("order"), b.get("offsets"));
    launch_segments(client, plan, order, offsets, segments.clone());
    ("segments", segments)
}

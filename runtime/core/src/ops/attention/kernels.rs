//! Kernels of attention within segments.

use crate::ops::call::{Buffers, Kernels};
use cubecl::client::Client;
use cubecl::server::Handle;
use moebius_device::Capability;
use moebius_ops::segment_attention::Problem;
use moebius_shaders::segment_attention::{
    self, Plan, launch, launch_backward, launch_segments, launch_sequences,
};
use moebius_shaders::{Lookup, Unsupported};

pub(super) fn attention(problem: Problem, device: &Capability) -> Result<Kernels, Unsupported> {
    let plan = segment_attention::plan(problem, device)?;
    let kernels = Kernels::new(move |client, b| {
        launch(client, &plan, (b, segments(client, &plan, b)).fill());
    });
    Ok(kernels.with_backward(move |client, b| {
        launch_backward(client, &plan, (b, segments(client, &plan, b)).fill());
    }))
}

/// \[R,2\]: where the segment of every row begins and ends.
fn segments(client: &Client, plan: &Plan, b: &Buffers) -> (&'static str, Handle) {
    let segments = client.empty((plan.problem.rows() * 8).max(8));
    match b.maybe("offsets") {
        Some(offsets) => launch_segments(client, plan, b.get("order"), offsets, segments.clone()),
        None => launch_sequences(client, plan, segments.clone()),
    }
    ("segments", segments)
}

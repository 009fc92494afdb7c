//! Kernels of attention within segments.

use crate::ops::call::{Buffers, Kernels};
use cubecl::client::Client;
use cubecl::server::Handle;
use moebius_device::Capability;
use moebius_ops::segment_attention::Problem;
use moebius_shaders::Unsupported;
use moebius_shaders::segment_attention::{
    self, BackwardBuffers, ForwardBuffers, Plan, launch_backward, launch_segments, launch_sequences,
};

pub(super) fn attention(problem: Problem, device: &Capability) -> Result<Kernels, Unsupported> {
    let plan = segment_attention::plan(problem, device)?;
    let forward = move |client: &Client, b: &Buffers| {
        let buffers = ForwardBuffers {
            q: b.get("q"),
            k: b.get("k"),
            v: b.get("v"),
            segments: segments(client, &plan, b),
            o: b.get("o"),
            lse: b.get("lse"),
        };
        segment_attention::launch(client, &plan, buffers);
    };
    let backward = move |client: &Client, b: &Buffers| {
        let buffers = BackwardBuffers {
            q: b.get("q"),
            k: b.get("k"),
            v: b.get("v"),
            o: b.get("o"),
            lse: b.get("lse"),
            segments: segments(client, &plan, b),
            d_o: b.get("do"),
            dq: b.get("dq"),
            dk: b.get("dk"),
            dv: b.get("dv"),
        };
        launch_backward(client, &plan, buffers);
    };
    Ok(Kernels::new(forward).with_backward(backward))
}

/// \[R,2\]: where the segment of every row begins and ends.
fn segments(client: &Client, plan: &Plan, b: &Buffers) -> Handle {
    let segments = client.empty((plan.problem.rows() * 8).max(8));
    match b.maybe("offsets") {
        Some(offsets) => launch_segments(client, plan, b.get("order"), offsets, segments.clone()),
        None => launch_sequences(client, plan, segments.clone()),
    }
    segments
}

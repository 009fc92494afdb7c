//! Kernels of products per expert.

use crate::ops::call::Kernels;
use crate::ops::sort::segments;
use moebius_device::Capability;
use moebius_ops::grouped_gemm::Problem;
use moebius_shaders::PlanError;
use moebius_shaders::grouped_gemm::Variant;
use moebius_shaders::moe::linear::{self, Buffers, GradientBuffers};
use std::sync::Arc;

/// Over the tiles of `variant`; `records` asks for the gradients, too.
pub(super) fn linear(
    problem: Problem,
    variant: Variant,
    records: bool,
    device: &Capability,
) -> Result<Kernels, PlanError> {
    let plan = Arc::new(linear::plan(problem, variant, records, device)?);
    let gradients = plan.clone();
    let kernels = Kernels::new(move |client, b| {
        let buffers = Buffers {
            rows: b.get("rows"),
            w: b.get("W"),
            bias: b.maybe("b"),
            segments: segments(b),
            y: b.get("y"),
        };
        linear::launch(client, &plan, buffers);
    });
    Ok(kernels.with_backward(move |client, b| {
        let buffers = GradientBuffers {
            dy: b.get("dy"),
            rows: b.get("rows"),
            w: b.get("W"),
            segments: segments(b),
            drows: b.maybe("drows"),
            dw: b.maybe("dW"),
            dbias: b.maybe("db"),
        };
        linear::launch_backward(client, &gradients, buffers);
    }))
}

//! Kernels of products per expert.

use crate::ops::call::Kernels;
use moebius_device::Capability;
use moebius_ops::grouped_gemm::Problem;
use moebius_shaders::grouped_gemm::Variant;
use moebius_shaders::moe::linear;
use moebius_shaders::{Lookup, PlanError};
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
    let kernels = Kernels::new(move |client, b| linear::launch(client, &plan, b.fill()));
    Ok(kernels.with_backward(move |client, b| {
        linear::launch_backward(client, &gradients, b.fill());
    }))
}

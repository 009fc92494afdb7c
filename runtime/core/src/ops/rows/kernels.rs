//! Kernels of moved rows: what is gathered forward is summed backward, and the reverse.

use crate::ops::call::Kernels;
use moebius_device::Capability;
use moebius_ops::Element;
use moebius_ops::permute::RowsProblem;
use moebius_ops::permute::neighbours::Problem as Neighbours;
use moebius_shaders::permute::{combine, dispatch, neighbours, plan_rows, weights_gradient};
use moebius_shaders::{Lookup, Unsupported};

pub(super) fn gather(problem: RowsProblem, device: &Capability) -> Result<Kernels, Unsupported> {
    let plan = plan_rows(problem, device)?;
    let kernels = Kernels::of(plan, dispatch::launch);
    Ok(kernels.with_backward(move |client, b| combine::launch(client, &plan, b.fill())))
}

pub(super) fn combine(
    problem: RowsProblem,
    weighted: bool,
    device: &Capability,
) -> Result<Kernels, Unsupported> {
    let plan = plan_rows(problem, device)?;
    let kernels = Kernels::of(plan, combine::launch);
    Ok(kernels.with_backward(move |client, b| {
        dispatch::launch(client, &plan, b.fill());
        if weighted {
            weights_gradient::launch(client, &plan, b.fill());
        }
    }))
}

pub(super) fn neighbours(
    problem: Neighbours,
    element: Element,
    device: &Capability,
) -> Result<Kernels, Unsupported> {
    let plan = neighbours::plan(problem, element, device)?;
    let kernels = Kernels::of(plan, neighbours::launch);
    Ok(kernels.with_backward(move |client, b| {
        neighbours::launch_backward(client, &plan, b.fill());
    }))
}

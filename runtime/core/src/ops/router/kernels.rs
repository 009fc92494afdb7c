//! Kernels of the router.

use crate::ops::call::{Buffers, Kernels};
use cubecl::client::Client;
use moebius_device::Capability;
use moebius_ops::Element;
use moebius_ops::routing::{HashProblem, LoadProblem, Problem, TopkGradient};
use moebius_shaders::routing;
use moebius_shaders::{Lookup, Unsupported};

pub(super) fn logits(
    problem: Problem,
    hidden: usize,
    element: Element,
    (records, device): (bool, &Capability),
) -> Result<Kernels, Unsupported> {
    let plan = routing::plan_logits(problem, hidden, element, device)?;
    let kernels = Kernels::new(move |client, b| {
        routing::launch_logits(client, &plan, b.get("x"), b.get("Wg"), b.get("logits"));
    });
    if !records {
        return Ok(kernels);
    }
    let gradients = routing::plan_logits_backward(problem, hidden, element, device)?;
    Ok(kernels.with_backward(move |client, b| {
        routing::launch_logits_backward(client, &gradients, b.fill());
    }))
}

pub(super) fn route(
    problem: Problem,
    (records, device): (bool, &Capability),
) -> Result<Kernels, Unsupported> {
    let kernels = Kernels::of(routing::plan(problem, device)?, routing::launch);
    if !records {
        return Ok(kernels);
    }
    let gradient = |of| routing::plan_topk_backward(problem, of, device);
    let gradients = [
        ("dweights", gradient(TopkGradient::Weights)?),
        ("dprobs", gradient(TopkGradient::Probs)?),
        ("dlse", gradient(TopkGradient::Lse)?),
    ];
    let backward = move |client: &Client, b: &Buffers| {
        let given = gradients.iter().find(|(of, _)| b.maybe(of).is_some());
        if let Some((_, plan)) = given {
            routing::launch_topk_backward(client, plan, b.fill());
        }
    };
    Ok(kernels.with_backward(backward))
}

pub(super) fn hash(
    problem: HashProblem,
    seed: u32,
    device: &Capability,
) -> Result<Kernels, Unsupported> {
    let plan = routing::plan_hash(problem, device)?;
    Ok(Kernels::of(plan, move |client, plan, buffers| {
        routing::launch_hash(client, plan, seed, buffers);
    }))
}

pub(super) fn load(problem: LoadProblem, device: &Capability) -> Result<Kernels, Unsupported> {
    let plan = routing::plan_load(problem, device)?;
    Ok(Kernels::new(move |client, b| {
        routing::launch_load(client, &plan, b.get("indices"), b.get("counts"));
    }))
}

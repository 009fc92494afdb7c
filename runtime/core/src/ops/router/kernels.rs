//! Kernels of the router.

use crate::ops::call::{Buffers, Kernels};
use cubecl::client::Client;
use moebius_device::Capability;
use moebius_ops::Element;
use moebius_ops::routing::{HashProblem, LoadProblem, Problem, TopkGradient};
use moebius_shaders::Unsupported;
use moebius_shaders::routing;

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
        let buffers = routing::LogitsBackwardBuffers {
            dlogits: b.get("dlogits"),
            x: b.get("x"),
            w: b.get("Wg"),
            dx: Some(b.get("dx")),
            dw: Some(b.get("dWg")),
        };
        routing::launch_logits_backward(client, &gradients, buffers);
    }))
}

pub(super) fn route(
    problem: Problem,
    (records, device): (bool, &Capability),
) -> Result<Kernels, Unsupported> {
    let plan = routing::plan(problem, device)?;
    let kernels = Kernels::new(move |client, b| {
        let buffers = routing::RouteBuffers {
            logits: b.get("logits"),
            mask: b.maybe("mask"),
            bias: b.maybe("bias"),
            indices: b.get("indices"),
            weights: b.get("weights"),
            probs: b.get("probs"),
            lse: b.get("lse"),
        };
        routing::launch(client, &plan, buffers);
    });
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
        let given = gradients
            .iter()
            .find_map(|(of, plan)| Some((plan, b.maybe(of)?)));
        let Some((plan, gradient)) = given else {
            return;
        };
        let buffers = routing::TopkBackwardBuffers {
            logits: b.get("logits"),
            mask: b.maybe("mask"),
            indices: b.get("indices"),
            weights: b.get("weights"),
            probs: b.get("probs"),
            lse: b.get("lse"),
            gradient,
            dlogits: b.get("dlogits"),
        };
        routing::launch_topk_backward(client, plan, buffers);
    };
    Ok(kernels.with_backward(backward))
}

pub(super) fn hash(
    problem: HashProblem,
    seed: u32,
    device: &Capability,
) -> Result<Kernels, Unsupported> {
    let plan = routing::plan_hash(problem, device)?;
    Ok(Kernels::new(move |client, b| {
        let buffers = routing::HashBuffers {
            x: (problem.hidden() > 0).then(|| b.get("x")),
            mask: b.maybe("mask"),
            indices: b.get("indices"),
            weights: b.get("weights"),
        };
        routing::launch_hash(client, &plan, seed, buffers);
    }))
}

pub(super) fn load(problem: LoadProblem, device: &Capability) -> Result<Kernels, Unsupported> {
    let plan = routing::plan_load(problem, device)?;
    Ok(Kernels::new(move |client, b| {
        routing::launch_load(client, &plan, b.get("indices"), b.get("counts"));
    }))
}

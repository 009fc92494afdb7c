//! Router logits, the choice of experts, and counts of choices; shapes as in
//! [`moebius_ops::routing`].

#[cfg(feature = "flex")]
pub(super) mod flex;

use super::call::{Buffers, Kernels, Request};
use crate::Error;
use crate::check::element;
use burn::tensor::{Bool, Int, Tensor};
use moebius_device::Capability;
use moebius_ops::Routing;
use moebius_ops::routing::{HashKey, HashProblem, LoadProblem, Problem, TopkGradient};
use moebius_shaders::{Lookup, Unsupported, routing as kernels};

/// x · Wgᵀ \[T,E\] in f32 of x \[T,H\] and Wg \[E,H\] of one dtype; T is at least 1, and the caller has
/// checked the shapes.
pub(crate) fn logits(x: Tensor<2>, w: Tensor<2>) -> Result<Tensor<2>, Error> {
    let ([tokens, hidden], [experts, _]) = (x.dims(), w.dims());
    let problem = Problem::new(tokens, experts, 1)?;
    let element = element(x.dtype())?;
    let logits = Routing::Logits {
        problem,
        hidden,
        element,
        backward: false,
    };
    let records = x.device().is_autodiff();
    let plan = |device: &_| -> Result<_, Unsupported> {
        let plan = kernels::plan_logits(problem, hidden, element, device)?;
        let kernels = Kernels::new(move |client, b| {
            kernels::launch_logits(client, &plan, b.get("x"), b.get("Wg"), b.get("logits"));
        });
        if !records {
            return Ok(kernels);
        }
        let plan = kernels::plan_logits_backward(problem, hidden, element, device)?;
        Ok(kernels.and_back(plan, kernels::launch_logits_backward))
    };
    let call = Request::plan(logits, &x.device(), plan)?;
    Ok(call.reads([x, w]).run().floats())
}

/// What a choice of experts gives.
pub(crate) struct Chosen {
    /// \[T,K\].
    pub(crate) indices: Tensor<2, Int>,
    /// \[T,K\].
    pub(crate) weights: Tensor<2>,
    /// \[T,E\].
    pub(crate) probs: Tensor<2>,
    /// \[T\].
    pub(crate) logsumexp: Tensor<1>,
}

/// The experts of `problem`, which `mask` \[E\] may exclude, by logits \[T,E\] f32; `bias` \[E\] f32 is added
/// to the scores for the selection alone. T is at least 1.
pub(crate) fn route(
    logits: Tensor<2>,
    mask: Option<Tensor<1, Bool>>,
    bias: Option<Tensor<1>>,
    problem: Problem,
) -> Result<Chosen, Error> {
    let route = Routing::Route {
        problem,
        mask: mask.is_some(),
        bias: bias.is_some(),
    };
    let records = logits.device().is_autodiff();
    let plan = |device: &_| choice(problem, records, device);
    let call = Request::plan(route, &logits.device(), plan)?.reads([logits]);
    let mut results = call.reads(mask).reads(bias).run();
    Ok(Chosen {
        indices: results.words(),
        weights: results.floats(),
        probs: results.floats(),
        logsumexp: results.floats(),
    })
}

/// The kernels of a choice, and of its gradients through each of its results where the device `records`.
fn choice(problem: Problem, records: bool, device: &Capability) -> Result<Kernels, Unsupported> {
    let kernels = Kernels::of(kernels::plan(problem, device)?, kernels::launch);
    if !records {
        return Ok(kernels);
    }
    let gradient = |of| kernels::plan_topk_backward(problem, of, device);
    let gradients = [
        ("dweights", gradient(TopkGradient::Weights)?),
        ("dprobs", gradient(TopkGradient::Probs)?),
        ("dlse", gradient(TopkGradient::Lse)?),
    ];
    Ok(kernels.with_backward(move |client, b: &Buffers| {
        let given = gradients.iter().find(|(of, _)| b.maybe(of).is_some());
        if let Some((_, plan)) = given {
            kernels::launch_topk_backward(client, plan, b.fill());
        }
    }))
}

/// Experts of the tokens of x \[T,H\] by a hash of `key`: indices and weights \[T,K\].
pub(crate) fn hash(
    x: Tensor<2>,
    mask: Option<Tensor<1, Bool>>,
    routing: Problem,
    (key, seed): (HashKey, u32),
) -> Result<(Tensor<2, Int>, Tensor<2>), Error> {
    let problem = HashProblem::new(routing, key)?;
    let hash = Routing::Hash {
        problem,
        hidden: x.dims()[1],
        element: element(x.dtype())?,
        seed,
        mask: mask.is_some(),
    };
    let launch = move |client: &_, plan: &_, b| kernels::launch_hash(client, plan, seed, b);
    let plan =
        |device: &_| kernels::plan_hash(problem, device).map(|plan| Kernels::of(plan, launch));
    let call = Request::plan(hash, &x.device(), plan)?.reads([x]);
    let mut results = call.reads(mask).run();
    Ok((results.words(), results.floats()))
}

/// \[groups, E\]: how often each of `experts` occurs in equal groups of the rows of `choices` \[T,K\].
pub(crate) fn load(
    choices: Tensor<2, Int>,
    experts: usize,
    groups: usize,
) -> Result<Tensor<2, Int>, Error> {
    let [tokens, top_k] = choices.dims();
    let problem = LoadProblem::new(Problem::new(tokens, experts, top_k)?, groups)?;
    if tokens == 0 {
        return Ok(Tensor::zeros([groups, experts], &choices.device()));
    }
    let kernels = |plan| {
        Kernels::new(move |client, b| {
            kernels::launch_load(client, &plan, b.get("indices"), b.get("counts"));
        })
    };
    let plan = |device: &_| kernels::plan_load(problem, device).map(kernels);
    let call = Request::plan(Routing::Load(problem), &choices.device(), plan)?;
    Ok(call.reads([choices]).run().words())
}

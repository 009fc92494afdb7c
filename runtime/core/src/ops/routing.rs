//! Router logits, the choice of experts, and counts of choices; the shapes are those of [`moebius_ops::routing`].

use super::call::Request;
use crate::Error;
use crate::check::element;
use burn::tensor::{Bool, DType, Int, Tensor};
use moebius_ops::Routing;
use moebius_ops::routing::{HashKey, HashProblem, LoadProblem, Problem};

/// Computes the logits x · Wgᵀ \[T,E\] in f32 from x \[T,H\] and Wg \[E,H\] of one dtype, or from x of any and Wg in f32; the caller has
/// checked the shapes.
pub(crate) fn router_logits(x: Tensor<2>, w: Tensor<2>) -> Result<Tensor<2>, Error> {
    let x = match w.dtype() {
        DType::F32 => x.cast(DType::F32),
        _ => x,
    };
    let ([tokens, hidden], [experts, _]) = (x.dims(), w.dims());
    if tokens == 0 {
        return Ok(Tensor::empty([0, experts], &x.device()));
    }
    let problem = Problem::new(tokens, experts, 1)?;
    let element = element(x.dtype())?;
    let logits = Routing::Logits {
        problem,
        hidden,
        element,
        backward: false,
    };
    let call = Request::new(logits, &x.device(), &())?;
    Ok(call.reads([x, w]).run().floats())
}

/// The results of a choice of experts.
pub(crate) struct Chosen {
    /// The chosen experts, \[T,K\].
    pub(crate) indices: Tensor<2, Int>,
    /// Their weights, \[T,K\].
    pub(crate) weights: Tensor<2>,
    /// The probabilities of all experts, \[T,E\].
    pub(crate) probs: Tensor<2>,
    /// ln Σ exp of the logits of available experts, \[T\].
    pub(crate) logsumexp: Tensor<1>,
}

/// Chooses experts for `problem` from logits \[T,E\] in f32; `mask` \[E\] may exclude experts, and `bias` \[E\] (f32) is added to the
/// scores for the selection only. T is at least 1.
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
    let call = Request::new(route, &logits.device(), &())?.reads([logits]);
    let mut results = call.reads(mask).reads(bias).run();
    Ok(Chosen {
        indices: results.words(),
        weights: results.floats(),
        probs: results.floats(),
        logsumexp: results.floats(),
    })
}

/// Chooses experts for the tokens of x \[T,H\] by a hash of `key`; returns indices and weights \[T,K\].
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
    let call = Request::new(hash, &x.device(), &())?.reads([x]);
    let mut results = call.reads(mask).run();
    Ok((results.words(), results.floats()))
}

/// Counts how often each of `experts` experts occurs in equal groups of the rows of `choices` \[T,K\]: \[groups, E\].
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
    let call = Request::new(Routing::Load(problem), &choices.device(), &())?;
    Ok(call.reads([choices]).run().words())
}

#[cfg(feature = "flex")]
pub(super) mod flex {
    //! The router on Flex. The hash is an integer function that is defined once for all devices.

    use crate::ops::host::{Computed, Floats, Operands, floats, words};
    use moebius_host::routing::{self as host, Chosen};
    use moebius_ops::Routing;
    use moebius_ops::routing::{self, HashProblem, LoadProblem, Problem, TopkGradient};

    pub(in crate::ops) fn run(operation: &Routing, b: Operands) -> Vec<Computed> {
        match operation {
            Routing::Logits {
                problem,
                hidden,
                backward,
                ..
            } => logits(problem, *hidden, *backward, b),
            Routing::Route { problem, .. } => route(problem, b),
            Routing::RouteBackward { problem, of, .. } => route_backward(problem, *of, b),
            Routing::Hash { problem, seed, .. } => hash(problem, *seed, b),
            Routing::Load(problem) => load(problem, b),
        }
    }

    /// Returns the mask's entries as booleans; without a mask, every expert is available.
    fn available(b: &mut Operands, experts: usize) -> Vec<bool> {
        match b.maybe_word("mask").map(words) {
            None => vec![true; experts],
            Some(mask) => mask.iter().map(|word| *word != 0).collect(),
        }
    }

    /// Computes the logits, or the gradients of their operands.
    fn logits(problem: &Problem, hidden: usize, backward: bool, mut b: Operands) -> Vec<Computed> {
        let sizes = [problem.tokens(), hidden, problem.experts()];
        let floats = ["x", "Wg", "dlogits"].map(|name| Floats::of(&mut b, name));
        let [x, w, dlogits] = floats.each_ref().map(Floats::values);
        if backward {
            let gradients = host::logits_backward([x, w, dlogits], sizes);
            return gradients.map(Computed::from).into();
        }
        vec![host::logits(x, w, sizes).into()]
    }

    fn route(problem: &Problem, mut b: Operands) -> Vec<Computed> {
        let logits = floats(b.float("logits"));
        let available = available(&mut b, problem.experts());
        let bias = b.maybe_float("bias").map(floats);
        let chosen = host::route(problem, &logits, &available, bias.as_deref());
        vec![
            chosen.indices.into(),
            chosen.weights.into(),
            chosen.probs.into(),
            chosen.logsumexp.into(),
        ]
    }

    fn hash(problem: &HashProblem, seed: u32, mut b: Operands) -> Vec<Computed> {
        let sizes = problem.routing();
        let available = available(&mut b, sizes.experts());
        let x = floats(b.float("x"));
        let (indices, weights) = routing::hash_reference(problem, seed, &x, Some(&available));
        vec![indices.into(), weights.into()]
    }

    fn load(problem: &LoadProblem, mut b: Operands) -> Vec<Computed> {
        vec![host::load(problem, &words(b.word("indices"))).into()]
    }

    fn route_backward(problem: &Problem, of: TopkGradient, mut b: Operands) -> Vec<Computed> {
        let available = available(&mut b, problem.experts());
        let gradient = floats(b.float(match of {
            TopkGradient::Weights => "dweights",
            TopkGradient::Probs => "dprobs",
            TopkGradient::Lse => "dlse",
        }));
        let logits = floats(b.float("logits"));
        let chosen = Chosen {
            indices: words(b.word("indices")),
            weights: floats(b.float("weights")),
            ..Chosen::default()
        };
        let operands = (logits.as_slice(), available.as_slice());
        vec![host::route_backward(problem, of, operands, &chosen, &gradient).into()]
    }
}

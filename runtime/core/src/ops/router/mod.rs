//! Router logits, the choice of experts, and counts of choices; shapes as in
//! [`moebius_shaders::routing`].

#[cfg(feature = "autodiff")]
mod autodiff;
#[cfg(feature = "cube")]
mod cube;
#[cfg(feature = "flex")]
mod flex;
#[cfg(feature = "fusion")]
mod lazy;
#[cfg(feature = "xla")]
mod xla;

use super::{Mask, Maybe};
use crate::check::element;
use crate::{Error, device};
use burn::backend::Dispatch;
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, ExtensionType, backend_extension};
use burn::tensor::{Bool, DType, Int, Tensor};
use moebius_ops::Element;
#[cfg(any(feature = "fusion", feature = "xla"))]
use moebius_ops::Routing;
use moebius_ops::routing::{HashKey, HashProblem, LoadProblem, TopkGradient};
use moebius_shaders::Unsupported;
use moebius_shaders::routing;

/// x · Wgᵀ \[T,E\] in f32 of x \[T,H\] and Wg \[E,H\] of one dtype; T is at least 1, and the caller has
/// checked the shapes.
///
/// # Errors
/// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) when the device can't run it.
pub(crate) fn logits(x: Tensor<2>, w: Tensor<2>) -> Result<Tensor<2>, Error> {
    let ([tokens, hidden], [experts, _]) = (x.dims(), w.dims());
    let problem = moebius_ops::routing::Problem::new(tokens, experts, 1)?;
    let (element, records) = (element(x.dtype())?, x.device().is_autodiff());
    let plans = device::plan(&x.device(), |device| -> Result<_, Unsupported> {
        let backward = || routing::plan_logits_backward(problem, hidden, element, device);
        let forward = routing::plan_logits(problem, hidden, element, device)?;
        Ok((forward, records.then(backward).transpose()?))
    });
    let (plan, backward) = plans?.unzip();
    let call = LogitsCall {
        problem,
        hidden,
        element,
        plan,
        backward: backward.flatten(),
    };
    let logits = Dispatch::moe_router_logits(x.into_dispatch(), w.into_dispatch(), call);
    Ok(Tensor::from_dispatch(logits))
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
///
/// # Errors
/// As [`logits`].
pub(crate) fn route(
    logits: Tensor<2>,
    mask: Option<Tensor<1, Bool>>,
    bias: Option<Tensor<1>>,
    problem: moebius_ops::routing::Problem,
) -> Result<Chosen, Error> {
    let records = logits.device().is_autodiff();
    let plans = device::plan(&logits.device(), |device| -> Result<_, Unsupported> {
        let gradient = |of| routing::plan_topk_backward(problem, of, device);
        let backward = || -> Result<_, Unsupported> {
            Ok([
                gradient(TopkGradient::Weights)?,
                gradient(TopkGradient::Probs)?,
                gradient(TopkGradient::Lse)?,
            ])
        };
        let backward = records.then(backward).transpose()?;
        Ok((routing::plan(problem, device)?, backward))
    });
    let (plan, backward) = plans?.unzip();
    let call = RouteCall {
        problem,
        plan,
        backward: backward.flatten(),
    };
    let choices = Choices {
        mask: Mask::of(mask),
        bias: bias.map(Tensor::into_dispatch).into(),
    };
    let routed = Dispatch::moe_route(logits.into_dispatch(), choices, call);
    Ok(Chosen {
        indices: Tensor::from_dispatch(routed.indices),
        weights: Tensor::from_dispatch(routed.weights),
        probs: Tensor::from_dispatch(routed.probs),
        logsumexp: Tensor::from_dispatch(routed.lse),
    })
}

/// Experts of the tokens of x \[T,H\] by a hash of `key`: indices and weights \[T,K\].
///
/// # Errors
/// As [`logits`], and [`ErrorKind::Shape`](crate::ErrorKind::Shape) for a sequence of 0 tokens.
pub(crate) fn hash(
    x: Tensor<2>,
    mask: Option<Tensor<1, Bool>>,
    routing: moebius_ops::routing::Problem,
    (key, seed): (HashKey, u32),
) -> Result<(Tensor<2, Int>, Tensor<2>), Error> {
    let problem = HashProblem::new(routing, key)?;
    let plan = device::plan(&x.device(), |device| routing::plan_hash(problem, device))?;
    let call = HashCall {
        problem,
        hidden: x.dims()[1],
        element: element(x.dtype())?,
        seed,
        plan,
    };
    let hashed = Dispatch::moe_hash(x.into_dispatch(), Mask::of(mask), call);
    let (indices, weights) = (hashed.indices, hashed.weights);
    Ok((
        Tensor::from_dispatch(indices),
        Tensor::from_dispatch(weights),
    ))
}

/// \[groups, E\]: how often each of `experts` occurs in equal groups of the rows of `choices` \[T,K\].
///
/// # Errors
/// As [`logits`], and [`ErrorKind::Shape`](crate::ErrorKind::Shape) for groups that don't divide T.
pub(crate) fn load(
    choices: Tensor<2, Int>,
    experts: usize,
    groups: usize,
) -> Result<Tensor<2, Int>, Error> {
    let [tokens, top_k] = choices.dims();
    let routing = moebius_ops::routing::Problem::new(tokens, experts, top_k)?;
    let problem = LoadProblem::new(routing, groups)?;
    if tokens == 0 {
        return Ok(Tensor::zeros([groups, experts], &choices.device()));
    }
    let plan = device::plan(&choices.device(), |device| {
        routing::plan_load(problem, device)
    })?;
    let call = LoadCall { problem, plan };
    let choices = choices.cast(DType::I32).into_dispatch();
    Ok(Tensor::from_dispatch(Dispatch::moe_load(choices, call)))
}

/// Router logits.
#[derive(Clone, Debug)]
pub(crate) struct LogitsCall {
    pub(crate) problem: moebius_ops::routing::Problem,
    /// Columns of x and Wg.
    pub(crate) hidden: usize,
    /// Their type.
    pub(crate) element: Element,
    pub(crate) plan: Option<routing::LogitsPlan>,
    /// Present on a recording CubeCL device.
    pub(crate) backward: Option<routing::LogitsBackwardPlan>,
}

/// A choice of experts.
#[derive(Clone, Debug)]
pub(crate) struct RouteCall {
    pub(crate) problem: moebius_ops::routing::Problem,
    pub(crate) plan: Option<routing::Plan>,
    /// Of weights, probabilities and log-sum-exp; present on a recording CubeCL device.
    pub(crate) backward: Option<[routing::TopkBackwardPlan; 3]>,
}

/// A choice of experts by hash.
#[derive(Clone, Debug)]
pub(crate) struct HashCall {
    pub(crate) problem: moebius_ops::routing::HashProblem,
    /// Columns of x.
    pub(crate) hidden: usize,
    /// Its type.
    pub(crate) element: Element,
    pub(crate) seed: u32,
    pub(crate) plan: Option<routing::HashPlan>,
}

/// A count of choices.
#[derive(Clone, Debug)]
pub(crate) struct LoadCall {
    pub(crate) problem: moebius_ops::routing::LoadProblem,
    pub(crate) plan: Option<routing::LoadPlan>,
}

#[cfg(any(feature = "fusion", feature = "xla"))]
impl LogitsCall {
    fn operation(&self, backward: bool) -> Routing {
        Routing::Logits {
            problem: self.problem,
            hidden: self.hidden,
            element: self.element,
            backward,
        }
    }
}

#[cfg(any(feature = "fusion", feature = "xla"))]
impl HashCall {
    fn operation(&self, mask: bool) -> Routing {
        Routing::Hash {
            problem: self.problem,
            hidden: self.hidden,
            element: self.element,
            seed: self.seed,
            mask,
        }
    }
}

/// What restricts and biases a choice.
#[derive(ExtensionType, Clone, Debug)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub(crate) struct Choices<B: Backend> {
    #[extension_type]
    pub(crate) mask: Mask<B>,
    /// \[E\], added to the scores for the selection alone.
    #[extension_type]
    pub(crate) bias: Maybe<B>,
}

/// Result of a choice of experts.
#[derive(ExtensionType, Clone, Debug)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub(crate) struct Routed<B: Backend> {
    pub(crate) indices: IntTensor<B>,
    pub(crate) weights: FloatTensor<B>,
    pub(crate) probs: FloatTensor<B>,
    /// \[T\]: ln Σ exp of the available logits.
    pub(crate) lse: FloatTensor<B>,
}

/// Result of a choice by hash.
#[derive(ExtensionType, Clone, Debug)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub(crate) struct Hashed<B: Backend> {
    pub(crate) indices: IntTensor<B>,
    pub(crate) weights: FloatTensor<B>,
}

/// Gradients of router logits.
#[derive(ExtensionType, Clone, Debug)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub(crate) struct LogitsGradients<B: Backend> {
    pub(crate) dx: FloatTensor<B>,
    pub(crate) dw: FloatTensor<B>,
}

#[backend_extension(
    Cube: cfg(feature = "cube"),
    Flex: cfg(feature = "flex"),
    Remote: cfg(feature = "xla"),
    Capture: cfg(feature = "xla"),
    Fusion: cfg(feature = "fusion"),
    Autodiff: cfg(feature = "autodiff"),
)]
pub(crate) trait RouterOps: Backend {
    #[fusion(meta = lazy::logits)]
    fn moe_router_logits(
        x: FloatTensor<Self>,
        w: FloatTensor<Self>,
        call: LogitsCall,
    ) -> FloatTensor<Self>;

    #[fusion(meta = lazy::routed)]
    fn moe_route(
        logits: FloatTensor<Self>,
        #[extension_type] choices: Choices<Self>,
        call: RouteCall,
    ) -> Routed<Self>;

    #[fusion(meta = lazy::hashed)]
    fn moe_hash(
        x: FloatTensor<Self>,
        #[extension_type] mask: Mask<Self>,
        call: HashCall,
    ) -> Hashed<Self>;

    #[fusion(meta = lazy::load)]
    fn moe_load(indices: IntTensor<Self>, call: LoadCall) -> IntTensor<Self>;
}

/// What only a backward pass runs.
#[backend_extension(
    Cube: cfg(feature = "cube"),
    Flex: cfg(feature = "flex"),
    Remote: cfg(feature = "xla"),
    Capture: cfg(feature = "xla"),
    Fusion: cfg(feature = "fusion"),
)]
pub(crate) trait RouterGradients: Backend {
    #[fusion(meta = lazy::logits_gradients)]
    fn moe_router_logits_backward(
        x: FloatTensor<Self>,
        w: FloatTensor<Self>,
        dlogits: FloatTensor<Self>,
        call: LogitsCall,
    ) -> LogitsGradients<Self>;

    /// The logits' gradient from that of one output of the choice.
    #[fusion(meta = lazy::route_gradient)]
    fn moe_route_backward(
        gradient: FloatTensor<Self>,
        logits: FloatTensor<Self>,
        #[extension_type] mask: Mask<Self>,
        #[extension_type] routed: Routed<Self>,
        output: moebius_ops::routing::TopkGradient,
        call: RouteCall,
    ) -> FloatTensor<Self>;
}

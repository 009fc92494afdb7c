//! Router logits, and the choice of experts as a function of them.

use super::check::{check_same, element};
use super::routers::{HashConfig, HashKey};
use crate::ops::{Choices, HashCall, LoadCall, LogitsCall, Mask, Maybe, RouteCall, RouterOps};
use crate::{Error, device};
use burn::backend::Dispatch;
use burn::tensor::{Bool, DType, Device, Int, Tensor};
use moebius_device::Capability;
use moebius_shaders::routing::{self, Groups, HashProblem, LoadProblem, Score, TopkGradient};
use moebius_shaders::{ShapeError, Unsupported};
use serde::{Deserialize, Serialize};

/// How tokens choose experts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RouteConfig {
    /// Experts per token.
    pub top_k: usize,
    /// How a logit becomes a score.
    pub score: Score,
    /// Divide the chosen scores by their sum.
    pub renormalize: bool,
    /// Choose by logit and take the softmax of the chosen logits (Mixtral, gpt-oss, Granite);
    /// `score` and `renormalize` don't apply.
    pub softmax_after_topk: bool,
    /// Choose among the experts of the best groups only (DeepSeek-V3).
    pub groups: Option<Groups>,
    /// What the weights are multiplied by.
    pub scale: f32,
}

impl Default for RouteConfig {
    fn default() -> Self {
        Self {
            top_k: 2,
            score: Score::Softmax,
            renormalize: true,
            softmax_after_topk: false,
            groups: None,
            scale: 1.0,
        }
    }
}

impl RouteConfig {
    /// The problem of `tokens` tokens and `experts` experts.
    pub(crate) fn problem(
        &self,
        tokens: usize,
        experts: usize,
    ) -> Result<routing::Problem, ShapeError> {
        let problem = routing::Problem::new(tokens, experts, self.top_k)?
            .with_groups(self.groups)?
            .with_scale(self.scale)?;
        Ok(if self.softmax_after_topk {
            // The softmax of the chosen logits is the softmax of all of them, renormalised.
            problem.with_score(Score::Softmax, true)
        } else {
            problem.with_score(self.score, self.renormalize)
        })
    }
}

/// Which experts every token goes to; everything stays on the device.
#[derive(Clone, Debug)]
pub struct Routing {
    /// \[T,K\]: experts, best first; E where no expert was available. Where experts choose, K is E and
    /// column e holds e or E.
    pub indices: Tensor<2, Int>,
    /// \[T,K\] f32: their weights.
    pub weights: Tensor<2>,
    /// \[T,E\] f32: scores of all experts, 0 where masked.
    pub probs: Tensor<2>,
    /// \[T,E\] f32: what was routed on, of masked experts too; 0 of a router without logits.
    pub logits: Tensor<2>,
    /// \[T\] f32: ln Σ exp of the available experts' logits; `None` of a router without logits.
    pub logsumexp: Option<Tensor<1>>,
}

impl Routing {
    /// The choice of no tokens.
    pub(super) fn empty(experts: usize, top_k: usize, device: &Device) -> Self {
        let floats = |columns| Tensor::empty([0, columns], (device, DType::F32));
        Self {
            indices: Tensor::empty([0, top_k], (device, DType::I32)),
            weights: floats(top_k),
            probs: floats(experts),
            logits: floats(experts),
            logsumexp: Some(Tensor::empty([0], (device, DType::F32))),
        }
    }

    /// Experts E.
    pub fn experts(&self) -> usize {
        self.probs.dims()[1]
    }

    /// \[E\]: slots that chose each expert, before any capacity.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) when the device can't count them.
    pub fn load(&self) -> Result<Tensor<1, Int>, Error> {
        let experts = self.experts();
        let counts = load_in_groups(self.indices.clone(), experts, 1)?;
        Ok(counts.reshape([experts]))
    }
}

/// \[groups, E\]: how often each expert occurs in equal groups of the rows of `choices` \[T,K\].
pub(super) fn load_in_groups(
    choices: Tensor<2, Int>,
    experts: usize,
    groups: usize,
) -> Result<Tensor<2, Int>, Error> {
    let [tokens, top_k] = choices.dims();
    let routing = routing::Problem::new(tokens, experts, top_k)?;
    let problem = LoadProblem::new(routing, groups)?;
    if tokens == 0 {
        return Ok(Tensor::zeros([groups, experts], &choices.device()));
    }
    let plan = device::capability(&choices.device())?
        .map(|device| routing::plan_load(problem, &device))
        .transpose()?;
    let choices = choices.cast(DType::I32).into_dispatch();
    let call = LoadCall {
        routing,
        groups,
        plan,
    };
    Ok(Tensor::from_dispatch(Dispatch::moe_load(choices, call)))
}

/// Chooses `top_k` experts per row of `logits` \[T,E\] (f32), the largest first, ties to the
/// lowest index.
///
/// `expert_mask` \[E\] is true for the available experts; the others are never chosen and have
/// probability 0. A NaN logit ranks last, makes its token's probabilities NaN, and its weights too
/// where they are computed from it. Weights, probabilities and log-sum-exp are differentiable.
///
/// # Errors
/// [`ErrorKind::Shape`](crate::ErrorKind::Shape) for a `top_k` outside 1..=E, a mask of another
/// length, or logits that aren't f32.
pub fn route(
    logits: Tensor<2>,
    expert_mask: Option<Tensor<1, Bool>>,
    config: &RouteConfig,
) -> Result<Routing, Error> {
    check_logits(&logits, expert_mask.as_ref())?;
    choose(logits, expert_mask, None, config)
}

/// Checks dtype, mask length and devices.
pub(super) fn check_logits(
    logits: &Tensor<2>,
    mask: Option<&Tensor<1, Bool>>,
) -> Result<(), Error> {
    if logits.dtype() != DType::F32 {
        let got = format!("{:?}", logits.dtype());
        return Err(ShapeError::new("router logits", "f32", got).into());
    }
    check_mask(mask, logits.dims()[1], &logits.device())
}

/// Checks a mask's length and device.
pub(super) fn check_mask(
    mask: Option<&Tensor<1, Bool>>,
    experts: usize,
    device: &Device,
) -> Result<(), Error> {
    if let Some(mask) = mask {
        ShapeError::check("expert mask", experts, mask.dims()[0])?;
        check_same(
            "device of the expert mask",
            mask.device().inner(),
            device.clone().inner(),
        )?;
    }
    Ok(())
}

/// A mask as the operations take it: 32-bit words, whatever integers the device is configured for.
pub(super) fn mask_words(mask: Option<Tensor<1, Bool>>) -> Mask<Dispatch> {
    match mask {
        None => Mask::All,
        Some(mask) => Mask::Only(mask.int().cast(DType::I32).into_dispatch()),
    }
}

/// [`route`] of checked logits; `bias` \[E\] f32 is added to the scores for the selection alone.
pub(super) fn choose(
    logits: Tensor<2>,
    mask: Option<Tensor<1, Bool>>,
    bias: Option<Tensor<1>>,
    config: &RouteConfig,
) -> Result<Routing, Error> {
    let [tokens, experts] = logits.dims();
    let problem = config.problem(tokens, experts)?;
    if tokens == 0 {
        return Ok(Routing::empty(experts, config.top_k, &logits.device()));
    }
    let capability = device::capability(&logits.device())?;
    let plan = capability
        .as_ref()
        .map(|device| routing::plan(problem, device));
    let backward = recorded(&logits, capability.as_deref()).map(|device| {
        let plan = |of| routing::plan_topk_backward(problem, of, device);
        Ok::<_, Unsupported>([
            plan(TopkGradient::Weights)?,
            plan(TopkGradient::Probs)?,
            plan(TopkGradient::Lse)?,
        ])
    });
    let choices = Choices {
        mask: mask_words(mask),
        bias: bias
            .map(Tensor::into_dispatch)
            .map_or(Maybe::Absent, Maybe::Present),
    };
    let call = RouteCall {
        problem,
        plan: plan.transpose()?,
        backward: backward.transpose()?,
    };
    let routed = Dispatch::moe_route(logits.clone().into_dispatch(), choices, call);
    Ok(Routing {
        indices: Tensor::from_dispatch(routed.indices),
        weights: Tensor::from_dispatch(routed.weights),
        probs: Tensor::from_dispatch(routed.probs),
        logsumexp: Some(Tensor::from_dispatch(routed.lse)),
        logits,
    })
}

/// The device's capability when it records gradients.
fn recorded<'a>(tensor: &Tensor<2>, capability: Option<&'a Capability>) -> Option<&'a Capability> {
    capability.filter(|_| tensor.device().is_autodiff())
}

/// x · Wgᵀ in f32 of x \[T,H\] and Wg \[E,H\] of one dtype; checked by the caller.
pub(super) fn router_logits(x: Tensor<2>, w: Tensor<2>) -> Result<Tensor<2>, Error> {
    let ([tokens, hidden], [experts, _]) = (x.dims(), w.dims());
    let problem = routing::Problem::new(tokens, experts, 1)?;
    let element = element(x.dtype())?;
    let capability = device::capability(&x.device())?;
    let plan = capability
        .as_ref()
        .map(|device| routing::plan_logits(problem, hidden, element, device))
        .transpose()?;
    let backward = recorded(&x, capability.as_deref())
        .map(|device| routing::plan_logits_backward(problem, hidden, element, device))
        .transpose()?;
    if tokens == 0 {
        return Ok(Tensor::empty([0, experts], &x.device()));
    }
    let call = LogitsCall {
        problem,
        plan,
        backward,
    };
    let logits = Dispatch::moe_router_logits(x.into_dispatch(), w.into_dispatch(), call);
    Ok(Tensor::from_dispatch(logits))
}

/// Experts of every token of x \[T,H\] by hash, of `experts`: indices and weights \[T,K\]; the mask
/// is checked by the caller.
pub(super) fn hash_route(
    x: Tensor<2>,
    mask: Option<Tensor<1, Bool>>,
    experts: usize,
    config: &HashConfig,
) -> Result<(Tensor<2, Int>, Tensor<2>), Error> {
    let (device, [tokens, hidden]) = (x.device(), x.dims());
    let routing = routing::Problem::new(tokens, experts, config.top_k)?;
    let key = match config.key {
        HashKey::Position { sequence } => routing::HashKey::Position { sequence },
        HashKey::Content => routing::HashKey::Content {
            hidden,
            element: element(x.dtype())?,
        },
    };
    let problem = HashProblem::new(routing, key)?;
    let plan = device::capability(&device)?
        .map(|device| routing::plan_hash(problem, &device))
        .transpose()?;
    let call = HashCall {
        routing,
        problem,
        key,
        seed: config.seed,
        plan,
    };
    let hashed = Dispatch::moe_hash(x.into_dispatch(), mask_words(mask), call);
    Ok((
        Tensor::from_dispatch(hashed.indices),
        Tensor::from_dispatch(hashed.weights),
    ))
}

//! The choice of experts as a function of router logits.

use super::config::check_same;
use crate::ops::{Mask, MoeOps, RouteCall};
use crate::{Error, device};
use burn::backend::Dispatch;
use burn::tensor::{Bool, DType, Int, Tensor};
use moebius_device::Capability;
use moebius_shaders::ShapeError;
use moebius_shaders::routing::{self, Score};
use serde::{Deserialize, Serialize};

/// How tokens choose experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
}

impl Default for RouteConfig {
    fn default() -> Self {
        Self {
            top_k: 2,
            score: Score::Softmax,
            renormalize: true,
            softmax_after_topk: false,
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
        let problem = routing::Problem::new(tokens, experts, self.top_k)?;
        Ok(if self.softmax_after_topk {
            // The softmax of the chosen logits is the softmax of all of them, renormalised.
            problem.with_score(Score::Softmax, true)
        } else {
            problem.with_score(self.score, self.renormalize)
        })
    }
}

/// Which experts every token goes to.
#[derive(Clone, Debug)]
pub struct Routing {
    /// \[T,K\]: experts, best first; E where no expert was available.
    pub indices: Tensor<2, Int>,
    /// \[T,K\] f32: their weights.
    pub weights: Tensor<2>,
    /// \[T,E\] f32: scores of all experts, 0 where masked.
    pub probs: Tensor<2>,
    /// \[T,E\] f32: what was routed on.
    pub logits: Tensor<2>,
}

/// Chooses `top_k` experts per row of `logits` \[T,E\] (f32), the largest first, ties to the
/// lowest index.
///
/// `expert_mask` \[E\] is true for the available experts; the others are never chosen and have
/// probability 0. A NaN logit ranks last, makes its token's probabilities NaN, and its weights too
/// where they are computed from it.
///
/// # Errors
/// [`ErrorKind::Shape`](crate::ErrorKind::Shape) for a `top_k` outside 1..=E, a mask of another
/// length, or logits that aren't f32.
pub fn route(
    logits: Tensor<2>,
    expert_mask: Option<Tensor<1, Bool>>,
    config: &RouteConfig,
) -> Result<Routing, Error> {
    let [_, experts] = logits.dims();
    if logits.dtype() != DType::F32 {
        let got = format!("{:?}", logits.dtype());
        return Err(ShapeError::new("router logits", "f32", got).into());
    }
    if let Some(mask) = &expert_mask {
        ShapeError::check("expert mask", experts, mask.dims()[0])?;
        check_same("device of the expert mask", mask.device(), logits.device())?;
    }
    let capability = device::capability(&logits.device())?;
    choose(logits, expert_mask, config, capability.as_ref())
}

/// [`route`] of checked f32 logits on a device of this capability.
pub(super) fn choose(
    logits: Tensor<2>,
    expert_mask: Option<Tensor<1, Bool>>,
    config: &RouteConfig,
    capability: Option<&Capability>,
) -> Result<Routing, Error> {
    let [tokens, experts] = logits.dims();
    let problem = config.problem(tokens, experts)?;
    if tokens == 0 {
        let device = logits.device();
        return Ok(Routing {
            indices: Tensor::empty([0, config.top_k], &device),
            weights: Tensor::empty([0, config.top_k], &device),
            probs: Tensor::empty([0, experts], &device),
            logits,
        });
    }
    let plan = capability
        .map(|device| routing::plan(problem, device))
        .transpose()?;
    let call = RouteCall { problem, plan };
    let mask = match expert_mask {
        None => Mask::All,
        // The kernels read 32-bit words, whatever integers the device is configured for.
        Some(mask) => Mask::Only(mask.int().cast(DType::I32).into_dispatch()),
    };
    let routed = Dispatch::moe_route(logits.clone().into_dispatch(), mask, call);
    Ok(Routing {
        indices: Tensor::from_dispatch(routed.indices),
        weights: Tensor::from_dispatch(routed.weights),
        probs: Tensor::from_dispatch(routed.probs),
        logits,
    })
}

//! [`route`], which chooses experts from router logits, with its settings and its result.

use crate::Error;
use crate::check::check_equal;
use crate::ops;
use burn::tensor::{Bool, DType, Device, Int, Tensor, TensorData};
use moebius_ops::routing::{self, Groups, Score};
use moebius_ops::{Fault, Mismatch};
use serde::{Deserialize, Serialize};

/// The rule by which a token's experts are chosen from its logits.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RouteConfig {
    /// The number K of experts per token.
    pub top_k: usize,
    /// The function from a logit to a score.
    pub score: Score,
    /// Whether the chosen scores are divided by their sum.
    pub renormalize: bool,
    /// Whether experts are chosen by logit and weighted by the softmax of the chosen logits (Mixtral, gpt-oss, Granite); `score` and
    /// `renormalize` then don't apply.
    pub softmax_after_topk: bool,
    /// If set, only the experts of the best groups can be chosen (DeepSeek-V3).
    pub groups: Option<Groups>,
    /// The factor by which all weights are multiplied.
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
    /// A rule that chooses the `top_k` experts with the largest softmax scores; their weights sum to 1.
    pub fn new(top_k: usize) -> Self {
        Self {
            top_k,
            ..Self::default()
        }
    }

    /// A rule that chooses a share of `experts` experts: K = clamp(⌊E · sparsity⌋, 1, `most`).
    pub fn sparse(experts: usize, sparsity: f64, most: usize) -> Self {
        let active = (experts as f64 * sparsity) as usize;
        Self::new(active.clamp(1, most.max(1)))
    }

    /// Describes the routing of `tokens` tokens to `experts` experts.
    pub(crate) fn problem(
        &self,
        tokens: usize,
        experts: usize,
    ) -> Result<routing::Problem, Mismatch> {
        let problem = routing::Problem::new(tokens, experts, self.top_k)?
            .with_groups(self.groups)?
            .with_scale(self.scale)?;
        Ok(if self.softmax_after_topk {
            // The softmax of the chosen logits equals the softmax of all logits, renormalised.
            problem.with_score(Score::Softmax, true)
        } else {
            problem.with_score(self.score, self.renormalize)
        })
    }
}

/// The experts of every token; all tensors stay on the device.
#[derive(Clone, Debug)]
pub struct Routing {
    /// The chosen experts \[T,K\], best first; E where no expert was available. Where experts choose tokens, K is E and column e holds e or
    /// E.
    pub indices: Tensor<2, Int>,
    /// The weights of the chosen experts, \[T,K\] f32.
    pub weights: Tensor<2>,
    /// The scores of all experts, \[T,E\] f32; 0 where masked.
    pub probs: Tensor<2>,
    /// The logits of all experts, including masked ones, \[T,E\] f32; 0 for a router without logits.
    pub logits: Tensor<2>,
    /// ln Σ exp of the available experts' logits, \[T\] f32; `None` for a router without logits.
    pub logsumexp: Option<Tensor<1>>,
    /// True for the tokens \[T\] that count in loads and losses; `None` where all do.
    pub counts: Option<Tensor<1, Bool>>,
}

impl Routing {
    /// The routing of a batch without tokens.
    pub(super) fn empty(experts: usize, top_k: usize, device: &Device) -> Self {
        let floats = |columns| Tensor::empty([0, columns], (device, DType::F32));
        Self {
            indices: Tensor::empty([0, top_k], (device, DType::I32)),
            weights: floats(top_k),
            probs: floats(experts),
            logits: floats(experts),
            logsumexp: Some(Tensor::empty([0], (device, DType::F32))),
            counts: None,
        }
    }

    /// The number E of experts.
    pub fn experts(&self) -> usize {
        self.probs.dims()[1]
    }

    /// The routing, of which only the tokens \[T\] for which `counts` is true count in loads and losses: at least one of each group.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) for another number of tokens.
    pub fn counting(self, counts: Tensor<1, Bool>) -> Result<Self, Error> {
        let [tokens, _] = self.probs.dims();
        Mismatch::check("tokens that count or don't [T]", tokens, counts.dims()[0])?;
        Ok(self.with_counts(Some(counts)))
    }

    pub(super) fn with_counts(self, counts: Option<Tensor<1, Bool>>) -> Self {
        Self { counts, ..self }
    }

    /// Choices \[T,K\], with E in place of those of tokens that don't count.
    pub(super) fn counted(&self, choices: Tensor<2, Int>) -> Tensor<2, Int> {
        let ([tokens, top_k], experts) = (choices.dims(), self.experts() as i64);
        match &self.counts {
            Some(counts) if tokens > 0 => {
                let counts = counts.clone().int().reshape([tokens, 1]);
                let others = counts.expand([tokens, top_k]).equal_elem(0);
                choices.mask_fill(others, experts)
            }
            _ => choices,
        }
    }

    /// Counts the slots that chose each expert, \[E\], before any capacity limit.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) when the device can't count them.
    pub fn load(&self) -> Result<Tensor<1, Int>, Error> {
        let experts = self.experts();
        let choices = self.counted(self.indices.clone());
        let counts = ops::routing::load(choices, experts, 1)?;
        Ok(counts.reshape([experts]))
    }
}

/// Chooses `top_k` experts per row of `logits` \[T,E\] (f32), the largest first, ties to the
/// lowest index.
///
/// `expert_mask` \[E\] is true for the available experts; the others are never chosen and have probability 0. A NaN logit ranks last; it
/// makes the probabilities of its token NaN, and also the weights that are computed from it. Weights, probabilities and log-sum-exp are
/// differentiable.
///
/// # Errors
/// [`ErrorKind::Config`](crate::ErrorKind::Config) for a `top_k` outside 1..=E, [`ErrorKind::Shape`](crate::ErrorKind::Shape) for a mask of
/// another length, or logits that aren't f32.
pub fn route(
    logits: Tensor<2>,
    expert_mask: Option<Tensor<1, Bool>>,
    config: &RouteConfig,
) -> Result<Routing, Error> {
    check_logits(&logits, expert_mask.as_ref())?;
    choose(logits, expert_mask, None, None, config)
}

pub(super) fn check_logits(
    logits: &Tensor<2>,
    mask: Option<&Tensor<1, Bool>>,
) -> Result<(), Error> {
    let right = logits.dtype() == DType::F32;
    let got = format_args!("{:?}", logits.dtype());
    Mismatch::unless(right, "router logits", "f32", got)?;
    check_mask(mask, logits.dims()[1], &logits.device())
}

pub(super) fn check_mask(
    mask: Option<&Tensor<1, Bool>>,
    experts: usize,
    device: &Device,
) -> Result<(), Error> {
    if let Some(mask) = mask {
        Mismatch::check("expert mask", experts, mask.dims()[0])?;
        check_equal(
            Fault::Device,
            "device of the expert mask",
            mask.device().inner(),
            device.clone().inner(),
        )?;
    }
    Ok(())
}

/// Does what [`route`] does for checked logits; `bias` \[E\] f32 is added to the scores for the selection only. The checked experts `along`
/// \[T,K\] replace the selection.
pub(super) fn choose(
    logits: Tensor<2>,
    mask: Option<Tensor<1, Bool>>,
    bias: Option<Tensor<1>>,
    along: Option<Tensor<2, Int>>,
    config: &RouteConfig,
) -> Result<Routing, Error> {
    let [tokens, experts] = logits.dims();
    let problem = config.problem(tokens, experts)?;
    if tokens == 0 {
        return Ok(Routing::empty(experts, config.top_k, &logits.device()));
    }
    let chosen = ops::routing::route(logits.clone(), mask, bias, problem)?;
    let routing = Routing {
        indices: chosen.indices,
        weights: chosen.weights,
        probs: chosen.probs,
        logsumexp: Some(chosen.logsumexp),
        logits,
        counts: None,
    };
    match along {
        Some(experts) => replayed(routing, experts, &problem),
        None => Ok(routing),
    }
}

/// `routing` with `experts` \[T,K\] in place of its choice, each token's distinct and below E. Their weights follow from the logits and
/// scores as those of a choice do, by the same arithmetic and with gradients.
fn replayed(
    routing: Routing,
    experts: Tensor<2, Int>,
    problem: &routing::Problem,
) -> Result<Routing, Error> {
    let weights = if problem.renormalize() {
        let logits = routing.logits.clone().gather(1, experts.clone());
        let ([tokens, top_k], device) = (logits.dims(), logits.device());
        // The weights are those of a choice of all K among these K logits. No score is above 1, so this bias keeps the given order.
        let order: Vec<f32> = (0..top_k).rev().map(|slot| 2.0 * slot as f32).collect();
        let order = TensorData::new(order, [top_k]);
        let order = Tensor::from_data(order, (&device, DType::F32));
        let all = routing::Problem::new(tokens, top_k, top_k)?
            .with_score(problem.score(), true)
            .with_scale(problem.scale())?;
        ops::routing::route(logits, None, Some(order), all)?.weights
    } else {
        let scores = routing.probs.clone().gather(1, experts.clone());
        scores.mul_scalar(problem.scale())
    };
    Ok(Routing {
        indices: experts,
        weights,
        ..routing
    })
}

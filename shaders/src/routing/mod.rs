//! Routing: router logits, then the `top_k` experts of every token and their weights.
//!
//! | module | computes |
//! |---|---|
//! | [`plan_logits`] | logits = x · Wgᵀ, and the gradients of x and Wg |
//! | [`plan`] | the choice of experts, their weights, all scores, logsumexp |
//! | [`plan_topk_backward`] | gradients of the logits |
//! | [`plan_hash`] | a choice that reads no logits |
//! | [`plan_load`] | how many rows chose every expert |
//!
//! Shapes: x \[T,H\], Wg \[E,H\], logits and probs \[T,E\] f32, indices u32 and weights f32 \[T,K\],
//! lse \[T\] f32, mask u32 \[E\] (0 = unavailable), bias f32 \[E\]. A masked expert is never chosen and
//! has probability 0; a slot that finds no expert holds index E and weight 0.

mod hash;
mod load;
mod logits;
mod logits_backward;
mod oracle;
mod selection;
mod topk;
mod topk_backward;

pub use hash::{
    HashBuffers, HashKey, HashPlan, HashProblem, hash_reference, launch_hash, plan_hash,
};
pub use load::{LoadPlan, LoadProblem, launch_load, load_reference, plan_load};
pub use logits::{LogitsPlan, launch_logits, logits_reference, plan_logits};
pub use logits_backward::{
    LogitsBackwardBuffers, LogitsBackwardPlan, launch_logits_backward, logits_backward_reference,
    plan_logits_backward,
};
pub use oracle::{Routed, reference, reference_with_bias, topk_backward_reference};
pub use topk::{Plan, RouteBuffers, launch, plan};
pub use topk_backward::{
    TopkBackwardBuffers, TopkBackwardPlan, TopkGradient, launch_topk_backward, plan_topk_backward,
};

use crate::error::ShapeError;
use serde::{Deserialize, Serialize};

/// How a logit becomes a score.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Score {
    /// exp(l) / Σ exp(l) over the available experts.
    #[default]
    Softmax,
    /// 1 / (1 + exp(−l)).
    Sigmoid,
}

/// A choice limited to the best groups of experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Groups {
    /// Groups of E / `count` neighbouring experts each.
    pub count: usize,
    /// Groups whose experts may be chosen.
    pub chosen: usize,
}

/// Most groups: a unit keeps a word for each.
const MAX_GROUPS: usize = 1024;

/// The choice of experts for `tokens` tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Problem {
    tokens: usize,
    experts: usize,
    top_k: usize,
    score: Score,
    renormalize: bool,
    groups: Option<Groups>,
    scale: f32,
}

// The scale is finite, so a problem equals itself.
impl Eq for Problem {}

impl Problem {
    /// Chooses `top_k` of `experts`.
    ///
    /// # Errors
    /// [`ShapeError`] unless 1 ≤ `top_k` ≤ `experts` and every product of sizes fits 31 bits.
    pub fn new(tokens: usize, experts: usize, top_k: usize) -> Result<Self, ShapeError> {
        if experts == 0 {
            return Err(ShapeError::new("experts", "at least 1", experts));
        }
        if top_k == 0 || top_k > experts {
            let expected = format!("1 to {experts} (the number of experts)");
            return Err(ShapeError::new("top_k", expected, top_k));
        }
        let largest = tokens
            .checked_mul(experts)
            .filter(|n| *n <= i32::MAX as usize);
        if largest.is_none() {
            let got = format!("{tokens} x {experts}");
            return Err(ShapeError::new("tokens x experts", "at most 2^31 - 1", got));
        }
        Ok(Self {
            tokens,
            experts,
            top_k,
            score: Score::Softmax,
            renormalize: true,
            groups: None,
            scale: 1.0,
        })
    }

    /// A copy with another score.
    pub fn with_score(self, score: Score, renormalize: bool) -> Self {
        Self {
            score,
            renormalize,
            ..self
        }
    }

    /// A copy with the choice limited to the best groups; `None` lifts the limit.
    ///
    /// # Errors
    /// [`ShapeError`] unless the groups divide the experts, and the chosen ones hold `top_k`.
    pub fn with_groups(self, groups: Option<Groups>) -> Result<Self, ShapeError> {
        if let Some(Groups { count, chosen }) = groups {
            if count == 0 || count > MAX_GROUPS || !self.experts.is_multiple_of(count) {
                let expected = format!("a divisor of {} up to {MAX_GROUPS}", self.experts);
                return Err(ShapeError::new("expert groups", expected, count));
            }
            if chosen == 0 || chosen > count {
                let expected = format!("1 to {count} (the number of groups)");
                return Err(ShapeError::new("chosen groups", expected, chosen));
            }
            let within = chosen * (self.experts / count);
            if within < self.top_k {
                let expected = format!("at least top_k = {}", self.top_k);
                return Err(ShapeError::new(
                    "experts of the chosen groups",
                    expected,
                    within,
                ));
            }
        }
        Ok(Self { groups, ..self })
    }

    /// A copy with weights multiplied by `scale`.
    ///
    /// # Errors
    /// [`ShapeError`] when `scale` isn't finite.
    pub fn with_scale(self, scale: f32) -> Result<Self, ShapeError> {
        if !scale.is_finite() {
            return Err(ShapeError::new("routed scale", "a finite number", scale));
        }
        Ok(Self { scale, ..self })
    }

    /// Tokens T.
    pub fn tokens(&self) -> usize {
        self.tokens
    }

    /// Experts E.
    pub fn experts(&self) -> usize {
        self.experts
    }

    /// Experts per token K.
    pub fn top_k(&self) -> usize {
        self.top_k
    }

    /// How a logit becomes a score.
    pub fn score(&self) -> Score {
        self.score
    }

    /// Whether the chosen scores are divided by their sum.
    pub fn renormalize(&self) -> bool {
        self.renormalize
    }

    /// Groups the choice is limited to.
    pub fn groups(&self) -> Option<Groups> {
        self.groups
    }

    /// Factor on the weights.
    pub fn scale(&self) -> f32 {
        self.scale
    }

    /// (token, choice) pairs S = T·K.
    pub fn slots(&self) -> usize {
        self.tokens * self.top_k
    }
}

/// Every kernel of the family.
#[cfg(feature = "emit")]
pub(crate) fn entries() -> Vec<crate::emit::KernelEntry> {
    let mut entries: Vec<_> = logits::entries().into();
    entries.extend(topk::entries());
    entries.extend(logits_backward::entries());
    entries.extend(topk_backward::entries());
    entries.extend(hash::entries());
    entries.extend(load::entries());
    entries
}

/// The compilation argument of a buffer that may be absent.
#[cfg(feature = "emit")]
fn optional_argument<B: cubecl::prelude::CubePrimitive>(
    present: bool,
) -> cubecl::prelude::ComptimeOptionCompilationArg<&'static [B]> {
    use cubecl::prelude::ComptimeOptionCompilationArg::{None, Some};
    if present {
        Some(crate::emit::buffer())
    } else {
        None
    }
}

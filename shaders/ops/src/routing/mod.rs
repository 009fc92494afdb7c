//! Routing: router logits, then the `top_k` experts of every token and their weights.
//!
//! The choice of a token is of the K largest keys, ties to the lowest index. score = softmax or sigmoid of the logits. Without a bias
//! the key is the logit, which both scores grow with; with one it is score + bias (DeepSeek-V3), and the weights still come from the
//! score alone: the chosen scores, divided by their sum where the problem renormalises, times its scale. With [`Groups`] only the
//! experts of the groups with the largest sum of their two best keys (score + bias; one key where a group has no second) can be
//! chosen, ties to the lowest group. lse = ln Σ exp(l) over the available experts, −∞ without any. A NaN key ranks below every number. A
//! NaN logit makes the softmax and lse of its token NaN, and the renormalised weights too if it is chosen.
//!
//! Shapes: x \[T,H\], Wg \[E,H\], logits and probs \[T,E\] f32, indices u32 and weights f32 \[T,K\],
//! lse \[T\] f32, mask u32 \[E\] (0 = unavailable), bias f32 \[E\]. A masked expert is never chosen and
//! has probability 0; a slot that finds no expert holds index E and weight 0.

mod choice;
mod gradient;
mod hash;
mod load;
mod logits;

pub use choice::{Routed, reference, reference_with_bias, topk_backward_reference};
pub use gradient::TopkGradient;
pub use hash::{HashKey, HashProblem, INFINITY, PHI, SMALLEST_NORMAL, hash_reference, mix};
pub use load::{LoadProblem, load_reference};
pub use logits::{logits_backward_reference, logits_reference};

use crate::error::{Fault, Mismatch};
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

getters! {
    /// The choice of experts for `tokens` tokens.
    #[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
    pub struct Problem {
        /// Tokens T.
        tokens: usize,
        /// Experts E.
        experts: usize,
        /// Experts per token K.
        top_k: usize,
        /// How a logit becomes a score.
        score: Score,
        /// Whether the chosen scores are divided by their sum.
        renormalize: bool,
        /// Groups the choice is limited to.
        groups: Option<Groups>,
        /// Factor on the weights.
        scale: f32,
    }
}

// The scale is finite, so a problem equals itself.
impl Eq for Problem {}

impl Problem {
    /// Chooses `top_k` of `experts`.
    ///
    /// # Errors
    /// [`Mismatch`] unless 1 ≤ `top_k` ≤ `experts` and every product of sizes fits 31 bits.
    pub fn new(tokens: usize, experts: usize, top_k: usize) -> Result<Self, Mismatch> {
        Mismatch::positive(&[("experts", experts)])?;
        let expected = format_args!("1 to {experts} (the number of experts)");
        Fault::Config.unless((1..=experts).contains(&top_k), "top_k", expected, top_k)?;
        Mismatch::index("tokens x experts", &[tokens, experts])?;
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

    /// A copy for another number of tokens.
    ///
    /// # Errors
    /// [`Mismatch`] when the product of tokens and experts doesn't fit 31 bits.
    pub fn with_tokens(self, tokens: usize) -> Result<Self, Mismatch> {
        Mismatch::index("tokens x experts", &[tokens, self.experts])?;
        Ok(Self { tokens, ..self })
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
    /// [`Mismatch`] unless the groups divide the experts, and the chosen ones hold `top_k`.
    pub fn with_groups(self, groups: Option<Groups>) -> Result<Self, Mismatch> {
        if let Some(Groups { count, chosen }) = groups {
            let right = (1..=MAX_GROUPS).contains(&count) && self.experts.is_multiple_of(count);
            let expected = format_args!("a divisor of {} up to {MAX_GROUPS}", self.experts);
            Fault::Config.unless(right, "expert groups", expected, count)?;
            let expected = format_args!("1 to {count} (the number of groups)");
            let right = (1..=count).contains(&chosen);
            Fault::Config.unless(right, "chosen groups", expected, chosen)?;
            let (top_k, within) = (self.top_k, chosen * (self.experts / count));
            let expected = format_args!("at least top_k = {top_k}");
            let what = "experts of the chosen groups";
            Fault::Config.unless(within >= top_k, what, expected, within)?;
        }
        Ok(Self { groups, ..self })
    }

    /// A copy with weights multiplied by `scale`.
    ///
    /// # Errors
    /// [`Mismatch`] when `scale` isn't finite.
    pub fn with_scale(self, scale: f32) -> Result<Self, Mismatch> {
        Fault::Config.unless(scale.is_finite(), "routed scale", "a finite number", scale)?;
        Ok(Self { scale, ..self })
    }

    /// Checks what the constructors do, of a problem that was read.
    pub(crate) fn check(&self) -> Result<(), Mismatch> {
        Self::new(self.tokens, self.experts, self.top_k)?
            .with_groups(self.groups)?
            .with_scale(self.scale)
            .map(drop)
    }

    /// (token, choice) pairs S = T·K.
    pub fn slots(&self) -> usize {
        self.tokens * self.top_k
    }
}

//! Routing: router logits, then the `top_k` experts of every token and their weights.
//!
//! Each token chooses the K experts with the largest keys, ties to the lowest index. score = softmax or sigmoid of the logits.
//! Without a bias, the key is the logit, of which both scores are increasing functions; with a bias it is score + bias
//! (DeepSeek-V3). The weights always come from the scores alone: the chosen scores, divided by their sum if the problem
//! renormalises, times its scale. With [`Groups`], only experts of the best groups can be chosen; a group's value is the sum of
//! its two largest keys (score + bias), or its largest key alone if there is no second or the groups say so, ties to the lowest
//! group. lse = ln Σ exp(l) over the available experts, −∞ if there are none. A NaN key ranks below every number. A NaN logit
//! makes the softmax and lse of its token NaN, and the renormalised weights too if it is chosen.
//!
//! Shapes: x \[T,H\], Wg \[E,H\], logits and probs \[T,E\] f32, indices u32 and weights f32 \[T,K\], lse \[T\] f32, mask u32
//! \[E\] (0 = unavailable), bias f32 \[E\]. A masked expert is never chosen and has probability 0; a slot that finds no expert
//! holds index E and weight 0.

mod choice;
mod hash;

pub use choice::{
    Routed, TopkGradient, logits_backward_reference, logits_reference, reference,
    reference_with_bias, topk_backward_reference,
};
pub use hash::{HashKey, HashProblem, INFINITY, PHI, SMALLEST_NORMAL, hash_reference, mix};

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
    /// The number of groups, each of E / `count` neighbouring experts.
    pub count: usize,
    /// The number of groups whose experts may be chosen.
    pub chosen: usize,
    /// The number of its best keys that a group's value is the sum of: 2 (DeepSeek-V3) or 1 (DeepSeek-V2).
    #[serde(default = "two")]
    pub best: usize,
}

/// The `best` of groups that were written before there was a choice.
fn two() -> usize {
    2
}

/// The largest number of groups: a unit keeps one word per group.
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
        /// The groups that limit the choice, if any.
        groups: Option<Groups>,
        /// Factor of the weights.
        scale: f32,
    }
}

// The scale is finite, never NaN, so every problem equals itself.
impl Eq for Problem {}

impl Problem {
    /// A choice of `top_k` of `experts` experts for each of `tokens` tokens.
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

    /// A copy with another number of tokens.
    ///
    /// # Errors
    /// [`Mismatch`] when tokens · experts doesn't fit 31 bits.
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

    /// A copy whose choice is limited to the best groups; `None` lifts the limit.
    ///
    /// # Errors
    /// [`Mismatch`] unless the group count divides the experts and the chosen groups hold at least `top_k`.
    pub fn with_groups(self, groups: Option<Groups>) -> Result<Self, Mismatch> {
        if let Some(Groups {
            count,
            chosen,
            best,
        }) = groups
        {
            let right = (1..=MAX_GROUPS).contains(&count) && self.experts.is_multiple_of(count);
            let expected = format_args!("a divisor of {} up to {MAX_GROUPS}", self.experts);
            Fault::Config.unless(right, "expert groups", expected, count)?;
            let expected = format_args!("1 to {count} (the number of groups)");
            let right = (1..=count).contains(&chosen);
            Fault::Config.unless(right, "chosen groups", expected, chosen)?;
            let right = (1..=2).contains(&best);
            Fault::Config.unless(right, "best keys of a group", "1 or 2", best)?;
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

    /// Repeats the constructors' checks for a deserialised problem.
    pub(crate) fn check(&self) -> Result<(), Mismatch> {
        Self::new(self.tokens, self.experts, self.top_k)?
            .with_groups(self.groups)?
            .with_scale(self.scale)
            .map(drop)
    }

    /// The number of slots, (token, choice) pairs, S = T·K.
    pub fn slots(&self) -> usize {
        self.tokens * self.top_k
    }
}

getters! {
    /// The load of experts: counts\[g,e\] is the number of slots of group g that chose expert e.
    ///
    /// The tokens are cut into G groups of T/G neighbours. Either every choice counts, or only each token's first; index E and
    /// above count for no expert. Counts are exact up to 2³² − 1.
    ///
    /// Shapes: indices u32 \[T,K\], counts u32 \[G,E\]. Bytes: 4·T·K.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct LoadProblem {
        /// Tokens, experts and choices per token.
        routing: Problem,
        /// The number of groups of tokens G.
        groups: usize,
        /// Whether only each token's first choice counts.
        first_only: bool,
    }
}

impl LoadProblem {
    /// Counts of all choices of `routing`, of which only the sizes matter, in `groups` groups of tokens.
    ///
    /// # Errors
    /// [`Mismatch`] unless `groups` divides the tokens and groups · experts fits 31 bits.
    pub fn new(routing: Problem, groups: usize) -> Result<Self, Mismatch> {
        let right = groups > 0 && routing.tokens.is_multiple_of(groups);
        let expected = format_args!("a divisor of {} tokens", routing.tokens);
        Fault::Config.unless(right, "groups of tokens", expected, groups)?;
        Mismatch::index("groups x experts", &[groups, routing.experts])?;
        Ok(Self {
            routing,
            groups,
            first_only: false,
        })
    }

    /// A copy that counts only each token's first choice.
    pub fn of_first_choices(self) -> Self {
        Self {
            first_only: true,
            ..self
        }
    }

    /// Repeats the constructor's checks for a deserialised problem.
    pub(crate) fn check(&self) -> Result<(), Mismatch> {
        self.routing.check()?;
        Self::new(self.routing, self.groups).map(drop)
    }

    /// The number of counts G·E.
    pub fn counts(&self) -> usize {
        self.groups * self.routing.experts
    }

    /// The number of tokens per group.
    pub fn tokens(&self) -> usize {
        self.routing.tokens / self.groups
    }

    /// The number of choices per token that count.
    pub fn choices(&self) -> usize {
        if self.first_only {
            1
        } else {
            self.routing.top_k
        }
    }
}

/// The oracle: counts \[G,E\] of `indices` \[T,K\].
pub fn load_reference(problem: &LoadProblem, indices: &[u32]) -> Vec<u32> {
    let Problem { experts, top_k, .. } = problem.routing;
    let mut counts = vec![0; problem.counts()];
    for (token, chosen) in indices.chunks(top_k).enumerate() {
        let group = token / problem.tokens() * experts;
        for expert in &chosen[..problem.choices()] {
            if (*expert as usize) < experts {
                counts[group + *expert as usize] += 1;
            }
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_by_hand() {
        let indices = [0, 1, 2, 1, 3, 3, 0, 9];
        let problem = LoadProblem::new(Problem::new(4, 3, 2).unwrap(), 2).unwrap();
        assert_eq!(load_reference(&problem, &indices), [1, 2, 1, 1, 0, 0]);
        let first = problem.of_first_choices();
        assert_eq!(load_reference(&first, &indices), [1, 0, 1, 1, 0, 0]);
    }

    #[test]
    fn groups_divide_the_tokens() {
        let routing = Problem::new(6, 3, 2).unwrap();
        assert!(LoadProblem::new(routing, 0).is_err());
        assert!(LoadProblem::new(routing, 4).is_err());
        assert!(LoadProblem::new(routing, 6).is_ok());
    }
}

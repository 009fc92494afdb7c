//! Losses that keep experts balanced, and statistics of their load, which the host reads.

use super::route::{RouteConfig, Routing, choose};
use super::running::total;
use crate::Error;
use crate::ops::routing;
use crate::reduce::{mean_dim, sum_dim};
use burn::tensor::{FloatDType, Int, Tensor, TensorData};
use moebius_ops::Fault;
use serde::{Deserialize, Serialize};

/// Balance losses of a batch, each \[1\] f32 and differentiable through the router's probabilities
/// or logits.
///
/// p is the probabilities of a token scaled to the sum 1 (those of a softmax already have it); masked experts have probability 0 and still
/// count in E.
#[derive(Clone, Debug)]
pub struct Losses {
    /// The switch loss E · Σ_e (share of the slots that chose e) · mean p_e: 1 when even, E when a top-1 router collapses to one expert
    /// (Fedus et al. 2022).
    pub switch: Tensor<1>,
    /// GShard's loss: like the switch loss, but with the share of tokens whose most probable expert is e, per group of tokens, averaged
    /// over the groups (Lepikhin et al. 2020).
    pub gshard: Tensor<1>,
    /// The entropy loss (ln E − H(q)) / ln E, where q = mean p: 0 when even, 1 at collapse; 0 for one expert.
    pub entropy: Tensor<1>,
    /// The z-loss mean (ln Σ_e exp(logit_e))², which keeps logits small (Zoph et al. 2022); `None` for a router without logits.
    pub z: Option<Tensor<1>>,
}

/// The weight of each loss in the sum.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LossWeights {
    /// The weight of [`Losses::switch`].
    pub switch: f64,
    /// The weight of [`Losses::gshard`].
    pub gshard: f64,
    /// The weight of [`Losses::entropy`].
    pub entropy: f64,
    /// The weight of [`Losses::z`].
    pub z: f64,
}

impl Default for LossWeights {
    fn default() -> Self {
        Self {
            switch: 0.01,
            gshard: 0.0,
            entropy: 0.0,
            z: 0.001,
        }
    }
}

impl Losses {
    /// Returns the weighted sum \[1\]; losses of weight 0 are left out, whatever their value, and so are missing ones.
    pub fn weighted(&self, weights: &LossWeights) -> Tensor<1> {
        let terms = [
            (Some(&self.switch), weights.switch),
            (Some(&self.gshard), weights.gshard),
            (Some(&self.entropy), weights.entropy),
            (self.z.as_ref(), weights.z),
        ];
        let used = terms.into_iter().filter(|(_, weight)| *weight != 0.0);
        let sum = used.filter_map(|(loss, weight)| Some(loss?.clone() * weight));
        sum.reduce(|sum, term| sum + term)
            .unwrap_or_else(|| self.switch.zeros_like())
    }
}

impl Routing {
    /// Computes the balance losses of the batch, with GShard's in `groups` equal groups of consecutive tokens, each the mean over the tokens
    /// that count. All losses are 0 for no tokens.
    ///
    /// # Errors
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) when `groups` doesn't divide the tokens,
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) when the device can't count.
    pub fn losses(&self, groups: usize) -> Result<Losses, Error> {
        let [tokens, experts] = self.probs.dims();
        let right = groups > 0 && tokens.is_multiple_of(groups);
        let expected = format_args!("a divisor of {tokens} (tokens)");
        Fault::Config.unless(right, "groups", expected, groups)?;
        if tokens == 0 {
            let zero = Tensor::zeros([1], &self.probs.device());
            return Ok(Losses {
                switch: zero.clone(),
                gshard: zero.clone(),
                entropy: zero.clone(),
                z: self.logsumexp.is_some().then_some(zero),
            });
        }
        let sums = self.probs.clone().sum_dim(1);
        let nothing = sums.clone().equal_elem(0.0);
        let probs = self.probs.clone() / sums.mask_fill(nothing.clone(), 1.0);
        let counted = self.those_that_count(groups);
        let of = counted.as_ref();
        let rows = of.map(|of| of.factors.clone().reshape([tokens, 1]));
        let probs = times(probs, rows);
        // If no expert is available, the log-sum-exp is −∞ and says nothing about the logits.
        let nothing = nothing.reshape([tokens]);
        let none = nothing.clone().narrow(0, 0, 1);
        let squares = self.logsumexp.clone().map(|logsumexp| {
            let squares = logsumexp.mask_fill(nothing, 0.0).powi_scalar(2);
            let columns = of.map(|of| of.factors.clone().unsqueeze());
            let mean = total(times(squares.unsqueeze(), columns)) / tokens as f64;
            times(mean, of.map(|of| of.over.clone()))
        });
        let over = of.map(|of| of.over.clone().unsqueeze());
        let mean = times(mean_dim(probs.clone(), 0), over);
        let share = share(self.load()?.unsqueeze());
        Ok(Losses {
            switch: total(share * mean.clone()) * experts as f64,
            gshard: self.gshard(probs, of, groups)?,
            // One mask holds for all tokens.
            entropy: entropy_gap(mean).mask_fill(none, 0.0),
            z: squares,
        })
    }

    /// The tokens that count, in `groups` groups; `None` where all do.
    fn those_that_count(&self, groups: usize) -> Option<Counted> {
        let factors = self.counts.clone()?.int().cast(FloatDType::F32);
        let [tokens] = factors.dims();
        let each = tokens / groups;
        let of_groups = sum_dim(factors.clone().reshape([groups, each]), 1);
        let count = total(factors.clone().unsqueeze());
        Some(Counted {
            over: count.clamp_min(1.0).recip() * tokens as f64,
            groups: of_groups.clamp_min(1.0).recip() * each as f64,
            factors,
        })
    }

    fn gshard(
        &self,
        probs: Tensor<2>,
        counted: Option<&Counted>,
        groups: usize,
    ) -> Result<Tensor<1>, Error> {
        let [tokens, experts] = probs.dims();
        let first = RouteConfig {
            top_k: 1,
            ..RouteConfig::default()
        };
        // Ties go to the lowest expert, as in every router; Burn's argmax promises no order.
        let first = choose(probs.clone().detach(), None, None, None, &first)?.indices;
        let share = share(routing::load(self.counted(first), experts, groups)?);
        let mean: Tensor<3> = probs.reshape([groups, tokens / groups, experts]);
        let mean = mean_dim(mean, 1).reshape([groups, experts]);
        let mean = times(mean, counted.map(|of| of.groups.clone()));
        Ok(total(share * mean) * (experts as f64 / groups as f64))
    }
}

/// What makes means over all tokens those over the tokens that count.
struct Counted {
    /// 1 for each token that counts, else 0, \[T\].
    factors: Tensor<1>,
    /// All tokens over those that count, \[1\].
    over: Tensor<1>,
    /// The tokens of a group over those of it that count, \[groups,1\].
    groups: Tensor<2>,
}

fn times<const D: usize>(x: Tensor<D>, by: Option<Tensor<D>>) -> Tensor<D> {
    match by {
        Some(by) => x * by,
        None => x,
    }
}

/// Divides every row of counts by its sum; the row is 0 where the sum is 0.
fn share(counts: Tensor<2, Int>) -> Tensor<2> {
    let counts = counts.cast(FloatDType::F32);
    let sums = counts.clone().sum_dim(1).clamp_min(1.0);
    counts / sums
}

/// Computes (ln E − H(q)) / ln E for q \[1,E\], which sums to 1.
///
/// Near balance both terms are about ln E, and their difference cancels in f32. With d = E·q − 1, which sums to 0, ln E − H(q) = Σ f(d) / E
/// where f(d) = (1 + d) ln(1 + d) − d ≥ 0: nothing cancels between experts, and within one expert a series replaces f where the logarithm's
/// error would show.
fn entropy_gap(q: Tensor<2>) -> Tensor<1> {
    const SERIES_BELOW: f64 = 0.25;
    let experts = q.dims()[1] as f64;
    if experts == 1.0 {
        return total(q.zeros_like());
    }
    let ratio = q * experts;
    let d = ratio.clone() - 1.0;
    // f(d) = d² Σ (−d)ⁿ / ((n + 1)(n + 2)); eight terms leave a relative error of 4e-7.
    let mut series = d.zeros_like();
    for n in (0..8).rev() {
        series = series * -d.clone() + 1.0 / f64::from((n + 1) * (n + 2));
    }
    let near = series * d.clone() * d.clone();
    // 0 · ln 0 is 0; the bound keeps the logarithm and its gradient finite.
    let ratio = ratio.clamp_min(1e-30);
    let far = ratio.clone() * ratio.log() - d.clone();
    let gap = far.mask_where(d.abs().lower_elem(SERIES_BELOW), near);
    total(gap) / (experts * experts.ln())
}

/// The number of slots of every expert, and statistics of it.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadStatistics {
    /// The number A_e of slots that chose each expert.
    pub counts: Vec<u64>,
    /// Statistics of the balance; `None` when there were no slots.
    pub balance: Option<LoadBalance>,
}

/// Statistics of how evenly slots are spread over the experts.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadBalance {
    /// The share A_e / Σ A of the slots for each expert.
    pub utilization: Vec<f64>,
    /// The coefficient of variation: the (unbiased) standard deviation of A_e divided by its mean; 0 when balanced.
    pub coefficient_of_variation: f64,
    /// The largest A_e divided by the mean: 1 when balanced, E at collapse.
    pub max_over_mean: f64,
    /// The smallest A_e divided by the mean: 1 when balanced, 0 when an expert has no slots.
    pub min_over_mean: f64,
    /// The entropy −Σ_e u_e · ln u_e of the utilization u: ln E when balanced, 0 at collapse.
    pub assignment_entropy: f64,
}

impl LoadStatistics {
    /// Reads a load \[E\], such as that of [`Routing::load`](super::Routing::load); waits for the device.
    ///
    /// # Errors
    /// [`ErrorKind::Device`](crate::ErrorKind::Device) when the device failed.
    pub fn read(load: Tensor<1, Int>) -> Result<Self, Error> {
        let data = load.try_into_data().map_err(Error::device)?;
        Ok(Self::of(&data))
    }

    /// Does what [`LoadStatistics::read`] does for a caller that can't block, such as a browser.
    ///
    /// # Errors
    /// As [`LoadStatistics::read`].
    pub async fn read_async(load: Tensor<1, Int>) -> Result<Self, Error> {
        let data = load.into_data_async().await.map_err(Error::device)?;
        Ok(Self::of(&data))
    }

    fn of(load: &TensorData) -> Self {
        let counts = load.iter::<i64>().map(|count| count.max(0) as u64);
        Self::new(counts.collect())
    }

    /// Computes the statistics of counts A_e.
    pub fn new(counts: Vec<u64>) -> Self {
        let balance = LoadBalance::of(&counts);
        Self { counts, balance }
    }
}

impl LoadBalance {
    fn of(counts: &[u64]) -> Option<Self> {
        let all = counts.iter().sum::<u64>() as f64;
        if all == 0.0 {
            return None;
        }
        let experts = counts.len() as f64;
        let mean = all / experts;
        let utilization: Vec<f64> = counts.iter().map(|count| *count as f64 / all).collect();
        let squares = counts.iter().map(|count| (*count as f64 - mean).powi(2));
        // With one expert, the sum of squares is 0 and so is the deviation.
        let variance = squares.sum::<f64>() / (experts - 1.0).max(1.0);
        let entropy = utilization.iter().filter(|u| **u > 0.0);
        let over_mean = |count: Option<&u64>| count.map_or(0.0, |count| *count as f64 / mean);
        Some(Self {
            coefficient_of_variation: variance.sqrt() / mean,
            max_over_mean: over_mean(counts.iter().max()),
            min_over_mean: over_mean(counts.iter().min()),
            assignment_entropy: -entropy.map(|u| u * u.ln()).sum::<f64>(),
            utilization,
        })
    }
}

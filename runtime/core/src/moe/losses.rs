//! Losses that keep experts balanced, and figures about their load.

use super::route::{RouteConfig, Routing, choose, load_in_groups};
use crate::Error;
use burn::tensor::{Int, Tensor};
use moebius_shaders::ShapeError;
use serde::{Deserialize, Serialize};

/// Balance losses of a batch, each \[1\] f32 and differentiable through the router's probabilities
/// or logits.
///
/// p are the probabilities of a token, scaled to sum 1 (softmax ones do); masked experts have 0
/// and count in E.
#[derive(Clone, Debug)]
pub struct Losses {
    /// E · Σ_e (share of the slots that chose e) · mean p_e: 1 when even, E at collapse of a
    /// top-1 router (Fedus et al. 2022).
    pub switch: Tensor<1>,
    /// The same with the share of tokens whose most probable expert is e, per group of tokens,
    /// averaged over the groups (Lepikhin et al. 2020).
    pub gshard: Tensor<1>,
    /// (ln E − H(q)) / ln E, q = mean p: 0 when even, 1 at collapse; 0 for one expert.
    pub entropy: Tensor<1>,
    /// mean (ln Σ_e exp(logit_e))²: keeps logits small (Zoph et al. 2022).
    pub z: Tensor<1>,
}

/// What each loss counts in the sum.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LossWeights {
    /// Of [`Losses::switch`].
    pub switch: f64,
    /// Of [`Losses::gshard`].
    pub gshard: f64,
    /// Of [`Losses::entropy`].
    pub entropy: f64,
    /// Of [`Losses::z`].
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
    /// \[1\]: the weighted sum; a loss of weight 0 isn't computed.
    pub fn weighted(&self, weights: &LossWeights) -> Tensor<1> {
        let terms = [
            (&self.switch, weights.switch),
            (&self.gshard, weights.gshard),
            (&self.entropy, weights.entropy),
            (&self.z, weights.z),
        ];
        let used = terms.into_iter().filter(|(_, weight)| *weight != 0.0);
        let sum = used.map(|(loss, weight)| loss.clone() * weight);
        sum.reduce(|sum, term| sum + term)
            .unwrap_or_else(|| self.switch.zeros_like())
    }
}

impl Routing {
    /// The balance losses of the batch, for GShard's in `groups` equal groups of consecutive
    /// tokens. They are 0 for no tokens.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) when `groups` doesn't divide the tokens,
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) when the device can't count.
    pub fn losses(&self, groups: usize) -> Result<Losses, Error> {
        let [tokens, experts] = self.probs.dims();
        if groups == 0 || !tokens.is_multiple_of(groups) {
            let expected = format!("a divisor of {tokens} (tokens)");
            return Err(ShapeError::new("groups", expected, groups).into());
        }
        if tokens == 0 {
            let zero = Tensor::zeros([1], &self.probs.device());
            return Ok(Losses {
                switch: zero.clone(),
                gshard: zero.clone(),
                entropy: zero.clone(),
                z: zero,
            });
        }
        let sums = self.probs.clone().sum_dim(1);
        let nothing = sums.clone().equal_elem(0.0);
        let probs = self.probs.clone() / sums.mask_fill(nothing, 1.0);
        let mean = probs.clone().mean_dim(0);
        let share = share(self.load()?.unsqueeze());
        Ok(Losses {
            switch: (share * mean.clone()).sum() * experts as f64,
            gshard: self.gshard(probs, groups)?,
            entropy: entropy_gap(mean),
            z: self.logsumexp.clone().powi_scalar(2).mean(),
        })
    }

    fn gshard(&self, probs: Tensor<2>, groups: usize) -> Result<Tensor<1>, Error> {
        let [tokens, experts] = probs.dims();
        let first = RouteConfig {
            top_k: 1,
            ..RouteConfig::default()
        };
        // Ties go to the lowest expert, as in every router; Burn's argmax promises no order.
        let first = choose(probs.clone().detach(), None, None, &first)?.indices;
        let share = share(load_in_groups(first, experts, groups)?);
        let mean = probs
            .reshape([groups, tokens / groups, experts])
            .mean_dim(1);
        let mean = mean.reshape([groups, experts]);
        Ok((share * mean).sum() * (experts as f64 / groups as f64))
    }
}

/// Every row of counts divided by its sum; 0 where that is 0.
fn share(counts: Tensor<2, Int>) -> Tensor<2> {
    let counts = counts.float();
    let sums = counts.clone().sum_dim(1).clamp_min(1.0);
    counts / sums
}

/// (ln E − H(q)) / ln E of q \[1,E\].
fn entropy_gap(q: Tensor<2>) -> Tensor<1> {
    let most = (q.dims()[1] as f64).ln();
    if most == 0.0 {
        return q.zeros_like().sum();
    }
    // 0 · ln 0 is 0; the bound keeps the logarithm and its gradient finite.
    let negative_entropy = (q.clone() * q.clamp_min(1e-30).log()).sum();
    negative_entropy / most + 1.0
}

//! The values of a token that a layer has in memory at once: in a pass without gradients, between the passes of a training, and in a backward
//! pass. They are those that the operations of this model's layers write, on all devices.

use super::spec::{AttentionSpec, FeedForwardSpec, HeadNorm, LayerSpec, Mixer, Norms, Projection};

impl LayerSpec {
    /// Number of values of a token in the part of the layer that has the most, without gradients.
    ///
    /// In attention these are x, queries, keys and values and their copies head by head, what heads give, by head and by token, and the scores of
    /// `keys` keys, where an exact attention keeps them, with their sum for each head. In a network they are x, its norm and the sum of what
    /// experts give, and for each expert both products and the activation in between.
    pub(super) fn values(&self, hidden: usize, keys: usize) -> usize {
        let scores = if keys > 0 { keys + 1 } else { 0 };
        let mixer = match &self.mixer {
            Mixer::Attention(of) => {
                let plain = hidden + 2 * of.heads_in() + 2 * of.heads_out();
                plain.saturating_add(of.heads.saturating_mul(scores))
            }
            Mixer::Convolution(_) => 6 * hidden,
        };
        mixer.max(3 * hidden + self.networks(|inter| 3 * inter + hidden))
    }

    /// Number of values of a token that a training keeps from the layer's forward pass to its backward pass.
    pub(crate) fn kept(&self, hidden: usize) -> usize {
        let mixer = match &self.mixer {
            Mixer::Attention(of) => of.kept(),
            Mixer::Convolution(_) => 6 * hidden,
        };
        self.kept_by_norms(hidden) + mixer + self.kept_of_network(hidden)
    }

    /// Values that are kept around each of the layer's two parts: with a norm before it x, the norm's x before the factors, and the norm; with
    /// one after it what the norm reads, too.
    fn kept_by_norms(&self, hidden: usize) -> usize {
        match self.norms {
            Norms::Before | Norms::After => 3 * hidden,
            Norms::Both => 5 * hidden,
        }
    }

    /// Values that are kept of the networks and the choice of them: of each network its first product.
    fn kept_of_network(&self, hidden: usize) -> usize {
        let routing = match &self.feed_forward {
            FeedForwardSpec::Dense(_) => 0,
            FeedForwardSpec::Experts(of) => {
                let gated = of.shared.is_some_and(|shared| shared.sigmoid_gate);
                // Logits, scores and the log-sum-exp; weights, experts and places of the slots.
                2 * of.experts + 1 + 4 * of.top_k() + if gated { hidden } else { 0 }
            }
        };
        self.kept_by_norms(hidden) + self.networks(|inter| 2 * inter) + routing
    }

    /// Number of values of a token that the layer's backward pass has beside those that are kept, in the part in which they are most; with
    /// those of its networks, unless they are counted elsewhere. In attention and convolution, what the networks kept is free.
    pub(crate) fn passing(&self, hidden: usize, with_networks: bool) -> usize {
        let networks = if with_networks {
            self.network_gradients(hidden)
        } else {
            0
        };
        // Copies of what gradients are computed from, head by head, and gradients.
        let mixer = match &self.mixer {
            Mixer::Attention(of) => 3 * of.heads_in() + of.heads_out(),
            Mixer::Convolution(_) => 4 * hidden,
        };
        let mixer = mixer.saturating_sub(self.kept_of_network(hidden));
        2 * hidden + networks.max(mixer)
    }

    /// Number of values of a token that the backward pass of the layer's networks has beside those that are kept: for each, the gradients of
    /// x, of the first product and of the activation, and the activation.
    pub(crate) fn network_gradients(&self, hidden: usize) -> usize {
        self.networks(|inter| 4 * inter + hidden)
    }

    /// The sum over the networks that a token goes through, each of which has `values` of its inner width.
    fn networks(&self, values: impl Fn(usize) -> usize) -> usize {
        match &self.feed_forward {
            FeedForwardSpec::Dense(of) => values(of.inter),
            FeedForwardSpec::Experts(of) => {
                let shared = of.shared.map_or(0, |shared| values(shared.inter));
                of.top_k() * values(of.inter) + shared
            }
        }
    }
}

impl AttentionSpec {
    /// Elements of the queries, keys and values of a token.
    fn heads_in(&self) -> usize {
        self.heads * self.head_dim + self.kv_heads * (self.head_dim + self.value_dim)
    }

    /// Elements of what the heads give for a token.
    fn heads_out(&self) -> usize {
        self.heads * self.value_dim
    }

    /// Number of values of a token that a training keeps of the attention: queries, keys and values, those that norms read and made of them,
    /// what heads give, by head and by token, and the log-sum-exp of each head.
    fn kept(&self) -> usize {
        let normed = (self.heads + self.kv_heads) * self.head_dim;
        let before = match &self.projection {
            Projection::Direct { norm, clip, .. } => {
                let of_norms = match norm {
                    HeadNorm::None => 0,
                    HeadNorm::Unit => normed,
                    HeadNorm::Head | HeadNorm::All | HeadNorm::Turned => 2 * normed,
                };
                of_norms + clip.map_or(0, |_| self.heads_in())
            }
            Projection::Latent {
                query_rank,
                rank,
                rotated,
                ..
            } => {
                let still = self.head_dim - rotated;
                3 * query_rank.unwrap_or(0) + 3 * rank + rotated + self.heads * still
            }
        };
        before + self.heads_in() + 2 * self.heads_out() + self.heads
    }
}

#[cfg(test)]
#[path = "footprint_tests.rs"]
mod tests;

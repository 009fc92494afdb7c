//! The values of a token that a layer has in memory at once: in a pass without gradients, between the passes of a training, and in a backward
//! pass. They are those that the operations of this model's layers write, on all devices.

use super::spec::{AttentionSpec, FeedForwardSpec, HeadNorm, LayerSpec, Mixer, Norms, Projection};

/// The most rows of an expert that a thread of Flex takes through a network at once.
const ROWS_OF_PIECE: u64 = 384;

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
            // b, c and v of one product, b ⊙ v after the zeros before a sequence, the sums, and c times them.
            Mixer::Convolution(_) => (3 + 1 + 1 + 1) * hidden,
        };
        self.kept_by_norms(hidden) + mixer + self.kept_of_network(hidden)
    }

    /// Number of those values that are f32 whatever products are in: what norms read and divide, scores of experts and what heads sum, and what a
    /// convolution sums.
    pub(crate) fn kept_in_f32(&self, hidden: usize) -> usize {
        let mixer = match &self.mixer {
            Mixer::Attention(of) => of.kept_by_norms() + of.heads,
            Mixer::Convolution(_) => hidden,
        };
        let norms = match self.norms {
            Norms::Before | Norms::After => 2 * hidden,
            Norms::Both => 4 * hidden,
        };
        2 * norms + mixer + self.kept_of_choice()
    }

    /// Number of values that are kept beside those where products are in 16 bits: what a router reads of x in f32, and what the gate of a shared
    /// expert does.
    pub(crate) fn kept_of_casts(&self, hidden: usize) -> usize {
        match &self.feed_forward {
            FeedForwardSpec::Dense(_) => 0,
            FeedForwardSpec::Experts(_) => hidden + self.kept_of_gate(hidden),
        }
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
        let networks = self.networks(|inter| 2 * inter);
        let choice = self.kept_of_choice() + self.kept_of_gate(hidden);
        self.kept_by_norms(hidden) + networks + choice
    }

    /// Values that are kept of the gate of a shared expert, if it has one.
    fn kept_of_gate(&self, hidden: usize) -> usize {
        match &self.feed_forward {
            FeedForwardSpec::Experts(of) if of.shared.is_some_and(|of| of.sigmoid_gate) => hidden,
            _ => 0,
        }
    }

    /// Values that are kept of the choice of experts: logits, scores and the log-sum-exp; weights, experts and places of the slots.
    fn kept_of_choice(&self) -> usize {
        match &self.feed_forward {
            FeedForwardSpec::Dense(_) => 0,
            FeedForwardSpec::Experts(of) => 2 * of.experts + 1 + 4 * of.top_k(),
        }
    }

    /// Number of values of a token that the layer's backward pass has beside those that are kept, in the part in which they are most; with
    /// those of its networks, unless they are counted elsewhere. In attention and convolution, what the networks kept is free.
    pub(crate) fn passing(&self, hidden: usize, with_networks: bool) -> usize {
        let networks = if with_networks {
            self.network_gradients(hidden)
        } else {
            0
        };
        let mixer = match &self.mixer {
            Mixer::Attention(of) => of.passing(),
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

    /// Number of values that one of Flex's threads has while a network's backward pass goes through the activation of some rows of one expert:
    /// the activation, what it gates, and the slope, for tokens that go to all experts alike.
    pub(crate) fn of_piece(&self, tokens: u64) -> u64 {
        let values = |inter: usize, rows: u64| {
            let of_row = (inter as u64).saturating_mul(3);
            of_row.saturating_mul(rows.min(ROWS_OF_PIECE))
        };
        match &self.feed_forward {
            FeedForwardSpec::Dense(of) => values(of.inter, tokens),
            FeedForwardSpec::Experts(of) => {
                let chosen = tokens.saturating_mul(of.top_k() as u64);
                let rows = chosen.div_ceil(of.experts.max(1) as u64);
                let shared = of.shared.map_or(0, |shared| values(shared.inter, tokens));
                values(of.inter, rows).max(shared)
            }
        }
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

    /// Number of values of a token that the attention's backward pass has beside those that are kept: queries, keys, values and the gradient of
    /// what heads give, head by head; keys twice and values packed for products; the gradients of queries, keys and values; and before their sum
    /// for each key head those that each query head has of its keys and values.
    fn passing(&self) -> usize {
        let copies = self.heads_in() + self.heads_out();
        let packed = self.kv_heads * (2 * self.head_dim + self.value_dim);
        let of_query_heads = self.heads * (self.head_dim + self.value_dim);
        copies + packed + self.heads_in() + of_query_heads
    }

    /// Number of values of a token that a training keeps of the attention: queries, keys and values, those that norms read and made of them,
    /// what heads give, by head and by token, and the log-sum-exp of each head.
    fn kept(&self) -> usize {
        let before = match &self.projection {
            Projection::Direct { clip, .. } => clip.map_or(0, |_| self.heads_in()),
            Projection::Latent {
                query_rank,
                rank,
                rotated,
                ..
            } => {
                // What the norms of both narrow vectors give; the rotated elements of the keys beside the one; and beside the values, which
                // are a view of their product, the elements of the keys that aren't rotated, which keys are a copy of.
                let still = self.head_dim - rotated;
                query_rank.unwrap_or(0) + rank + rotated + self.heads * still
            }
        };
        self.kept_by_norms() + before + self.heads_in() + 2 * self.heads_out() + self.heads
    }

    /// Those of the values that norms of queries and keys, or of both narrow vectors, read and divide.
    fn kept_by_norms(&self) -> usize {
        let normed = (self.heads + self.kv_heads) * self.head_dim;
        match &self.projection {
            Projection::Direct { norm, .. } => match norm {
                HeadNorm::None => 0,
                HeadNorm::Unit => normed,
                HeadNorm::Head | HeadNorm::All | HeadNorm::Turned => 2 * normed,
            },
            Projection::Latent {
                query_rank, rank, ..
            } => 2 * query_rank.unwrap_or(0) + 2 * rank,
        }
    }
}

#[cfg(test)]
#[path = "footprint_tests.rs"]
mod tests;

//! Speculative decoding: tokens that are proposed cheaply, and verified by the model together.
//!
//! A proposal costs nothing but time. The model computes a request's last token and the proposed ones in one step, and a token is chosen from
//! the logits after each of them, as if they had been computed one by one: a draw is a pure function of the options, the token's index, the
//! tokens before it and the logits ([`Sampling::sample`](crate::Sampling::sample)). As long as the chosen token is the proposed one, the next
//! logits are those of the request's own text, and count; the first other token is the request's next, and what was computed behind it is
//! forgotten. So the tokens and their probabilities are those without proposals, drawn ones, too. No token is accepted by chance, as in
//! rejection sampling (Leviathan et al., 2023), which keeps the distribution, but not the tokens.
//!
//! Proposals come from n-grams of the text ([`Ngrams`]), or from a smaller model, the draft, which draws them with the request's own options
//! and the random numbers of the tokens' places, so that two models of similar probabilities mostly draw the same. Neither knows what a
//! request's constraint allows: a proposed token that it forbids is never the chosen one, and so rejected like any other.

mod draft;
mod ngrams;

pub(crate) use draft::Draft;
pub use ngrams::Ngrams;

use crate::sampler::{History, Sampling};
use crate::schedule::RequestId;

/// Counts of proposed tokens since an engine's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Proposals {
    /// Tokens that were proposed and computed.
    pub proposed: u64,
    /// Tokens of `proposed` that requests got.
    pub accepted: u64,
}

/// A request that has room for proposed tokens.
pub(crate) struct Ask<'a> {
    pub(crate) request: RequestId,
    /// Prompt and answer so far.
    pub(crate) text: &'a [u32],
    /// Largest number of tokens to propose, at least 1.
    pub(crate) room: usize,
    /// Index of the next generated token.
    pub(crate) index: usize,
    pub(crate) sampling: &'a Sampling,
    pub(crate) history: &'a History,
    /// Salt of the keys of pages, see [`Request::salt`](crate::Request::salt).
    pub(crate) salt: &'a [u8],
}

/// A way to propose tokens.
#[derive(Debug)]
pub(crate) enum Proposer {
    Ngrams(Ngrams),
    Draft(Box<Draft>),
}

impl Proposer {
    /// Largest number of tokens that are proposed for a request in a step.
    pub(crate) fn tokens(&self) -> usize {
        match self {
            Self::Ngrams(ngrams) => ngrams.tokens(),
            Self::Draft(draft) => draft.tokens(),
        }
    }

    /// Bytes that a model which proposes tokens keeps of texts.
    pub(crate) fn cache_bytes(&self) -> usize {
        match self {
            Self::Ngrams(_) => 0,
            Self::Draft(draft) => draft.cache_bytes(),
        }
    }

    /// Proposes tokens for each of `asks`, in their order, no more than there is room for. Requests that aren't `alive` are forgotten.
    ///
    /// # Errors
    /// The errors of the draft model and its device.
    pub(crate) fn propose(
        &mut self,
        asks: &[Ask<'_>],
        alive: &dyn Fn(RequestId) -> bool,
    ) -> Result<Vec<Vec<u32>>, moebius_model::Error> {
        match self {
            Self::Ngrams(ngrams) => {
                let proposed = asks.iter().map(|ask| ngrams.propose(ask.text, ask.room));
                Ok(proposed.collect())
            }
            Self::Draft(draft) => {
                draft.forget(alive);
                draft.propose(asks)
            }
        }
    }

    /// Lets caches grow again, as memory may have become free.
    pub(crate) fn try_again(&mut self) {
        if let Self::Draft(draft) = self {
            draft.try_again();
        }
    }
}

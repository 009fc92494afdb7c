//! What is computed at once, and what comes of it.

use std::collections::HashMap;
use std::ops::Range;

use super::request::RequestId;

/// What is computed at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// Parts of requests, in the order in which those came. Empty only where there is no request.
    pub work: Vec<Work>,
    /// Requests that begin, or begin again, with this step.
    pub admitted: Vec<RequestId>,
    /// Requests that had to give up their pages and wait for others.
    pub preempted: Vec<RequestId>,
}

/// A part of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    /// The request.
    pub request: RequestId,
    /// The places in its sequence that are computed: what is before them is in the pages.
    pub positions: Range<usize>,
    /// The tokens at these places.
    pub tokens: Vec<u32>,
    /// The pages of the sequence up to the last of these places. Only those of `positions` are written, and no other request has these. Between
    /// steps a full page may be replaced by another one that holds the same.
    pub pages: Vec<u32>,
    /// The logits of the last place choose a token: that at this place among those that are generated, from 0.
    pub samples: Option<usize>,
}

/// The token that was chosen for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampled {
    /// The request.
    pub request: RequestId,
    /// The token.
    pub token: u32,
    /// Whether the text ends with it.
    pub last: bool,
}

impl Sampled {
    /// A token that more may follow.
    pub fn new(request: RequestId, token: u32) -> Self {
        Self {
            request,
            token,
            last: false,
        }
    }

    /// A token that the text ends with.
    pub fn last(request: RequestId, token: u32) -> Self {
        Self {
            last: true,
            ..Self::new(request, token)
        }
    }
}

/// Steps and their results that don't fit together. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StepError {
    /// The step before isn't complete.
    #[error("next step: expected the one before to be complete, got one that is under way")]
    UnderWay,
    /// No step is under way.
    #[error("results: expected a step that is under way, got none")]
    NoStep,
    /// A token is missing.
    #[error("results: expected a token of request {}, got none", .0.0)]
    Missing(RequestId),
    /// A token too many: the request has one already, or chooses none in this step.
    #[error("results: expected tokens that the step chooses, got one of request {} that it doesn't", .0.0)]
    Unexpected(RequestId),
}

/// What is remembered of a part while it is computed.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnderWay {
    pub(super) id: RequestId,
    /// One past its last place.
    pub(super) end: usize,
    pub(super) samples: bool,
}

/// The tokens by their requests, if they are those that a step chooses. Requests that were `cancelled` meanwhile may have one.
pub(super) fn pair(
    parts: &[UnderWay],
    sampled: &[Sampled],
    cancelled: impl Fn(RequestId) -> bool,
) -> Result<HashMap<RequestId, Sampled>, StepError> {
    let mut tokens = HashMap::new();
    for token in sampled {
        if tokens.insert(token.request, *token).is_some() {
            return Err(StepError::Unexpected(token.request));
        }
    }
    let choosing = || parts.iter().filter(|part| part.samples);
    let missing = |part: &&UnderWay| !tokens.contains_key(&part.id) && !cancelled(part.id);
    if let Some(part) = choosing().find(missing) {
        return Err(StepError::Missing(part.id));
    }
    let choosing: HashMap<_, _> = choosing().map(|part| (part.id, part)).collect();
    match sampled
        .iter()
        .find(|token| !choosing.contains_key(&token.request))
    {
        Some(token) => Err(StepError::Unexpected(token.request)),
        None => Ok(tokens),
    }
}

//! What a scheduler is asked for and what it gives: limits, requests, and steps with what comes of them.

use std::collections::HashMap;
use std::ops::Range;

use moebius_ops::{Fault, Mismatch};

use crate::pages::{PAGE, PageKey};

/// How much a scheduler may give out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Pages of the cache, of [`PAGE`] tokens, 1 to 2³⁰.
    pub pages: usize,
    /// Tokens that a step computes at most, no fewer than `running`.
    pub batch_tokens: usize,
    /// Requests that have pages at the same time, at least 1.
    pub running: usize,
    /// Tokens of a request at most, those that are to be generated included.
    pub longest: usize,
}

impl Limits {
    /// With requests that are as long as all pages together.
    pub fn new(pages: usize, batch_tokens: usize, running: usize) -> Self {
        Self {
            pages,
            batch_tokens,
            running,
            longest: pages.saturating_mul(PAGE),
        }
    }

    /// Pages that no new request gets while others run, so that those can grow: one in a hundred, rounded up.
    pub(super) fn reserve(&self) -> usize {
        self.pages.div_ceil(100)
    }

    pub(super) fn check(&self) -> Result<(), Mismatch> {
        let pages = (1..=1 << 30).contains(&self.pages);
        Fault::Config.unless(pages, "pages", "1 to 2^30", self.pages)?;
        Fault::Config.unless(self.running > 0, "running", "at least 1", self.running)?;
        // Otherwise those that are last in a batch would not go on until others ended.
        let all_go_on = self.batch_tokens >= self.running;
        let expected = format_args!("at least one for each of {} requests", self.running);
        Fault::Config.unless(all_go_on, "batch_tokens", expected, self.batch_tokens)?;
        Fault::Config.unless(self.longest > 0, "longest", "at least 1", self.longest)
    }

    /// Whether a request could run if it were alone.
    pub(super) fn admit(&self, request: &Request) -> Result<(), Refused> {
        let id = request.id;
        if request.prompt.is_empty() || request.most_new == 0 {
            return Err(Refused::Nothing {
                id,
                prompt: request.prompt.len(),
                most_new: request.most_new,
            });
        }
        let tokens = request.prompt.len().saturating_add(request.most_new);
        if tokens > self.longest {
            return Err(Refused::TooLong {
                id,
                tokens,
                longest: self.longest,
            });
        }
        let needed = request.most_computed().div_ceil(PAGE);
        if needed > self.pages {
            Err(Refused::TooManyPages {
                id,
                needed,
                pages: self.pages,
            })
        } else {
            Ok(())
        }
    }
}

/// Why a request can't be taken, now or ever.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// A request of this name is there.
    #[error("request {}: expected a new name, got one that is in use", .id.0)]
    Known {
        /// Its name.
        id: RequestId,
    },
    /// Its prompt is empty, or it wants no token.
    #[error("request {}: expected at least one token and one to generate, got {prompt} and {most_new}", .id.0)]
    Nothing {
        /// Its name.
        id: RequestId,
        /// Tokens of the prompt.
        prompt: usize,
        /// Tokens to generate at most.
        most_new: usize,
    },
    /// It has more tokens than a request may.
    #[error("request {}: expected at most {longest} tokens with those to generate, got {tokens}", .id.0)]
    TooLong {
        /// Its name.
        id: RequestId,
        /// Tokens of prompt and text.
        tokens: usize,
        /// What [`Limits::longest`] allows.
        longest: usize,
    },
    /// It needs more pages than there are.
    #[error("request {}: expected at most the {pages} pages of the cache, got {needed}", .id.0)]
    TooManyPages {
        /// Its name.
        id: RequestId,
        /// Pages it needs.
        needed: usize,
        /// All pages.
        pages: usize,
    },
}

/// The name of a request, which whoever adds it chooses. No two requests that are there have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// A prompt to go on with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Its name.
    pub id: RequestId,
    /// The prompt, at least one token.
    pub prompt: Vec<u32>,
    /// Tokens to generate at most, at least one.
    pub most_new: usize,
    /// Requests find each other's pages only if this is the same: the model, and what tells apart clients that must not learn from
    /// the time an answer takes what others asked.
    pub salt: Vec<u8>,
}

impl Request {
    /// With an empty salt.
    pub fn new(id: RequestId, prompt: Vec<u32>, most_new: usize) -> Self {
        Self {
            id,
            prompt,
            most_new,
            salt: Vec::new(),
        }
    }

    /// With this salt.
    pub fn with_salt(mut self, salt: impl Into<Vec<u8>>) -> Self {
        self.salt = salt.into();
        self
    }

    /// The most tokens whose keys and values it has: the last one that is generated is never computed.
    fn most_computed(&self) -> usize {
        self.prompt.len().saturating_add(self.most_new) - 1
    }
}

/// A request that waits or runs. There are no phases: of its tokens, some are computed.
#[derive(Clone, Debug)]
pub(super) struct Sequence {
    pub(super) id: RequestId,
    /// The prompt, and what was generated.
    pub(super) tokens: Vec<u32>,
    /// Tokens of the prompt.
    prompt: usize,
    most_new: usize,
    /// Tokens from the first whose keys and values are in `pages`.
    pub(super) computed: usize,
    /// Those of its tokens in order; none while it waits.
    pub(super) pages: Vec<u32>,
    root: PageKey,
    /// Of its first full pages.
    keys: Vec<PageKey>,
    /// Whether it had pages before.
    pub(super) ran: bool,
    /// It ends as soon as the step that it is in has.
    pub(super) cancelled: bool,
}

impl Sequence {
    pub(super) fn new(request: Request) -> Self {
        Self {
            id: request.id,
            prompt: request.prompt.len(),
            tokens: request.prompt,
            most_new: request.most_new,
            computed: 0,
            pages: Vec::new(),
            root: PageKey::root(&request.salt),
            keys: Vec::new(),
            ran: false,
            cancelled: false,
        }
    }

    /// Tokens that were generated.
    pub(super) fn generated(&self) -> usize {
        self.tokens.len() - self.prompt
    }

    pub(super) fn is_complete(&self) -> bool {
        self.generated() >= self.most_new
    }

    /// The keys of its first full pages, so many.
    pub(super) fn keys(&mut self, pages: usize) -> &[PageKey] {
        for page in self.keys.len()..pages {
            let before = self.keys.last().unwrap_or(&self.root);
            let key = before.after(&self.tokens[page * PAGE..][..PAGE]);
            self.keys.push(key);
        }
        &self.keys[..pages]
    }
}

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

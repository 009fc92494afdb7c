//! Input and output of a scheduler: limits, requests, steps and their results.

use std::collections::HashMap;
use std::ops::Range;

use moebius_ops::{Fault, Mismatch};

use crate::pages::{PAGE, PageKey};

/// Limits of a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Number of pages of the cache, each of [`PAGE`] tokens, 1 to 2³⁰.
    pub pages: usize,
    /// Largest number of tokens of a step, at least `running`.
    pub batch_tokens: usize,
    /// Largest number of requests that run (have pages) at the same time, at least 1.
    pub running: usize,
    /// Largest number of tokens of a request, prompt and answer.
    pub longest: usize,
}

impl Limits {
    /// Limits with which a request may be as long as all pages together.
    pub fn new(pages: usize, batch_tokens: usize, running: usize) -> Self {
        Self {
            pages,
            batch_tokens,
            running,
            longest: pages.saturating_mul(PAGE),
        }
    }

    /// Number of pages that no new request gets while others run, so that those can grow: one in a hundred, rounded up.
    pub(super) fn reserve(&self) -> usize {
        self.pages.div_ceil(100)
    }

    pub(crate) fn check(&self) -> Result<(), Mismatch> {
        let pages = (1..=1 << 30).contains(&self.pages);
        Fault::Config.unless(pages, "pages", "1 to 2^30", self.pages)?;
        Fault::Config.unless(self.running > 0, "running", "at least 1", self.running)?;
        // With fewer tokens, the last requests of a batch would wait until others end.
        let all_go_on = self.batch_tokens >= self.running;
        let expected = format_args!("at least one for each of {} requests", self.running);
        Fault::Config.unless(all_go_on, "batch_tokens", expected, self.batch_tokens)?;
        Fault::Config.unless(self.longest > 0, "longest", "at least 1", self.longest)
    }

    /// Checks that a request could run if it were alone.
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

/// Why a request was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// A request with the same id exists.
    #[error("request {}: expected a new name, got one that is in use", .id.0)]
    Known {
        /// Id of the request.
        id: RequestId,
    },
    /// The prompt is empty, or no token is to be generated.
    #[error("request {}: expected at least one token and one to generate, got {prompt} and {most_new}", .id.0)]
    Nothing {
        /// Id of the request.
        id: RequestId,
        /// Number of prompt tokens.
        prompt: usize,
        /// Largest number of tokens to generate.
        most_new: usize,
    },
    /// The request has more tokens than allowed.
    #[error("request {}: expected at most {longest} tokens with those to generate, got {tokens}", .id.0)]
    TooLong {
        /// Id of the request.
        id: RequestId,
        /// Tokens of prompt and answer.
        tokens: usize,
        /// Limit of [`Limits::longest`].
        longest: usize,
    },
    /// The request needs more pages than the cache has.
    #[error("request {}: expected at most the {pages} pages of the cache, got {needed}", .id.0)]
    TooManyPages {
        /// Id of the request.
        id: RequestId,
        /// Number of pages that the request needs.
        needed: usize,
        /// Number of pages in the cache.
        pages: usize,
    },
}

/// Id of a request, chosen by the caller. Ids of existing requests must be unique.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// A request to continue a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Id of the request.
    pub id: RequestId,
    /// Tokens of the prompt, at least one.
    pub prompt: Vec<u32>,
    /// Largest number of tokens to generate, at least 1.
    pub most_new: usize,
    /// Salt of the page keys: only requests with equal salts share pages. It separates models, and clients that must not learn from
    /// response times what others asked.
    pub salt: Vec<u8>,
}

impl Request {
    /// A request with an empty salt.
    pub fn new(id: RequestId, prompt: Vec<u32>, most_new: usize) -> Self {
        Self {
            id,
            prompt,
            most_new,
            salt: Vec::new(),
        }
    }

    /// This request with the given salt.
    pub fn with_salt(mut self, salt: impl Into<Vec<u8>>) -> Self {
        self.salt = salt.into();
        self
    }

    /// Largest number of tokens whose keys and values are computed: all but the last generated one.
    fn most_computed(&self) -> usize {
        self.prompt.len().saturating_add(self.most_new) - 1
    }
}

/// A waiting or running request. It has no phases, only tokens of which some are computed.
#[derive(Clone, Debug)]
pub(super) struct Sequence {
    pub(super) id: RequestId,
    /// Tokens of the prompt, and generated tokens.
    pub(super) tokens: Vec<u32>,
    /// Number of prompt tokens.
    prompt: usize,
    pub(super) most_new: usize,
    /// Number of tokens from the first whose keys and values are in `pages`.
    pub(super) computed: usize,
    /// Pages of the tokens in order; empty while the request waits.
    pub(super) pages: Vec<u32>,
    root: PageKey,
    /// Keys of the first full pages.
    keys: Vec<PageKey>,
    /// Whether the request has run before.
    pub(super) ran: bool,
    /// Whether the request ends as soon as the step under way is complete.
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

    /// Number of generated tokens.
    pub(super) fn generated(&self) -> usize {
        self.tokens.len() - self.prompt
    }

    pub(super) fn is_complete(&self) -> bool {
        self.generated() >= self.most_new
    }

    /// The keys of the first `pages` full pages.
    pub(super) fn keys(&mut self, pages: usize) -> &[PageKey] {
        for page in self.keys.len()..pages {
            let before = self.keys.last().unwrap_or(&self.root);
            let key = before.after(&self.tokens[page * PAGE..][..PAGE]);
            self.keys.push(key);
        }
        &self.keys[..pages]
    }
}

/// A step: tokens that are computed together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// Parts of requests, in the order of the requests' arrival. Empty only if there are no requests.
    pub work: Vec<Work>,
    /// Requests that begin, or begin again, in this step.
    pub admitted: Vec<RequestId>,
    /// Requests that gave up their pages and wait again.
    pub preempted: Vec<RequestId>,
}

/// A part of a request to compute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    /// Id of the request.
    pub request: RequestId,
    /// Positions in the sequence to compute; everything before them is in the pages.
    pub positions: Range<usize>,
    /// Tokens at these positions.
    pub tokens: Vec<u32>,
    /// Pages of the sequence up to the last of these positions, and of the `room` behind them. Only the pages from the first of `positions`
    /// on are written, and no other request has them. Between steps a full page may be replaced by another one with the same contents.
    pub pages: Vec<u32>,
    /// Index (from 0) of the generated token that the logits of the last position choose, or of the last one before the proposed tokens;
    /// `None` where more of its tokens follow.
    pub samples: Option<usize>,
    /// Number of tokens that [`Work::propose`] may still add.
    pub room: usize,
    /// Number of the last of `tokens` that are proposed; 0 in a step that the scheduler has just made.
    pub proposed: usize,
}

impl Work {
    /// Adds the first of `tokens`, as many as there is room for, as a proposal of the request's next tokens. They are computed with the step,
    /// and the logits before each of them and of the last choose tokens, in order, as long as the chosen tokens are the proposed ones: see
    /// [`Scheduler::complete`](super::Scheduler::complete).
    pub fn propose(&mut self, tokens: &[u32]) {
        let taken = &tokens[..tokens.len().min(self.room)];
        self.tokens.extend(taken);
        self.positions.end += taken.len();
        self.proposed += taken.len();
        self.room -= taken.len();
    }

    /// The proposed tokens.
    pub fn proposal(&self) -> &[u32] {
        &self.tokens[self.tokens.len() - self.proposed..]
    }
}

/// A token that was chosen for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampled {
    /// Id of the request.
    pub request: RequestId,
    /// Id of the token.
    pub token: u32,
    /// Whether the token ends the answer.
    pub last: bool,
}

impl Sampled {
    /// A token that others may follow.
    pub fn new(request: RequestId, token: u32) -> Self {
        Self {
            request,
            token,
            last: false,
        }
    }

    /// A token that ends the answer.
    pub fn last(request: RequestId, token: u32) -> Self {
        Self {
            last: true,
            ..Self::new(request, token)
        }
    }
}

/// A call that doesn't fit the present step. It has no effect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StepError {
    /// The previous step is neither completed nor abandoned.
    #[error("next step: expected the one before to be complete, got one that is under way")]
    UnderWay,
    /// No step is under way.
    #[error("results: expected a step that is under way, got none")]
    NoStep,
    /// The token of a request is missing.
    #[error("results: expected a token of request {}, got none", .0.0)]
    Missing(RequestId),
    /// A token is unexpected: its request chooses no token, or no further one, in this step.
    #[error("results: expected tokens that the step chooses, got one of request {} that it doesn't", .0.0)]
    Unexpected(RequestId),
}

/// The data of a part that is kept while the step is under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnderWay {
    pub(super) id: RequestId,
    /// End of the positions of the part, exclusive, without those of proposed tokens.
    pub(super) end: usize,
    pub(super) samples: bool,
    /// Number of tokens that there is room for behind the part.
    pub(super) room: usize,
}

/// Maps each request to its chosen tokens, in order, and checks that the tokens match the step. Requests that were `cancelled` meanwhile may
/// have tokens.
pub(super) fn pair(
    parts: &[UnderWay],
    sampled: &[Sampled],
    cancelled: impl Fn(RequestId) -> bool,
) -> Result<HashMap<RequestId, Vec<Sampled>>, StepError> {
    let choosing = || parts.iter().filter(|part| part.samples);
    let most: HashMap<_, _> = choosing().map(|part| (part.id, part.room + 1)).collect();
    let mut tokens = HashMap::<_, Vec<Sampled>>::new();
    for token in sampled {
        let before = tokens.entry(token.request).or_default();
        let full = before.len() >= most.get(&token.request).copied().unwrap_or(1);
        if full || before.iter().any(|before| before.last) {
            return Err(StepError::Unexpected(token.request));
        }
        before.push(*token);
    }
    let missing = |part: &&UnderWay| !tokens.contains_key(&part.id) && !cancelled(part.id);
    if let Some(part) = choosing().find(missing) {
        return Err(StepError::Missing(part.id));
    }
    match sampled
        .iter()
        .find(|token| !most.contains_key(&token.request))
    {
        Some(token) => Err(StepError::Unexpected(token.request)),
        None => Ok(tokens),
    }
}

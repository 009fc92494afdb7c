//! What there is room for.

use moebius_ops::{Fault, Mismatch};

use super::request::{Request, RequestId};
use crate::pages::PAGE;

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

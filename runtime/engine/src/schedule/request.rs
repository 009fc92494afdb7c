//! A request, and how far it is.

use crate::pages::{PAGE, PageKey};

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
    pub(super) fn most_computed(&self) -> usize {
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

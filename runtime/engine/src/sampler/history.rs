//! What penalties look at.

use std::collections::HashMap;

/// The tokens of a prompt and of the text that was generated after it, counted: what penalties look at.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// How often each id was generated; 0 for those that only the prompt has.
    counts: HashMap<u32, u32>,
}

impl History {
    /// That of a prompt, with nothing generated.
    pub fn new(prompt: &[u32]) -> Self {
        let counts = prompt.iter().map(|&id| (id, 0)).collect();
        Self { counts }
    }

    /// Counts a token that was generated.
    pub fn push(&mut self, id: u32) {
        *self.counts.entry(id).or_default() += 1;
    }

    /// The ids, each once and in no order, and how often each was generated.
    pub(super) fn counts(&self) -> impl Iterator<Item = (u32, u32)> {
        self.counts.iter().map(|(&id, &count)| (id, count))
    }
}

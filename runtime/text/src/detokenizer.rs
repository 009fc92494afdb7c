//! Ids to text, one by one.

use std::fmt;

use crate::stages::Stages;
use crate::{Error, Tokenizer};

/// Makes text of ids as they come. All that it gives, joined, is [`Tokenizer::decode`] of all ids at once, whatever they are; text
/// is given once no later id can change it, so a character of several ids comes with the last of them.
///
/// A push takes time for its own id only. Vocabularies that spell unknown characters as bytes (`<0xE5>`) are decoded by whole runs
/// of such bytes, which a run of invalid ones takes back, so there a run comes with the id after it.
#[derive(Clone)]
pub struct Detokenizer {
    tokenizer: Tokenizer,
    stages: Stages,
    skip_special: bool,
}

impl Detokenizer {
    /// Starts a text. Special tokens are left out of it if `skip_special`.
    pub fn new(tokenizer: &Tokenizer, skip_special: bool) -> Self {
        Self {
            tokenizer: tokenizer.clone(),
            stages: tokenizer.stages(),
            skip_special,
        }
    }

    /// What can be said now that `id` came: often nothing, for an id that ends a character or a run all that was held back.
    ///
    /// # Errors
    /// [`Error::UnknownId`] for an id without a token. The text goes on as if it hadn't come.
    pub fn push(&mut self, id: u32) -> Result<String, Error> {
        let mut text = String::new();
        if let Some(token) = self.tokenizer.visible(id, self.skip_special)? {
            self.stages.push(token, &mut text)?;
        }
        Ok(text)
    }

    /// The rest of the text: what was held back, with U+FFFD in place of a character that never became complete.
    ///
    /// # Errors
    /// [`Error::Decode`] where a pattern of the tokenizer fails on the rest.
    pub fn finish(mut self) -> Result<String, Error> {
        let mut text = String::new();
        self.stages.finish(&mut text)?;
        Ok(text)
    }
}

impl fmt::Debug for Detokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Detokenizer")
            .field("tokenizer", &self.tokenizer)
            .field("skip_special", &self.skip_special)
            .finish_non_exhaustive()
    }
}

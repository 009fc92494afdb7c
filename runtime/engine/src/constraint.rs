//! What restricts the tokens of an answer, one by one.

use std::fmt;

/// A restriction of an answer, such as a grammar: which tokens may come next, and when the answer is complete.
///
/// A constraint belongs to one request. The engine asks it before each draw and tells it the drawn token, once and in order, also where
/// tokens are proposed or where the request gives its pages up meanwhile. What it allows must depend on the tokens alone that it was told.
pub trait Constraint: fmt::Debug + Send {
    /// The tokens that may come next, at least one.
    ///
    /// # Errors
    /// [`ConstraintError`] if they can't be found within the constraint's own limits; the answer then ends.
    fn allowed(&mut self) -> Result<Allowed, ConstraintError>;

    /// Takes the next token of the answer, one of those that were allowed, and returns whether the answer is complete with it.
    ///
    /// # Errors
    /// As [`Constraint::allowed`], and for a token that wasn't allowed.
    fn push(&mut self, id: u32) -> Result<bool, ConstraintError>;

    /// A constraint in the same state, which shares nothing with this one.
    fn copied(&self) -> Box<dyn Constraint>;
}

impl Clone for Box<dyn Constraint> {
    fn clone(&self) -> Self {
        (**self).copied()
    }
}

/// A set of tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowed(Vec<u32>);

/// Number of tokens of a word.
const WORD: u32 = u32::BITS;

impl Allowed {
    /// The set of the ids whose bits are set: that of the id n is bit n mod 32 of word n / 32. Ids beyond the words aren't in it.
    pub fn from_words(words: Vec<u32>) -> Self {
        Self(words)
    }

    /// Whether a token is in the set.
    pub fn contains(&self, id: u32) -> bool {
        let word = self.0.get((id / WORD) as usize);
        word.is_some_and(|word| (word >> (id % WORD)) & 1 == 1)
    }
}

impl FromIterator<u32> for Allowed {
    /// The set of these ids.
    fn from_iter<I: IntoIterator<Item = u32>>(ids: I) -> Self {
        let mut words = Vec::new();
        for id in ids {
            let word = (id / WORD) as usize;
            words.resize(words.len().max(word + 1), 0);
            words[word] |= 1 << (id % WORD);
        }
        Self(words)
    }
}

/// Why a constraint can't go on, as a text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConstraintError(String);

impl ConstraintError {
    /// The error with this text.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_bits_of_words() {
        let set: Allowed = [0, 31, 32, 70].into_iter().collect();
        assert_eq!(set, Allowed::from_words(vec![1 | 1 << 31, 1, 1 << 6]));
        let ids: Vec<u32> = (0..200).filter(|id| set.contains(*id)).collect();
        assert_eq!(ids, [0, 31, 32, 70]);
        assert!(!set.contains(u32::MAX) && !Allowed::default().contains(0));
    }
}

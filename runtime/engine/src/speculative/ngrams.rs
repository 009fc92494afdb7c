//! Proposals by n-grams: what followed the last tokens of a text where they occurred before.

use moebius_ops::{Fault, Mismatch};

/// A proposer that looks the last tokens of a text up in the text itself (prompt lookup; Saxena, 2023). It costs no computation of a model,
/// and helps where texts repeat themselves: in summaries, code and conversations about a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ngrams {
    longest: usize,
    tokens: usize,
}

impl Default for Ngrams {
    /// Up to 4 tokens are looked up, and up to 4 proposed.
    fn default() -> Self {
        Self {
            longest: 4,
            tokens: 4,
        }
    }
}

impl Ngrams {
    /// A proposer that looks up to `longest` tokens up, and proposes up to `tokens` tokens.
    ///
    /// # Errors
    /// [`Mismatch`] for numbers of 0.
    pub fn new(longest: usize, tokens: usize) -> Result<Self, Mismatch> {
        for (what, number) in [
            ("tokens that n-grams look up", longest),
            ("tokens that n-grams propose", tokens),
        ] {
            Fault::Config.unless(number > 0, what, "at least 1", number)?;
        }
        Ok(Self { longest, tokens })
    }

    /// Largest number of tokens that are looked up.
    pub fn longest(&self) -> usize {
        self.longest
    }

    /// Largest number of tokens that are proposed.
    pub fn tokens(&self) -> usize {
        self.tokens
    }

    /// Proposes up to `most` tokens after `text`: those that followed the longest of its ends that occurs earlier in it, at the last of these
    /// places. Where they reach the end of the text, they go on with themselves. Empty if the last token occurs nowhere else.
    ///
    /// The time is linear in the length of the text, times [`longest`](Self::longest) at most.
    ///
    /// ```
    /// let ngrams = moebius_engine::Ngrams::new(3, 4)?;
    /// assert_eq!(ngrams.propose(&[7, 1, 2, 3, 9, 2, 3, 8, 1, 2, 3], 2), [9, 2]);
    /// assert_eq!(ngrams.propose(&[5, 1, 2, 1, 2], 9), [1, 2, 1, 2]);
    /// assert!(ngrams.propose(&[1, 2, 3], 4).is_empty());
    /// # Ok::<(), moebius_ops::Mismatch>(())
    /// ```
    pub fn propose(&self, text: &[u32], most: usize) -> Vec<u32> {
        let Some(after) = self.found(text) else {
            return Vec::new();
        };
        let mut proposed: Vec<u32> = Vec::new();
        for at in after..after + most.min(self.tokens) {
            let known = text.get(at).or_else(|| proposed.get(at - text.len()));
            let known = known.copied();
            proposed.extend(known);
        }
        proposed
    }

    /// The place behind the last earlier occurrence of the longest end of `text` that has one.
    fn found(&self, text: &[u32]) -> Option<usize> {
        let (mut best, mut found) = (0, None);
        for after in (1..text.len()).rev() {
            let before = text[..after].iter().rev();
            let ends = before.zip(text.iter().rev()).take(self.longest);
            let same = ends.take_while(|(one, other)| one == other).count();
            if same > best {
                (best, found) = (same, Some(after));
            }
            if best == self.longest {
                break;
            }
        }
        found
    }
}

//! The text of an answer, token by token: ids to text, stop strings, and both together.

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
    /// [`Error::Decode`] where a pattern of the tokenizer fails.
    pub fn push(&mut self, id: u32) -> Result<String, Error> {
        let mut text = String::new();
        if let Some(token) = self.tokenizer.visible(id, self.skip_special) {
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

/// Looks for stop strings in a text that comes in pieces. The text ends before the stop string that is complete first, and before the
/// longest if several are at the same place. What could be the start of one is held back, and no more than that.
#[derive(Clone, Debug)]
pub struct StopStrings {
    stops: Vec<Stop>,
    /// The end of the text so far, as long as the longest start of a stop string that it ends with.
    held: String,
    found: Option<usize>,
}

/// A stop string, and how far it is found.
#[derive(Clone, Debug)]
struct Stop {
    text: String,
    /// For each length of a start of the text: the length of the longest shorter one that it ends with (Knuth, Morris and Pratt).
    fallback: Vec<usize>,
    /// The bytes at the end of the text so far that are a start of this stop string.
    matched: usize,
}

/// What of a text is sure after a push.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    /// What comes next in the text.
    pub text: String,
    /// The stop string that ended the text, by its place in the list.
    pub stop: Option<usize>,
}

impl StopStrings {
    /// Looks for these strings; an empty list ends nothing.
    ///
    /// # Errors
    /// [`Error::Unfit`] for an empty string, which would end every text before its start.
    pub fn new<S: Into<String>>(stops: impl IntoIterator<Item = S>) -> Result<Self, Error> {
        let stops = stops.into_iter().enumerate().map(|(i, stop)| {
            let text: String = stop.into();
            if text.is_empty() {
                Err(Error::unfit(
                    format!("stop string {i}"),
                    "a text",
                    "an empty one",
                ))
            } else {
                Ok(Stop::new(text))
            }
        });
        Ok(Self {
            stops: stops.collect::<Result<_, _>>()?,
            held: String::new(),
            found: None,
        })
    }

    /// Takes the next piece of the text. After a stop string was found, all that comes is dropped.
    pub fn push(&mut self, text: &str) -> Piece {
        if self.found.is_some() {
            return self.piece(String::new());
        }
        let before = self.held.len();
        self.held.push_str(text);
        for (i, byte) in text.bytes().enumerate() {
            for stop in &mut self.stops {
                stop.step(byte);
            }
            let complete = self
                .stops
                .iter()
                .enumerate()
                .filter(|(_, stop)| stop.is_complete());
            // Of equal ones the first: `max_by_key` alone would take the last.
            if let Some((found, stop)) = complete.rev().max_by_key(|(_, stop)| stop.text.len()) {
                let end = before + i + 1;
                self.held.truncate(end - stop.text.len());
                self.found = Some(found);
                let sure = std::mem::take(&mut self.held);
                return self.piece(sure);
            }
        }
        let keep = self
            .stops
            .iter()
            .map(|stop| stop.matched)
            .max()
            .unwrap_or(0);
        // Starts of stop strings start where a character does, so this cuts no character.
        let held = self.held.split_off(self.held.len() - keep);
        let sure = std::mem::replace(&mut self.held, held);
        self.piece(sure)
    }

    /// What is held back, once no more comes: it was no stop string after all.
    pub fn finish(self) -> String {
        self.held
    }

    fn piece(&self, text: String) -> Piece {
        let stop = self.found;
        Piece { text, stop }
    }
}

impl Stop {
    fn new(text: String) -> Self {
        let mut stop = Self {
            fallback: vec![0; text.len() + 1],
            text,
            matched: 0,
        };
        for length in 2..=stop.text.len() {
            stop.step(stop.text.as_bytes()[length - 1]);
            stop.fallback[length] = stop.matched;
        }
        stop.matched = 0;
        stop
    }

    /// Goes on with the next byte of a text. Not after the stop string was complete.
    fn step(&mut self, byte: u8) {
        let text = self.text.as_bytes();
        while self.matched > 0 && text[self.matched] != byte {
            self.matched = self.fallback[self.matched];
        }
        if text[self.matched] == byte {
            self.matched += 1;
        }
    }

    fn is_complete(&self) -> bool {
        self.matched == self.text.len()
    }
}

/// Makes text of the tokens of an answer, up to the first stop string. Whoever shows an answer takes it from here, so that
/// all agree on where it ends and why.
pub struct TextStream {
    /// Until the answer ends.
    detokenizer: Option<Detokenizer>,
    stops: StopStrings,
}

impl TextStream {
    /// Starts an answer without its special tokens.
    pub fn new(tokenizer: &Tokenizer, stops: StopStrings) -> Self {
        Self {
            detokenizer: Some(Detokenizer::new(tokenizer, true)),
            stops,
        }
    }

    /// The text that is sure now that `id` came; a stop string in the piece ends the answer. Nothing after the end.
    ///
    /// # Errors
    /// [`Error::Decode`] where a pattern of the tokenizer fails.
    pub fn push(&mut self, id: u32) -> Result<Piece, Error> {
        let Some(detokenizer) = &mut self.detokenizer else {
            return Ok(Piece::default());
        };
        let text = detokenizer.push(id)?;
        Ok(self.stops.push(&text))
    }

    /// Ends the answer: the text that was held back. It may complete a stop string, which the piece then names: such an
    /// answer ended by that string, whatever ended its tokens.
    ///
    /// # Errors
    /// [`Error::Decode`] where a pattern of the tokenizer fails on the rest.
    pub fn finish(&mut self) -> Result<Piece, Error> {
        let Some(detokenizer) = self.detokenizer.take() else {
            return Ok(Piece::default());
        };
        let mut piece = self.stops.push(&detokenizer.finish()?);
        if piece.stop.is_none() {
            piece.text.push_str(&self.stops.clone().finish());
        }
        Ok(piece)
    }
}

//! Streaming of an answer, token by token: ids to text, stop strings, and both together.

use std::fmt;

use crate::stages::Stages;
use crate::{Error, Tokenizer};

/// Turns ids into text one by one. The joined output always equals [`Tokenizer::decode`] of all ids at once; text is returned as soon as no
/// later id can change it, so a character of several ids is returned with the last of them.
///
/// The time of a push doesn't depend on earlier ids. Vocabularies that spell unknown characters as bytes (`<0xE5>`) decode a whole run of
/// such bytes at once, because an invalid run is replaced as a whole; the run is returned with the id after it.
#[derive(Clone)]
pub struct Detokenizer {
    tokenizer: Tokenizer,
    stages: Stages,
    skip_special: bool,
    /// Special tokens that aren't left out.
    shown: Vec<u32>,
}

impl Detokenizer {
    /// Starts a text; special tokens are left out if `skip_special`.
    pub fn new(tokenizer: &Tokenizer, skip_special: bool) -> Self {
        Self {
            tokenizer: tokenizer.clone(),
            stages: tokenizer.stages(),
            skip_special,
            shown: Vec::new(),
        }
    }

    /// This text with further special tokens that aren't left out, for programs that read marks of a model in its answer.
    pub fn showing(mut self, ids: impl IntoIterator<Item = u32>) -> Self {
        self.shown.extend(ids);
        self
    }

    /// Takes the next id, and returns the text that is final now: often none, and after an id that completes a character or a run,
    /// everything that was held back.
    ///
    /// # Errors
    /// [`Error::Decode`] when a pattern of the tokenizer fails.
    pub fn push(&mut self, id: u32) -> Result<String, Error> {
        let mut text = String::new();
        let skips = self.skip_special && !self.shown.contains(&id);
        if let Some(token) = self.tokenizer.visible(id, skips) {
            self.stages.push(token, &mut text)?;
        }
        Ok(text)
    }

    /// Returns the rest of the text that was held back, with U+FFFD in place of an incomplete character.
    ///
    /// # Errors
    /// [`Error::Decode`] when a pattern of the tokenizer fails on the rest.
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

/// Searches stop strings in a text that comes in pieces. The text ends before the stop string that is completed first, and before the
/// longest if several are completed at the same character. Only text that could be the start of a stop string is held back.
#[derive(Clone, Debug)]
pub struct StopStrings {
    stops: Vec<Stop>,
    /// The end of the text so far that could be the start of a stop string, as long as possible.
    held: String,
    found: Option<usize>,
}

/// A stop string and the state of its search.
#[derive(Clone, Debug)]
struct Stop {
    text: String,
    /// For each length of a prefix of the text, the length of the prefix's longest proper prefix that is also its suffix (Knuth, Morris and
    /// Pratt).
    fallback: Vec<usize>,
    /// Number of bytes at the end of the text so far that match a prefix of this stop string.
    matched: usize,
}

/// The part of a text that is final after a push.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    /// Text that follows the earlier pieces.
    pub text: String,
    /// Index in the list of the stop string that ended the text, if one did.
    pub stop: Option<usize>,
}

impl StopStrings {
    /// Starts a search for these stop strings; an empty list never ends a text.
    ///
    /// # Errors
    /// [`Error::Unfit`] for an empty string, which would end every text at its start.
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

    /// Takes the next piece of the text. After a stop string was found, all further text is dropped.
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
            // Of equally long ones the first is taken; `max_by_key` alone would take the last.
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
        // A stop string starts with a whole character, so this split can't cut a character.
        let held = self.held.split_off(self.held.len() - keep);
        let sure = std::mem::replace(&mut self.held, held);
        self.piece(sure)
    }

    /// Returns the text that is held back at the end of the input, as it is no stop string after all.
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

    /// Advances the search by the next byte of a text. Must not be called after the stop string is complete.
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

/// Turns the tokens of an answer into text, up to the first stop string. All programs that show answers use this type, so that they agree
/// on where an answer ends and why.
pub struct TextStream {
    /// Detokenizer of the answer; `None` after its end.
    detokenizer: Option<Detokenizer>,
    stops: StopStrings,
}

impl TextStream {
    /// Starts an answer; its special tokens are left out.
    pub fn new(tokenizer: &Tokenizer, stops: StopStrings) -> Self {
        Self {
            detokenizer: Some(Detokenizer::new(tokenizer, true)),
            stops,
        }
    }

    /// This answer with special tokens that aren't left out, see [`Detokenizer::showing`].
    pub fn showing(self, ids: impl IntoIterator<Item = u32>) -> Self {
        let detokenizer = self.detokenizer.map(|text| text.showing(ids));
        Self {
            detokenizer,
            ..self
        }
    }

    /// Takes the next id, and returns the text that is final now. A stop string ends the answer; ids after the end give no text.
    ///
    /// # Errors
    /// [`Error::Decode`] when a pattern of the tokenizer fails.
    pub fn push(&mut self, id: u32) -> Result<Piece, Error> {
        let Some(detokenizer) = &mut self.detokenizer else {
            return Ok(Piece::default());
        };
        let text = detokenizer.push(id)?;
        Ok(self.stops.push(&text))
    }

    /// Ends the answer, and returns the text that was held back. This text may complete a stop string, which the piece then names: the
    /// answer counts as ended by that string, whatever ended its tokens.
    ///
    /// # Errors
    /// [`Error::Decode`] when a pattern of the tokenizer fails on the rest.
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

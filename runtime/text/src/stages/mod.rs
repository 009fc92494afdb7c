//! Decoding of tokens to text: the decoder of a `tokenizer.json`, fed one token at a time.
//!
//! A decoder is a list of stages. Each stage maps a list of tokens to another list, and the last list is joined. Here a stage takes tokens
//! one by one, and returns what later tokens can't change. After a stage that joins all tokens to one (`Fuse`, `ByteLevel`), the later
//! stages get pieces of that one token.

mod bytes;

use std::sync::Arc;

use tokenizers::decoders::strip::Strip;
use tokenizers::{Decoder, DecoderWrapper};

use crate::Error;
use crate::error::guarded;
use bytes::{ByteLevel, ByteRun};

/// The stages of one decoding, with the text that they hold back.
#[derive(Clone)]
pub(crate) struct Stages(Vec<Stage>);

#[derive(Clone)]
enum Stage {
    /// No decoder: joins the tokens with spaces.
    Spaced {
        first: bool,
    },
    /// Maps each token by itself; only the first may be treated differently.
    Each {
        decoder: Arc<DecoderWrapper>,
        first: bool,
    },
    /// Maps each token by itself; only the last may be treated differently.
    Last {
        decoder: Arc<DecoderWrapper>,
        held: Option<String>,
    },
    /// Merges equal neighbours, and maps the remaining token to another or to none.
    Distinct {
        decoder: Arc<DecoderWrapper>,
        previous: Option<String>,
    },
    ByteRun(ByteRun),
    ByteLevel(ByteLevel),
    StripEach(StripEach),
    /// Strips a character from both ends of the single token, which comes in pieces.
    StripWhole(StripWhole),
    /// Maps the single token when it is complete; no published tokenizer is known to need this.
    Whole {
        decoder: Arc<DecoderWrapper>,
        text: String,
    },
}

impl Stages {
    pub(crate) fn new(decoder: Option<&DecoderWrapper>) -> Self {
        let Some(decoder) = decoder else {
            return Self(vec![Stage::Spaced { first: true }]);
        };
        let mut flat = Vec::new();
        flatten(decoder, &mut flat);
        let (mut stages, mut joined) = (Vec::new(), false);
        for decoder in flat {
            stages.extend(Stage::new(decoder, joined));
            joined |= matches!(
                decoder,
                DecoderWrapper::Fuse(_) | DecoderWrapper::ByteLevel(_)
            );
        }
        Self(stages)
    }

    /// Takes the next token, and appends to `text` what is final now.
    pub(crate) fn push(&mut self, token: String, text: &mut String) -> Result<(), Error> {
        feed(&mut self.0, vec![token], text)
    }

    /// The bytes that a token adds behind others, which may be a part of a character; `None` if they depend on its neighbours.
    pub(crate) fn bytes(&self, mut token: String) -> Result<Option<Vec<u8>>, Error> {
        let mut spelled = None;
        for stage in &self.0 {
            match stage {
                Stage::ByteLevel(_) => spelled = Some(bytes::of_characters(&token)),
                Stage::ByteRun(_) => spelled = bytes::spelled(&token).map(|byte| vec![byte]),
                Stage::Each { decoder, .. }
                    if !matches!(**decoder, DecoderWrapper::WordPiece(_)) =>
                {
                    let behind = decode(decoder, vec![String::new(), token])?.pop();
                    token = behind.unwrap_or_default();
                }
                Stage::StripEach(strip) => token = strip.strip(&token),
                // Only the ends of the whole text change.
                Stage::StripWhole(_) => {}
                Stage::Spaced { .. }
                | Stage::Each { .. }
                | Stage::Last { .. }
                | Stage::Distinct { .. }
                | Stage::Whole { .. } => return Ok(None),
            }
        }
        Ok(Some(spelled.unwrap_or_else(|| token.into_bytes())))
    }

    /// Appends to `text` what was held back. No token may follow.
    pub(crate) fn finish(&mut self, text: &mut String) -> Result<(), Error> {
        let mut stages = &mut self.0[..];
        while let Some((stage, rest)) = stages.split_first_mut() {
            let mut left = Vec::new();
            stage.finish(&mut left)?;
            feed(rest, left, text)?;
            stages = rest;
        }
        Ok(())
    }
}

/// Passes tokens through the stages, and appends the output to `text`.
fn feed(stages: &mut [Stage], tokens: Vec<String>, text: &mut String) -> Result<(), Error> {
    let mut tokens = tokens;
    for stage in stages {
        let mut next = Vec::new();
        for token in tokens {
            stage.push(token, &mut next)?;
        }
        tokens = next;
    }
    text.extend(tokens);
    Ok(())
}

fn flatten<'a>(decoder: &'a DecoderWrapper, flat: &mut Vec<&'a DecoderWrapper>) {
    match decoder {
        DecoderWrapper::Sequence(sequence) => {
            for decoder in sequence.get_decoders() {
                flatten(decoder, flat);
            }
        }
        _ => flat.push(decoder),
    }
}

impl Stage {
    /// The stage of a decoder; `None` for decoders that need no stage. `joined` says whether the stage gets pieces of a single token.
    fn new(decoder: &DecoderWrapper, joined: bool) -> Option<Self> {
        let shared = || Arc::new(decoder.clone());
        Some(match decoder {
            // `Fuse` only changes how later stages are made, by `joined`, and sequences have been flattened.
            DecoderWrapper::Fuse(_) | DecoderWrapper::Sequence(_) => return None,
            DecoderWrapper::Strip(strip) if joined => Self::StripWhole(StripWhole::new(strip)),
            _ if joined => Self::Whole {
                decoder: shared(),
                text: String::new(),
            },
            DecoderWrapper::Strip(strip) => Self::StripEach(StripEach::new(strip)),
            DecoderWrapper::ByteFallback(_) => Self::ByteRun(ByteRun::default()),
            DecoderWrapper::ByteLevel(_) => Self::ByteLevel(ByteLevel::default()),
            DecoderWrapper::BPE(_) => Self::Last {
                decoder: shared(),
                held: None,
            },
            DecoderWrapper::CTC(_) => Self::Distinct {
                decoder: shared(),
                previous: None,
            },
            DecoderWrapper::WordPiece(_)
            | DecoderWrapper::Metaspace(_)
            | DecoderWrapper::Replace(_) => Self::Each {
                decoder: shared(),
                first: true,
            },
        })
    }

    fn push(&mut self, token: String, next: &mut Vec<String>) -> Result<(), Error> {
        match self {
            Self::Spaced { first } => {
                if std::mem::take(first) {
                    next.push(token)
                } else {
                    next.extend([" ".to_owned(), token])
                }
            }
            // A later token is decoded after an empty one, so that the decoder doesn't see it as the first.
            Self::Each { decoder, first } => {
                if std::mem::take(first) {
                    next.extend(decode(decoder, vec![token])?)
                } else {
                    next.extend(decode(decoder, vec![String::new(), token])?.pop())
                }
            }
            // An earlier token is decoded before an empty one, so that the decoder doesn't see it as the last.
            Self::Last { decoder, held } => {
                if let Some(token) = held.replace(token) {
                    next.extend(
                        decode(decoder, vec![token, String::new()])?
                            .into_iter()
                            .next(),
                    );
                }
            }
            Self::Distinct { decoder, previous } => {
                if previous.as_ref() != Some(&token) {
                    next.extend(decode(decoder, vec![token.clone()])?);
                    *previous = Some(token);
                }
            }
            Self::ByteRun(run) => run.push(token, next),
            Self::ByteLevel(bytes) => bytes.push(&token, next),
            Self::StripEach(strip) => next.push(strip.strip(&token)),
            Self::StripWhole(strip) => next.push(strip.push(&token)),
            Self::Whole { text, .. } => text.push_str(&token),
        }
        Ok(())
    }

    fn finish(&mut self, next: &mut Vec<String>) -> Result<(), Error> {
        match self {
            Self::Spaced { .. } | Self::Each { .. } | Self::Distinct { .. } => {}
            Self::StripEach(_) | Self::StripWhole(_) => {}
            Self::Last { decoder, held } => {
                if let Some(token) = held.take() {
                    next.extend(decode(decoder, vec![token])?);
                }
            }
            Self::ByteRun(run) => run.end(next),
            Self::ByteLevel(bytes) => bytes.finish(next),
            Self::Whole { decoder, text } => {
                next.extend(decode(decoder, vec![std::mem::take(text)])?);
            }
        }
        Ok(())
    }
}

/// The library's decoding of `tokens`, which must not be empty.
fn decode(decoder: &DecoderWrapper, tokens: Vec<String>) -> Result<Vec<String>, Error> {
    let decoded = guarded(|| decoder.decode_chain(tokens));
    let decoded = decoded.and_then(|decoded| decoded.map_err(|error| error.to_string()));
    decoded.map_err(Error::Decode)
}

/// Strips a character from both ends of each token.
#[derive(Clone)]
struct StripEach {
    content: char,
    start: usize,
    stop: usize,
}

impl StripEach {
    fn new(strip: &Strip) -> Self {
        Self {
            content: strip.content,
            start: strip.start,
            stop: strip.stop,
        }
    }

    fn strip(&self, token: &str) -> String {
        let mut whole = StripWhole {
            each: self.clone(),
            stripping: true,
            taken: 0,
            held: 0,
        };
        whole.push(token)
    }
}

/// Strips a character from both ends of a single token that comes in pieces.
#[derive(Clone)]
struct StripWhole {
    each: StripEach,
    /// Whether all characters so far were stripped from the start.
    stripping: bool,
    taken: usize,
    /// Number of stripped characters held back, because the token may end with them.
    held: usize,
}

impl StripWhole {
    fn new(strip: &Strip) -> Self {
        Self {
            each: StripEach::new(strip),
            stripping: true,
            taken: 0,
            held: 0,
        }
    }

    /// Takes the next piece, and returns what is sure to stay; characters held back at the end are dropped.
    fn push(&mut self, piece: &str) -> String {
        let StripEach {
            content,
            start,
            stop,
        } = self.each;
        let mut text = String::new();
        for character in piece.chars() {
            if self.stripping && self.taken < start && character == content {
                self.taken += 1;
                continue;
            }
            self.stripping = false;
            if character == content && self.held < stop {
                self.held += 1;
                continue;
            }
            if character != content {
                text.extend(std::iter::repeat_n(content, std::mem::take(&mut self.held)));
            }
            text.push(character);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_are_stripped_however_the_token_comes() {
        for (token, start, stop, expected) in [
            ("  a  ", 1, 1, " a "),
            ("  a   ", 3, 2, "a "),
            ("a", 1, 1, "a"),
            (" ", 1, 1, ""),
            ("   ", 1, 1, " "),
            ("", 2, 2, ""),
            (" a b ", 0, 5, " a b"),
        ] {
            let strip = Strip::new(' ', start, stop);
            assert_eq!(StripEach::new(&strip).strip(token), expected, "{token:?}");
            let mut whole = StripWhole::new(&strip);
            let pieces = token.chars().map(|c| whole.push(&c.to_string()));
            assert_eq!(pieces.collect::<String>(), expected, "{token:?}");
        }
    }
}

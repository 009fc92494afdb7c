//! How tokens become text: the decoder of a `tokenizer.json`, fed one token at a time.
//!
//! Such a decoder is a list of stages. Each maps a list of tokens to another, and the last list is joined. Here a stage takes
//! tokens as they come and gives what later ones can't change. After a stage that joins all tokens to one (`Fuse`, `ByteLevel`),
//! what goes on are pieces of that one token.

mod bytes;

use std::sync::Arc;

use tokenizers::decoders::strip::Strip;
use tokenizers::{Decoder, DecoderWrapper};

use crate::Error;
use crate::error::guarded;
use bytes::{ByteLevel, ByteRun};

/// The stages of one decoding, with what they hold back.
#[derive(Clone)]
pub(crate) struct Stages(Vec<Stage>);

#[derive(Clone)]
enum Stage {
    /// No decoder: tokens with spaces between them.
    Spaced {
        first: bool,
    },
    /// Each token becomes another, by itself, but for whether it is the first.
    Each {
        decoder: Arc<DecoderWrapper>,
        first: bool,
    },
    /// The same, and the last token is another than the rest.
    Last {
        decoder: Arc<DecoderWrapper>,
        held: Option<String>,
    },
    /// Of equal neighbours one is left, and becomes another token or none.
    Distinct {
        decoder: Arc<DecoderWrapper>,
        previous: Option<String>,
    },
    ByteRun(ByteRun),
    ByteLevel(ByteLevel),
    StripEach(StripEach),
    /// Pieces of the one token without what surrounds it.
    StripWhole(StripWhole),
    /// Needs the one token as a whole; no published tokenizer is known to have one.
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

    /// Takes the next token, and adds to `text` what is sure now.
    pub(crate) fn push(&mut self, token: String, text: &mut String) -> Result<(), Error> {
        feed(&mut self.0, vec![token], text)
    }

    /// Adds to `text` what was held back. Nothing may come after.
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

/// Sends tokens through stages, and adds to `text` what comes out.
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
    /// The stage of a decoder, where one is needed; `joined` says whether what comes are pieces of one token.
    fn new(decoder: &DecoderWrapper, joined: bool) -> Option<Self> {
        let shared = || Arc::new(decoder.clone());
        Some(match decoder {
            // Joining is what follows from here on, and needs no work.
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
            // A token that isn't the first is second to an empty one.
            Self::Each { decoder, first } => {
                if std::mem::take(first) {
                    next.extend(decode(decoder, vec![token])?)
                } else {
                    next.extend(decode(decoder, vec![String::new(), token])?.pop())
                }
            }
            // And one that isn't the last has an empty one behind it.
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

/// What the library makes of `tokens`, which aren't empty.
fn decode(decoder: &DecoderWrapper, tokens: Vec<String>) -> Result<Vec<String>, Error> {
    let decoded = guarded(|| decoder.decode_chain(tokens));
    let decoded = decoded.and_then(|decoded| decoded.map_err(|error| error.to_string()));
    decoded.map_err(Error::Decode)
}

/// Of each token.
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

/// Of one token that comes in pieces.
#[derive(Clone)]
struct StripWhole {
    each: StripEach,
    /// Whether all that came so far was taken from the start.
    stripping: bool,
    taken: usize,
    /// How many of the character are held back, because the token may end with them.
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

    /// What of the pieces so far is sure to stay; what is held back at the end is gone.
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

//! Parts of answers that several endpoints have in common.

use std::collections::BTreeMap;

use moebius_engine::Draw;
use moebius_text::Tokenizer;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::error::ApiError;

/// Lowest logarithm of a probability that is told, as JSON has no infinity.
const LOWEST: f32 = -9999.0;

/// Numbers of tokens of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Tokens {
    /// Tokens of the prompt.
    pub(crate) prompt_tokens: usize,
    /// Tokens of all answers.
    pub(crate) completion_tokens: usize,
    /// Both together.
    pub(crate) total_tokens: usize,
}

impl Tokens {
    pub(crate) fn new(prompt: usize, generated: usize) -> Self {
        Self {
            prompt_tokens: prompt,
            completion_tokens: generated,
            total_tokens: prompt + generated,
        }
    }
}

/// A token with its probability.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct LikelyToken {
    /// Text of the token.
    token: String,
    /// Natural logarithm of the token's probability.
    logprob: f32,
    /// UTF-8 of the text; none for a token that is only a part of a character.
    bytes: Option<Vec<u8>>,
}

/// A chosen token, with those that were most likely in its place.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct ChosenToken {
    /// Text of the token.
    token: String,
    /// Natural logarithm of the token's probability.
    logprob: f32,
    /// UTF-8 of the text; none for a token that is only a part of a character.
    bytes: Option<Vec<u8>>,
    /// The most likely tokens.
    top_logprobs: Vec<LikelyToken>,
}

/// Probabilities of the tokens of a message.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub(crate) struct ChatLogprobs {
    /// The tokens, in their order.
    content: Vec<ChosenToken>,
}

/// Probabilities of the tokens of a text.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub(crate) struct TextLogprobs {
    /// Texts of the tokens.
    tokens: Vec<String>,
    /// Natural logarithms of their probabilities.
    token_logprobs: Vec<f32>,
    /// The most likely tokens in each one's place.
    top_logprobs: Vec<BTreeMap<String, f32>>,
    /// Characters of the text before each token.
    text_offset: Vec<usize>,
}

impl LikelyToken {
    fn new(tokenizer: &Tokenizer, id: u32, logprob: f32) -> Self {
        let token = text(tokenizer, id);
        let whole = !token.contains(char::REPLACEMENT_CHARACTER);
        Self {
            bytes: whole.then(|| token.clone().into_bytes()),
            token,
            logprob: logprob.max(LOWEST),
        }
    }
}

impl ChatLogprobs {
    /// Adds a token, if its probability was asked for.
    pub(crate) fn push(&mut self, tokenizer: &Tokenizer, draw: &Draw) {
        let Some(logprobs) = &draw.logprobs else {
            return;
        };
        let LikelyToken {
            token,
            logprob,
            bytes,
        } = LikelyToken::new(tokenizer, draw.id, logprobs.chosen);
        let top = logprobs.top.iter();
        let top = top.map(|(id, logprob)| LikelyToken::new(tokenizer, *id, *logprob));
        self.content.push(ChosenToken {
            token,
            logprob,
            bytes,
            top_logprobs: top.collect(),
        });
    }
}

impl TextLogprobs {
    /// Adds a token, if its probability was asked for; `offset` characters of the text are before it.
    pub(crate) fn push(&mut self, tokenizer: &Tokenizer, draw: &Draw, offset: usize) {
        let Some(logprobs) = &draw.logprobs else {
            return;
        };
        let top = logprobs.top.iter();
        let top = top.map(|(id, logprob)| (text(tokenizer, *id), logprob.max(LOWEST)));
        self.tokens.push(text(tokenizer, draw.id));
        self.token_logprobs.push(logprobs.chosen.max(LOWEST));
        self.top_logprobs.push(top.collect());
        self.text_offset.push(offset);
    }
}

/// The text of one token, alone.
fn text(tokenizer: &Tokenizer, id: u32) -> String {
    // A pattern of the tokenizer that fails on one token has no text for it.
    tokenizer.decode(&[id], false).unwrap_or_default()
}

/// Options of a stream.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
pub(crate) struct StreamOptions {
    /// Whether a last event tells the numbers of tokens.
    include_usage: Option<bool>,
}

impl StreamOptions {
    /// Whether a last event tells the numbers of tokens, by the fields `stream_options` and `stream` of a request.
    ///
    /// # Errors
    /// 400 for options of a stream that isn't asked for.
    pub(crate) fn usage(options: Option<Self>, stream: bool) -> Result<bool, ApiError> {
        if options.is_some() && !stream {
            let message = "stream_options: expected stream to be true, got false";
            return Err(ApiError::field("stream_options", message));
        }
        let usage = options.and_then(|options| options.include_usage);
        Ok(usage.unwrap_or(false))
    }
}

//! The vocabulary of a tokenizer in the metadata of a GGUF file.

use std::collections::HashSet;

use super::file::GgufFile;
use super::value::{GgufNumbers, GgufValue};
use crate::error::{GgufError, InFile, Unfit, WeightsError, quoted};

/// Vocabulary of a tokenizer, from the metadata of a GGUF file under `tokenizer.ggml.`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Vocabulary {
    /// Kind of vocabulary: the key `model`.
    pub model: String,
    /// Name of the rule that splits a text before merges: the key `pre`; empty if the file has none.
    pub pre: String,
    /// Tokens in the order of their ids: the key `tokens`.
    pub tokens: Vec<String>,
    /// Pairs of tokens with a space between them, in the order of merging: the key `merges`.
    pub merges: Vec<String>,
    /// Type of each token: the key `token_type`, with 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte; empty if the file
    /// has none.
    pub types: Vec<i32>,
    /// Score of each token: the key `scores`; merges that give higher scores come first, where there are no `merges`. Empty if the file has
    /// none.
    pub scores: Vec<f32>,
    /// Id of the unknown token: the key `unknown_token_id`.
    pub unknown: Option<u32>,
    /// Id of the token at the beginning of a text: the key `bos_token_id`.
    pub bos: Option<u32>,
    /// Ids of the tokens that end an answer: the keys `eos_token_id`, `eot_token_id` and `eom_token_id`, and tokens with the usual names of
    /// end tokens, because many files have no `eot_token_id`.
    pub eos: Vec<u32>,
    /// Whether an encoding with special tokens starts with `bos`: the key `add_bos_token`. If the file has none, it is true for models of
    /// Llama 3 and of Mistral's Tekken, and for all of the kind `llama`.
    pub add_bos: bool,
    /// Whether a space is put before a text: the key `add_space_prefix`, true if the file has none. Only for the kind `llama`.
    pub add_space: bool,
}

/// Keys of the tokens that end a text, a turn or a message.
const ENDING_KEYS: [&str; 3] = ["eos_token_id", "eot_token_id", "eom_token_id"];

/// Values of `pre` of models whose texts begin with `bos`, for files older than `add_bos_token`.
const BEGIN_WITH_BOS: &[&str] = &["llama-bpe", "llama3", "llama-v3", "tekken"];

/// Names of the tokens that end a turn or a text in any family that llama.cpp knows.
const ENDS: &[&str] = &[
    "<|eot_id|>",
    "<|eom_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<end_of_turn>",
    "<turn|>",
    "<end_of_utterance>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "[e~[",
    "<｜end▁of▁sentence｜>",
];

impl Vocabulary {
    /// The metadata that a reader makes this vocabulary of, as keys and values. Of the tokens that end an answer the first three have keys,
    /// the others are known by their names.
    pub fn metadata(&self) -> Vec<(String, GgufValue)> {
        let texts = |texts: &[String]| GgufValue::Texts(texts.iter().collect());
        let text = |text: &str| GgufValue::Text(text.to_owned());
        let mut all = vec![
            ("model", text(&self.model)),
            ("tokens", texts(&self.tokens)),
            ("add_bos_token", GgufValue::Flag(self.add_bos)),
        ];
        if !self.pre.is_empty() {
            all.push(("pre", text(&self.pre)));
        }
        if !self.merges.is_empty() {
            all.push(("merges", texts(&self.merges)));
        }
        if !self.types.is_empty() {
            let types = GgufNumbers::from(&self.types[..]);
            all.push(("token_type", GgufValue::Numbers(types)));
        }
        if !self.scores.is_empty() {
            let scores = GgufNumbers::from(&self.scores[..]);
            all.push(("scores", GgufValue::Numbers(scores)));
        }
        if self.model == "llama" {
            all.push(("add_space_prefix", GgufValue::Flag(self.add_space)));
        }
        let ends = ENDING_KEYS
            .into_iter()
            .zip(self.eos.iter().copied().map(Some));
        let ids = [
            ("unknown_token_id", self.unknown),
            ("bos_token_id", self.bos),
        ];
        for (name, id) in ids.into_iter().chain(ends) {
            all.extend(id.map(|id| (name, GgufValue::Unsigned(id.into()))));
        }
        all.into_iter()
            .map(|(name, value)| (key(name), value))
            .collect()
    }
}

impl GgufFile {
    /// Reads the vocabulary of the tokenizer; `None` if the file has none.
    ///
    /// # Errors
    /// [`WeightsError::Gguf`] for values of other types, and a vocabulary without tokens.
    pub fn vocabulary(&self) -> Result<Option<Vocabulary>, WeightsError> {
        let found = self.find_vocabulary();
        found.map_err(|error| WeightsError::Gguf(InFile::at(self.path())(error)))
    }

    /// The chat template, which turns a conversation into a text, in Jinja; `None` if the file has none.
    pub fn chat_template(&self) -> Option<&str> {
        self.value("tokenizer.chat_template")?.as_text()
    }

    fn find_vocabulary(&self) -> Result<Option<Vocabulary>, GgufError> {
        let Some(model) = self.entry("model", "a text", GgufValue::as_text)? else {
            return Ok(None);
        };
        let tokens = self.texts("tokens")?;
        let tokens = tokens.ok_or_else(|| wrong("tokens", "a list of texts", "none"))?;
        let pre = self.entry("pre", "a text", GgufValue::as_text)?;
        let pre = pre.unwrap_or_default();
        let mut eos = Vec::new();
        for name in ENDING_KEYS {
            eos.extend(self.token(name)?);
        }
        eos.extend(ends(&tokens));
        // Several keys may name the same token.
        let mut seen = HashSet::new();
        eos.retain(|id| seen.insert(*id));
        let flag = |value: &GgufValue| match value {
            GgufValue::Flag(flag) => Some(*flag),
            _ => None,
        };
        let add_bos = self.entry("add_bos_token", "true or false", flag)?;
        let add_space = self.entry("add_space_prefix", "true or false", flag)?;
        let begins = model == "llama" || BEGIN_WITH_BOS.contains(&pre);
        Ok(Some(Vocabulary {
            model: model.to_owned(),
            pre: pre.to_owned(),
            tokens,
            merges: self.texts("merges")?.unwrap_or_default(),
            types: self.types()?,
            scores: self.scores()?,
            unknown: self.token("unknown_token_id")?,
            bos: self.token("bos_token_id")?,
            eos,
            add_bos: add_bos.unwrap_or(begins),
            add_space: add_space.unwrap_or(true),
        }))
    }

    /// The value of a key, if it is there, as the type that `of` reads.
    fn entry<'a, T>(
        &'a self,
        name: &str,
        expected: &str,
        of: impl Fn(&'a GgufValue) -> Option<T>,
    ) -> Result<Option<T>, GgufError> {
        let Some(value) = self.value(&key(name)) else {
            return Ok(None);
        };
        let part = of(value);
        part.map(Some)
            .ok_or_else(|| wrong(name, expected, &value.shown()))
    }

    fn texts(&self, name: &str) -> Result<Option<Vec<String>>, GgufError> {
        self.entry(name, "a list of texts", |value| match value {
            GgufValue::Texts(texts) => Some(texts.iter().map(str::to_owned).collect()),
            _ => None,
        })
    }

    fn token(&self, name: &str) -> Result<Option<u32>, GgufError> {
        let id = |value: &GgufValue| u32::try_from(value.as_size()?).ok();
        self.entry(name, "the id of a token", id)
    }

    fn types(&self) -> Result<Vec<i32>, GgufError> {
        self.numbers("token_type", |value| match value {
            GgufValue::Unsigned(value) => i32::try_from(value).ok(),
            GgufValue::Signed(value) => i32::try_from(value).ok(),
            _ => None,
        })
    }

    fn scores(&self) -> Result<Vec<f32>, GgufError> {
        self.numbers("scores", |value| match value {
            GgufValue::Single(value) => Some(value),
            GgufValue::Signed(value) => Some(value as f32),
            _ => None,
        })
    }

    /// The numbers of a list, as `number` reads them; empty if the file has no list.
    fn numbers<T>(
        &self,
        name: &str,
        number: impl Fn(GgufValue) -> Option<T>,
    ) -> Result<Vec<T>, GgufError> {
        let numbers = self.entry(name, "a list of numbers", |value| match value {
            GgufValue::Numbers(numbers) => numbers.iter().map(&number).collect::<Option<_>>(),
            _ => None,
        })?;
        Ok(numbers.unwrap_or_default())
    }
}

/// Ids of the tokens whose names mark the end of an answer.
fn ends(tokens: &[String]) -> Vec<u32> {
    let named = |name: &str| tokens.iter().any(|token| token == name);
    // In the format of gpt-oss, `<|end|>` ends a message, after which the answer may continue.
    let messages = named("<|return|>") && named("<|call|>");
    let is_end = |token: &str| ENDS.contains(&token) && !(messages && token == "<|end|>");
    let ids = (0_u32..).zip(tokens);
    ids.filter(|(_, token)| is_end(token))
        .map(|(id, _)| id)
        .collect()
}

fn key(name: &str) -> String {
    format!("tokenizer.ggml.{name}")
}

fn wrong(name: &str, expected: &str, got: &str) -> GgufError {
    GgufError::Metadata(Unfit::new(quoted(&key(name)), expected, got))
}

//! The vocabulary of a tokenizer.

use super::file::GgufFile;
use super::value::GgufValue;
use crate::error::{GgufError, WeightsError};
use crate::fault::{InFile, Unfit, quoted};

/// What the metadata of a GGUF file says about its vocabulary, under `tokenizer.ggml.`, as a tokenizer is made of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vocabulary {
    /// `model`: the kind of vocabulary.
    pub model: String,
    /// `pre`: how a text is cut before merges; empty where the file doesn't say.
    pub pre: String,
    /// `tokens`: the tokens in the order of their ids.
    pub tokens: Vec<String>,
    /// `merges`: pairs of tokens with a space between them, the first to be merged first.
    pub merges: Vec<String>,
    /// `token_type`: of each token, 1 if it is ordinary, 2 unknown, 3 control, 4 the user's, 5 unused, 6 a byte. Empty if the file doesn't say.
    pub types: Vec<i32>,
    /// `bos_token_id`
    pub bos: Option<u32>,
    /// `eos_token_id`, `eot_token_id` and `eom_token_id`, those that there are.
    pub eos: Vec<u32>,
    /// `add_bos_token`: whether an encoding with special tokens starts with `bos`. Where the file doesn't say, the models of Llama 3 do.
    pub add_bos: bool,
}

/// Values of `pre` that files from before `add_bos_token` have.
const BEGIN_WITH_BOS: &[&str] = &["llama-bpe", "llama3", "llama-v3"];

impl GgufFile {
    /// The vocabulary of the tokenizer; `None` where the file has none.
    ///
    /// # Errors
    /// [`WeightsError::Gguf`] for values of other types, and a vocabulary without tokens.
    pub fn vocabulary(&self) -> Result<Option<Vocabulary>, WeightsError> {
        let found = self.find_vocabulary();
        found.map_err(|error| WeightsError::Gguf(InFile::at(self.path())(error)))
    }

    /// The template that makes a text of a conversation, in Jinja; `None` where the file has none.
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
        for name in ["eos_token_id", "eot_token_id", "eom_token_id"] {
            let id = self.token(name)?;
            // Several names may stand for one token.
            eos.extend(id.filter(|id| !eos.contains(id)));
        }
        let flag = |value: &GgufValue| match value {
            GgufValue::Flag(flag) => Some(*flag),
            _ => None,
        };
        let add_bos = self.entry("add_bos_token", "true or false", flag)?;
        Ok(Some(Vocabulary {
            model: model.to_owned(),
            pre: pre.to_owned(),
            tokens,
            merges: self.texts("merges")?.unwrap_or_default(),
            types: self.types()?,
            bos: self.token("bos_token_id")?,
            eos,
            add_bos: add_bos.unwrap_or(BEGIN_WITH_BOS.contains(&pre)),
        }))
    }

    /// A value that is there and of the type that `of` reads.
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
        let number = |value: GgufValue| match value {
            GgufValue::Unsigned(value) => i32::try_from(value).ok(),
            GgufValue::Signed(value) => i32::try_from(value).ok(),
            _ => None,
        };
        let types = self.entry("token_type", "a list of numbers", |value| match value {
            GgufValue::Numbers(numbers) => numbers.iter().map(number).collect::<Option<_>>(),
            _ => None,
        })?;
        Ok(types.unwrap_or_default())
    }
}

fn key(name: &str) -> String {
    format!("tokenizer.ggml.{name}")
}

fn wrong(name: &str, expected: &str, got: &str) -> GgufError {
    GgufError::Metadata(Unfit::new(quoted(&key(name)), expected, got))
}

//! Samples to train on, from lines of JSON: conversations, texts, and prompts with their completions.

use std::fs;
use std::path::Path;
use std::time::Duration;

use minijinja::Value;
use serde::Deserialize;

use crate::{Chat, ChatTemplate, Error, Message, Tokenizer};

/// The forms that a line may have, as errors name them.
const FORMS: &str = "messages, text, or prompt and completion";

/// The fields of a line that mean something; a field that is null is missing.
#[derive(Deserialize)]
struct Line {
    messages: Option<Vec<Message>>,
    /// As the template reads it, with fields in their own order.
    tools: Option<Value>,
    text: Option<String>,
    prompt: Option<String>,
    completion: Option<String>,
}

/// The tokens of a sample to train on, and which of them are to be learnt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrainingSample {
    /// The tokens.
    pub ids: Vec<u32>,
    /// For each token, whether a training learns to predict it from those before it.
    pub learnt: Vec<bool>,
}

/// Reads samples to train on from lines of JSON. Each line is an object with
///
/// - `messages`, a conversation for the model's chat template, with `tools` if there are any: the messages of the role `assistant` are learnt,
///   with the marks by which the template ends them;
/// - or `text`: all of it is learnt, and the token that ends a text;
/// - or `prompt` and `completion`: the completion is learnt, and the token that ends a text.
///
/// Other fields are passed over.
#[derive(Clone, Copy, Debug)]
pub struct SampleReader<'a> {
    tokenizer: &'a Tokenizer,
    template: Option<&'a ChatTemplate>,
    time: Duration,
}

impl<'a> SampleReader<'a> {
    /// A reader for a model with this tokenizer and template. Conversations need a template.
    pub fn new(tokenizer: &'a Tokenizer, template: Option<&'a ChatTemplate>) -> Self {
        Self {
            tokenizer,
            template,
            time: Duration::ZERO,
        }
    }

    /// This reader with the time, since 1970 in UTC, that templates read which write today's date; 0 unless it is set. A time that doesn't
    /// change makes a training repeatable.
    pub fn with_time(self, since_1970: Duration) -> Self {
        Self {
            time: since_1970,
            ..self
        }
    }

    /// Reads the samples of a file, one a line; empty lines are passed over.
    ///
    /// # Errors
    /// [`Error::Read`] for a file that can't be read, [`Error::Line`] with the number of the first line that is no sample.
    pub fn read(&self, path: &Path) -> Result<Vec<TrainingSample>, Error> {
        let bytes = fs::read(path).map_err(|source| Error::Read {
            path: path.to_owned(),
            source,
        })?;
        self.lines(path, &bytes)
    }

    /// Reads the samples in the bytes of a file, which errors call `path`.
    ///
    /// # Errors
    /// As [`SampleReader::read`].
    pub fn lines(&self, path: &Path, bytes: &[u8]) -> Result<Vec<TrainingSample>, Error> {
        let mut samples = Vec::new();
        for (number, line) in bytes.split(|&byte| byte == b'\n').enumerate() {
            let line = line.trim_ascii();
            if line.is_empty() {
                continue;
            }
            let sample = self.line(line).map_err(|source| Error::Line {
                path: path.to_owned(),
                line: number + 1,
                source: Box::new(source),
            })?;
            samples.push(sample);
        }
        Ok(samples)
    }

    /// Reads the sample of one line.
    ///
    /// # Errors
    /// [`Error::Unfit`] for a line that is no object of one of the three forms, for a sample with nothing to learn, and for a template whose
    /// text of the first messages doesn't begin that of all; the errors of [`ChatTemplate::encode`] and [`Tokenizer::encode`].
    pub fn line(&self, line: &[u8]) -> Result<TrainingSample, Error> {
        let line: Line =
            serde_json::from_slice(line).map_err(|error| Error::unfit("the line", FORMS, error))?;
        let given = [
            ("messages", line.messages.is_some()),
            ("text", line.text.is_some()),
            ("prompt", line.prompt.is_some()),
            ("completion", line.completion.is_some()),
        ];
        let sample = match (line.messages, line.text, line.prompt, line.completion) {
            (Some(messages), None, None, None) => self.chat(&messages, line.tools)?,
            (None, Some(text), None, None) => {
                let ids = self.ended(&text)?;
                TrainingSample {
                    learnt: vec![true; ids.len()],
                    ids,
                }
            }
            (None, None, Some(prompt), Some(completion)) => {
                self.completion(&prompt, &completion)?
            }
            _ => {
                let given = given.iter().filter(|(_, is_there)| *is_there);
                let given: Vec<&str> = given.map(|(name, _)| *name).collect();
                let none = "none of them".to_owned();
                let got = Some(given.join(" and ")).filter(|got| !got.is_empty());
                return Err(Error::unfit("the line", FORMS, got.unwrap_or(none)));
            }
        };
        let learns = sample.learnt.iter().skip(1).any(|&learnt| learnt);
        let expected = "at least one after the first token";
        if learns {
            Ok(sample)
        } else {
            Err(Error::unfit("tokens to learn", expected, "none"))
        }
    }

    fn chat(&self, messages: &[Message], tools: Option<Value>) -> Result<TrainingSample, Error> {
        let Some(template) = self.template else {
            let expected = "a model with a chat template";
            return Err(Error::unfit("messages", expected, "one without"));
        };
        let first = |count: usize, prompt: bool| {
            let chat = Chat::new(messages.iter().take(count).cloned());
            let chat = chat.with_generation_prompt(prompt).with_time(self.time);
            match &tools {
                Some(tools) => chat.with("tools", tools),
                None => chat,
            }
        };
        let whole = first(messages.len(), false);
        let (text, ids) = (
            template.render(&whole)?,
            template.encode(&whole, self.tokenizer)?,
        );
        // The number of tokens that the first messages share with all of them.
        let shared = |count: usize, prompt: bool| -> Result<usize, Error> {
            let chat = first(count, prompt);
            if !text.starts_with(&template.render(&chat)?) {
                let expected = "one whose text of the first messages begins that of all";
                let got = format!("another after {count} messages");
                return Err(Error::unfit("the chat template", expected, got));
            }
            Ok(common(&template.encode(&chat, self.tokenizer)?, &ids))
        };
        let mut learnt = vec![false; ids.len()];
        for (number, message) in messages.iter().enumerate() {
            if message.role() == "assistant" {
                let begin = shared(number, true)?;
                let end = shared(number + 1, false)?.max(begin);
                learnt[begin..end].fill(true);
            }
        }
        Ok(TrainingSample { ids, learnt })
    }

    fn completion(&self, prompt: &str, completion: &str) -> Result<TrainingSample, Error> {
        let ids = self.ended(&format!("{prompt}{completion}"))?;
        let known = common(&self.tokenizer.encode(prompt, true)?, &ids);
        let learnt = (0..ids.len()).map(|at| at >= known).collect();
        Ok(TrainingSample { ids, learnt })
    }

    /// The tokens of a text with the token that ends one, where the vocabulary has such a token.
    fn ended(&self, text: &str) -> Result<Vec<u32>, Error> {
        let mut ids = self.tokenizer.encode(text, true)?;
        let ends = self.tokenizer.eos_ids();
        let ended = ids.last().is_some_and(|last| ends.contains(last));
        if let (Some(end), false) = (ends.first(), ended) {
            ids.push(*end);
        }
        Ok(ids)
    }
}

/// Number of tokens with which both begin.
fn common(one: &[u32], other: &[u32]) -> usize {
    let pairs = one.iter().zip(other);
    pairs.take_while(|(one, other)| one == other).count()
}

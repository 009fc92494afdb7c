//! Options of a request that is to be answered, from all endpoints in one form, and checked.

use std::collections::BTreeMap;

use moebius_engine::{Generation, Sampling, SamplingOptions};
use moebius_text::{StopStrings, TextStream, Tokenizer};
use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::error::ApiError;

/// Largest numbers that a request may ask for.
const MOST_CHOICES: usize = 4;
const MOST_STOPS: usize = 4;
const MOST_LOGPROBS: usize = 20;
/// Largest numbers of ids that end an answer, and of biases: all are looked at for each token.
const MOST_ENDS: usize = 256;
const MOST_BIASES: usize = 1024;
/// Longest text that ends an answer, in bytes: its search takes nine times as many, for each answer that waits.
const LONGEST_STOP: usize = 1024;
/// Largest bias of a token, either way.
const MOST_BIAS: f32 = 100.0;

/// One text or several.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(
    untagged,
    expecting = "expected a text or a list of texts, got another value"
)]
pub(crate) enum Texts {
    /// One text.
    One(String),
    /// Several texts.
    Many(Vec<String>),
}

impl Texts {
    fn into_vec(self) -> Vec<String> {
        match self {
            Self::One(text) => vec![text],
            Self::Many(texts) => texts,
        }
    }
}

/// Checks fields that are known but not supported: they may be left out, or say that nothing is wanted.
///
/// # Errors
/// 400 that names the first field with another value.
pub(crate) fn check_unsupported(fields: &[(&'static str, &Option<Value>)]) -> Result<(), ApiError> {
    let wants = |value: &Value| match value {
        Value::Null | Value::Bool(false) => false,
        Value::Array(items) => !items.is_empty(),
        _ => true,
    };
    let asked = fields
        .iter()
        .find(|(_, value)| value.as_ref().is_some_and(wants));
    asked.map_or(Ok(()), |(name, _)| Err(ApiError::unsupported(name)))
}

/// What a request asks for, as it came.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {
    /// Name of the field that limits the tokens of an answer, for errors.
    pub(crate) limit: &'static str,
    pub(crate) max_tokens: Option<usize>,
    pub(crate) temperature: Option<f32>,
    pub(crate) top_p: Option<f32>,
    pub(crate) top_k: Option<i64>,
    pub(crate) min_p: Option<f32>,
    pub(crate) repetition_penalty: Option<f32>,
    pub(crate) presence_penalty: Option<f32>,
    pub(crate) frequency_penalty: Option<f32>,
    pub(crate) logit_bias: Option<BTreeMap<String, f32>>,
    pub(crate) seed: Option<i64>,
    pub(crate) n: Option<usize>,
    pub(crate) stop: Option<Texts>,
    pub(crate) stop_token_ids: Option<Vec<u32>>,
    pub(crate) ignore_eos: Option<bool>,
    pub(crate) cache_salt: Option<String>,
    /// Number of likely tokens to tell with each token, after the name of its field; `None` tells no probabilities.
    pub(crate) logprobs: Option<(&'static str, usize)>,
}

/// What a request asks for, checked.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    limit: &'static str,
    max_tokens: Option<usize>,
    sampling: SamplingOptions,
    /// Number of answers.
    pub(crate) choices: usize,
    stops: Vec<String>,
    ends: Vec<u32>,
    ignore_eos: bool,
    cache_salt: String,
    /// Special tokens that are part of an answer's text.
    shown: Vec<u32>,
}

impl Asked {
    /// Checks the options.
    ///
    /// # Errors
    /// 400 that names the first field at fault.
    pub(crate) fn checked(self) -> Result<Plan, ApiError> {
        let choices = self.n.unwrap_or(1);
        within("n", choices, 1..=MOST_CHOICES)?;
        if let Some(most) = self.max_tokens {
            within(self.limit, most, 1..=usize::MAX)?;
        }
        let stops = self.stop.clone().map_or_else(Vec::new, Texts::into_vec);
        at_most("stop", MOST_STOPS, "texts", stops.len())?;
        for stop in &stops {
            at_most("stop", LONGEST_STOP, "bytes in a text", stop.len())?;
        }
        if stops.iter().any(String::is_empty) {
            let message = "stop: expected texts of at least one character, got an empty one";
            return Err(ApiError::field("stop", message));
        }
        let ends = self.stop_token_ids.clone().unwrap_or_default();
        at_most("stop_token_ids", MOST_ENDS, "ids", ends.len())?;
        Ok(Plan {
            limit: self.limit,
            max_tokens: self.max_tokens,
            sampling: self.sampling()?,
            choices,
            stops,
            ends,
            ignore_eos: self.ignore_eos.unwrap_or(false),
            cache_salt: self.cache_salt.unwrap_or_default(),
            shown: Vec::new(),
        })
    }

    fn sampling(&self) -> Result<SamplingOptions, ApiError> {
        if let Some((name, most)) = self.logprobs {
            within(name, most, 0..=MOST_LOGPROBS)?;
        }
        // Clients write −1 for all tokens, as vLLM does.
        let top_k = self.top_k.unwrap_or(0);
        within("top_k", top_k, -1..=i64::MAX)?;
        let options = SamplingOptions {
            temperature: within("temperature", self.temperature.unwrap_or(1.0), 0.0..=2.0)?,
            top_k: usize::try_from(top_k).unwrap_or(0),
            top_p: within("top_p", self.top_p.unwrap_or(1.0), 0.0..=1.0)?,
            min_p: within("min_p", self.min_p.unwrap_or(0.0), 0.0..=1.0)?,
            repetition_penalty: self.repetition_penalty.unwrap_or(1.0),
            presence_penalty: penalty("presence_penalty", self.presence_penalty)?,
            frequency_penalty: penalty("frequency_penalty", self.frequency_penalty)?,
            logit_bias: biases(self.logit_bias.as_ref())?,
            // Two's complement: each number stands for another seed.
            seed: self.seed.map_or_else(random, |seed| seed as u64),
            logprobs: self.logprobs.map(|(_, most)| most),
        };
        let factor = options.repetition_penalty;
        if !(factor.is_finite() && factor > 0.0) {
            let message = format!("repetition_penalty: expected a number above 0, got {factor}");
            return Err(ApiError::field("repetition_penalty", message));
        }
        Ok(options)
    }
}

impl Plan {
    /// The generations of all choices after a prompt, in a context of so many tokens, with the ends of the tokenizer and the salt of the
    /// client.
    ///
    /// # Errors
    /// 400 for ids that the tokenizer doesn't have, and for a prompt or an answer for which the context has no room, naming `param`, the
    /// biases or the limit of tokens.
    pub(crate) fn generations(
        &self,
        prompt: &[u32],
        param: &str,
        context: usize,
        (tokenizer, salt): (&Tokenizer, &[u8]),
    ) -> Result<Vec<Generation>, ApiError> {
        let most_new = self.most_new(prompt.len(), param, context)?;
        let known = tokenizer.vocabulary_size();
        check_ids(param, prompt, known)?;
        check_ids("logit_bias", self.sampling.logit_bias.keys(), known)?;
        let eos: &[u32] = if self.ignore_eos {
            &[]
        } else {
            tokenizer.eos_ids()
        };
        let of = |choice: usize| {
            let options = SamplingOptions {
                seed: self.sampling.seed.wrapping_add(choice as u64),
                ..self.sampling.clone()
            };
            let sampling = Sampling::new(options);
            let sampling = sampling.map_err(|error| ApiError::field("", error.to_string()))?;
            let ends = eos.iter().chain(&self.ends).copied();
            let mut generation = Generation::new(prompt.to_vec(), most_new)
                .with_sampling(sampling)
                .with_ends(ends);
            generation.salt = [salt, self.cache_salt.as_bytes()].concat();
            Ok(generation)
        };
        (0..self.choices).map(of).collect()
    }

    /// Checks that `most` answers, as many as a server takes, are enough for all choices: more would be refused at any time.
    ///
    /// # Errors
    /// 400 that names the number of choices.
    pub(crate) fn check_choices(&self, most: usize) -> Result<(), ApiError> {
        within("n", self.choices, 1..=most).map(|_| ())
    }

    /// This plan for answers in whose text special tokens are `shown`, and that further tokens end.
    pub(crate) fn with_marks(
        mut self,
        shown: Vec<u32>,
        ends: impl IntoIterator<Item = u32>,
    ) -> Self {
        self.shown = shown;
        self.ends.extend(ends);
        self
    }

    /// Whether the tokens' probabilities are told.
    pub(crate) fn tells_logprobs(&self) -> bool {
        self.sampling.logprobs.is_some()
    }

    /// A text without anything in it, which the stop strings end.
    ///
    /// # Errors
    /// 400 for stop strings that can't be searched.
    pub(crate) fn text(&self, tokenizer: &Tokenizer) -> Result<TextStream, ApiError> {
        let stops = StopStrings::new(self.stops.iter().cloned());
        let stops = stops.map_err(|error| ApiError::field("stop", error.to_string()))?;
        let shown = self.shown.iter().copied();
        Ok(TextStream::new(tokenizer, stops).showing(shown))
    }

    /// Largest number of tokens of an answer to a prompt of `prompt` tokens.
    fn most_new(&self, prompt: usize, param: &str, context: usize) -> Result<usize, ApiError> {
        if prompt == 0 {
            let message = format!("{param}: expected at least one token, got none");
            return Err(ApiError::field(param, message));
        }
        let room = context.saturating_sub(prompt);
        if room == 0 {
            let message = format!(
                "{param}: expected at most {} tokens, which leave room for an answer in the context of {context}, got {prompt}",
                context.saturating_sub(1)
            );
            return Err(ApiError::too_long(param, message));
        }
        let Some(most) = self.max_tokens else {
            return Ok((room / self.choices).max(1));
        };
        if most > room {
            let message = format!(
                "{}: expected at most {room} tokens after the {prompt} of the prompt in the context of {context}, got {most}",
                self.limit
            );
            return Err(ApiError::too_long(self.limit, message));
        }
        let all = most.saturating_mul(self.choices);
        if all > context {
            let message = format!(
                "{}: expected at most {} tokens for each of {} answers, got {most}",
                self.limit,
                context / self.choices,
                self.choices
            );
            return Err(ApiError::field(self.limit, message));
        }
        Ok(most)
    }
}

/// Checks that a value lies in a range.
fn within<T: PartialOrd + std::fmt::Display + Copy>(
    param: &str,
    value: T,
    range: std::ops::RangeInclusive<T>,
) -> Result<T, ApiError> {
    if range.contains(&value) {
        return Ok(value);
    }
    let message = format!(
        "{param}: expected {} to {}, got {value}",
        range.start(),
        range.end()
    );
    Err(ApiError::field(param, message))
}

/// Checks that a list is no longer than it may be.
fn at_most(param: &str, most: usize, what: &str, got: usize) -> Result<(), ApiError> {
    if got <= most {
        return Ok(());
    }
    let message = format!("{param}: expected at most {most} {what}, got {got}");
    Err(ApiError::field(param, message))
}

/// Checks that ids are below `known`, the size of the vocabulary.
fn check_ids<'a>(
    param: &str,
    ids: impl IntoIterator<Item = &'a u32>,
    known: u32,
) -> Result<(), ApiError> {
    let unknown = ids.into_iter().find(|id| **id >= known);
    unknown.map_or(Ok(()), |id| {
        let message = format!("{param}: expected ids of tokens below {known}, got {id}");
        Err(ApiError::field(param, message))
    })
}

fn penalty(param: &str, value: Option<f32>) -> Result<f32, ApiError> {
    within(param, value.unwrap_or(0.0), -2.0..=2.0)
}

/// The biases of tokens by their ids, which JSON writes as texts.
fn biases(given: Option<&BTreeMap<String, f32>>) -> Result<BTreeMap<u32, f32>, ApiError> {
    let count = given.map_or(0, BTreeMap::len);
    at_most("logit_bias", MOST_BIASES, "ids", count)?;
    let given = given.into_iter().flatten();
    let biases = given.map(|(id, bias)| {
        let number = id.parse::<u32>().map_err(|_| {
            let message = format!("logit_bias: expected ids of tokens as names, got {id:?}");
            ApiError::field("logit_bias", message)
        })?;
        let bias = within("logit_bias", *bias, -MOST_BIAS..=MOST_BIAS)?;
        Ok((number, bias))
    });
    biases.collect()
}

/// A seed that nobody knows before.
fn random() -> u64 {
    uuid::Uuid::new_v4().as_u64_pair().1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(asked: Asked) -> Plan {
        asked.checked().unwrap()
    }

    fn refused(asked: Asked) -> String {
        let error = asked.checked().unwrap_err();
        serde_json::to_string(&error.body()).unwrap()
    }

    #[test]
    fn what_is_neither_a_text_nor_a_list_is_told_in_words() {
        let error = serde_json::from_str::<Texts>("7").unwrap_err().to_string();
        assert!(
            error.starts_with("expected a text or a list of texts, got"),
            "{error}"
        );
    }

    #[test]
    fn values_out_of_range_are_named() {
        let nothing = Asked::default;
        for (asked, param) in [
            (
                Asked {
                    n: Some(5),
                    ..nothing()
                },
                "n",
            ),
            (
                Asked {
                    n: Some(0),
                    ..nothing()
                },
                "n",
            ),
            (
                Asked {
                    temperature: Some(-0.1),
                    ..nothing()
                },
                "temperature",
            ),
            (
                Asked {
                    temperature: Some(f32::INFINITY),
                    ..nothing()
                },
                "temperature",
            ),
            (
                Asked {
                    top_p: Some(f32::NAN),
                    ..nothing()
                },
                "top_p",
            ),
            (
                Asked {
                    top_k: Some(-2),
                    ..nothing()
                },
                "top_k",
            ),
            (
                Asked {
                    repetition_penalty: Some(0.0),
                    ..nothing()
                },
                "repetition_penalty",
            ),
            (
                Asked {
                    stop: Some(Texts::Many(vec!["a".to_owned(); 5])),
                    ..nothing()
                },
                "stop",
            ),
            (
                Asked {
                    stop: Some(Texts::One(String::new())),
                    ..nothing()
                },
                "stop",
            ),
            (
                Asked {
                    stop: Some(Texts::One("a".repeat(LONGEST_STOP + 1))),
                    ..nothing()
                },
                "stop",
            ),
            (
                Asked {
                    stop_token_ids: Some(vec![1; MOST_ENDS + 1]),
                    ..nothing()
                },
                "stop_token_ids",
            ),
            (
                Asked {
                    logit_bias: Some((0..=MOST_BIASES).map(|id| (id.to_string(), 1.0)).collect()),
                    ..nothing()
                },
                "logit_bias",
            ),
            (
                Asked {
                    logprobs: Some(("top_logprobs", 21)),
                    ..nothing()
                },
                "top_logprobs",
            ),
            (
                Asked {
                    logit_bias: Some([("x".to_owned(), 1.0)].into()),
                    ..nothing()
                },
                "logit_bias",
            ),
            (
                Asked {
                    limit: "max_tokens",
                    max_tokens: Some(0),
                    ..nothing()
                },
                "max_tokens",
            ),
        ] {
            let said = refused(asked);
            assert!(said.contains(&format!(r#""param":"{param}""#)), "{said}");
        }
    }

    #[test]
    fn choices_fit_into_the_server() {
        let two = plan(Asked {
            n: Some(2),
            ..Asked::default()
        });
        assert!(two.check_choices(2).is_ok());
        let error = two.check_choices(1).unwrap_err();
        assert_eq!(error, ApiError::field("n", "n: expected 1 to 1, got 2"));
    }

    #[test]
    fn answers_fit_into_the_context() {
        let asked = |max_tokens, n| {
            plan(Asked {
                limit: "max_tokens",
                max_tokens,
                n: Some(n),
                ..Asked::default()
            })
        };
        assert_eq!(asked(None, 1).most_new(10, "prompt", 100), Ok(90));
        assert_eq!(asked(None, 4).most_new(10, "prompt", 100), Ok(22));
        assert_eq!(asked(Some(90), 1).most_new(10, "prompt", 100), Ok(90));
        for (max_tokens, n, prompt) in [(Some(91), 1, 10), (None, 1, 100), (Some(30), 4, 10)] {
            let refused = asked(max_tokens, n).most_new(prompt, "prompt", 100);
            assert!(refused.is_err(), "{max_tokens:?} {n} {prompt}");
        }
        assert!(asked(None, 1).most_new(0, "prompt", 100).is_err());
    }

    #[test]
    fn fields_without_effect_are_refused_by_name() {
        let none = [Value::Null, Value::Bool(false), Value::Array(Vec::new())];
        for value in none {
            assert!(check_unsupported(&[("a", &Some(value))]).is_ok());
        }
        let some = Some(Value::from(1));
        let refused = check_unsupported(&[("a", &None), ("b", &some)]).unwrap_err();
        assert_eq!(refused, ApiError::unsupported("b"));
    }
}

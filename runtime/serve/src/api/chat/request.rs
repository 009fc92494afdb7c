//! A request to `/v1/chat/completions`.

use std::collections::BTreeMap;

use moebius_text::Chat;
use serde::Deserialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::api::calls::{Choice, Tool};
use crate::api::messages::{ChatMessage, for_template};
use crate::api::output::StreamOptions;
use crate::asked::{Asked, Plan, Texts, check_unsupported};
use crate::error::ApiError;
use crate::form::ResponseFormat;

/// Name of the variable for the effort of reasoning.
const EFFORT: &str = "reasoning_effort";

/// Name of the field for the conversation.
pub(super) const MESSAGES: &str = "messages";

/// Name of the field for the form of an answer.
pub(super) const FORMAT: &str = "response_format";

/// A request for answers to a conversation. Fields that are not listed are ignored.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct ChatRequest {
    /// Name of the model.
    pub(super) model: String,
    /// The conversation so far.
    messages: Vec<ChatMessage>,
    /// Largest number of tokens of an answer.
    max_completion_tokens: Option<usize>,
    /// Older name of `max_completion_tokens`.
    max_tokens: Option<usize>,
    /// Divides the logits before a draw, 0 to 2; 0 takes the likeliest token.
    temperature: Option<f32>,
    /// Draw from the likeliest tokens that have this probability together.
    top_p: Option<f32>,
    /// Draw from so many of the likeliest tokens; 0 and −1 stand for all.
    top_k: Option<i64>,
    /// Draw from tokens that have at least this part of the likeliest one's probability.
    min_p: Option<f32>,
    /// Divides positive logits of tokens that were there, and multiplies negative ones.
    repetition_penalty: Option<f32>,
    /// Taken from the logits of tokens that were generated, −2 to 2.
    presence_penalty: Option<f32>,
    /// Taken from the logits of tokens as often as they were generated, −2 to 2.
    frequency_penalty: Option<f32>,
    /// Added to the logits of these ids, −100 to 100, up to 1024 of them.
    #[schema(value_type = Option<Object>)]
    logit_bias: Option<BTreeMap<String, f32>>,
    /// Decides all draws.
    seed: Option<i64>,
    /// Number of answers, 1 to 4.
    n: Option<usize>,
    /// Texts before which an answer ends, up to 4 of up to 1024 bytes.
    stop: Option<Texts>,
    /// Ids that end an answer, up to 256.
    stop_token_ids: Option<Vec<u32>>,
    /// Whether answers go on after the tokens that end one.
    ignore_eos: Option<bool>,
    /// Separates the prompt's pages in the prefix cache from those of other salts.
    cache_salt: Option<String>,
    /// Whether to tell the tokens' probabilities.
    logprobs: Option<bool>,
    /// Number of the likeliest tokens to tell in each place, up to 20.
    top_logprobs: Option<usize>,
    /// Whether to send tokens as they come.
    pub(super) stream: Option<bool>,
    /// Options of a stream.
    pub(super) stream_options: Option<StreamOptions>,
    /// Form of the answer.
    response_format: Option<ResponseFormat>,
    /// Functions that the model may call, of which the template tells it.
    #[schema(value_type = Option<Vec<Object>>)]
    tools: Option<Vec<Value>>,
    /// Whether an answer calls functions: `none`, `auto`, `required`, or the one that it calls.
    #[schema(value_type = Option<Object>)]
    tool_choice: Option<Value>,
    /// Whether an answer may call several functions; only the first call is told otherwise.
    parallel_tool_calls: Option<bool>,
    /// Effort that the template asks of the model, where it knows such a thing.
    reasoning_effort: Option<String>,
    /// Further variables for the template.
    #[schema(value_type = Option<Object>)]
    chat_template_kwargs: Option<Map<String, Value>>,
    #[schema(ignore)]
    functions: Option<Value>,
    #[schema(ignore)]
    function_call: Option<Value>,
    #[schema(ignore)]
    audio: Option<Value>,
    #[schema(ignore)]
    prediction: Option<Value>,
    #[schema(ignore)]
    web_search_options: Option<Value>,
    #[schema(ignore)]
    structured_outputs: Option<Value>,
    #[schema(ignore)]
    guided_json: Option<Value>,
    #[schema(ignore)]
    guided_regex: Option<Value>,
    #[schema(ignore)]
    guided_choice: Option<Value>,
    #[schema(ignore)]
    guided_grammar: Option<Value>,
    #[schema(ignore)]
    min_tokens: Option<Value>,
}

impl ChatRequest {
    /// Checks the fields that have no effect here.
    pub(super) fn check(&self) -> Result<(), ApiError> {
        let min_tokens = self.min_tokens.clone().filter(|count| *count != 0);
        check_unsupported(&[
            ("functions", &self.functions),
            ("function_call", &self.function_call),
            ("audio", &self.audio),
            ("prediction", &self.prediction),
            ("web_search_options", &self.web_search_options),
            ("structured_outputs", &self.structured_outputs),
            ("guided_json", &self.guided_json),
            ("guided_regex", &self.guided_regex),
            ("guided_choice", &self.guided_choice),
            ("guided_grammar", &self.guided_grammar),
            ("min_tokens", &min_tokens),
        ])?;
        if self.messages.is_empty() {
            let message = "messages: expected at least one, got none";
            return Err(ApiError::field("messages", message));
        }
        Ok(())
    }

    /// The options for generating, checked.
    pub(super) fn plan(&self) -> Result<Plan, ApiError> {
        let logprobs = match (self.logprobs.unwrap_or(false), self.top_logprobs) {
            (true, most) => Some(("top_logprobs", most.unwrap_or(0))),
            (false, None | Some(0)) => None,
            (false, Some(_)) => {
                let message = "top_logprobs: expected logprobs to be true, got false";
                return Err(ApiError::field("top_logprobs", message));
            }
        };
        let asked = Asked {
            limit: match self.max_completion_tokens {
                Some(_) => "max_completion_tokens",
                None => "max_tokens",
            },
            max_tokens: self.max_completion_tokens.or(self.max_tokens),
            temperature: self.temperature,
            top_p: self.top_p,
            top_k: self.top_k,
            min_p: self.min_p,
            repetition_penalty: self.repetition_penalty,
            presence_penalty: self.presence_penalty,
            frequency_penalty: self.frequency_penalty,
            logit_bias: self.logit_bias.clone(),
            seed: self.seed,
            n: self.n,
            stop: self.stop.clone(),
            stop_token_ids: self.stop_token_ids.clone(),
            ignore_eos: self.ignore_eos,
            cache_salt: self.cache_salt.clone(),
            logprobs,
        };
        asked.checked()
    }

    /// The schema of an answer in JSON, if it must be one.
    pub(super) fn schema(&self) -> Result<Option<String>, ApiError> {
        let format = self.response_format.as_ref();
        let schema = format.map(|format| format.schema(FORMAT)).transpose()?;
        Ok(schema.flatten())
    }

    /// The functions that an answer may call, and whether it does.
    pub(super) fn tools(&self) -> Result<(Vec<Tool>, Choice), ApiError> {
        let given = self.tools.iter().flatten().enumerate();
        let tools = given.map(|(at, tool)| Tool::read(tool, at));
        let mut tools: Vec<Tool> = tools.collect::<Result<_, _>>()?;
        let choice = Choice::read(self.tool_choice.as_ref(), &tools)?;
        if choice == Choice::None {
            tools.clear();
        }
        Ok((tools, choice))
    }

    /// Whether an answer may call several functions.
    pub(super) fn several(&self) -> bool {
        self.parallel_tool_calls.unwrap_or(true)
    }

    /// The conversation for the template.
    pub(super) fn into_chat(self) -> Result<Chat, ApiError> {
        let messages = for_template(self.messages, MESSAGES)?;
        let mut chat = Chat::new(messages).with_generation_prompt(true);
        let told = self.tool_choice.as_ref().and_then(Value::as_str) != Some("none");
        if let Some(tools) = self.tools.filter(|tools| told && !tools.is_empty()) {
            chat = chat.with("tools", tools);
        }
        let effort = self.reasoning_effort.map(Value::from);
        let effort = effort.map(|effort| (EFFORT.to_owned(), effort));
        let further = self.chat_template_kwargs.into_iter().flatten();
        for (name, value) in effort.into_iter().chain(further) {
            check_variable(&name, &value)?;
            chat = chat.with(&name, value);
        }
        Ok(chat)
    }
}

/// Checks a variable that a client gives to the template: it replaces none of the conversation's, and has no text in which a model could see
/// one of its own tokens.
fn check_variable(name: &str, value: &Value) -> Result<(), ApiError> {
    const TAKEN: [&str; 4] = ["messages", "tools", "documents", "add_generation_prompt"];
    let param = match name {
        EFFORT => EFFORT.to_owned(),
        _ => format!("chat_template_kwargs.{name}"),
    };
    let plain = match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
        Value::String(text) => text
            .chars()
            .all(|c| c.is_alphanumeric() || " .,:_-".contains(c)),
        Value::Array(_) | Value::Object(_) => false,
    };
    if plain && !TAKEN.contains(&name) && !name.ends_with("_token") {
        return Ok(());
    }
    let message = format!(
        "{param}: expected a flag, a number or words for a variable of the template alone, got {value}"
    );
    Err(ApiError::field(param, message))
}

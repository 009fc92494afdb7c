//! `POST /v1/completions`: continuations of texts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use moebius_engine::Draw;
use moebius_grammar::Part;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::output::{StreamOptions, TextLogprobs, Tokens};
use super::stream::{self, Shape};
use crate::answers::Answers;
use crate::asked::{Asked, Plan, Texts, check_unsupported};
use crate::body;
use crate::error::{ApiError, ErrorBody};
use crate::form::ResponseFormat;
use crate::keys::Caller;
use crate::service::{ServedText, Service, seconds};
use crate::worker::{Finish, Update};

/// Largest number of tokens of an answer where a request doesn't say it, as in OpenAI's interface.
const MOST_TOKENS: usize = 16;

/// Name of the field for the form of a continuation.
const FORMAT: &str = "response_format";

/// A request for continuations. Fields that are not listed are ignored.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct CompletionRequest {
    /// Name of the model.
    model: String,
    /// What to continue.
    prompt: Prompts,
    /// Largest number of tokens of a continuation; 16 if left out.
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
    /// Number of continuations of each prompt, 1 to 4.
    n: Option<usize>,
    /// Texts before which a continuation ends, up to 4 of up to 1024 bytes.
    stop: Option<Texts>,
    /// Ids that end a continuation, up to 256.
    stop_token_ids: Option<Vec<u32>>,
    /// Whether continuations go on after the tokens that end one.
    ignore_eos: Option<bool>,
    /// Separates the prompt's pages in the prefix cache from those of other salts.
    cache_salt: Option<String>,
    /// Tells the tokens' probabilities, and so many of the likeliest tokens in each place, up to 20.
    logprobs: Option<usize>,
    /// Whether to send tokens as they come.
    stream: Option<bool>,
    /// Options of a stream.
    stream_options: Option<StreamOptions>,
    /// Form of the continuation.
    response_format: Option<ResponseFormat>,
    #[schema(ignore)]
    best_of: Option<Value>,
    #[schema(ignore)]
    echo: Option<Value>,
    #[schema(ignore)]
    suffix: Option<Value>,
    #[schema(ignore)]
    prompt_logprobs: Option<Value>,
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

/// What to continue: a text, several, the ids of one, or those of several.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(
    untagged,
    expecting = "expected a text, a list of texts, ids or lists of ids, got another value"
)]
enum Prompts {
    /// A text.
    Text(String),
    /// Several texts.
    Texts(Vec<String>),
    /// Ids of a text.
    Ids(Vec<u32>),
    /// Ids of several texts.
    Lists(Vec<Vec<u32>>),
}

/// Continuations.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Completion {
    id: String,
    object: &'static str,
    created: u64,
    model: String,
    choices: Vec<TextChoice>,
    /// Numbers of tokens; in a stream only in the last event, and only if asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Tokens>)]
    usage: Option<Option<Tokens>>,
}

/// A continuation, or a part of it.
#[derive(Debug, Serialize, ToSchema)]
struct TextChoice {
    index: usize,
    text: String,
    logprobs: Option<TextLogprobs>,
    finish_reason: Option<&'static str>,
}

impl CompletionRequest {
    /// Checks the fields that have no effect here. Their usual values, which some clients always send, ask for nothing.
    fn check(&self) -> Result<(), ApiError> {
        let best_of = self.best_of.clone().filter(|count| *count != 1);
        let min_tokens = self.min_tokens.clone().filter(|count| *count != 0);
        check_unsupported(&[
            ("best_of", &best_of),
            ("echo", &self.echo),
            ("suffix", &self.suffix),
            ("prompt_logprobs", &self.prompt_logprobs),
            ("structured_outputs", &self.structured_outputs),
            ("guided_json", &self.guided_json),
            ("guided_regex", &self.guided_regex),
            ("guided_choice", &self.guided_choice),
            ("guided_grammar", &self.guided_grammar),
            ("min_tokens", &min_tokens),
        ])
    }

    /// The options for generating, checked.
    fn plan(&self) -> Result<Plan, ApiError> {
        let asked = Asked {
            limit: "max_tokens",
            max_tokens: Some(self.max_tokens.unwrap_or(MOST_TOKENS)),
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
            logprobs: self.logprobs.map(|most| ("logprobs", most)),
        };
        asked.checked()
    }
}

impl Prompts {
    /// Number of prompts.
    fn count(&self) -> usize {
        match self {
            Self::Text(_) | Self::Ids(_) => 1,
            Self::Texts(texts) => texts.len(),
            Self::Lists(lists) => lists.len(),
        }
    }

    /// The ids of each prompt.
    fn encode(self, text: &ServedText) -> Result<Vec<Vec<u32>>, ApiError> {
        let encode = |prompt: String| {
            let ids = text.tokenizer.encode(&prompt, true);
            ids.map_err(|error| ApiError::field("prompt", error.to_string()))
        };
        match self {
            Self::Text(text) => Ok(vec![encode(text)?]),
            Self::Texts(texts) => texts.into_iter().map(encode).collect(),
            Self::Ids(ids) => Ok(vec![ids]),
            Self::Lists(lists) => Ok(lists),
        }
    }
}

/// Continues texts.
#[utoipa::path(
    post,
    path = "/v1/completions",
    operation_id = "create_completion",
    request_body = CompletionRequest,
    responses(
        (status = 200, description = "Continuations, or with `stream` events of them", body = Completion),
        (status = "4XX", description = "The request is at fault", body = ErrorBody),
        (status = "5XX", description = "The server is at fault", body = ErrorBody),
    )
)]
pub(crate) async fn create(
    State(service): State<Arc<Service>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, ApiError> {
    let arrived = Instant::now();
    service.open()?;
    let request: CompletionRequest = body::json(request, service.limits()).await?;
    service.check_model(&request.model)?;
    request.check()?;
    let plan = request.plan()?;
    let stream = request.stream.unwrap_or(false);
    let usage = StreamOptions::usage(request.stream_options, stream)?;
    let most = service.limits().running;
    plan.check_choices(most)?;
    let count = request.prompt.count();
    if count == 0 || count.saturating_mul(plan.choices) > most {
        let got = format!("{count} times {}", plan.choices);
        let message = format!("prompt: expected 1 to {most} prompts times n, got {got}");
        return Err(ApiError::field("prompt", message));
    }
    let format = request.response_format.as_ref();
    let schema = format.map(|format| format.schema(FORMAT)).transpose()?;
    let places = service.places(count * plan.choices)?;
    let grammar = match schema.flatten() {
        Some(schema) => Some(service.grammar(FORMAT, vec![Part::Json(schema)]).await?),
        None => None,
    };
    let prompts = request.prompt;
    let prompts = service.encode(move |text| prompts.encode(text)).await?;
    let mut generations = Vec::with_capacity(places.len());
    for prompt in &prompts {
        let of = (&service.text.tokenizer, caller.salt.as_slice());
        generations.extend(plan.generations(prompt, "prompt", service.options.context, of)?);
    }
    let generations = (generations, grammar.as_ref());
    let answers = Answers::start(&service, &plan, generations, places, arrived)?;
    let shape = TextShape {
        id: format!("cmpl-{}", uuid::Uuid::new_v4().simple()),
        created: seconds(),
        service: service.clone(),
        offsets: vec![0; count * plan.choices],
        prompt: prompts.iter().map(Vec::len).sum(),
        generated: 0,
        usage,
        logprobs: plan.tells_logprobs(),
    };
    if stream {
        Ok(stream::respond(service, answers, shape))
    } else {
        Ok(Json(shape.whole(answers).await?).into_response())
    }
}

/// Makes the parts of continuations that a client gets.
struct TextShape {
    id: String,
    created: u64,
    service: Arc<Service>,
    /// Characters of each continuation so far.
    offsets: Vec<usize>,
    /// Tokens of all prompts.
    prompt: usize,
    /// Tokens of all continuations so far.
    generated: usize,
    /// Whether a stream ends with the numbers of tokens.
    usage: bool,
    /// Whether probabilities are told.
    logprobs: bool,
}

impl TextShape {
    /// Waits for the continuations, and returns all of them.
    async fn whole(mut self, mut answers: Answers) -> Result<Completion, ApiError> {
        let empty = |index| TextChoice {
            index,
            text: String::new(),
            logprobs: self.logprobs.then(TextLogprobs::default),
            finish_reason: None,
        };
        let mut choices: Vec<TextChoice> = (0..self.offsets.len()).map(empty).collect();
        while let Some((choice, update)) = answers.next().await? {
            let choice = &mut choices[choice];
            match update {
                Update::Token { draw, text } => {
                    self.generated += 1;
                    if let Some(logprobs) = &mut choice.logprobs {
                        let offset = choice.text.chars().count();
                        logprobs.push(&self.service.text.tokenizer, &draw, offset);
                    }
                    choice.text.push_str(&text);
                }
                Update::End { finish, text } => {
                    choice.text.push_str(&text);
                    choice.finish_reason = Some(finish.name());
                }
            }
        }
        let usage = Tokens::new(self.prompt, self.generated);
        Ok(self.completion(choices, Some(Some(usage))))
    }

    fn completion(&self, choices: Vec<TextChoice>, usage: Option<Option<Tokens>>) -> Completion {
        Completion {
            id: self.id.clone(),
            object: "text_completion",
            created: self.created,
            model: self.service.options.model.clone(),
            choices,
            usage,
        }
    }

    fn part(&mut self, index: usize, text: String, finish: Option<Finish>) -> Completion {
        self.offsets[index] += text.chars().count();
        let choice = TextChoice {
            index,
            text,
            logprobs: None,
            finish_reason: finish.map(Finish::name),
        };
        self.completion(vec![choice], self.usage.then_some(None))
    }
}

impl Shape for TextShape {
    type Chunk = Completion;

    fn first(&mut self) -> Vec<Completion> {
        Vec::new()
    }

    fn token(&mut self, choice: usize, draw: &Draw, text: String) -> Option<Completion> {
        self.generated += 1;
        if text.is_empty() && !self.logprobs {
            return None;
        }
        let offset = self.offsets[choice];
        let mut part = self.part(choice, text, None);
        if self.logprobs {
            let mut logprobs = TextLogprobs::default();
            logprobs.push(&self.service.text.tokenizer, draw, offset);
            for choice in &mut part.choices {
                choice.logprobs = Some(logprobs.clone());
            }
        }
        Some(part)
    }

    fn end(&mut self, choice: usize, finish: Finish, text: String) -> Vec<Completion> {
        vec![self.part(choice, text, Some(finish))]
    }

    fn last(&mut self) -> Vec<Completion> {
        let all = Tokens::new(self.prompt, self.generated);
        let tell = self
            .usage
            .then(|| self.completion(Vec::new(), Some(Some(all))));
        tell.into_iter().collect()
    }
}

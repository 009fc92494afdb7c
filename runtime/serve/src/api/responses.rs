//! `POST /v1/responses`: answers in the shape of OpenAI's newer interface, texts only.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use moebius_engine::Draw;
use moebius_text::{Chat, Message};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::chat;
use super::messages::{ChatMessage, for_template};
use super::reading::Reader;
use super::stream::{self, Shape};
use super::wanted::Wanted;
use crate::answers::Answers;
use crate::asked::{Asked, Plan, check_unsupported};
use crate::body;
use crate::error::{ApiError, ErrorBody};
use crate::form::TextFormat;
use crate::keys::Caller;
use crate::service::{Service, seconds};
use crate::worker::{Finish, Update};

/// Name of the field for the conversation.
const INPUT: &str = "input";

/// Name of the field for the form of an answer.
const FORMAT: &str = "text.format";

/// A request for an answer. Fields that are not listed are ignored; nothing is stored.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct ResponseRequest {
    /// Name of the model.
    model: String,
    /// What the model is asked: a text, or a conversation.
    input: Input,
    /// What the model is told before the conversation.
    instructions: Option<String>,
    /// Largest number of tokens of the answer.
    max_output_tokens: Option<usize>,
    /// Divides the logits before a draw, 0 to 2; 0 takes the likeliest token.
    temperature: Option<f32>,
    /// Draw from the likeliest tokens that have this probability together.
    top_p: Option<f32>,
    /// Whether to send tokens as they come.
    stream: Option<bool>,
    /// Form of the answer.
    text: Option<TextOptions>,
    #[schema(ignore)]
    background: Option<Value>,
    #[schema(ignore)]
    conversation: Option<Value>,
    #[schema(ignore)]
    include: Option<Value>,
    #[schema(ignore)]
    previous_response_id: Option<Value>,
    #[schema(ignore)]
    prompt: Option<Value>,
    #[schema(ignore)]
    tools: Option<Value>,
    #[schema(ignore)]
    top_logprobs: Option<Value>,
}

/// What the model is asked.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(
    untagged,
    expecting = "expected a text or a list of messages, got another value"
)]
enum Input {
    /// A text of the user.
    Text(String),
    /// A conversation.
    Messages(Vec<ChatMessage>),
}

/// Form of an answer.
#[derive(Debug, Deserialize, ToSchema)]
struct TextOptions {
    format: Option<TextFormat>,
}

/// An answer.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct ModelResponse {
    id: String,
    object: &'static str,
    created_at: u64,
    /// `in_progress`, `completed`, or `incomplete` for an answer that was cut at its largest number of tokens.
    status: &'static str,
    error: Option<String>,
    incomplete_details: Option<Incomplete>,
    model: String,
    output: Vec<OutputMessage>,
    usage: Option<ResponseTokens>,
}

/// Why an answer is incomplete.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct Incomplete {
    reason: &'static str,
}

/// The message of an answer.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct OutputMessage {
    id: String,
    r#type: &'static str,
    status: &'static str,
    role: &'static str,
    content: Vec<OutputText>,
}

/// The text of a message.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct OutputText {
    r#type: &'static str,
    text: String,
    #[schema(value_type = Vec<Object>)]
    annotations: [(); 0],
}

/// Numbers of tokens of a request.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
struct ResponseTokens {
    input_tokens: usize,
    output_tokens: usize,
    total_tokens: usize,
}

impl ResponseRequest {
    /// The options for generating, checked.
    fn plan(&self) -> Result<Plan, ApiError> {
        check_unsupported(&[
            ("background", &self.background),
            ("conversation", &self.conversation),
            ("include", &self.include),
            ("previous_response_id", &self.previous_response_id),
            ("prompt", &self.prompt),
            ("tools", &self.tools),
            ("top_logprobs", &self.top_logprobs),
        ])?;
        let asked = Asked {
            limit: "max_output_tokens",
            max_tokens: self.max_output_tokens,
            temperature: self.temperature,
            top_p: self.top_p,
            ..Asked::default()
        };
        asked.checked()
    }

    /// The conversation for the template.
    fn into_chat(self) -> Result<Chat, ApiError> {
        let told = self.instructions;
        let told = told.map(|text| Message::new("system", text)).into_iter();
        let given = match self.input {
            Input::Text(text) => vec![Message::new("user", text)],
            Input::Messages(given) => for_template(given, INPUT)?,
        };
        Ok(Chat::new(told.chain(given)).with_generation_prompt(true))
    }
}

/// Answers a text or a conversation.
#[utoipa::path(
    post,
    path = "/v1/responses",
    operation_id = "create_response",
    request_body = ResponseRequest,
    responses(
        (status = 200, description = "The answer, or with `stream` its events", body = ModelResponse),
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
    let request: ResponseRequest = body::json(request, service.limits()).await?;
    service.check_model(&request.model)?;
    let plan = request.plan()?;
    let format = request.text.as_ref().and_then(|text| text.format.as_ref());
    let schema = format.map(|format| format.schema(FORMAT)).transpose()?;
    let wanted = Wanted::text(&service, FORMAT, schema.flatten());
    let plan = wanted.marked(plan, &service.text.tokenizer);
    let stream = request.stream.unwrap_or(false);
    let places = service.places(plan.choices)?;
    let chat = request.into_chat()?;
    let prompt = service.encode(move |text| chat::encode(text, &chat, INPUT));
    let prompt = prompt.await?;
    let reader = wanted.reader(&prompt, &service.text.tokenizer);
    let grammar = wanted.grammar(&service, &reader).await?;
    let of = (&service.text.tokenizer, caller.salt.as_slice());
    let generations = plan.generations(&prompt, INPUT, service.options.context, of)?;
    let generations = (generations, grammar.as_ref());
    let answers = Answers::start(&service, &plan, generations, places, arrived)?;
    let shape = ResponseShape::new(&service, prompt.len(), reader);
    if stream {
        Ok(stream::respond(service, answers, shape))
    } else {
        Ok(Json(shape.whole(answers).await?).into_response())
    }
}

/// Makes the events of an answer.
struct ResponseShape {
    response: ModelResponse,
    message: OutputMessage,
    /// Reads the answer; reasoning is left out.
    reader: Reader,
    text: String,
    /// Number of the next event.
    sequence: u64,
    /// Tokens of the prompt.
    prompt: usize,
    /// Tokens of the answer so far.
    generated: usize,
}

impl ResponseShape {
    fn new(service: &Service, prompt: usize, reader: Reader) -> Self {
        Self {
            response: ModelResponse {
                id: format!("resp_{}", uuid::Uuid::new_v4().simple()),
                object: "response",
                created_at: seconds(),
                status: "in_progress",
                error: None,
                incomplete_details: None,
                model: service.options.model.clone(),
                output: Vec::new(),
                usage: None,
            },
            message: OutputMessage {
                id: format!("msg_{}", uuid::Uuid::new_v4().simple()),
                r#type: "message",
                status: "in_progress",
                role: "assistant",
                content: Vec::new(),
            },
            reader,
            text: String::new(),
            sequence: 0,
            prompt,
            generated: 0,
        }
    }

    /// Waits for the answer, and returns it.
    async fn whole(mut self, mut answers: Answers) -> Result<ModelResponse, ApiError> {
        while let Some((_, update)) = answers.next().await? {
            match update {
                Update::Token { text, .. } => {
                    self.generated += 1;
                    self.text.push_str(&self.reader.push(&text).answer);
                }
                Update::End { finish, text } => {
                    let rest = self.rest(&text);
                    self.text.push_str(&rest);
                    self.finish(finish);
                }
            }
        }
        Ok(self.response)
    }

    /// What is left of the answer at its end, with the rest of its text.
    fn rest(&mut self, text: &str) -> String {
        self.reader.end(text).map(|told| told.answer).concat()
    }

    /// Completes the response.
    fn finish(&mut self, finish: Finish) {
        self.message.content = vec![OutputText {
            r#type: "output_text",
            text: self.text.clone(),
            annotations: [],
        }];
        self.message.status = match finish {
            Finish::Stop => "completed",
            Finish::Length => "incomplete",
        };
        self.response.status = self.message.status;
        self.response.incomplete_details = (finish == Finish::Length).then_some(Incomplete {
            reason: "max_output_tokens",
        });
        self.response.output = vec![self.message.clone()];
        self.response.usage = Some(ResponseTokens {
            input_tokens: self.prompt,
            output_tokens: self.generated,
            total_tokens: self.prompt + self.generated,
        });
    }

    /// An event of a kind, with its number.
    fn event(&mut self, kind: &str, mut fields: Value) -> Value {
        fields["type"] = Value::from(kind);
        fields["sequence_number"] = Value::from(self.sequence);
        self.sequence += 1;
        fields
    }

    /// An event about the text of the message.
    fn of_text(&mut self, kind: &str, mut fields: Value) -> Value {
        fields["item_id"] = Value::from(self.message.id.as_str());
        fields["output_index"] = Value::from(0);
        fields["content_index"] = Value::from(0);
        self.event(kind, fields)
    }

    /// The event for a piece of the text, if it isn't empty.
    fn delta(&mut self, text: String) -> Option<Value> {
        if text.is_empty() {
            return None;
        }
        self.text.push_str(&text);
        Some(self.of_text("response.output_text.delta", json!({ "delta": text })))
    }
}

impl Shape for ResponseShape {
    type Chunk = Value;

    const MARKS_END: bool = false;

    fn name(chunk: &Value) -> Option<&str> {
        chunk["type"].as_str()
    }

    fn first(&mut self) -> Vec<Value> {
        let response = json!({ "response": self.response });
        let item = json!({ "output_index": 0, "item": self.message });
        let part = json!({ "part": { "type": "output_text", "text": "", "annotations": [] } });
        vec![
            self.event("response.created", response.clone()),
            self.event("response.in_progress", response),
            self.event("response.output_item.added", item),
            self.of_text("response.content_part.added", part),
        ]
    }

    fn token(&mut self, _: usize, _: &Draw, text: String) -> Option<Value> {
        self.generated += 1;
        let answer = self.reader.push(&text).answer;
        self.delta(answer)
    }

    fn end(&mut self, _: usize, finish: Finish, text: String) -> Vec<Value> {
        let rest = self.rest(&text);
        let rest = self.delta(rest);
        self.finish(finish);
        let text = json!({ "text": self.text });
        let part = json!({ "part": self.message.content.first() });
        let item = json!({ "output_index": 0, "item": self.message });
        let kind = format!("response.{}", self.response.status);
        let response = json!({ "response": self.response });
        let mut events: Vec<Value> = rest.into_iter().collect();
        events.push(self.of_text("response.output_text.done", text));
        events.push(self.of_text("response.content_part.done", part));
        events.push(self.event("response.output_item.done", item));
        events.push(self.event(&kind, response));
        events
    }

    fn last(&mut self) -> Vec<Value> {
        Vec::new()
    }
}

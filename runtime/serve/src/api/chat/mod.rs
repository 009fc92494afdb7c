//! `POST /v1/chat/completions`: answers to a conversation.

mod request;
mod shape;

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use moebius_text::Chat;

use super::output::StreamOptions;
use super::stream;
use super::wanted::Wanted;
use crate::answers::Answers;
use crate::body;
use crate::error::{ApiError, ErrorBody};
use crate::keys::Caller;
use crate::service::{ServedText, Service};
use request::{ChatRequest, FORMAT, MESSAGES};
use shape::{ChatCompletion, ChatShape, Telling};

/// Encodes a conversation, that of the field `param`, by the model's template.
///
/// # Errors
/// 400 for a model without a template, and for a conversation that the template refuses.
pub(super) fn encode(text: &ServedText, chat: &Chat, param: &str) -> Result<Vec<u32>, ApiError> {
    let template = text.template.as_ref().ok_or_else(|| {
        let expected = "expected a model with a chat template, got one without";
        let message = format!("{param}: {expected}: /v1/completions takes texts");
        ApiError::field(param, message)
    })?;
    let encoded = template.encode(chat, &text.tokenizer);
    encoded.map_err(|error| ApiError::field(param, error.to_string()))
}

/// Answers a conversation.
#[utoipa::path(
    post,
    path = "/v1/chat/completions",
    operation_id = "create_chat_completion",
    request_body = ChatRequest,
    responses(
        (status = 200, description = "Answers, or with `stream` events of `ChatChunk`", body = ChatCompletion),
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
    let request: ChatRequest = body::json(request, service.limits()).await?;
    service.check_model(&request.model)?;
    request.check()?;
    let (plan, tokenizer) = (request.plan()?, &service.text.tokenizer);
    let wanted = Wanted::text(&service, FORMAT, request.schema()?);
    let wanted = wanted.with_tools(&service, request.tools()?, request.several())?;
    let plan = wanted.marked(plan, tokenizer);
    plan.check_choices(service.limits().places())?;
    let stream = request.stream.unwrap_or(false);
    let usage = StreamOptions::usage(request.stream_options, stream)?;
    let places = service.places(plan.choices)?;
    let chat = request.into_chat()?;
    let prompt = service.encode(move |text| encode(text, &chat, MESSAGES));
    let prompt = prompt.await?;
    let reader = wanted.reader(&prompt, tokenizer);
    let grammar = wanted.grammar(&service, &reader).await?;
    let of = (tokenizer, caller.salt.as_slice());
    let context = service.options.context;
    let generations = plan.generations(&prompt, MESSAGES, context, of)?;
    let generations = (generations, grammar.as_ref());
    let answers = Answers::start(&service, &plan, generations, places, arrived)?;
    let telling = Telling {
        several: wanted.several(),
        usage,
        logprobs: plan.tells_logprobs(),
    };
    let readers = vec![reader; plan.choices];
    let shape = ChatShape::new(&service, readers, prompt.len(), telling);
    if stream {
        Ok(stream::respond(service, answers, shape))
    } else {
        Ok(Json(shape.whole(answers).await?).into_response())
    }
}

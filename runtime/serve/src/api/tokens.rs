//! `POST /tokenize` and `/detokenize`: texts and conversations to ids, and back, as vLLM has them.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use moebius_text::{Chat, Tokenizer};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::chat;
use super::messages::{ChatMessage, for_template};
use crate::body;
use crate::error::{ApiError, ErrorBody};
use crate::service::Service;

/// A text or a conversation to encode.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct TokenizeRequest {
    /// Name of the model; the served one if left out.
    model: Option<String>,
    /// Text to encode.
    prompt: Option<String>,
    /// Conversation to encode, in place of a text.
    messages: Option<Vec<ChatMessage>>,
    /// Whether to add the tokens that the vocabulary puts around texts; on if left out. A template writes its own.
    add_special_tokens: Option<bool>,
    /// Whether a conversation ends with the beginning of an answer; on if left out.
    add_generation_prompt: Option<bool>,
    /// Whether to tell the tokens' texts.
    return_token_strs: Option<bool>,
}

/// Ids of a text.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Tokenized {
    /// Number of tokens.
    count: usize,
    /// Largest number of tokens of a request, prompt and answer.
    max_model_len: usize,
    /// Ids of the tokens.
    tokens: Vec<u32>,
    /// Texts of the tokens in the vocabulary, if asked for.
    token_strs: Option<Vec<String>>,
}

/// Ids to decode.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct DetokenizeRequest {
    /// Name of the model; the served one if left out.
    model: Option<String>,
    /// Ids of tokens.
    tokens: Vec<u32>,
}

/// Text of ids.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Detokenized {
    /// The text.
    prompt: String,
}

/// Encodes a text or a conversation.
#[utoipa::path(
    post,
    path = "/tokenize",
    operation_id = "tokenize",
    request_body = TokenizeRequest,
    responses(
        (status = 200, description = "The ids", body = Tokenized),
        (status = "4XX", description = "The request is at fault", body = ErrorBody),
    )
)]
pub(crate) async fn encode(
    State(service): State<Arc<Service>>,
    request: Request,
) -> Result<Json<Tokenized>, ApiError> {
    let request: TokenizeRequest = body::json(request, service.limits()).await?;
    check_model(&service, request.model.as_deref())?;
    let names = request.return_token_strs.unwrap_or(false);
    let tokens = service
        .encode(move |text| match (request.prompt, request.messages) {
            (Some(prompt), None) => {
                let special = request.add_special_tokens.unwrap_or(true);
                let ids = text.tokenizer.encode(&prompt, special);
                ids.map_err(|error| ApiError::field("prompt", error.to_string()))
            }
            (None, Some(messages)) => {
                let begins = request.add_generation_prompt.unwrap_or(true);
                let chat = Chat::new(for_template(messages, "messages")?);
                chat::encode(text, &chat.with_generation_prompt(begins), "messages")
            }
            _ => {
                let message = "prompt: expected either a prompt or messages, got both or neither";
                Err(ApiError::field("prompt", message))
            }
        })
        .await?;
    Ok(Json(Tokenized {
        count: tokens.len(),
        max_model_len: service.options.context,
        token_strs: names.then(|| texts(&service.text.tokenizer, &tokens)),
        tokens,
    }))
}

/// Decodes ids.
#[utoipa::path(
    post,
    path = "/detokenize",
    operation_id = "detokenize",
    request_body = DetokenizeRequest,
    responses(
        (status = 200, description = "The text", body = Detokenized),
        (status = "4XX", description = "The request is at fault", body = ErrorBody),
    )
)]
pub(crate) async fn decode(
    State(service): State<Arc<Service>>,
    request: Request,
) -> Result<Json<Detokenized>, ApiError> {
    let request: DetokenizeRequest = body::json(request, service.limits()).await?;
    check_model(&service, request.model.as_deref())?;
    let prompt = service
        .encode(move |text| {
            let unknown = |id: &&u32| text.tokenizer.token(**id).is_none();
            if let Some(id) = request.tokens.iter().find(unknown) {
                let message = format!("tokens: expected ids of the vocabulary, got {id}");
                return Err(ApiError::field("tokens", message));
            }
            let decoded = text.tokenizer.decode(&request.tokens, false);
            decoded.map_err(|error| ApiError::field("tokens", error.to_string()))
        })
        .await?;
    Ok(Json(Detokenized { prompt }))
}

fn check_model(service: &Service, asked: Option<&str>) -> Result<(), ApiError> {
    asked.map_or(Ok(()), |asked| service.check_model(asked))
}

/// The texts of tokens in the vocabulary.
fn texts(tokenizer: &Tokenizer, ids: &[u32]) -> Vec<String> {
    let texts = ids.iter().map(|id| tokenizer.token(*id));
    texts.map(Option::unwrap_or_default).collect()
}

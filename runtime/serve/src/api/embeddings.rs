//! `POST /v1/embeddings`: vectors of texts, which no served model gives yet.

use std::sync::Arc;

use axum::extract::{Request, State};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::body;
use crate::error::{ApiError, ErrorBody};
use crate::service::Service;

/// A request for vectors.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct EmbeddingRequest {
    /// Name of the model.
    model: String,
}

/// Refuses a request for vectors: all models that are read are decoders, which were not made for them.
#[utoipa::path(
    post,
    path = "/v1/embeddings",
    operation_id = "create_embeddings",
    request_body = EmbeddingRequest,
    responses((status = "4XX", description = "The model gives no vectors", body = ErrorBody))
)]
pub(crate) async fn create(State(service): State<Arc<Service>>, request: Request) -> ApiError {
    let request = body::json::<EmbeddingRequest>(request, service.limits()).await;
    let checked = request.and_then(|request| service.check_model(&request.model));
    checked.err().unwrap_or_else(|| {
        let message = "model: expected one that gives embeddings, got a decoder, which gives texts";
        ApiError::field("model", message)
    })
}

//! `GET /v1/models`: which model is served.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use serde::Serialize;
use utoipa::ToSchema;

use crate::error::{ApiError, ErrorBody};
use crate::service::Service;

/// The models that are served.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Models {
    object: &'static str,
    data: Vec<ServedModel>,
}

/// A model that is served.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ServedModel {
    /// Name under which requests ask for the model.
    id: String,
    object: &'static str,
    created: u64,
    owned_by: &'static str,
    /// Largest number of tokens of a request, prompt and answer.
    max_model_len: usize,
    /// Whether conversations are answered: the model has a chat template.
    chat: bool,
}

impl ServedModel {
    fn of(service: &Service) -> Self {
        Self {
            id: service.options.model.clone(),
            object: "model",
            created: service.created,
            owned_by: "moebius",
            max_model_len: service.options.context,
            chat: service.text.template.is_some(),
        }
    }
}

/// Lists the models.
#[utoipa::path(get, path = "/v1/models", responses((status = 200, description = "The models", body = Models)))]
pub(crate) async fn list(State(service): State<Arc<Service>>) -> Json<Models> {
    Json(Models {
        object: "list",
        data: vec![ServedModel::of(&service)],
    })
}

/// Describes a model.
#[utoipa::path(
    get,
    path = "/v1/models/{id}",
    params(("id" = String, Path, description = "Name of the model")),
    responses(
        (status = 200, description = "The model", body = ServedModel),
        (status = 404, description = "Another model", body = ErrorBody),
    )
)]
pub(crate) async fn describe(
    State(service): State<Arc<Service>>,
    Path(id): Path<String>,
) -> Result<Json<ServedModel>, ApiError> {
    service.check_model(&id)?;
    Ok(Json(ServedModel::of(&service)))
}

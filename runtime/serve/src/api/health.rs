//! `/health/…`, `/version` and `/metrics`: what supervisors and scrapers ask.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use crate::error::{ApiError, ErrorBody};
use crate::metrics::Exposition;
use crate::service::Service;

/// State of the server.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Health {
    status: &'static str,
}

/// Version of the server.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Version {
    version: &'static str,
}

/// Tells that the process answers.
#[utoipa::path(get, path = "/health/live", responses((status = 200, description = "The process answers", body = Health)))]
pub(crate) async fn live() -> Json<Health> {
    Json(Health { status: "live" })
}

/// Tells whether requests are answered.
#[utoipa::path(
    get,
    path = "/health/ready",
    responses(
        (status = 200, description = "Requests are answered", body = Health),
        (status = 500, description = "The engine is gone", body = ErrorBody),
        (status = 503, description = "The model is being loaded, or the server stops", body = ErrorBody),
    )
)]
pub(crate) async fn ready(State(service): State<Arc<Service>>) -> Result<Json<Health>, ApiError> {
    service.ready()?;
    Ok(Json(Health { status: "ready" }))
}

/// Tells whether requests are answered, as `/health/ready`.
#[utoipa::path(
    get,
    path = "/health",
    responses(
        (status = 200, description = "Requests are answered", body = Health),
        (status = "5XX", description = "Requests are not answered", body = ErrorBody),
    )
)]
pub(crate) async fn health(State(service): State<Arc<Service>>) -> Result<Json<Health>, ApiError> {
    ready(State(service)).await
}

/// Tells the version.
#[utoipa::path(get, path = "/version", responses((status = 200, description = "The version", body = Version)))]
pub(crate) async fn version() -> Json<Version> {
    Json(Version {
        version: env!("CARGO_PKG_VERSION"),
    })
}

/// Tells all metrics, in OpenMetrics' text or Prometheus' own.
#[utoipa::path(
    get,
    path = "/metrics",
    responses((status = 200, description = "The metrics", body = String, content_type = "text/plain"))
)]
pub(crate) async fn metrics(
    State(service): State<Arc<Service>>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let accept = headers.get(header::ACCEPT);
    let accept = accept
        .and_then(|accept| accept.to_str().ok())
        .unwrap_or_default();
    let form = Exposition::accepted(accept);
    let text = service.metrics.exposition(form);
    let text = text.map_err(|error| ApiError::internal("unwritable", error.to_string()))?;
    let kind = [(header::CONTENT_TYPE, form.content_type())];
    Ok((kind, text).into_response())
}

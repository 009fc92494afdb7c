//! The paths of the server, and its description in OpenAPI.

mod access;
mod calls;
mod chat;
mod completions;
mod embeddings;
mod health;
mod infer;
mod messages;
mod models;
mod output;
mod page;
mod reading;
mod reasoning;
mod responses;
mod stream;
mod tokens;
mod told;
mod wanted;

use std::any::Any;
use std::sync::Arc;

use axum::extract::Request;
use axum::http::Method;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router, middleware};
use tower_http::catch_panic::CatchPanicLayer;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::error::ApiError;
use crate::panics::message_of;
use crate::service::Service;

/// Description of the server in OpenAPI.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Moebius",
        description = "A language model in the shape of OpenAI's interface"
    ),
    paths(models::describe)
)]
struct Document;

/// The router of all paths.
pub(crate) fn router(service: Arc<Service>) -> Router {
    let (router, document) = OpenApiRouter::with_openapi(Document::openapi())
        .routes(routes!(chat::create))
        .routes(routes!(completions::create))
        .routes(routes!(responses::create))
        .routes(routes!(embeddings::create))
        .routes(routes!(infer::create))
        .routes(routes!(models::list))
        .routes(routes!(tokens::encode))
        .routes(routes!(tokens::decode))
        .routes(routes!(health::live))
        .routes(routes!(health::ready))
        .routes(routes!(health::health))
        .routes(routes!(health::version))
        .routes(routes!(health::metrics))
        .split_for_parts();
    let describe = move || {
        let document = document.clone();
        async move { Json(document) }
    };
    let authorise = middleware::from_fn_with_state(service.clone(), access::authorise);
    let observe = middleware::from_fn_with_state(service.clone(), access::observe);
    router
        .route("/openapi.json", get(describe))
        // A name may have slashes, which not all clients encode.
        .route("/v1/models/{*id}", get(models::describe))
        .merge(page::routes())
        .fallback(no_path)
        .method_not_allowed_fallback(no_method)
        .layer(CatchPanicLayer::custom(panicked))
        .layer(authorise)
        .layer(observe)
        .with_state(service)
}

async fn no_path(request: Request) -> ApiError {
    ApiError::no_path(request.uri().path())
}

async fn no_method(method: Method) -> ApiError {
    ApiError::no_method(method.as_str())
}

/// The response to a request whose handler panicked; the panic's message is for the log alone.
fn panicked(panic: Box<dyn Any + Send + 'static>) -> Response {
    tracing::error!(panic = message_of(&*panic), "a handler failed");
    ApiError::internal("handler_failed", "the server failed on this request").into_response()
}

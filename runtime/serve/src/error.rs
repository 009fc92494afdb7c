//! Errors: what a client is told, in OpenAI's form, and why a server ends.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use crate::admission::Full;
use crate::worker::Failure;

/// Why a server could not start, or ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The address can't be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: String,
        /// Error of the system.
        source: std::io::Error,
    },
    /// The engine's thread can't be started.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
    /// An address that others reach needs keys.
    #[error(
        "{address}: expected keys for an address that other machines reach, or leave to serve everybody, got neither"
    )]
    Insecure {
        /// The address.
        address: String,
    },
    /// The certificate or its private key can't be used.
    #[error("TLS: {0}")]
    Tls(String),
    /// The model can't be loaded.
    #[error("cannot load the model: {0}")]
    Load(String),
    /// The engine failed while the server ran; all requests were ended.
    #[error("the engine failed: {0}")]
    Engine(String),
}

/// An error as a client is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ApiError {
    status: StatusCode,
    kind: &'static str,
    code: Option<&'static str>,
    param: Option<String>,
    message: String,
    /// Seconds after which the client may try again.
    retry_after: Option<u64>,
}

/// The body of an error.
#[derive(Serialize, ToSchema)]
pub(crate) struct ErrorBody {
    error: ErrorFields,
}

/// What went wrong.
#[derive(Serialize, ToSchema)]
struct ErrorFields {
    /// What was expected and what came.
    message: String,
    /// Kind of the error.
    r#type: &'static str,
    /// Field of the request that is at fault, if it is one.
    param: Option<String>,
    /// Name of the error for programs.
    code: Option<&'static str>,
}

const INVALID: &str = "invalid_request_error";
const SERVER: &str = "server_error";

impl ApiError {
    fn new(status: StatusCode, kind: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            kind,
            code: None,
            param: None,
            message: message.into(),
            retry_after: None,
        }
    }

    fn coded(self, code: &'static str) -> Self {
        Self {
            code: Some(code),
            ..self
        }
    }

    fn after(self, seconds: u64) -> Self {
        Self {
            retry_after: Some(seconds),
            ..self
        }
    }

    /// A request that can't be understood.
    pub(crate) fn malformed(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, INVALID, message).coded("invalid_json")
    }

    /// A field whose value can't be used.
    pub(crate) fn field(param: impl Into<String>, message: impl Into<String>) -> Self {
        let param = Some(param.into()).filter(|param| !param.is_empty());
        let error = Self::new(StatusCode::BAD_REQUEST, INVALID, message).coded("invalid_value");
        Self { param, ..error }
    }

    /// A field that is known, but has no effect here.
    pub(crate) fn unsupported(param: &str) -> Self {
        let message = format!("{param}: expected no value, as it is not supported, got one");
        let error = Self::field(param, message);
        error.coded("unsupported_parameter")
    }

    /// A field that this model can't follow, and why.
    pub(crate) fn unsupported_here(param: &str, why: impl std::fmt::Display) -> Self {
        let error = Self::field(param, format!("{param}: {why}"));
        error.coded("unsupported_parameter")
    }

    /// More tokens than the model's context has.
    pub(crate) fn too_long(param: &str, message: String) -> Self {
        Self::field(param, message).coded("context_length_exceeded")
    }

    /// A key that is missing or unknown.
    pub(crate) fn unauthorised() -> Self {
        let message = "expected a known key in `Authorization: Bearer KEY`, got another or none";
        Self::new(StatusCode::UNAUTHORIZED, INVALID, message).coded("invalid_api_key")
    }

    /// A model that isn't served.
    pub(crate) fn no_model(served: &str, asked: &str) -> Self {
        let message = format!("model: expected {served:?}, got {asked:?}");
        let error = Self::new(StatusCode::NOT_FOUND, INVALID, message).coded("model_not_found");
        Self {
            param: Some("model".to_owned()),
            ..error
        }
    }

    /// A path that doesn't exist.
    pub(crate) fn no_path(path: &str) -> Self {
        let message = format!("expected a path of /openapi.json, got {path:?}");
        Self::new(StatusCode::NOT_FOUND, INVALID, message).coded("not_found")
    }

    /// A method that a path doesn't have.
    pub(crate) fn no_method(method: &str) -> Self {
        let message = format!("expected another method for this path, got {method}");
        Self::new(StatusCode::METHOD_NOT_ALLOWED, INVALID, message).coded("method_not_allowed")
    }

    /// A body that is too large.
    pub(crate) fn too_large(most: usize) -> Self {
        let message = format!("expected a body of at most {most} bytes, got more");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, INVALID, message).coded("body_too_large")
    }

    /// A body of another type.
    pub(crate) fn media_type(expected: &str, got: &str) -> Self {
        let message = format!("content-type: expected {expected}, got {got:?}");
        let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        Self::new(status, INVALID, message).coded("unsupported_media_type")
    }

    /// A body that comes too slowly.
    pub(crate) fn slow_body(seconds: f64) -> Self {
        let message = format!("expected the body within {seconds} s, got only a part of it");
        Self::new(StatusCode::REQUEST_TIMEOUT, INVALID, message).coded("request_timeout")
    }

    /// A queue that is full.
    pub(crate) fn full(full: Full) -> Self {
        let message = format!("too many {} wait; try again later", full.what);
        let status = StatusCode::TOO_MANY_REQUESTS;
        Self::new(status, "rate_limit_error", message)
            .coded("rate_limit_exceeded")
            .after(full.retry_after)
    }

    /// A server that can't answer now, but may after `seconds`.
    pub(crate) fn unavailable(code: &'static str, message: &str, seconds: u64) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, SERVER, message)
            .coded(code)
            .after(seconds)
    }

    /// A fault of the server.
    pub(crate) fn internal(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, SERVER, message).coded(code)
    }

    /// An answer that couldn't be given; after `seconds` there may be room for another one.
    pub(crate) fn failure(failure: &Failure, seconds: u64) -> Self {
        let message = failure.to_string();
        match failure {
            Failure::Refused(_) => Self::field("", message),
            Failure::Unusable(_) => Self::internal("unusable_output", message),
            Failure::NoRoom(_) => Self::internal("out_of_memory", message),
            Failure::Gone => Self::internal("engine_failed", message),
            Failure::Queued => Self::unavailable("queue_timeout", &message, seconds),
            Failure::Slow => Self::unavailable("request_timeout", &message, seconds),
            Failure::Draining => Self::unavailable("draining", &message, seconds),
        }
    }

    /// The status that tells the error.
    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    /// The body that tells the error.
    pub(crate) fn body(&self) -> ErrorBody {
        ErrorBody {
            error: ErrorFields {
                message: self.message.clone(),
                r#type: self.kind,
                param: self.param.clone(),
                code: self.code,
            },
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.body())).into_response();
        let headers = response.headers_mut();
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            let scheme = HeaderValue::from_static("Bearer");
            headers.insert(header::WWW_AUTHENTICATE, scheme);
        }
        response
    }
}

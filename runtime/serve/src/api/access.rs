//! What happens around every request: a name, a key, a line in the log, and a count if it fails.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::Response;
use hyper::body::{Frame, SizeHint};
use tracing::Instrument;

use super::page;
use crate::error::ApiError;
use crate::service::Service;
use crate::traces::Trace;

/// Header that names a request, in requests and in responses.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Longest name of a request that is taken from a client.
const LONGEST_ID: usize = 64;

/// Status that the log tells for a client that left before its response was complete.
const LEFT: u16 = 499;

/// Paths that need no key, beside those of the page's files, which hold nothing of the model.
const OPEN_PATHS: [&str; 3] = ["/health", "/health/live", "/health/ready"];

/// Checks the key of a request, and tells the handlers whose it is.
pub(super) async fn authorise(
    State(service): State<Arc<Service>>,
    mut request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let path = request.uri().path();
    if !OPEN_PATHS.contains(&path) && !page::has(path) {
        let caller = service.keys.caller(key(request.headers()));
        let caller = caller.ok_or_else(ApiError::unauthorised)?;
        request.extensions_mut().insert(caller);
    }
    Ok(next.run(request).await)
}

/// The key in the header `Authorization: Bearer KEY`.
fn key(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(header::AUTHORIZATION)?.as_bytes();
    let (scheme, key) = value.split_at_checked("Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then_some(key)
}

/// Names a request, and logs, counts and traces its end: that of its body, or the moment when its client left.
pub(super) async fn observe(
    State(service): State<Arc<Service>>,
    request: Request,
    next: Next,
) -> Response {
    let id = name(request.headers());
    let head = *request.method() == Method::HEAD;
    let trace = if watches(request.uri().path()) {
        Trace::default()
    } else {
        service.options.traces.begin(&request, &id)
    };
    let mut seen = Seen {
        id: id.clone(),
        method: request.method().clone(),
        path: request.uri().path().to_owned(),
        begun: Instant::now(),
        status: LEFT,
        trace: trace.clone(),
        service,
    };
    let span = tracing::info_span!("request", id);
    let handled = next.run(request).instrument(span);
    let mut response = trace.around(handled).await;
    // The name has only characters that a header may have.
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    let status = response.status().as_u16();
    if head || response.body().is_end_stream() {
        // No body follows.
        seen.status = status;
        return response;
    }
    response.map(|body| Body::new(SeenBody { body, status, seen }))
}

/// The client's name for a request, or a new one.
fn name(headers: &HeaderMap) -> String {
    let given = headers.get(REQUEST_ID).and_then(|id| id.to_str().ok());
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let given = given.filter(|id| (1..=LONGEST_ID).contains(&id.len()) && id.chars().all(plain));
    given.map_or_else(|| uuid::Uuid::new_v4().simple().to_string(), str::to_owned)
}

/// A request until its end, which is logged, counted and traced.
struct Seen {
    service: Arc<Service>,
    id: String,
    method: Method,
    path: String,
    begun: Instant,
    status: u16,
    trace: Trace,
}

/// Whether a path is asked every few seconds by what watches the server. Such a request is no client's: it is neither counted nor traced,
/// and is logged only where everything is.
fn watches(path: &str) -> bool {
    path == "/metrics" || path == "/health" || path.starts_with("/health/")
}

impl Drop for Seen {
    fn drop(&mut self) {
        if watches(&self.path) {
            tracing::debug!(
                id = self.id,
                path = self.path,
                status = self.status,
                "watched"
            );
            return;
        }
        if self.status >= 400 {
            self.service.metrics.failed(self.status);
        }
        tracing::info!(
            id = self.id,
            method = self.method.as_str(),
            path = self.path,
            status = self.status,
            seconds = self.begun.elapsed().as_secs_f64(),
            "request"
        );
        self.trace.end(self.status);
    }
}

/// The body of a response, whose end is that of the request.
struct SeenBody {
    body: Body,
    /// Status of the response.
    status: u16,
    seen: Seen,
}

impl HttpBody for SeenBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if frame.is_none() || self.body.is_end_stream() {
            self.seen.status = self.status;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: HeaderName, value: &'static str) -> HeaderMap {
        [(name, HeaderValue::from_static(value))]
            .into_iter()
            .collect()
    }

    #[test]
    fn the_key_is_that_of_the_header() {
        for (value, expected) in [
            ("Bearer abc", Some("abc")),
            ("bearer abc", Some("abc")),
            ("Bearer ", Some("")),
            ("Basic abc", None),
            ("Bea", None),
        ] {
            let found = headers(header::AUTHORIZATION, value);
            assert_eq!(key(&found), expected.map(str::as_bytes), "{value}");
        }
        assert_eq!(key(&HeaderMap::new()), None);
    }

    #[test]
    fn probes_are_no_requests_of_clients() {
        for path in ["/health", "/health/live", "/health/ready", "/metrics"] {
            assert!(watches(path), "{path}");
        }
        for path in ["/", "/healthy", "/metrics/", "/v1/models"] {
            assert!(!watches(path), "{path}");
        }
    }

    #[test]
    fn a_harmless_name_of_a_client_is_kept() {
        assert_eq!(name(&headers(REQUEST_ID, "abc-1_2.3")), "abc-1_2.3");
        for other in ["a b", "", "a\"b"] {
            assert_eq!(name(&headers(REQUEST_ID, other)).len(), 32, "{other}");
        }
    }
}

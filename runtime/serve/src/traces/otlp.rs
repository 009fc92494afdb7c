//! Spans that go to a collector by OTLP over HTTP: a thread of OpenTelemetry's library sends them from a bounded queue, so that no request
//! waits for the collector.

use std::future::Future;
use std::time::{Duration, Instant, SystemTime};

use async_trait::async_trait;
use axum::body::Body;
use axum::extract::MatchedPath;
use axum::http::Uri;
use opentelemetry::propagation::TextMapPropagator;
use opentelemetry::trace::{FutureExt, SpanKind, Status, TraceContextExt, Tracer, TracerProvider};
use opentelemetry::{Context, Key, KeyValue};
use opentelemetry_http::{Bytes, HeaderExtractor, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::SdkTracerProvider;
use ureq::Agent;

use super::TracesError;

/// Name of a server whose environment names none.
const SERVICE: &str = "moebius";

/// Longest time of a request to the collector, that of OTLP's exporters.
const EXPORT: Duration = Duration::from_secs(10);

/// Longest time for which a stop waits for the spans that are left.
const LAST_SPANS: Duration = Duration::from_secs(5);

/// Where the spans of requests go: nowhere by default, else to a collector. Clones share the queue.
#[derive(Clone, Debug, Default)]
pub struct Traces(Option<SdkTracerProvider>);

impl Traces {
    /// Traces of which a collector is told by OTLP over HTTP, in protobuf: one at an address such as `http://127.0.0.1:4318`, to which
    /// `/v1/traces` is added, else the one that the environment names. OpenTelemetry's library reads the variables `OTEL_…`.
    ///
    /// A server that ends sends what is left; later spans go nowhere.
    ///
    /// # Errors
    /// [`TracesError::Address`] for another text, and [`TracesError::Exporter`] for variables that can't be used.
    pub fn over_otlp(collector: Option<&str>) -> Result<Self, TracesError> {
        let agent: Agent = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(EXPORT))
            .build()
            .into();
        let exporter = SpanExporter::builder().with_http();
        let mut exporter = exporter.with_http_client(Client(agent));
        if let Some(collector) = collector {
            exporter = exporter.with_endpoint(address(collector)?);
        }
        let exporter = exporter.build();
        let exporter = exporter.map_err(|error| TracesError::Exporter(error.to_string()))?;
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_resource(resource());
        Ok(Self(Some(provider.build())))
    }

    /// Begins the span of a request that is called `id`: a part of the trace that the request's headers name, or of a new one.
    pub(crate) fn begin(&self, request: &Request<Body>, id: &str) -> Trace {
        let Some(provider) = &self.0 else {
            return Trace::default();
        };
        let headers = HeaderExtractor(request.headers());
        let caller = TraceContextPropagator::new().extract_with_context(&Context::new(), &headers);
        let method = request.method().as_str();
        let route = request.extensions().get::<MatchedPath>();
        let route = route.map(MatchedPath::as_str);
        // Paths that lead nowhere name no span, because clients make them up.
        let name = route.map_or_else(|| method.to_owned(), |route| format!("{method} {route}"));
        let mut attributes = vec![
            KeyValue::new("http.request.method", method.to_owned()),
            KeyValue::new("url.path", request.uri().path().to_owned()),
            KeyValue::new("gen_ai.request.id", id.to_owned()),
        ];
        attributes.extend(route.map(|route| KeyValue::new("http.route", route.to_owned())));
        let tracer = provider.tracer("moebius-serve");
        let span = tracer
            .span_builder(name)
            .with_kind(SpanKind::Server)
            .with_attributes(attributes)
            .start_with_context(&tracer, &caller);
        Trace(caller.with_span(span))
    }

    /// Sends the spans that are left, within [`LAST_SPANS`].
    pub(crate) async fn end(self) {
        let Some(provider) = self.0 else {
            return;
        };
        let ended = move || provider.shutdown_with_timeout(LAST_SPANS);
        match tokio::task::spawn_blocking(ended).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "spans of requests were lost"),
            Err(error) => tracing::warn!(%error, "spans of requests were lost"),
        }
    }
}

/// The address for spans of a collector.
fn address(collector: &str) -> Result<String, TracesError> {
    let address = format!("{}/v1/traces", collector.trim_end_matches('/'));
    let scheme = |uri: Uri| matches!(uri.scheme_str(), Some("http" | "https"));
    if address.parse().is_ok_and(scheme) {
        Ok(address)
    } else {
        Err(TracesError::Address(collector.to_owned()))
    }
}

/// What the spans come from, as the environment says.
fn resource() -> Resource {
    let told = Resource::builder()
        .build()
        .get(&Key::from_static_str("service.name"));
    // The library's name for a service that nobody named.
    let told = told.filter(|name| !name.as_str().starts_with("unknown_service"));
    Resource::builder()
        .with_service_name(told.unwrap_or_else(|| SERVICE.into()))
        .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
        .build()
}

/// The exporter's way to the collector, which blocks the thread that sends spans and no other.
#[derive(Debug)]
struct Client(Agent);

#[async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (head, body) = request.into_parts();
        let response = self.0.run(Request::from_parts(head, &body[..]))?;
        let (head, mut body) = response.into_parts();
        Ok(Response::from_parts(head, body.read_to_vec()?.into()))
    }
}

/// The trace of a request: its span, or none. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trace(Context);

impl Trace {
    /// The trace of the request that the present task answers.
    pub(crate) fn current() -> Self {
        Self(Context::current())
    }

    /// Makes the trace the current one of `work`.
    pub(crate) fn around<F: Future>(self, work: F) -> impl Future<Output = F::Output> {
        work.with_context(self.0)
    }

    /// Tells that the model is asked for answers to prompts of so many tokens, which wait now.
    pub(crate) fn asked(&self, model: &str, tokens: usize) {
        let span = self.0.span();
        span.set_attribute(KeyValue::new("gen_ai.request.model", model.to_owned()));
        span.set_attribute(KeyValue::new("gen_ai.usage.input_tokens", tokens as i64));
        span.add_event("queued", Vec::new());
    }

    /// Tells what happened to an answer of the request.
    pub(crate) fn told(&self, event: &'static str, choice: usize, at: Instant) {
        let now = SystemTime::now();
        let at = now.checked_sub(at.elapsed()).unwrap_or(now);
        let choice = vec![KeyValue::new("choice", choice as i64)];
        self.0.span().add_event_with_timestamp(event, at, choice);
    }

    /// Tells how many tokens all answers of the request have.
    pub(crate) fn generated(&self, tokens: usize) {
        let tokens = KeyValue::new("gen_ai.usage.output_tokens", tokens as i64);
        self.0.span().set_attribute(tokens);
    }

    /// Tells that the request failed, with the status that says so.
    pub(crate) fn failed(&self, status: u16) {
        let span = self.0.span();
        span.set_attribute(KeyValue::new("error.type", status.to_string()));
        span.set_status(Status::error(""));
    }

    /// Ends the span with the response's status. What a client did wrong is no failure here.
    pub(crate) fn end(&self, status: u16) {
        if status >= 500 {
            self.failed(status);
        }
        let span = self.0.span();
        let status = i64::from(status);
        span.set_attribute(KeyValue::new("http.response.status_code", status));
        span.end();
    }
}

//! Traces of requests, as a collector gets them by OTLP.
#![cfg(all(feature = "flex", feature = "otlp"))]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that can't set itself up has failed"
)]

mod served;

use std::time::Duration;

use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use moebius_serve::{Access, ServeOptions, Traces};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use served::{Fault, MODEL, Served, call, chat, options};

const CHAT: &str = "/v1/chat/completions";
const PROMPT: &str = "w3 w14 w15 w92";

/// A trace and a span of a caller.
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLER: &str = "b7ad6b7169203331";

/// Status of spans that failed.
const ERROR: i32 = 2;

/// What a collector got.
struct Got(UnboundedReceiver<ExportTraceServiceRequest>);

impl Got {
    fn spans(&mut self) -> Vec<Span> {
        let mut spans = Vec::new();
        while let Ok(request) = self.0.try_recv() {
            let parts = request.resource_spans.into_iter();
            let parts = parts.flat_map(|part| part.scope_spans);
            spans.extend(parts.flat_map(|part| part.spans));
        }
        spans
    }
}

/// A collector's address, and what it gets.
async fn collector() -> (String, Got) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (sender, got) = unbounded_channel();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let sender = sender.clone();
            let take = service_fn(move |request: Request<Incoming>| {
                let sender = sender.clone();
                async move {
                    assert_eq!(request.uri().path(), "/v1/traces");
                    let body = request.into_body().collect().await?.to_bytes();
                    let told = ExportTraceServiceRequest::decode(body).unwrap();
                    sender.send(told).unwrap();
                    Ok::<_, hyper::Error>(Response::new(Empty::<Bytes>::new()))
                }
            });
            let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), take);
            tokio::spawn(connection);
        }
    });
    (address, Got(got))
}

/// A server that tells a collector of requests.
async fn traced(collector: &str, options: ServeOptions, fault: Fault) -> Served {
    let traces = Traces::over_otlp(Some(collector)).unwrap();
    let options = ServeOptions { traces, ..options };
    Served::with(options, Access::local(0), fault).await
}

/// An attribute of a span.
#[track_caller]
fn attribute(span: &Span, name: &str) -> Value {
    let found = span.attributes.iter().find(|one| one.key == name);
    let value = found.and_then(|one| one.value.as_ref()?.value.as_ref());
    match value {
        Some(any_value::Value::StringValue(text)) => json!(text),
        Some(any_value::Value::IntValue(number)) => json!(number),
        other => panic!("{name} is {other:?} in {span:?}"),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_a_span_of_its_callers_trace() {
    let (address, mut got) = collector().await;
    let served = traced(&address, options(), Fault::None).await;
    let parent = format!("00-{TRACE}-{CALLER}-01");
    let headers = [
        ("content-type", "application/json"),
        ("traceparent", parent.as_str()),
        ("x-request-id", "mine"),
    ];
    let body = chat(PROMPT, &json!({"n": 2})).to_string();
    let reply = call(served.address, "POST", CHAT, &headers, body).await;
    let usage = &reply.json()["usage"];
    served.stop().await;
    // What watches the server has no spans.
    let spans = got.spans();
    let [span] = &spans[..] else {
        panic!("{spans:?}");
    };
    assert_eq!(span.name, format!("POST {CHAT}"));
    assert_eq!(hex(&span.trace_id), TRACE);
    assert_eq!(hex(&span.parent_span_id), CALLER);
    for (name, value) in [
        ("http.request.method", json!("POST")),
        ("http.response.status_code", json!(200)),
        ("http.route", json!(CHAT)),
        ("gen_ai.request.id", json!("mine")),
        ("gen_ai.request.model", json!(MODEL)),
        ("gen_ai.usage.input_tokens", usage["prompt_tokens"].clone()),
        (
            "gen_ai.usage.output_tokens",
            usage["completion_tokens"].clone(),
        ),
    ] {
        assert_eq!(attribute(span, name), value, "{name}");
    }
    let failed = span.status.as_ref().is_some_and(|one| one.code == ERROR);
    assert!(!failed, "{span:?}");
    let mut events: Vec<&str> = span.events.iter().map(|one| &one.name[..]).collect();
    assert_eq!(events[0], "queued");
    events.sort_unstable();
    let all = "begun begun ended ended first token first token queued";
    assert_eq!(events.join(" "), all);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_fails_is_told() {
    let (address, mut got) = collector().await;
    let mut options = options();
    options.limits.request_time = Duration::from_millis(200);
    let slow = Fault::Slow(Duration::from_millis(20));
    let served = traced(&address, options, slow).await;
    let more = json!({"stream": true, "max_completion_tokens": 100});
    let mut stream = served.stream(CHAT, &chat(PROMPT, &more)).await;
    while stream.next().await.is_some() {}
    let more = json!({"max_completion_tokens": 100});
    let whole = served.post(CHAT, &chat(PROMPT, &more)).await;
    assert_eq!(whole.error(503).0, "request_timeout");
    let lost = served.get("/nowhere").await;
    assert_eq!(lost.error(404).0, "not_found");
    served.stop().await;
    let spans = got.spans();
    let of = |status: u16| {
        let status = json!(status);
        let mut those = spans
            .iter()
            .filter(|one| attribute(one, "http.response.status_code") == status);
        those
            .next()
            .unwrap_or_else(|| panic!("{status}: {spans:?}"))
    };
    for status in [200, 503] {
        let span = of(status);
        assert_eq!(attribute(span, "error.type"), json!("503"), "{status}");
        let code = span.status.as_ref().map(|one| one.code);
        assert_eq!(code, Some(ERROR), "{status}");
    }
    let lost = of(404);
    assert_eq!(lost.name, "GET");
    assert_ne!(lost.status.as_ref().map(|one| one.code), Some(ERROR));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_does_not_answer_changes_nothing() {
    let request = chat(PROMPT, &json!({}));
    let served = Served::start().await;
    let want = served.post(CHAT, &request).await.json();
    served.stop().await;
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addresses = [&silent, &gone].map(|one| one.local_addr().unwrap());
    drop(gone);
    for address in addresses {
        let served = traced(&format!("http://{address}"), options(), Fault::None).await;
        let got = served.post(CHAT, &request).await.json();
        assert_eq!(got["choices"], want["choices"], "{address}");
        let stopped = tokio::time::timeout(Duration::from_secs(20), served.stop()).await;
        assert!(stopped.is_ok(), "{address}");
    }
}

#[test]
fn an_address_is_one_of_http() {
    for wrong in ["", "nowhere", "127.0.0.1:4318", "ftp://127.0.0.1"] {
        let said = Traces::over_otlp(Some(wrong)).unwrap_err().to_string();
        assert!(said.contains("expected an address"), "{wrong}: {said}");
    }
}

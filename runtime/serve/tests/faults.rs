//! A server under faults: full queues, clients that leave or stall, hostile bodies, an engine that fails, and its own end.
#![cfg(feature = "flex")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that can't set itself up has failed"
)]

mod served;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use moebius_serve::{Access, Certificate, KeyRing, ServeError};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use served::{CONTEXT, Fault, RUNNING, Served, chat, options};

const CHAT: &str = "/v1/chat/completions";
const PROMPT: &str = "w3 w14 w15 w92";

/// A certificate of `localhost` that vouches for itself until 2126, and its key, for this test alone.
const CERTIFICATE: &[u8] = include_bytes!("tls/certificate.pem");
const KEY: &[u8] = include_bytes!("tls/key.pem");

/// A step that takes long enough for a test to do something meanwhile.
const SLOW: Fault = Fault::Slow(Duration::from_millis(20));

/// A request for a stream of 100 tokens.
fn long() -> Value {
    chat(
        PROMPT,
        &json!({"stream": true, "max_completion_tokens": 100}),
    )
}

/// Waits until a metric has a value.
async fn until(served: &Served, name: &str, value: f64) {
    served.until(name, "", value).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_answers_at_once() {
    let mut options = options();
    options.limits.queued = 2;
    let served = Served::with(options, Access::local(0), SLOW).await;
    let mut streams = Vec::new();
    for _ in 0..RUNNING + 2 {
        streams.push(served.stream(CHAT, &long()).await);
    }
    until(&served, "moebius_num_requests_running", RUNNING as f64).await;
    until(&served, "moebius_num_requests_waiting", 2.0).await;
    for _ in 0..5 {
        let begun = Instant::now();
        let reply = served.post(CHAT, &long()).await;
        assert!(
            begun.elapsed() < Duration::from_millis(50),
            "{:?}",
            begun.elapsed()
        );
        assert_eq!(reply.error(429).0, "rate_limit_exceeded");
        let seconds: u64 = reply.header("retry-after").parse().unwrap();
        assert!((1..=60).contains(&seconds));
    }
    let rejected = served.metric("moebius_admission_rejections_total", "requests");
    assert_eq!(rejected.await, 5.0);
    for stream in streams {
        assert!(stream.all().await.len() > 2, "no stream was broken");
    }
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_prompts_are_bounded_by_their_tokens() {
    let mut options = options();
    options.limits.queued_tokens = 60;
    let served = Served::with(options, Access::local(0), SLOW).await;
    let mut streams = Vec::new();
    for _ in 0..RUNNING {
        streams.push(served.stream(CHAT, &long()).await);
    }
    until(&served, "moebius_num_requests_running", RUNNING as f64).await;
    let prompt = vec!["w7"; 40].join(" ");
    let more = json!({"stream": true});
    let waiting = served.stream(CHAT, &chat(&prompt, &more)).await;
    assert_eq!(waiting.status, 200);
    let reply = served.post(CHAT, &chat(&prompt, &json!({}))).await;
    assert_eq!(reply.error(429).0, "rate_limit_exceeded");
    let rejected = served.metric("moebius_admission_rejections_total", "tokens");
    assert_eq!(rejected.await, 1.0);
    assert_eq!(
        served.post(CHAT, &chat(PROMPT, &json!({}))).await.status,
        200
    );
    drop((streams, waiting));
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_leave_give_their_pages_back() {
    let served = Served::with(options(), Access::local(0), SLOW).await;
    for _ in 0..3 {
        let mut streams = Vec::new();
        for _ in 0..RUNNING + 3 {
            streams.push(served.stream(CHAT, &long()).await);
        }
        for stream in streams.iter_mut().take(RUNNING) {
            stream.next().await.unwrap();
        }
        drop(streams);
        until(&served, "moebius_num_requests_running", 0.0).await;
        until(&served, "moebius_num_requests_waiting", 0.0).await;
        until(&served, "moebius_kv_cache_usage_perc", 0.0).await;
    }
    // A client that leaves before its answer is complete is told in the log and the metrics alone.
    let left = 3 * (RUNNING + 3);
    let failures = "moebius_request_failures_total";
    served.until(failures, "499", left as f64).await;
    assert_eq!(
        served.post(CHAT, &chat(PROMPT, &json!({}))).await.status,
        200
    );
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_may_wait_and_take_only_so_long() {
    let mut options = options();
    options.limits.queue_time = Duration::from_millis(100);
    let served = Served::with(options.clone(), Access::local(0), SLOW).await;
    let mut streams = Vec::new();
    for _ in 0..RUNNING {
        streams.push(served.stream(CHAT, &long()).await);
    }
    until(&served, "moebius_num_requests_running", RUNNING as f64).await;
    let waited = served.post(CHAT, &chat(PROMPT, &json!({}))).await;
    assert_eq!(waited.error(503).0, "queue_timeout");
    assert!(!waited.header("retry-after").is_empty());
    drop(streams);
    served.stop().await;

    options.limits.request_time = Duration::from_millis(100);
    let served = Served::with(options, Access::local(0), SLOW).await;
    let slow = chat(PROMPT, &json!({"max_completion_tokens": 100}));
    let slow = served.post(CHAT, &slow).await;
    assert_eq!(slow.error(503).0, "request_timeout");
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_drains() {
    let mut served = Served::with(options(), Access::local(0), SLOW).await;
    let mut streams = Vec::new();
    for _ in 0..RUNNING + 2 {
        streams.push(served.stream(CHAT, &long()).await);
    }
    served.begin_stop();
    for _ in 0..100 {
        if served.get("/health/ready").await.status == 503 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let ready = served.get("/health/ready").await;
    assert_eq!(ready.error(503).0, "draining");
    assert!(!ready.header("retry-after").is_empty());
    assert_eq!(served.get("/health/live").await.status, 200);
    let refused = served.post(CHAT, &chat(PROMPT, &json!({}))).await;
    assert_eq!(refused.error(503).0, "draining");
    for stream in streams {
        assert!(stream.all().await.len() > 2, "no stream was broken");
    }
    served.end().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_comes_during_a_drain_is_refused() {
    let mut served = Served::with(options(), Access::local(0), SLOW).await;
    let stream = served.stream(CHAT, &long()).await;
    let body = chat(PROMPT, &json!({})).to_string();
    let head = format!(
        "POST {CHAT} HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let mut late = TcpStream::connect(served.address).await.unwrap();
    late.write_all(head.as_bytes()).await.unwrap();
    // The server has read the head while it was ready.
    tokio::time::sleep(Duration::from_millis(100)).await;
    served.begin_stop();
    while served.get("/health/ready").await.status == 200 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    late.write_all(body.as_bytes()).await.unwrap();
    let mut back = String::new();
    late.read_to_string(&mut back).await.unwrap();
    assert!(
        back.starts_with("HTTP/1.1 503") && back.contains("draining"),
        "{back}"
    );
    assert!(stream.all().await.len() > 2, "no stream was broken");
    served.end().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_stop_does_not_wait_for_ends_with_an_error() {
    let mut options = options();
    options.limits.drain_time = Duration::from_millis(200);
    let mut served = Served::with(options, Access::local(0), SLOW).await;
    let mut stream = served.stream(CHAT, &long()).await;
    let whole = chat(PROMPT, &json!({"max_completion_tokens": 100}));
    let address = served.address;
    let whole = tokio::spawn(async move {
        let json = [("content-type", "application/json")];
        served::call(address, "POST", CHAT, &json, whole.to_string()).await
    });
    until(&served, "moebius_num_requests_running", 2.0).await;
    served.begin_stop();
    let mut last = None;
    while let Some(event) = stream.next().await {
        last = Some(event);
    }
    let (name, data) = last.unwrap();
    assert_eq!(name.as_deref(), Some("error"), "{data}");
    let error: Value = serde_json::from_str(&data).unwrap();
    assert_eq!(error["error"]["code"], "draining");
    assert_eq!(whole.await.unwrap().error(503).0, "draining");
    served.end().await.unwrap();
}

/// Tells of a lost launch at the ninth call.
fn ninth_is_lost() -> Option<String> {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    let ninth = CALLS.fetch_add(1, Ordering::Relaxed) == 8;
    ninth.then(|| "a kernel could not be launched".to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_fails_ends_all_requests_and_the_server() {
    let nothing_is_lost = options().lost;
    for (fault, lost) in [
        (Fault::Panics(9), nothing_is_lost),
        (Fault::Loses(9), nothing_is_lost),
        (Fault::None, ninth_is_lost),
    ] {
        let mut options = options();
        options.lost = lost;
        let served = Served::with(options, Access::local(0), fault).await;
        let mut stream = served.stream(CHAT, &long()).await;
        let whole = chat(PROMPT, &json!({"max_completion_tokens": 100}));
        let whole = served.post(CHAT, &whole).await;
        assert_eq!(whole.error(500).0, "engine_failed");
        let mut last = None;
        while let Some(event) = stream.next().await {
            last = Some(event);
        }
        assert_eq!(last.unwrap().0.as_deref(), Some("error"));
        let ended = tokio::time::timeout(Duration::from_secs(10), served.end()).await;
        let error = ended.unwrap().unwrap_err();
        assert!(matches!(error, ServeError::Engine(_)), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_bodies_are_refused() {
    let served = Served::start().await;
    let deep = "[".repeat(100_000);
    let nested = format!("{{\"a\":{}1{}}}", "[".repeat(64), "]".repeat(64));
    let fields = |more: &str| {
        format!(
            "{{\"model\":\"tiny/olmoe\",\"messages\":[{{\"role\":\"user\",\"content\":\"w1\"}}],{more}}}"
        )
    };
    let bodies: [(Vec<u8>, &str); 12] = [
        (deep.into(), "invalid_json"),
        (nested.into(), "invalid_json"),
        (fields("\"stop\":\"\\ud800\"").into(), "invalid_json"),
        (fields("\"temperature\":NaN").into(), "invalid_json"),
        (fields("\"temperature\":1e999").into(), "invalid_json"),
        (fields("\"temperature\":1e39").into(), "invalid_value"),
        (fields("\"max_tokens\":-5").into(), "invalid_value"),
        (
            fields("\"max_tokens\":99999999999999999999").into(),
            "invalid_value",
        ),
        (fields("\"seed\":1,\"seed\":2").into(), "invalid_value"),
        (b"{\"model\":\"\xff\xfe\"}".to_vec(), "invalid_json"),
        (b"\x00\x01\x02".to_vec(), "invalid_json"),
        (b"{\"model\":".to_vec(), "invalid_json"),
    ];
    for (body, code) in bodies {
        let said = String::from_utf8_lossy(&body[..body.len().min(200)]).into_owned();
        let reply = served.send(CHAT, body).await;
        assert_eq!(reply.error(400).0, code, "{said}");
    }
    assert_eq!(
        served.post(CHAT, &chat(PROMPT, &json!({}))).await.status,
        200
    );
    served.stop().await;
}

/// Sends bytes, and returns all that comes back until the server closes the connection, and how long that took.
async fn raw(served: &Served, bytes: &[u8]) -> (String, Duration) {
    let begun = Instant::now();
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut back = Vec::new();
    // A server that closes while bytes are on their way resets the connection.
    stream.read_to_end(&mut back).await.ok();
    (String::from_utf8_lossy(&back).into_owned(), begun.elapsed())
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_heads_and_bodies_are_given_up() {
    let mut options = options();
    options.limits.head_time = Duration::from_millis(300);
    options.limits.body_time = Duration::from_millis(300);
    options.limits.body_bytes = 200;
    let served = Served::with(options, Access::local(0), Fault::None).await;
    let (_, took) = raw(&served, b"GET /health/live HTTP/1.1\r\nhost: a\r\nx-slow: ").await;
    assert!(took < Duration::from_secs(5), "{took:?}");
    let head = "POST /v1/completions HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n";
    let (back, took) = raw(
        &served,
        format!("{head}content-length: 100\r\n\r\n{{").as_bytes(),
    )
    .await;
    assert!(back.starts_with("HTTP/1.1 408"), "{back}");
    assert!(back.contains("request_timeout") && took < Duration::from_secs(5));
    let (back, _) = raw(
        &served,
        format!("{head}content-length: 1000000000\r\n\r\n{{").as_bytes(),
    )
    .await;
    assert!(back.starts_with("HTTP/1.1 413"), "{back}");
    // The length of a body in chunks is known only at its end.
    let chunk = " ".repeat(256);
    let (back, _) = raw(
        &served,
        format!("{head}transfer-encoding: chunked\r\n\r\n100\r\n{chunk}").as_bytes(),
    )
    .await;
    assert!(back.starts_with("HTTP/1.1 413"), "{back}");
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_are_bounded() {
    let mut options = options();
    options.limits.connections = 3;
    let served = Served::with(options, Access::local(0), Fault::None).await;
    // The connections of the start may still be closing.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let mut idle = Vec::new();
    for _ in 0..3 {
        idle.push(TcpStream::connect(served.address).await.unwrap());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let (back, _) = raw(&served, b"").await;
    assert!(
        back.starts_with("HTTP/1.1 503") && back.contains("too_many_connections"),
        "{back}"
    );
    drop(idle);
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(served.get("/health/live").await.status, 200);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_takes_nothing_stalls_nobody() {
    let mut options = options();
    options.limits.stalled_time = Duration::from_millis(300);
    let served = Served::with(options, Access::local(0), SLOW).await;
    let mut stalled = served.stream(CHAT, &long()).await;
    stalled.next().await.unwrap();
    let begun = Instant::now();
    let reply = served.post(CHAT, &chat(PROMPT, &json!({}))).await;
    assert_eq!(reply.status, 200);
    assert!(begun.elapsed() < Duration::from_secs(5));
    // The system takes the rest of a short stream into its own memory.
    until(&served, "moebius_num_requests_running", 0.0).await;
    let rest = stalled.all().await;
    assert!(rest.len() > 2 && CONTEXT > rest.len());
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_address_needs_keys_or_leave() {
    let access = |insecure| Access {
        address: "0.0.0.0:0".parse().unwrap(),
        insecure,
        keys: KeyRing::default(),
        certificate: None,
    };
    let text = || moebius_serve::ServedText {
        tokenizer: served::tokenizer(),
        template: None,
    };
    let never = || -> moebius_serve::Loader { Box::new(|| Err("no model".into())) };
    let refused = moebius_serve::Server::start(options(), access(false), text(), never()).await;
    assert!(matches!(refused.err(), Some(ServeError::Insecure { .. })));
    let server = moebius_serve::Server::start(options(), access(true), text(), never()).await;
    let ended = server.unwrap().run(std::future::pending()).await;
    let error = ended.unwrap_err();
    assert_eq!(error.to_string(), "cannot load the model: no model");
}

/// Sends a request over TLS as a client that trusts only the tests' certificate, and returns what comes back.
async fn encrypted(served: &Served, request: &[u8]) -> std::io::Result<String> {
    let mut roots = RootCertStore::empty();
    let certificate = CertificateDer::from_pem_slice(CERTIFICATE).unwrap();
    roots.add(certificate).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(served.address).await?;
    let connector = TlsConnector::from(Arc::new(config));
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream = connector.connect(name, stream).await?;
    stream.write_all(request).await?;
    let mut back = String::new();
    stream.read_to_string(&mut back).await?;
    Ok(back)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_turns_tls_on() {
    let access = Access {
        certificate: Some(Certificate::from_pem(CERTIFICATE, KEY).unwrap()),
        ..Access::local(0)
    };
    let served = Served::begin(options(), access, Fault::None).await;
    let request = b"GET /health/live HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let back = encrypted(&served, request).await.unwrap();
    assert!(
        back.starts_with("HTTP/1.1 200") && back.ends_with("{\"status\":\"live\"}"),
        "{back}"
    );
    let (plain, _) = raw(&served, request).await;
    assert!(!plain.contains("HTTP/1.1 200"), "{plain}");
    served.stop().await;
}

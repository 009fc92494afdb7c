//! A client of HTTP/1.1, with one connection for each request.

use std::net::SocketAddr;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

/// A response.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Reply {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.to_vec()).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("{}", self.text()))
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name);
        value.map_or("", |value| value.to_str().unwrap())
    }

    /// Checks that the response is an error of this status in OpenAI's form, and returns its code and its field.
    #[track_caller]
    pub(crate) fn error(&self, status: u16) -> (String, Value) {
        let body = self.json();
        assert_eq!(self.status, status, "{body}");
        let error = &body["error"];
        assert!(
            error["message"].is_string() && error["type"].is_string(),
            "{body}"
        );
        (
            error["code"].as_str().unwrap().to_owned(),
            error["param"].clone(),
        )
    }
}

async fn begin(
    address: SocketAddr,
    request: Request<Full<Bytes>>,
) -> (Response<Incoming>, JoinHandle<()>) {
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    let task = tokio::spawn(async {
        connection.await.ok();
    });
    (sender.send_request(request).await.unwrap(), task)
}

/// Sends a request, and waits for the whole response.
pub(crate) async fn call(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: impl Into<Vec<u8>>,
) -> Reply {
    let mut request = Request::builder().method(method).uri(path);
    request = request.header("host", "test");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let body = Full::new(Bytes::from(body.into()));
    let (response, task) = begin(address, request.body(body).unwrap()).await;
    let (head, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    task.abort();
    Reply {
        status: head.status.as_u16(),
        headers: head.headers,
        body,
    }
}

/// A stream of events under way. Dropping it closes the connection.
pub(crate) struct Events {
    pub(crate) status: u16,
    body: Incoming,
    task: JoinHandle<()>,
    /// Text that has come, without the events that were returned.
    text: String,
}

/// An event: its name, if it has one, and its data.
pub(crate) type NamedEvent = (Option<String>, String);

/// Posts a request for a stream.
pub(crate) async fn open(address: SocketAddr, path: &str, body: &str) -> Events {
    let request = Request::post(path)
        .header("host", "test")
        .header("content-type", "application/json");
    let body = Full::new(Bytes::from(body.to_owned()));
    let (response, task) = begin(address, request.body(body).unwrap()).await;
    Events {
        status: response.status().as_u16(),
        body: response.into_body(),
        task,
        text: String::new(),
    }
}

impl Events {
    /// The next event; `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> Option<NamedEvent> {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let (event, rest) = (event.to_owned(), rest.to_owned());
                self.text = rest;
                let field = |name: &str| {
                    let values = event.lines().filter_map(|line| line.strip_prefix(name));
                    values.map(|value| value.trim_start().to_owned()).next()
                };
                // A comment has no data.
                if let Some(data) = field("data:") {
                    return Some((field("event:"), data));
                }
                continue;
            }
            let frame = self.body.frame().await?.unwrap();
            if let Ok(data) = frame.into_data() {
                self.text.push_str(std::str::from_utf8(&data).unwrap());
            }
        }
    }

    /// All events that are left, which the mark of the end must follow.
    pub(crate) async fn all(mut self) -> Vec<Value> {
        let mut chunks = Vec::new();
        while let Some((name, data)) = self.next().await {
            assert_eq!(name, None, "{data}");
            if data == "[DONE]" {
                assert_eq!(self.next().await, None);
                return chunks;
            }
            chunks.push(serde_json::from_str(&data).unwrap());
        }
        panic!("the stream ended early");
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.task.abort();
    }
}

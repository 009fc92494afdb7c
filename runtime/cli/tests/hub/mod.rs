//! A small hub on the loopback interface, whose answers a test can spoil.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

/// The commit that every revision of the hub's repository stands for.
pub(crate) const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// A request that came.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) path: String,
    /// First byte of the header `Range`.
    pub(crate) from: Option<usize>,
    /// The header `Authorization`.
    pub(crate) token: Option<String>,
}

/// How much of a body is sent, and what follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ends {
    /// All, and the connection is closed.
    Whole,
    /// So many bytes, and the connection is closed.
    Cut(usize),
    /// So many bytes, and nothing more comes until the client has gone.
    Silent(usize),
}

/// An answer, true or spoilt.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
    /// The `Content-Length`, if it is another than the body's; `Some(None)` sends the body in chunks.
    length: Option<Option<usize>>,
    ends: Ends,
}

impl Answer {
    pub(crate) fn status(status: u16) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: Vec::new(),
            length: None,
            ends: Ends::Whole,
        }
    }

    pub(crate) fn with_header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    pub(crate) fn with_body(mut self, body: &[u8]) -> Self {
        self.body = body.to_vec();
        self
    }

    /// Claims another length than the body's.
    pub(crate) fn with_length(mut self, length: usize) -> Self {
        self.length = Some(Some(length));
        self
    }

    /// Sends the body in chunks, without a length.
    pub(crate) fn in_chunks(mut self) -> Self {
        self.length = Some(None);
        self
    }

    pub(crate) fn cut_at(mut self, bytes: usize) -> Self {
        self.ends = Ends::Cut(bytes);
        self
    }

    pub(crate) fn silent_at(mut self, bytes: usize) -> Self {
        self.ends = Ends::Silent(bytes);
        self
    }

    fn send(self, stream: &mut TcpStream) -> std::io::Result<()> {
        let mut head = format!("HTTP/1.1 {} x\r\nConnection: close\r\n", self.status);
        for (name, value) in &self.headers {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        let length = self.length.unwrap_or(Some(self.body.len()));
        match length {
            Some(length) => {
                let _ = write!(head, "Content-Length: {length}\r\n\r\n");
            }
            None => {
                let length = self.body.len();
                let _ = write!(head, "Transfer-Encoding: chunked\r\n\r\n{length:x}\r\n");
            }
        }
        stream.write_all(head.as_bytes())?;
        let sent = match self.ends {
            Ends::Whole => self.body.len(),
            Ends::Cut(bytes) | Ends::Silent(bytes) => bytes,
        };
        stream.write_all(&self.body[..sent])?;
        if length.is_none() {
            stream.write_all(b"\r\n0\r\n\r\n")?;
        }
        stream.flush()?;
        if matches!(self.ends, Ends::Silent(_)) {
            // Returns when the client has closed the connection.
            let _ = stream.read(&mut [0]);
        }
        stream.shutdown(Shutdown::Write)
    }
}

/// A server, until the test's process ends.
pub(crate) struct Server {
    pub(crate) address: String,
    seen: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    /// Answers every request by `answer`, to which all requests so far are given; the last of them is the one to answer.
    pub(crate) fn start(
        answer: impl Fn(&Request, &[Request]) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (answer, requests) = (Arc::new(answer), Arc::clone(&seen));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (answer, requests) = (Arc::clone(&answer), Arc::clone(&requests));
                thread::spawn(move || {
                    let mut stream = stream;
                    let Some(request) = read(&stream) else {
                        return;
                    };
                    let so_far = {
                        let mut all = requests.lock().unwrap_or_else(PoisonError::into_inner);
                        all.push(request.clone());
                        all.clone()
                    };
                    // A client that has heard enough closes the connection.
                    let _ = answer(&request, &so_far).send(&mut stream);
                });
            }
        });
        Self { address, seen }
    }

    /// All requests so far whose path contains `part`.
    pub(crate) fn requests(&self, part: &str) -> Vec<Request> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let with = |request: &&Request| request.path.contains(part);
        seen.iter().filter(with).cloned().collect()
    }
}

/// The request on a connection.
fn read(stream: &TcpStream) -> Option<Request> {
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next()?.ok()?;
    let mut request = Request {
        path: first.strip_prefix("GET ")?.split(' ').next()?.to_owned(),
        from: None,
        token: None,
    };
    loop {
        let line = lines.next()?.ok()?;
        let Some((name, value)) = line.split_once(':') else {
            return Some(request);
        };
        match name.to_ascii_lowercase().as_str() {
            "range" => {
                let from = value.trim().strip_prefix("bytes=")?;
                request.from = Some(from.trim_end_matches('-').parse().ok()?);
            }
            "authorization" => request.token = Some(value.trim().to_owned()),
            _ => {}
        }
    }
}

/// The SHA-256 of bytes, in lower-case digits.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    let digits = digest(&SHA256, bytes);
    let digits = digits.as_ref().iter().map(|byte| format!("{byte:02x}"));
    digits.collect()
}

/// The repository `org/tiny`, as Hugging Face answers for it.
#[derive(Clone)]
pub(crate) struct Hub {
    pub(crate) files: Vec<(String, Vec<u8>)>,
}

impl Hub {
    pub(crate) fn new<N: Into<String>>(files: impl IntoIterator<Item = (N, Vec<u8>)>) -> Self {
        let files = files.into_iter();
        Self {
            files: files.map(|(name, bytes)| (name.into(), bytes)).collect(),
        }
    }

    /// Whether a file is in LFS.
    fn in_lfs(name: &str) -> bool {
        name.ends_with(".safetensors") || name.ends_with(".gguf")
    }

    /// The name of a file's blob in the cache.
    pub(crate) fn etag(&self, name: &str) -> String {
        let hash = sha256(self.bytes(name));
        // Git's own hash isn't checked, so that any of its length does.
        if Self::in_lfs(name) {
            hash
        } else {
            hash[..40].to_owned()
        }
    }

    pub(crate) fn bytes(&self, name: &str) -> &[u8] {
        let file = self.files.iter().find(|(found, _)| found == name);
        file.map_or(&[], |(_, bytes)| bytes)
    }

    /// The list of the files.
    pub(crate) fn list(&self) -> Value {
        let files = self.files.iter().map(|(name, bytes)| {
            let (size, etag) = (bytes.len(), self.etag(name));
            let lfs = Self::in_lfs(name).then(|| json!({ "sha256": etag, "size": size }));
            json!({ "rfilename": name, "size": size, "blobId": &etag[..40], "lfs": lfs })
        });
        json!({ "id": "org/tiny", "sha": COMMIT, "siblings": files.collect::<Vec<_>>() })
    }

    /// The true answer to a request. Files in LFS are redirected to `/cdn/…` on the server at `cdn`.
    pub(crate) fn answer(&self, request: &Request, cdn: &str) -> Answer {
        let path = request.path.as_str();
        if path.starts_with("/api/models/org/tiny/revision/") {
            return Answer::status(200).with_body(self.list().to_string().as_bytes());
        }
        let resolved = format!("/org/tiny/resolve/{COMMIT}/");
        let (name, from_cdn) = match (path.strip_prefix(&resolved), path.strip_prefix("/cdn/")) {
            (Some(name), _) => (name, false),
            (None, Some(name)) => (name, true),
            (None, None) => return Answer::status(404).with_header("X-Error-Code", "RepoNotFound"),
        };
        if self.files.iter().all(|(found, _)| found != name) {
            return Answer::status(404).with_header("X-Error-Code", "EntryNotFound");
        }
        let (bytes, etag) = (self.bytes(name), self.etag(name));
        if Self::in_lfs(name) && !from_cdn {
            return Answer::status(302)
                .with_header("Location", &format!("{cdn}/cdn/{name}"))
                .with_header("X-Linked-Size", &bytes.len().to_string())
                .with_header("X-Linked-Etag", &format!("\"{etag}\""))
                .with_header("X-Repo-Commit", COMMIT);
        }
        let etag = if from_cdn { "f".repeat(64) } else { etag };
        let answer = match request.from {
            Some(from) => {
                let (last, size) = (bytes.len() - 1, bytes.len());
                Answer::status(206)
                    .with_header("Content-Range", &format!("bytes {from}-{last}/{size}"))
                    .with_body(&bytes[from..])
            }
            None => Answer::status(200).with_body(bytes),
        };
        answer.with_header("ETag", &format!("\"{etag}\""))
    }
}

//! Requests to a hub: redirects, the user's token, and waits where the server asks for them.

use std::fs;
use std::thread;
use std::time::Duration;

use moebius_weights::quoted;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use ureq::http::{HeaderMap, Uri};
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, Body};

use super::error::{HubError, Refusal};
use super::name::Etag;
use super::settings::Settings;

/// The most redirects of a request.
const REDIRECTS: usize = 10;
/// How often a request is repeated because the server has too many, or a fault.
const REPEATS: u32 = 5;
/// The longest wait that a server may ask for, in seconds.
const LONGEST_WAIT: u64 = 300;
/// After so many seconds without a byte a connection counts as broken.
const SILENCE: Duration = Duration::from_secs(60);
/// After so many seconds without a connection a server counts as unreachable.
const CONNECTING: Duration = Duration::from_secs(30);
/// Hosts of Hugging Face, which get the token where a mirror sends a request there.
const HOSTS: [&str; 2] = ["huggingface.co", "hf.co"];

/// Characters that a path in an address must not have as they are.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'/')
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

/// What a download tells while it goes on.
pub(crate) enum Told<'a> {
    /// Of how many bytes all files are.
    Size(u64),
    /// How many of these bytes are there.
    At(u64),
    /// Which file is next.
    File(&'a str),
    /// Something that a user should know.
    Note(String),
}

/// Function that is told how a download goes on.
pub(crate) type Tell<'a> = &'a dyn Fn(Told<'_>);

/// A connection to a hub.
pub(super) struct Client {
    agent: Agent,
    endpoint: Uri,
    token: Option<String>,
}

/// An answer with a body.
pub(super) struct Answer {
    /// Whether the body is only the part that was asked for.
    pub(super) partial: bool,
    /// First byte and size of the whole file, of the header `Content-Range`.
    pub(super) range: Option<(u64, u64)>,
    /// Number of bytes of the body.
    pub(super) length: Option<u64>,
    pub(super) about: About,
    pub(super) body: Body,
}

/// What the headers on the way to a file say about it.
///
/// The hub itself names and measures a file in LFS, on its redirect; the ETag of the server that has the bytes is another.
#[derive(Default)]
pub(super) struct About {
    /// The file's size (`X-Linked-Size`).
    pub(super) size: Option<u64>,
    /// The file's name in the cache (`X-Linked-Etag`).
    pub(super) linked: Option<Etag>,
    /// The `ETag` that the hub gave a file which it sends itself.
    pub(super) own: Option<Etag>,
}

impl Client {
    /// A connection with the user's settings; nothing is sent.
    pub(super) fn new(settings: &Settings) -> Result<Self, HubError> {
        let version = env!("CARGO_PKG_VERSION");
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            // Followed here, because the hub describes a file on its redirect, and the token isn't for every server.
            .max_redirects(0)
            .accept_encoding("identity")
            .user_agent(format!("moebius/{version}"))
            .timeout_connect(Some(CONNECTING))
            .timeout_per_read(Some(SILENCE))
            .timeout_per_write(Some(SILENCE));
        if let Some(path) = &settings.certificates {
            let text = fs::read(path).map_err(HubError::disk(path))?;
            let certificates = parse_pem(&text).filter_map(|item| match item {
                Ok(PemItem::Certificate(certificate)) => Some(certificate),
                _ => None,
            });
            let certificates: Vec<_> = certificates.collect();
            if certificates.is_empty() {
                let got = format!("none in {}", path.display());
                return Err(HubError::unfit("SSL_CERT_FILE", "certificates in PEM", got));
            }
            let roots = RootCerts::from(certificates);
            config = config.tls_config(TlsConfig::builder().root_certs(roots).build());
        }
        let endpoint = settings.endpoint.parse::<Uri>();
        Ok(Self {
            agent: config.build().into(),
            endpoint: endpoint.map_err(|_| not_an_address(&settings.endpoint))?,
            token: settings.token.clone(),
        })
    }

    /// Asks for `url` from byte `from` on, which `page` is about. Where the server has too many requests or a fault, the request is
    /// repeated a few times.
    ///
    /// # Errors
    /// [`HubError::Refused`] for a status other than 200 and 206, [`HubError::Unreachable`] when there is no answer,
    /// [`HubError::Unfit`] for redirects that lead nowhere.
    pub(super) fn get(
        &self,
        (url, page): (&str, &str),
        from: u64,
        tell: Tell<'_>,
    ) -> Result<Answer, HubError> {
        let mut repeats = 0;
        loop {
            let (status, answer, headers) = self.follow(url, from)?;
            if matches!(status, 200 | 206) {
                return Ok(answer);
            }
            let refused = HubError::Refused {
                url: url.to_owned(),
                refusal: Refusal {
                    status,
                    code: header(&headers, "x-error-code").map(shown),
                    page: page.to_owned(),
                    with_token: self.token.is_some(),
                },
            };
            let asked = header(&headers, "retry-after").and_then(|text| text.parse::<u64>().ok());
            let seconds = asked.unwrap_or(1_u64 << repeats);
            let passing = status == 429 || status >= 500;
            if !passing || repeats == REPEATS || seconds > LONGEST_WAIT {
                return Err(refused);
            }
            repeats += 1;
            tell(Told::Note(format!(
                "the server answered with status {status}: waiting {seconds} s, {repeats} of {REPEATS}"
            )));
            thread::sleep(Duration::from_secs(seconds));
        }
    }

    /// Asks once, and follows redirects.
    fn follow(&self, url: &str, from: u64) -> Result<(u16, Answer, HeaderMap), HubError> {
        let mut uri: Uri = url.parse().map_err(|_| not_an_address(url))?;
        let mut about = About::default();
        for _ in 0..=REDIRECTS {
            let ours = self.is_hub(&uri);
            let mut request = self.agent.get(uri.clone());
            if from > 0 {
                request = request.header("range", format!("bytes={from}-"));
            }
            if let (true, Some(token)) = (ours, &self.token) {
                request = request.header("authorization", format!("Bearer {token}"));
            }
            let response = request.call().map_err(|source| HubError::Unreachable {
                url: url.to_owned(),
                source: Box::new(source),
            })?;
            let (parts, body) = response.into_parts();
            about.read(&parts.headers, ours);
            let location = header(&parts.headers, "location");
            let (true, Some(location)) = (parts.status.is_redirection(), location) else {
                let answer = Answer {
                    partial: parts.status.as_u16() == 206,
                    range: header(&parts.headers, "content-range").and_then(range),
                    length: body.content_length(),
                    about,
                    body,
                };
                return Ok((parts.status.as_u16(), answer, parts.headers));
            };
            let to = joined(&uri, location);
            uri = to.ok_or_else(|| {
                let expected = "a redirect to an address of the same safety";
                HubError::unfit(url, expected, quoted(location))
            })?;
        }
        let expected = format!("at most {REDIRECTS} redirects");
        Err(HubError::unfit(url, expected, "more"))
    }

    /// Whether an address is the hub's, so that it gets the token and knows a file's name in the cache.
    fn is_hub(&self, uri: &Uri) -> bool {
        let endpoint = &self.endpoint;
        let same = uri.scheme() == endpoint.scheme() && uri.authority() == endpoint.authority();
        let known = uri.host().is_some_and(|host| HOSTS.contains(&host));
        same || known && uri.scheme_str() == Some("https")
    }
}

impl About {
    /// Takes what a response's headers say; what an earlier response said counts.
    fn read(&mut self, headers: &HeaderMap, ours: bool) {
        if !ours {
            self.own = None;
            return;
        }
        let etag = |name: &str| header(headers, name).and_then(Etag::read);
        let size = header(headers, "x-linked-size").and_then(|text| text.parse().ok());
        self.size = self.size.or(size);
        self.linked = self.linked.take().or_else(|| etag("x-linked-etag"));
        self.own = etag("etag");
    }
}

/// A file's path as a part of an address.
pub(super) fn encoded(path: &str) -> String {
    utf8_percent_encode(path, ESCAPED).to_string()
}

fn not_an_address(url: &str) -> HubError {
    HubError::unfit("HF_ENDPOINT", "an address", quoted(url))
}

/// A header's text.
fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// The server's name of a reason, if it is one.
fn shown(code: &str) -> String {
    let word = |c: &char| c.is_ascii_alphanumeric();
    code.chars().take(40).filter(word).collect()
}

/// First byte and whole size of a `Content-Range` like `bytes 5-9/10`.
fn range(text: &str) -> Option<(u64, u64)> {
    let (bytes, size) = text.strip_prefix("bytes ")?.split_once('/')?;
    let (first, _) = bytes.split_once('-')?;
    Some((first.trim().parse().ok()?, size.trim().parse().ok()?))
}

/// The address that a redirect of `from` leads to: a whole address, or a path on the same server. `None` for others, and for one
/// that would leave TLS.
fn joined(from: &Uri, location: &str) -> Option<Uri> {
    let scheme = from.scheme_str()?;
    let to: Uri = if location.starts_with("//") {
        format!("{scheme}:{location}").parse().ok()?
    } else if location.starts_with('/') {
        let mut parts = from.clone().into_parts();
        parts.path_and_query = Some(location.parse().ok()?);
        Uri::from_parts(parts).ok()?
    } else {
        location.parse().ok()?
    };
    let safe = match to.scheme_str()? {
        "https" => true,
        "http" => scheme == "http",
        _ => false,
    };
    (safe && to.authority().is_some()).then_some(to)
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;

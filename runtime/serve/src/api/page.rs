//! The page at `/`: a text that the model writes, the queue, and the experts' load. Its files are in `site/`; links there lead to those
//! that it has in common with the demo page, and a packed crate has them all.

use std::sync::Arc;

use axum::Router;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::service::Service;

/// What the page may load and do: files and answers of its own server alone, no script or style within a document, and no page around it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; \
    form-action 'none'; frame-ancestors 'none'";

/// Fewest bytes of a file: more than the path in a link has.
const FEWEST: usize = 100;

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

/// A file of the page.
struct Part {
    path: &'static str,
    /// Its `Content-Type`.
    kind: &'static str,
    text: &'static str,
}

impl Part {
    const fn new(path: &'static str, kind: &'static str, text: &'static str) -> Self {
        assert!(
            text.len() >= FEWEST,
            "expected the files of runtime/serve/site, got paths: git needs core.symlinks"
        );
        Self { path, kind, text }
    }

    /// The response with the file; without it for a client that has it already.
    fn respond(&self, request: &HeaderMap) -> Response {
        let tag = format!("\"{}\"", blake3::hash(self.text.as_bytes()).to_hex());
        let mut known = request.get_all(header::IF_NONE_MATCH).iter();
        let known = known.any(|tags| tags.to_str().is_ok_and(|tags| tags.contains(&tag)));
        let headers = [
            (header::CONTENT_TYPE, self.kind),
            (header::CONTENT_SECURITY_POLICY, POLICY),
            (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (header::REFERRER_POLICY, "no-referrer"),
            // Kept by browsers, but asked for each time, as another version of the server has other files.
            (header::CACHE_CONTROL, "no-cache"),
            (header::ETAG, tag.as_str()),
        ];
        if known {
            (StatusCode::NOT_MODIFIED, headers).into_response()
        } else {
            (headers, self.text).into_response()
        }
    }
}

/// All files of the page.
static PARTS: [Part; 11] = [
    Part::new("/", HTML, include_str!("../../site/index.html")),
    Part::new("/api.js", SCRIPT, include_str!("../../site/api.js")),
    Part::new("/charts.js", SCRIPT, include_str!("../../site/charts.js")),
    Part::new("/dom.js", SCRIPT, include_str!("../../site/dom.js")),
    Part::new("/icon.svg", SVG, include_str!("../../site/icon.svg")),
    Part::new("/load.js", SCRIPT, include_str!("../../site/load.js")),
    Part::new("/page.js", SCRIPT, include_str!("../../site/page.js")),
    Part::new("/palette.js", SCRIPT, include_str!("../../site/palette.js")),
    Part::new("/style.css", CSS, include_str!("../../site/style.css")),
    Part::new(
        "/text-view.js",
        SCRIPT,
        include_str!("../../site/text-view.js"),
    ),
    Part::new("/writing.js", SCRIPT, include_str!("../../site/writing.js")),
];

/// Whether a path is that of a file of the page.
pub(super) fn has(path: &str) -> bool {
    PARTS.iter().any(|part| part.path == path)
}

/// The routes of the page's files.
pub(super) fn routes() -> Router<Arc<Service>> {
    PARTS.iter().fold(Router::new(), |router, part| {
        let answer = move |request: HeaderMap| async move { part.respond(&request) };
        router.route(part.path, get(answer))
    })
}

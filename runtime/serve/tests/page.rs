//! The page at `/` and its files are served as browsers need them, to everybody, and ask for what there is.
#![cfg(feature = "flex")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that can't set itself up has failed"
)]

mod served;

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use moebius_serve::{Access, KeyRing, Keys};
use serde_json::json;

use served::{Fault, Served, call, chat, options};

/// The files that a file of the page names: styles, pictures and modules.
fn named(text: &str) -> Vec<String> {
    let marks = ["href=\"", "src=\"", "from './"];
    let rests = marks.iter().flat_map(|mark| text.split(mark).skip(1));
    let names = rests.filter_map(|rest| rest.split(['"', '\'']).next());
    let names = names.filter(|name| !name.starts_with('#'));
    names.map(str::to_owned).collect()
}

fn kind(name: &str) -> &'static str {
    match name.rsplit('.').next() {
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "text/html; charset=utf-8",
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_and_all_that_it_names_are_served() {
    let served = Served::start().await;
    let mut found = BTreeSet::new();
    let mut open = vec![String::new()];
    while let Some(name) = open.pop() {
        if !found.insert(name.clone()) {
            continue;
        }
        let reply = served.get(&format!("/{name}")).await;
        assert_eq!(reply.status, 200, "{name}");
        assert_eq!(reply.header("content-type"), kind(&name), "{name}");
        let policy = reply.header("content-security-policy");
        assert!(policy.starts_with("default-src 'none'; "), "{policy}");
        assert!(!policy.contains("unsafe") && !policy.contains("http"));
        assert_eq!(reply.header("x-content-type-options"), "nosniff");
        assert_eq!(reply.header("cache-control"), "no-cache");
        let text = reply.text();
        // Nothing comes from another host, and nothing is within the document that the policy forbids.
        let addresses = text.replace("http://www.w3.org/2000/svg", "");
        for refused in ["://", "<style", " style=\"", " onclick=", "innerHTML"] {
            assert!(!addresses.contains(refused), "{name}: {refused}");
        }
        assert_eq!(
            text.matches("<script").count(),
            usize::from(name.is_empty())
        );
        open.extend(named(&text));
    }
    // Every file of the folder is reached, under its own name.
    found.remove("");
    found.insert("index.html".to_owned());
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("site");
    let files = folder.read_dir().unwrap();
    let files = files.map(|file| file.unwrap().file_name());
    let files: BTreeSet<String> = files.map(|name| name.into_string().unwrap()).collect();
    assert_eq!(found, files);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_told_by_their_heads_and_kept_by_browsers() {
    let served = Served::start().await;
    let address = served.address;
    for path in ["/", "/page.js"] {
        let whole = served.get(path).await;
        let head = call(address, "HEAD", path, &[], "").await;
        assert_eq!((head.status, head.body.len()), (200, 0), "{path}");
        assert_eq!(whole.header("content-length"), whole.body.len().to_string());
        for name in [
            "content-type",
            "content-length",
            "content-security-policy",
            "etag",
        ] {
            assert_eq!(head.header(name), whole.header(name), "{path} {name}");
        }
        let tag = whole.header("etag");
        for tags in [tag.to_owned(), format!("\"a\", W/{tag}")] {
            let known = [("if-none-match", tags.as_str())];
            let known = call(address, "GET", path, &known, "").await;
            assert_eq!((known.status, known.body.len()), (304, 0), "{tags}");
            assert_eq!(known.header("etag"), tag);
        }
        let other = call(address, "GET", path, &[("if-none-match", "\"a\"")], "").await;
        assert_eq!((other.status, other.body), (200, whole.body));
    }
    let [page, script] = ["/", "/page.js"].map(|path| served.get(path));
    assert_ne!(page.await.header("etag"), script.await.header("etag"));
    for method in ["GET", "HEAD"] {
        let none = call(address, method, "/nothing.js", &[], "").await;
        assert_eq!(none.status, 404, "{method}");
    }
    let posted = served.post("/", &json!({})).await;
    assert_eq!(posted.error(405).0, "method_not_allowed");
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_page_itself_needs_no_key() {
    let keys = Keys::parse("sk-0123456789abcdef").unwrap();
    let access = Access {
        keys: KeyRing::new(keys),
        ..Access::local(0)
    };
    let served = Served::with(options(), access, Fault::None).await;
    for path in ["/", "/style.css", "/page.js"] {
        assert_eq!(served.get(path).await.status, 200, "{path}");
    }
    for path in ["/v1/models", "/metrics", "/nothing.js", "/index.html"] {
        assert_eq!(served.get(path).await.error(401).0, "invalid_api_key");
    }
    served.stop().await;
}

/// The names of metrics in a text.
fn metrics(text: &str) -> BTreeSet<&str> {
    let part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split(|c: char| !part(c));
    // A prefix alone, as in a pattern, is no name.
    words
        .filter(|word| word.starts_with("moebius_") && *word != "moebius_")
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_shows_metrics_that_there_are() {
    let served = Served::start().await;
    let script = served.get("/load.js").await.text();
    let shown = metrics(&script);
    assert!(shown.contains("moebius_expert_load"), "{shown:?}");
    let answer = chat("w3 w14", &json!({}));
    assert_eq!(
        served.post("/v1/chat/completions", &answer).await.status,
        200
    );
    // Experts are told a moment after the last token.
    for _ in 0..500 {
        let told = served.get("/metrics").await.text();
        let lines: BTreeSet<&str> = told
            .lines()
            .filter_map(|line| line.split('{').next())
            .collect();
        if shown.is_subset(&lines) {
            return served.stop().await;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the server doesn't tell all of {shown:?}");
}

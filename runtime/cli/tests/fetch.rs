//! Tests of `moebius fetch`, and of models by their names in the cache, against a hub on the loopback interface.
#![allow(
    clippy::expect_used,
    reason = "a test that cannot set itself up has failed"
)]

mod hub;
#[cfg(feature = "flex")]
mod published;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hub::{Answer, COMMIT, Hub, Request, Server, sha256};
use serde_json::{Value, json};
use tempfile::TempDir;

const WEIGHTS: &str = "model.safetensors";

/// Bytes of a file that tests tell from those of others by `seed`.
fn content(size: usize, seed: usize) -> Vec<u8> {
    let bytes = (0..size).map(|at| (at * at + 31 * at + seed) % 251);
    bytes.map(|byte| byte as u8).collect()
}

/// A repository with a model in safetensors, and much else.
fn tiny() -> Hub {
    Hub::new([
        ("README.md", content(40, 1)),
        ("config.json", b"{\"model_type\":\"olmoe\"}".to_vec()),
        ("consolidated.safetensors", content(900, 2)),
        ("generation_config.json", b"{}".to_vec()),
        ("onnx/model.onnx", content(50, 3)),
        ("pytorch_model.bin", content(60, 4)),
        ("tokenizer.json", content(70, 5)),
        (WEIGHTS, content(700_000, 6)),
    ])
}

/// The files of [`tiny`] that its model needs.
const NEEDED: [&str; 4] = [
    "config.json",
    "generation_config.json",
    WEIGHTS,
    "tokenizer.json",
];

/// A server that answers for `hub`, except where `spoilt` gives another answer.
fn serve(
    hub: &Hub,
    spoilt: impl Fn(&Request, &[Request]) -> Option<Answer> + Send + Sync + 'static,
) -> Server {
    let hub = hub.clone();
    Server::start(move |request, all| {
        spoilt(request, all).unwrap_or_else(|| hub.answer(request, ""))
    })
}

/// A server that answers for `hub` and spoils nothing.
fn sound(hub: &Hub) -> Server {
    serve(hub, |_, _| None)
}

/// Whether a request is for the bytes of the weights.
fn for_weights(request: &Request) -> bool {
    request.path == format!("/cdn/{WEIGHTS}")
}

/// A server that answers for [`tiny`], and for its weights by `spoilt` of the true answer's bytes.
fn with_weights(spoilt: impl Fn(&Request, &[u8]) -> Answer + Send + Sync + 'static) -> Server {
    let hub = tiny();
    let weights = hub.bytes(WEIGHTS).to_vec();
    serve(&hub, move |request, _| {
        for_weights(request).then(|| spoilt(request, &weights))
    })
}

/// A folder that is Hugging Face's for the time of a test.
struct Home(TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    /// The command, with an environment of its own.
    fn command(&self, endpoint: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_moebius"));
        for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"] {
            command.env_remove(name).env_remove(name.to_lowercase());
        }
        for name in [
            "HF_TOKEN",
            "HF_HUB_CACHE",
            "HF_HUB_OFFLINE",
            "SSL_CERT_FILE",
        ] {
            command.env_remove(name);
        }
        command.env("HF_HOME", self.0.path());
        command.env("HF_ENDPOINT", endpoint);
        command
    }

    fn run(&self, endpoint: &str, args: &[&str]) -> Output {
        let output = self.command(endpoint).args(args).output();
        output.expect("the binary starts")
    }

    /// Runs `fetch --json`, which must succeed.
    fn fetch(&self, server: &Server, args: &[&str]) -> Value {
        let output = self.run(&server.address, &[&["fetch", "--json"], args].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{said}");
        serde_json::from_slice(&output.stdout).expect("one JSON object")
    }

    /// Runs `fetch org/tiny`, which must fail with an error and a hint that have all of `parts`.
    fn refused(&self, server: &Server, parts: &[&str]) {
        let output = self.run(&server.address, &["fetch", "org/tiny"]);
        assert_refused(&output, parts);
        assert!(!self.snapshot().exists(), "{parts:?}: nothing is linked");
    }

    fn repository(&self) -> PathBuf {
        self.0.path().join("hub/models--org--tiny")
    }

    fn snapshot(&self) -> PathBuf {
        self.repository().join("snapshots").join(COMMIT)
    }

    fn blob(&self, name: &str) -> PathBuf {
        self.repository().join("blobs").join(name)
    }

    /// The paths of all files in the commit's folder.
    fn names(&self) -> BTreeSet<String> {
        let entries = fs::read_dir(self.snapshot()).expect("a folder");
        let names = entries.map(|entry| entry.expect("a file").file_name());
        names
            .map(|name| name.to_string_lossy().into_owned())
            .collect()
    }

    /// Checks that the files are there as the hub has them.
    fn assert_has(&self, hub: &Hub, names: &[&str]) {
        for name in names {
            let found = fs::read(self.snapshot().join(name)).expect("the file is there");
            assert!(found == hub.bytes(name), "{name} differs");
        }
    }
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn assert_refused(output: &Output, parts: &[&str]) {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    for part in parts {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn what_a_model_needs_is_fetched_once() {
    let (hub, home) = (tiny(), Home::new());
    let server = sound(&hub);
    let report = home.fetch(&server, &["org/tiny"]);
    assert_eq!(home.names(), set(&NEEDED));
    home.assert_has(&hub, &NEEDED);
    let main = fs::read_to_string(home.repository().join("refs/main"));
    assert_eq!(main.expect("a reference"), COMMIT);
    let size: usize = NEEDED.map(|name| hub.bytes(name).len()).iter().sum();
    assert_eq!(report["bytes"], size);
    assert_eq!(report["downloaded_bytes"], size);
    assert_eq!(report["commit"], COMMIT);
    assert_eq!(report["folder"], home.snapshot().display().to_string());
    let files = report["files"].as_array().expect("a list");
    let weights = files.iter().find(|file| file["file"] == WEIGHTS);
    let hash = sha256(hub.bytes(WEIGHTS));
    let right = json!({ "file": WEIGHTS, "bytes": 700_000, "sha256": hash, "state": "downloaded" });
    assert_eq!(weights, Some(&right));
    for name in NEEDED {
        assert!(home.blob(&hub.etag(name)).is_file(), "{name} is a blob");
    }
    let blobs = fs::read_dir(home.repository().join("blobs")).expect("a folder");
    assert_eq!(blobs.count(), NEEDED.len(), "blobs and nothing else");

    let again = home.fetch(&server, &["org/tiny"]);
    assert_eq!(again["downloaded_bytes"], 0);
    assert_eq!(server.requests("/cdn/").len(), 1);
    assert_eq!(server.requests("/resolve/").len(), NEEDED.len());
}

#[cfg(unix)]
#[test]
fn links_are_relative_as_those_of_huggingface_hub() {
    let (hub, home) = (tiny(), Home::new());
    home.fetch(&sound(&hub), &["org/tiny"]);
    let link = fs::read_link(home.snapshot().join(WEIGHTS)).expect("a link");
    let right = format!("../../blobs/{}", hub.etag(WEIGHTS));
    assert_eq!(link, PathBuf::from(right));
}

#[test]
fn an_index_brings_the_files_that_it_names() {
    let index = json!({ "weight_map": { "a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors" } });
    let index = index.to_string().into_bytes();
    let hub = Hub::new([
        ("config.json", b"{}".to_vec()),
        ("model-00001-of-00002.safetensors", content(1000, 1)),
        ("model-00002-of-00002.safetensors", content(2000, 2)),
        ("model-00003-of-00002.safetensors", content(3000, 3)),
        ("model.safetensors.index.json", index),
    ]);
    let home = Home::new();
    let report = home.fetch(&sound(&hub), &["org/tiny"]);
    let names = [
        "config.json",
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
        "model.safetensors.index.json",
    ];
    assert_eq!(home.names(), set(&names));
    home.assert_has(&hub, &names);
    let size: usize = names.map(|name| hub.bytes(name).len()).iter().sum();
    assert_eq!(report["bytes"], size);
}

#[test]
fn a_broken_connection_is_gone_on_with() {
    let (hub, home) = (tiny(), Home::new());
    let weights = hub.bytes(WEIGHTS).to_vec();
    // Each connection gets 300,000 bytes further.
    let server = serve(&hub, move |request, _| {
        let from = request.from.unwrap_or(0);
        (for_weights(request) && from < 600_000).then(|| {
            let end = weights.len() - 1;
            let status = if from == 0 { 200 } else { 206 };
            Answer::status(status)
                .with_header(
                    "Content-Range",
                    &format!("bytes {from}-{end}/{}", weights.len()),
                )
                .with_body(&weights[from..])
                .cut_at(300_000)
        })
    });
    home.fetch(&server, &["org/tiny"]);
    home.assert_has(&hub, &NEEDED);
    let begins: Vec<_> = server
        .requests("/cdn/")
        .iter()
        .map(|request| request.from)
        .collect();
    assert_eq!(begins, [None, Some(300_000), Some(600_000)]);
}

#[test]
fn a_run_that_was_killed_is_gone_on_with() {
    let (hub, home) = (tiny(), Home::new());
    let stuck =
        with_weights(|_, weights| Answer::status(200).with_body(weights).silent_at(400_000));
    let mut command = home.command(&stuck.address);
    command.args(["fetch", "org/tiny"]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().expect("the binary starts");
    let part = home.blob(&format!("{}.incomplete", hub.etag(WEIGHTS)));
    let written = || part.metadata().map_or(0, |about| about.len());
    let begun = Instant::now();
    while written() < 400_000 && begun.elapsed() < Duration::from_secs(60) {
        thread::sleep(Duration::from_millis(10));
    }
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    assert_eq!(written(), 400_000);
    assert!(!home.snapshot().exists());

    let server = sound(&hub);
    home.fetch(&server, &["org/tiny"]);
    home.assert_has(&hub, &NEEDED);
    assert_eq!(server.requests("/cdn/")[0].from, Some(400_000));
    assert!(!part.exists());
}

/// Leaves the beginning of the weights in the cache, as `bytes`.
fn leave_part(home: &Home, hub: &Hub, bytes: &[u8]) {
    let part = home.blob(&format!("{}.incomplete", hub.etag(WEIGHTS)));
    fs::create_dir_all(part.parent().expect("a folder")).expect("created");
    fs::write(part, bytes).expect("written");
}

#[test]
fn a_wrong_part_is_fetched_anew() {
    let hub = tiny();
    let long = content(700_001, 6);
    for part in [&content(1000, 7), &long, &content(700_000, 8)] {
        let home = Home::new();
        leave_part(&home, &hub, part);
        home.fetch(&sound(&hub), &["org/tiny"]);
        home.assert_has(&hub, &NEEDED);
    }
}

#[test]
fn a_whole_part_needs_no_transfer() {
    let (hub, home) = (tiny(), Home::new());
    leave_part(&home, &hub, hub.bytes(WEIGHTS));
    let server = sound(&hub);
    home.fetch(&server, &["org/tiny"]);
    home.assert_has(&hub, &NEEDED);
    assert!(server.requests("/cdn/").is_empty());
}

#[test]
fn a_server_without_ranges_sends_all_again() {
    let (hub, home) = (tiny(), Home::new());
    leave_part(&home, &hub, &hub.bytes(WEIGHTS)[..1000]);
    let server = with_weights(|_, weights| Answer::status(200).with_body(weights));
    home.fetch(&server, &["org/tiny"]);
    home.assert_has(&hub, &NEEDED);
    // One that refuses the range gets a request without it.
    let home = Home::new();
    leave_part(&home, &hub, &hub.bytes(WEIGHTS)[..1000]);
    let server = with_weights(|request, weights| match request.from {
        Some(_) => Answer::status(416),
        None => Answer::status(200).with_body(weights),
    });
    home.fetch(&server, &["org/tiny"]);
    home.assert_has(&hub, &NEEDED);
}

#[test]
fn a_server_that_comes_no_further_is_given_up() {
    let (home, sent) = (Home::new(), AtomicUsize::new(0));
    // Without ranges each answer begins anew, and every other one gets further than the one before it, but none than the first.
    let server = with_weights(move |_, weights| {
        let cut = [300_000, 200_000][sent.fetch_add(1, Ordering::SeqCst) % 2];
        Answer::status(200).with_body(weights).cut_at(cut)
    });
    home.refused(&server, &["expected 700000 bytes, got 200000"]);
    assert_eq!(server.requests("/cdn/").len(), 6, "one and five repeats");
}

#[test]
fn another_hash_is_refused() {
    let (hub, home) = (tiny(), Home::new());
    let other = content(700_000, 9);
    let got = sha256(&other);
    let server = with_weights(move |_, _| Answer::status(200).with_body(&other));
    home.refused(&server, &[WEIGHTS, &hub.etag(WEIGHTS), &got]);
    let etag = hub.etag(WEIGHTS);
    assert!(!home.blob(&etag).exists());
    assert!(!home.blob(&format!("{etag}.incomplete")).exists());
    // The next run finds nothing of it.
    home.fetch(&sound(&hub), &["org/tiny"]);
    home.assert_has(&hub, &NEEDED);
}

#[test]
fn lengths_that_are_not_true_are_refused() {
    let refused = |spoilt: fn(&[u8]) -> Answer, part: &str| {
        let home = Home::new();
        let server = with_weights(move |_, weights| spoilt(weights));
        home.refused(&server, &[WEIGHTS, "expected 700000 bytes", part]);
        assert!(!home.blob(&tiny().etag(WEIGHTS)).exists());
    };
    refused(
        |weights| Answer::status(200).with_body(weights).with_length(700_001),
        "700001",
    );
    refused(
        |weights| Answer::status(200).with_body(&weights[..9]),
        "a Content-Length of 9",
    );
    refused(
        |weights| {
            let long = [weights, b"more"].concat();
            Answer::status(200).with_body(&long).in_chunks()
        },
        "got more",
    );
}

#[test]
fn a_range_that_was_not_asked_for_is_refused() {
    let (hub, home) = (tiny(), Home::new());
    leave_part(&home, &hub, &hub.bytes(WEIGHTS)[..1000]);
    let server = with_weights(|_, weights| {
        Answer::status(206)
            .with_header("Content-Range", "bytes 999-699999/700000")
            .with_body(&weights[999..])
    });
    home.refused(&server, &["from byte 1000 of 700000", "from byte 999"]);
}

#[test]
fn the_token_goes_to_the_hub_alone() {
    let (hub, home) = (tiny(), Home::new());
    let other = hub.clone();
    let cdn = Server::start(move |request, _| other.answer(request, ""));
    let (of_hub, address) = (hub.clone(), cdn.address.clone());
    let server = Server::start(
        move |request, _| match request.path.strip_prefix("/moved") {
            Some(path) => {
                let request = Request {
                    path: path.to_owned(),
                    ..request.clone()
                };
                of_hub.answer(&request, &address)
            }
            None => Answer::status(307).with_header("Location", &format!("/moved{}", request.path)),
        },
    );
    let mut command = home.command(&server.address);
    command.env("HF_TOKEN", "hf_secret");
    let output = command.args(["fetch", "org/tiny"]).output();
    assert_eq!(output.expect("the binary starts").status.code(), Some(0));
    home.assert_has(&hub, &NEEDED);
    let token = Some("Bearer hf_secret".to_owned());
    assert!(
        server
            .requests("/")
            .iter()
            .all(|request| request.token == token)
    );
    let at_cdn = cdn.requests("/cdn/");
    assert!(at_cdn.len() == 1 && at_cdn[0].token.is_none(), "{at_cdn:?}");
}

#[test]
fn the_token_of_a_login_is_used() {
    let (hub, home) = (tiny(), Home::new());
    fs::write(home.0.path().join("token"), "hf_login\n").expect("written");
    let server = sound(&hub);
    home.fetch(&server, &["org/tiny"]);
    let token = server.requests("/api/")[0].token.clone();
    assert_eq!(token.as_deref(), Some("Bearer hf_login"));
}

#[test]
fn redirects_that_lead_nowhere_are_refused() {
    for location in ["/org/tiny/again", "not an address", "ftp://x/y"] {
        let server =
            Server::start(move |_, _| Answer::status(302).with_header("Location", location));
        Home::new().refused(&server, &["redirect"]);
        assert!(server.requests("/").len() <= 11);
    }
}

#[test]
fn a_refusal_says_what_to_do() {
    let refused = |status: u16, code: &'static str, parts: &[&str]| {
        let server =
            Server::start(move |_, _| Answer::status(status).with_header("X-Error-Code", code));
        Home::new().refused(&server, parts);
        assert_eq!(server.requests("/").len(), 1, "{code}");
    };
    refused(
        401,
        "GatedRepo",
        &["401", "licence", "/org/tiny", "HF_TOKEN"],
    );
    refused(
        403,
        "GatedRepo",
        &["403", "licence", "/org/tiny", "HF_TOKEN"],
    );
    refused(
        401,
        "RepoNotFound",
        &["401", "exists", "/org/tiny", "HF_TOKEN"],
    );
    refused(404, "RepoNotFound", &["404", "exists", "/org/tiny"]);
    refused(404, "RevisionNotFound", &["404", "--revision"]);

    // Files may be refused though the list is not.
    let home = Home::new();
    let server = serve(&tiny(), |request, _| {
        let gated = request.path.contains("/resolve/");
        gated.then(|| Answer::status(403).with_header("X-Error-Code", "GatedRepo"))
    });
    home.refused(&server, &["config.json", "GatedRepo", "licence"]);
}

#[test]
fn a_busy_server_is_waited_for_a_few_times() {
    for status in [429, 503] {
        let (hub, home) = (tiny(), Home::new());
        let busy = move || Answer::status(status).with_header("Retry-After", "0");
        // The list at the third request, the weights at the second.
        let server = serve(&hub, move |request, all| {
            let before = all
                .iter()
                .filter(|other| other.path == request.path)
                .count();
            let fails = request.path.contains("/api/") && before < 3;
            (fails || for_weights(request) && before < 2).then(busy)
        });
        home.fetch(&server, &["org/tiny"]);
        home.assert_has(&hub, &NEEDED);
        assert_eq!(server.requests("/api/").len(), 3);
        assert_eq!(server.requests("/cdn/").len(), 2);

        let home = Home::new();
        let server = Server::start(move |_, _| busy());
        home.refused(&server, &[&status.to_string(), "later"]);
        assert_eq!(
            server.requests("/").len(),
            6,
            "one request and five repeats"
        );

        // Nobody waits for a day.
        let server =
            Server::start(move |_, _| Answer::status(status).with_header("Retry-After", "86400"));
        home.refused(&server, &[&status.to_string()]);
        assert_eq!(server.requests("/").len(), 1);
    }
}

#[test]
fn a_list_that_leads_out_of_the_cache_is_refused() {
    for name in [
        "../../x.safetensors",
        "/x.safetensors",
        "..\\..\\x.safetensors",
        "a/../../../x",
    ] {
        let home = Home::new();
        let server = Server::start(move |_, _| {
            let lfs = json!({ "sha256": "a".repeat(64), "size": 1 });
            let files = [
                json!({ "rfilename": "config.json", "size": 2, "blobId": "b".repeat(40) }),
                json!({ "rfilename": name, "size": 1, "lfs": lfs }),
            ];
            let list = json!({ "sha": COMMIT, "siblings": files });
            Answer::status(200).with_body(list.to_string().as_bytes())
        });
        home.refused(&server, &["the path", "x"]);
        assert_eq!(server.requests("/").len(), 1);
        let written = fs::read_dir(home.0.path()).expect("a folder").count();
        assert_eq!(written, 0, "{name}");
    }
}

#[test]
fn a_size_beyond_the_disk_is_refused_before_anything_is_fetched() {
    for size in [1_u64 << 62, u64::MAX] {
        let home = Home::new();
        let server = serve(&tiny(), move |request, _| {
            let mut list = tiny().list();
            for file in list["siblings"].as_array_mut().expect("a list") {
                if file["rfilename"] == WEIGHTS {
                    file["size"] = size.into();
                    file["lfs"]["size"] = size.into();
                }
            }
            let list = list.to_string();
            let asked = request.path.contains("/api/");
            asked.then(|| Answer::status(200).with_body(list.as_bytes()))
        });
        home.refused(&server, &["free bytes", "make room"]);
        assert!(server.requests("/resolve/").is_empty());
    }
}

#[test]
fn a_list_of_names_alone_is_enough() {
    let (hub, home) = (tiny(), Home::new());
    let server = serve(&hub, |request, _| {
        let names = tiny()
            .files
            .into_iter()
            .map(|(name, _)| json!({ "rfilename": name }));
        let list = json!({ "sha": COMMIT, "siblings": names.collect::<Vec<_>>() }).to_string();
        let asked = request.path.contains("/api/");
        asked.then(|| Answer::status(200).with_body(list.as_bytes()))
    });
    let report = home.fetch(&server, &["org/tiny"]);
    home.assert_has(&hub, &NEEDED);
    let weights = &report["files"].as_array().expect("a list")[3];
    assert_eq!(weights["sha256"], sha256(hub.bytes(WEIGHTS)));
    for name in NEEDED {
        assert!(home.blob(&hub.etag(name)).is_file(), "{name}");
    }
}

#[test]
fn two_runs_at_once_fetch_each_file_once() {
    let (hub, home) = (tiny(), Home::new());
    // The weights come when both runs have their list, so that the second has to wait for the first.
    let weights = hub.bytes(WEIGHTS).to_vec();
    let lists = AtomicUsize::new(0);
    let server = serve(&hub, move |request, _| {
        if request.path.contains("/api/") {
            lists.fetch_add(1, Ordering::SeqCst);
        }
        for_weights(request).then(|| {
            let begun = Instant::now();
            while lists.load(Ordering::SeqCst) < 2 && begun.elapsed() < Duration::from_secs(60) {
                thread::sleep(Duration::from_millis(10));
            }
            Answer::status(200).with_body(&weights)
        })
    });
    let start = || {
        let mut command = home.command(&server.address);
        command.args(["fetch", "org/tiny", "--json"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("the binary starts")
    };
    let states = [start(), start()].map(|child| {
        let output = child.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{said}");
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let files = report["files"].as_array().expect("a list").clone();
        let weights = files.into_iter().find(|file| file["file"] == WEIGHTS);
        weights.expect("the weights")["state"]
            .as_str()
            .map(str::to_owned)
    });
    let states: BTreeSet<_> = states.into_iter().flatten().collect();
    assert_eq!(states, set(&["cached", "downloaded"]));
    home.assert_has(&hub, &NEEDED);
    assert_eq!(server.requests("/cdn/").len(), 1);
}

#[test]
fn a_blob_that_has_changed_is_found_by_its_size_or_its_hash() {
    let (hub, home) = (tiny(), Home::new());
    let server = sound(&hub);
    home.fetch(&server, &["org/tiny"]);
    let blob = home.blob(&hub.etag(WEIGHTS));
    fs::write(&blob, content(10, 1)).expect("written");
    home.fetch(&server, &["org/tiny"]);
    home.assert_has(&hub, &NEEDED);
    fs::write(&blob, content(700_000, 1)).expect("written");
    let state = |report: &Value| report["files"][3]["state"].clone();
    let by_size = home.fetch(&server, &["org/tiny"]);
    assert_eq!(state(&by_size), "cached", "of the same size");
    let by_hash = home.fetch(&server, &["org/tiny", "--verify"]);
    assert_eq!(state(&by_hash), "downloaded");
    home.assert_has(&hub, &NEEDED);
    assert_eq!(
        state(&home.fetch(&server, &["org/tiny", "--verify"])),
        "verified"
    );
}

#[test]
fn one_model_in_gguf_is_fetched_by_its_quantisation() {
    let names = [
        "tiny-Q4_K_M.gguf",
        "tiny-Q8_0.gguf",
        "big/tiny-F16-00001-of-00002.gguf",
        "big/tiny-F16-00002-of-00002.gguf",
    ];
    let hub = Hub::new(
        names
            .iter()
            .zip(1..)
            .map(|(name, seed)| (*name, content(100, seed))),
    );
    let (server, home) = (sound(&hub), Home::new());
    home.refused(&server, &["Q4_K_M", "Q8_0", "F16"]);
    home.fetch(&server, &["org/tiny:q8_0"]);
    assert_eq!(home.names(), set(&["tiny-Q8_0.gguf"]));
    home.assert_has(&hub, &names[1..2]);
    home.fetch(&server, &["org/tiny:big/*"]);
    home.assert_has(&hub, &names[1..]);
    assert!(!home.snapshot().join(names[0]).exists());
}

#[test]
fn a_revision_is_a_reference_of_its_own() {
    let (hub, home) = (tiny(), Home::new());
    let server = sound(&hub);
    home.fetch(&server, &["org/tiny", "--revision", "refs/pr/1"]);
    let asked = server.requests("/api/");
    assert_eq!(
        asked[0].path,
        "/api/models/org/tiny/revision/refs%2Fpr%2F1?blobs=true"
    );
    let reference = home.repository().join("refs/refs/pr/1");
    assert_eq!(fs::read_to_string(reference).expect("a reference"), COMMIT);
    assert!(!home.repository().join("refs/main").exists());
    home.assert_has(&hub, &NEEDED);
    for wrong in ["../x", "/x", ""] {
        let output = home.run(&server.address, &["fetch", "org/tiny", "--revision", wrong]);
        assert_refused(&output, &["revision"]);
    }
}

/// The address of a server that has stopped.
fn stopped() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    format!("http://{}", listener.local_addr().expect("an address"))
}

#[test]
fn without_a_network_the_error_says_so() {
    let home = Home::new();
    let output = home.run(&stopped(), &["fetch", "org/tiny"]);
    assert_refused(&output, &["cannot reach", "check the network"]);
    let mut command = home.command(&stopped());
    command
        .env("HF_HUB_OFFLINE", "1")
        .args(["fetch", "org/tiny"]);
    assert_refused(&command.output().expect("it starts"), &["HF_HUB_OFFLINE"]);
    for wrong in ["x", "ftp://x", "http://", "https://a?b"] {
        let output = home.run(wrong, &["fetch", "org/tiny"]);
        assert_refused(&output, &["HF_ENDPOINT"]);
    }
}

#[test]
fn a_name_that_is_not_in_the_cache_is_not_downloaded() {
    let (hub, home) = (tiny(), Home::new());
    let server = sound(&hub);
    let out = home.0.path().join("out").display().to_string();
    let out = out.as_str();
    let text = home.0.path().join("text").display().to_string();
    fs::write(&text, "x").expect("written");
    let text = text.as_str();
    for line in [
        &["generate", "--prompt", "x", "--model", "org/tiny"][..],
        &["chat", "--model", "org/tiny"],
        &["perplexity", "--text", text, "--model", "org/tiny"],
        &["upcycle", "--out", out, "--model", "org/tiny"],
        &["convert", "--out", out, "--model", "org/tiny"],
        &["train", "--out", out, "--model", "org/tiny"],
    ] {
        let output = home.run(&server.address, line);
        assert_refused(&output, &["org/tiny: expected", "moebius fetch org/tiny"]);
    }
    // A part of a model is none.
    let index = json!({ "weight_map": { "a": "model-00002-of-00002.safetensors" } }).to_string();
    let folder = home.snapshot();
    fs::create_dir_all(&folder).expect("created");
    fs::write(folder.join("config.json"), "{}").expect("written");
    fs::write(folder.join("model.safetensors.index.json"), index).expect("written");
    let line = ["generate", "--prompt", "x", "--model", "org/tiny"];
    let output = home.run(&server.address, &line);
    assert_refused(&output, &["model-00002-of-00002", "moebius fetch org/tiny"]);
    assert!(server.requests("/").is_empty());
}

#[test]
#[cfg(feature = "flex")]
fn a_model_in_the_cache_is_used_by_its_name() {
    let model = published::model();
    let names = ["config.json", "tokenizer.json", WEIGHTS];
    let read = |name: &str| fs::read(model.path().join(name)).expect("a file");
    let hub = Hub::new(names.map(|name| (name, read(name))));
    let home = Home::new();
    home.fetch(&sound(&hub), &["org/tiny"]);
    let line = [
        "generate",
        "--device",
        "flex",
        "--prompt",
        "w3 w14",
        "--max-tokens",
        "4",
        "--json",
    ];
    let ids = |model: &str| {
        let output = home.run(&stopped(), &[&line[..], &["--model", model]].concat());
        let report: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
        report["ids"].clone()
    };
    let by_name = ids("org/tiny");
    assert_eq!(by_name.as_array().map(Vec::len), Some(4), "{by_name}");
    assert_eq!(by_name, ids(&model.path().display().to_string()));
    assert_eq!(by_name, ids(&home.snapshot().display().to_string()));
}

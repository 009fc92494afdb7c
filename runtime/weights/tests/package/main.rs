//! Manifests of packages made of arbitrary bytes: each is read or refused.

mod any_bytes;

use any_bytes::any_bytes;
use moebius_weights::package::Manifest;
use proptest::prelude::*;
use serde_json::json;

/// A manifest that is believed, with `path` and `bytes` for one of its files.
fn manifest(path: &str, bytes: u64) -> String {
    let mut paths = [path, "m"];
    paths.sort_unstable();
    let file = |path: &str| json!({ "path": path, "bytes": bytes, "sha256": "0a".repeat(32) });
    json!({
        "format": "moebius-package",
        "version": 1,
        "model": {
            "name": "m", "family": "f", "parameters": 1, "active_parameters": 1, "layers": 1, "vocabulary": 1, "context": 1,
            "stored": ["F32"], "weight_bytes": 4,
        },
        "run": { "device": "flex", "dtype": "f32" },
        "hardware": {
            "device_name": "d", "architecture": null, "driver": null, "memory_bytes": null, "processors": 1, "system": "s",
        },
        "figures": {
            "runs": 1, "load_s": 0.5, "streams": 1, "prompt_tokens": 1, "answer_tokens": 1, "alone_tokens_per_s": 1.5,
            "together_tokens_per_s": 1.5, "long_prompt_tokens": 1, "first_token_ms": 1.5, "first_token_known_ms": 0.5,
        },
        "software": { "moebius": "0.1.0" },
        "licences": [],
        "files": paths.map(file),
    })
    .to_string()
}

fn believed(text: &str) -> bool {
    Manifest::parse("package".as_ref(), text.as_bytes()).is_ok()
}

#[test]
fn the_sample_is_believed() {
    assert!(believed(&manifest("a/b", 7)));
    assert!(!believed(&manifest("../b", 7)));
}

#[test]
fn every_byte_may_be_another() {
    let whole = manifest("a/b", 7).into_bytes();
    for at in 0..whole.len() {
        for other in [0, b'"', b'/', b'.', b'9', b'}', 0x80, 0xff, whole[at] ^ 1] {
            let mut bytes = whole.clone();
            bytes[at] = other;
            any_bytes(&bytes);
        }
    }
}

proptest! {
    // The environment variable PROPTEST_CASES may set more cases.
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.max(1024), ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
        any_bytes(&bytes);
    }

    #[test]
    fn arbitrary_paths_stay_in_the_package(path in "[a-c./\\\\:m ]{0,12}", bytes in any::<u64>()) {
        let text = manifest(&path, bytes);
        any_bytes(text.as_bytes());
        // Two files of half of all numbers fit, and no more.
        prop_assert!(bytes < 1 << 63 || !believed(&text));
    }
}

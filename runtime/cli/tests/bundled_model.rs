//! The bundled model, tested through the command: it writes English, and predicts unseen text as well as its README says.
#![cfg(feature = "flex")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Perplexity of the held-out tokens at the end of the text: first with the weights in f32, before their conversion to codes
/// (`scripts/shipped-model` prints it), then with the codes.
const F32: f64 = 132.400;
const FP8: f64 = 132.669;

/// Largest total size of the model's files, in bytes.
const BYTES: u64 = 5_000_000;

fn moebius(args: &[&str]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_moebius"))
        .args(args)
        .args(["--device", "flex", "--json"])
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    // Exit status 1 means that a loss didn't fall.
    let code = output.status.code();
    assert!(matches!(code, Some(0 | 1)), "{args:?}: {code:?} {errors}");
    let said = String::from_utf8(output.stdout).unwrap();
    // A training prints a report per line before its result.
    serde_json::from_str(said.lines().last().unwrap()).unwrap()
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text() -> String {
    fs::read_to_string(repository().join("runtime/model/text/moby-dick.txt")).unwrap()
}

/// Words of a text in lower case, without punctuation.
fn words(text: &str) -> impl Iterator<Item = String> {
    let words = text.split(|letter: char| !letter.is_alphabetic());
    words.filter(|word| !word.is_empty()).map(str::to_lowercase)
}

#[test]
fn it_writes_words_of_english() {
    let known: HashSet<String> = words(&text()).collect();
    let mut all = 0;
    let mut unknown = Vec::new();
    for seed in ["1", "2", "3"] {
        let draws = ["--temperature", "0.5", "--top-p", "0.9", "--seed", seed];
        let prompt = [
            "generate",
            "--prompt",
            "The old captain looked at the sea, and",
        ];
        let written = moebius(&[&prompt[..], &["--max-tokens", "96"], &draws].concat());
        let text = written["text"].as_str().unwrap();
        let mut words: Vec<String> = words(text).collect();
        // The last word may be cut off.
        words.pop();
        all += words.len();
        unknown.extend(words.into_iter().filter(|word| !known.contains(word)));
    }
    assert!(all > 150, "{all} words");
    assert!(
        20 * unknown.len() < all,
        "{} of {all}: {unknown:?}",
        unknown.len()
    );
}

#[test]
fn it_answers_in_json_where_that_is_asked() {
    let schema = r#"{
        "type": "object",
        "properties": {
            "sort": {"enum": ["whale", "ship", "man"]},
            "legs": {"type": "integer", "minimum": 0, "maximum": 9},
            "name": {"type": "string", "pattern": "^[A-Z][a-z]{1,8}$"}
        },
        "required": ["sort", "legs", "name"],
        "additionalProperties": false,
        "x-guidance": {"whitespace_flexible": false}
    }"#;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("schema.json");
    fs::write(&file, schema).unwrap();
    for (place, more) in [
        (schema, &["--seed", "3", "--temperature", "1"][..]),
        (file.to_str().unwrap(), &["--speculate", "ngram"][..]),
    ] {
        let prompt = ["generate", "--prompt", "The whale is", "--json-schema"];
        let said = moebius(&[&prompt[..], &[place], more].concat());
        assert_eq!(said["finish"], "stop", "{said}");
        let text = said["text"].as_str().unwrap();
        let answer: Value = serde_json::from_str(text).unwrap();
        let sort = answer["sort"].as_str().unwrap();
        assert!(["whale", "ship", "man"].contains(&sort), "{text}");
        assert!(answer["legs"].as_u64().is_some_and(|legs| legs < 10));
        let name = answer["name"].as_str().unwrap();
        assert!((2..=9).contains(&name.len()), "{text}");
        assert_eq!(answer.as_object().unwrap().len(), 3);
    }
}

#[test]
fn it_foresees_what_it_has_not_read() {
    let out = tempfile::tempdir().unwrap();
    let [shipped, out] = [repository().join("runtime/shipped"), out.path().join("out")]
        .map(|path| path.to_str().unwrap().to_owned());
    // `train` prints the perplexity before its first step.
    let training = ["train", "--model", &shipped, "--paragraphs", "--out", &out];
    let said = moebius(&[&training[..], &["--steps", "1", "--batch", "1"]].concat());
    let said = said["perplexity_before"].as_f64().unwrap();
    assert!((said / FP8 - 1.0).abs() < 1e-3, "{said}, recorded {FP8}");
    const { assert!(FP8 <= 1.01 * F32) };
}

#[test]
fn it_is_small() {
    let files = fs::read_dir(repository().join("runtime/shipped")).unwrap();
    // What the model should compute isn't part of it, and a page loads that only for a certificate.
    let files = files.map(Result::unwrap);
    let files = files.filter(|file| file.file_name() != "reference.case.safetensors");
    let sizes = files.map(|file| file.metadata().unwrap().len());
    let all: u64 = sizes.sum();
    assert!(all <= BYTES, "{all} bytes");
}

//! A published model for tests, as small as it can be.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

/// A folder with the model of a case, and a tokenizer whose token n is the word `wn`.
pub(crate) fn model() -> TempDir {
    model_of("decoder_olmoe")
}

/// Like [`model`], with the model of `case`.
pub(crate) fn model_of(case: &str) -> TempDir {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases");
    let case = cases.join(case);
    let folder = tempfile::tempdir().expect("a folder");
    let name = "model.safetensors";
    fs::copy(case.join(name), folder.path().join(name)).expect("copied");
    let config = fs::read(case.join("config.json")).expect("a bundled case");
    let mut config: Value = serde_json::from_slice(&config).expect("JSON");
    // The end token of the published model isn't in the tiny model's vocabulary.
    config["eos_token_id"] = Value::Null;
    let path = folder.path().join("config.json");
    fs::write(path, config.to_string()).expect("written");
    let words = (0..199).map(|id| (format!("w{id}"), json!(id)));
    let vocabulary: serde_json::Map<String, Value> = words.collect();
    let tokenizer = json!({
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": { "type": "WhitespaceSplit" },
        "model": { "type": "WordLevel", "vocab": vocabulary, "unk_token": "w0" },
    });
    let path = folder.path().join("tokenizer.json");
    fs::write(path, tokenizer.to_string()).expect("written");
    folder
}

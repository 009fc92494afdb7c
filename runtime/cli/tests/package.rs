//! Tests of `moebius package` as a program, with a tiny decoder of transformers.
#![cfg(feature = "flex")]
#![allow(
    clippy::expect_used,
    reason = "a test that cannot set itself up has failed"
)]

mod published;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use published::model;
use serde_json::Value;

fn moebius(words: &[&str], folder: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_moebius"));
    command.args(words).current_dir(folder).arg("--json");
    command.env_remove("MOEBIUS_API_KEYS");
    command.output().expect("the binary starts")
}

/// Packs the model in `folder` into the folder `packed` below it.
fn pack(folder: &Path) -> Output {
    let line =
        "package --model . --out packed --device flex --streams 2 --prompt 6 --tokens 3 --known 12";
    moebius(&line.split(' ').collect::<Vec<_>>(), folder)
}

fn object(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

#[test]
fn a_model_is_packed_measured_and_generates_as_before() {
    let folder = model();
    fs::write(folder.path().join("LICENSE"), "as you like").expect("written");
    fs::write(folder.path().join("pytorch_model.bin"), "no file to pack").expect("written");
    let made = pack(folder.path());
    assert_eq!(made.status.code(), Some(0), "{made:?}");
    let made = object(&made);
    let manifest = &made["manifest"];
    assert_eq!(manifest["model"]["family"], "olmoe");
    assert_eq!(manifest["run"]["dtype"], "f32");
    assert_eq!(manifest["run"]["weights"], Value::Null);
    assert_eq!(manifest["licences"], serde_json::json!(["LICENSE"]));
    let files = manifest["files"].as_array().expect("a list");
    let paths: Vec<&str> = files
        .iter()
        .filter_map(|file| file["path"].as_str())
        .collect();
    assert_eq!(
        paths,
        [
            "LICENSE",
            "config.json",
            "model.safetensors",
            "tokenizer.json"
        ]
    );
    for figure in [
        "load_s",
        "alone_tokens_per_s",
        "together_tokens_per_s",
        "first_token_ms",
    ] {
        let value = manifest["figures"][figure].as_f64();
        assert!(
            value.is_some_and(|value| value > 0.0),
            "{figure} in {manifest}"
        );
    }

    let fingerprint = made["sha256"].as_str().expect("a text");
    let verified = moebius(
        &["package", "--verify", "packed", "--sha256", fingerprint],
        folder.path(),
    );
    assert_eq!(verified.status.code(), Some(0), "{verified:?}");
    assert_eq!(object(&verified)["manifest"], *manifest);
    let ids = ["packed", "."].map(|model| {
        let line = format!("generate --device flex --prompt w3 --max-tokens 4 --model {model}");
        let output = moebius(&line.split(' ').collect::<Vec<_>>(), folder.path());
        object(&output)["ids"].clone()
    });
    assert!(ids[0].is_array(), "{ids:?}");
    assert_eq!(ids[0], ids[1]);
}

#[test]
fn a_package_that_was_changed_is_told_with_exit_1() {
    let folder = model();
    assert_eq!(pack(folder.path()).status.code(), Some(0));
    let verify = || moebius(&["package", "--verify", "packed"], folder.path());
    let config = folder.path().join("packed/config.json");
    let whole = fs::read_to_string(&config).expect("packed");
    fs::write(&config, whole.replacen('1', "2", 1)).expect("written");
    let changed = verify();
    assert_eq!(changed.status.code(), Some(1), "{changed:?}");
    let said = object(&changed);
    assert_eq!(said["verified"], false);
    let error = said["error"].as_str().expect("a text");
    assert!(
        error.contains("`config.json`: expected ") && error.contains(", got "),
        "{error}"
    );

    fs::write(&config, whole).expect("written");
    let other = "0".repeat(64);
    let pinned = moebius(
        &["package", "--verify", "packed", "--sha256", &other],
        folder.path(),
    );
    assert_eq!(pinned.status.code(), Some(1), "{pinned:?}");
    assert_eq!(verify().status.code(), Some(0));
    let nothing = moebius(&["package", "--verify", "nothing"], folder.path());
    assert_eq!(nothing.status.code(), Some(2), "{nothing:?}");
}

#[test]
fn a_package_with_a_changed_byte_is_not_served() {
    let folder = model();
    assert_eq!(pack(folder.path()).status.code(), Some(0));
    // An address that others reach needs keys, so that a server of a whole package ends, too.
    let serve = || {
        let line = "serve --device flex --address 0.0.0.0:0 --model packed";
        let ended = moebius(&line.split(' ').collect::<Vec<_>>(), folder.path());
        assert_eq!(ended.status.code(), Some(2), "{ended:?}");
        object(&ended)["error"].as_str().expect("a text").to_owned()
    };
    let whole = serve();
    assert!(whole.starts_with("0.0.0.0:0: expected keys"), "{whole}");
    let weights = folder.path().join("packed/model.safetensors");
    let mut bytes = fs::read(&weights).expect("packed");
    *bytes.last_mut().expect("weights") ^= 1;
    fs::write(&weights, bytes).expect("written");
    let (changed, fault) = (serve(), "packed: `model.safetensors`: expected ");
    assert!(changed.starts_with(fault), "{changed}");
}

#[test]
fn what_cannot_be_packed_leaves_nothing_behind() {
    let folder = model();
    fs::remove_file(folder.path().join("tokenizer.json")).expect("removed");
    let refused = pack(folder.path());
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    let names = fs::read_dir(folder.path()).expect("a folder");
    let names: Vec<_> = names.flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    for words in [
        &["package"][..],
        &["package", "--model", "."],
        &["package", "--verify", ".", "--model", "."],
        &["package", "--verify", ".", "--sha256", "00"],
        &["package", "--verify", ".", "--streams", "8"],
        &["package", "--verify", ".", "--device", "auto"],
    ] {
        let output = moebius(words, folder.path());
        assert_eq!(output.status.code(), Some(2), "{words:?}: {output:?}");
    }
}

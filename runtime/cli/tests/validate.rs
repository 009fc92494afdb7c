//! Tests of `moebius validate` as a program, on `flex`, with a tiny decoder of transformers, the bundled model and the bundled cases.
#![cfg(feature = "flex")]
#![allow(
    clippy::expect_used,
    reason = "a test that cannot set itself up has failed"
)]

mod published;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use published::{model, model_of};
use serde_json::Value;

/// Words of the tiny models' tokenizers.
const WORDS: &str = "w3 w14 w15 w9 w26 w5 w35 w8 w9 w79";

fn validate(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_moebius"));
    command.arg("validate").args(args);
    command.output().expect("the binary starts")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

fn object(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

/// Certifies the model in `folder` on `flex`, and writes the certificate into `out`.
fn certified(folder: &Path, out: &Path) -> Value {
    let of = ["--model", text(folder), "--tokens", WORDS];
    let output = validate(
        &[
            &of[..],
            &["--devices", "flex", "--out", text(out), "--json"],
        ]
        .concat(),
    );
    let found = object(&output);
    assert_eq!(output.status.code(), Some(0), "{found}");
    found
}

#[test]
fn a_model_is_certified_part_by_part() {
    let (folder, out) = (model(), tempfile::tempdir().expect("a folder"));
    let found = certified(folder.path(), out.path());
    let device = &found["devices"][0];
    assert_eq!(device["verdict"], "same", "{found}");
    let model = &device["found"]["model"];
    let parts = model["parts"].as_array().expect("a list");
    // An embedding, three parts of each of three layers, and a head.
    assert_eq!(parts.len(), 2 + 3 * 3);
    for part in parts {
        let far = part["distance"]["relative_l2"].as_f64();
        assert!(far.is_some_and(|far| far < 1e-5), "{part}");
        assert_eq!(part["bits_of_first"], true);
    }
    assert_eq!(parts[2]["distance"]["part"], "router");
    let read = |name: &str| fs::read_to_string(out.path().join(name)).expect("written");
    let stored: Value = serde_json::from_str(&read("report.json")).expect("JSON");
    assert_eq!(stored, found);
    assert!(read("report.md").contains("the same answer on 1 of 1 devices"));
    assert!(read("report.html").contains("</svg>"));
}

#[test]
fn certificates_are_united_unless_they_are_of_other_models() {
    let places = [0; 4].map(|_| tempfile::tempdir().expect("a folder"));
    let [here, there, other, all] = places.each_ref().map(|place| place.path());
    certified(model().path(), here);
    certified(model().path(), there);
    certified(model_of("decoder_mixtral").path(), other);
    let [here, there, other] = [here, there, other].map(|place| place.join("report.json"));
    let merge = |second: &Path| {
        let files = ["merge", text(&here), text(second)];
        validate(&[&files[..], &["--out", text(all), "--json"]].concat())
    };
    let output = merge(&there);
    let found = object(&output);
    assert_eq!(output.status.code(), Some(0), "{found}");
    let devices = found["devices"].as_array().expect("a list");
    assert_eq!(devices.len(), 2);
    let bits = devices[1]["found"]["model"]["parts"].as_array();
    let bits = bits.expect("a list").iter();
    assert!(bits.clone().all(|part| part["bits_of_first"] == true));

    let output = merge(&other);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("expected the hash "), "{said}");
}

#[test]
fn devices_are_compared_without_a_reference() {
    let folder = model();
    let of = ["compare", "--devices", "flex,flex", "--model"];
    let line = [&of[..], &[text(folder.path()), "--tokens", WORDS]].concat();
    let output = validate(&[&line[..], &["--per-layer"]].concat());
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("layer 2, experts"), "{said}");
    let line_of_device = "flex gives the answer of flex; all bits are equal";
    assert!(said.contains(line_of_device), "{said}");
}

#[test]
fn the_bundled_model_and_the_bundled_cases_are_certified() {
    let output = validate(&["--bundled", "--devices", "flex"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("the same answer on 1 of 1 devices"), "{said}");

    let output = validate(&["--devices", "flex,xla:tpu:7", "--json"]);
    let found = object(&output);
    // A device that isn't there is no reason to leave the others out, and no success.
    assert_eq!(output.status.code(), Some(2), "{found}");
    let devices = &found["devices"];
    assert_eq!(devices[0]["verdict"], "same", "{found}");
    assert_eq!(devices[0]["found"]["cases"]["failed"], 0);
    assert_eq!(devices[1]["verdict"], "failed", "{found}");
    assert!(devices[1]["found"]["error"].is_string());
}

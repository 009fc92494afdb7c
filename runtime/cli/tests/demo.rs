//! Tests of `moebius demo`: examples, demos and pages of the book are the same, each holds, and an error is found.
#![cfg(feature = "flex")]
#![allow(
    clippy::expect_used,
    reason = "a test that cannot set itself up has failed"
)]

#[path = "../examples/moe_layer.rs"]
#[allow(dead_code, reason = "the test calls parts of the program")]
mod moe_layer;

use std::fs;
use std::path::Path;
use std::process::Command;

use burn::tensor::Tensor;
use moebius::moe::MoeWeights;
use serde_json::Value;

/// Exit status and object of `moebius demo` with the arguments in `line`, which have no spaces.
fn demo(line: &str) -> (Option<i32>, Value) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_moebius"));
    command.args(["demo", "--json"]);
    command.args(line.split_whitespace());
    let output = command.output().expect("the binary starts");
    let said = String::from_utf8_lossy(&output.stderr);
    let object = serde_json::from_slice(&output.stdout).expect(&said);
    (output.status.code(), object)
}

/// The names of all demos, as the command lists them.
fn names() -> Vec<String> {
    let (code, listed) = demo("");
    assert_eq!(code, Some(0), "{listed}");
    let demos = listed["demos"].as_array().expect("a list").iter();
    let names = demos.map(|demo| demo["demo"].as_str().expect("a name").to_owned());
    names.collect()
}

#[test]
fn each_example_is_a_demo_and_has_a_page() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files = fs::read_dir(package.join("examples")).expect("a folder");
    let files = files.map(|file| file.expect("a file").path().with_extension(""));
    let stems = files.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()));
    let mut examples: Vec<String> = stems.collect();
    examples.sort();
    let listed = names();
    let mut demos = listed.clone();
    demos.sort();
    assert_eq!(demos, examples);
    let docs = package.join("../../docs");
    let read = |page: &str| fs::read_to_string(docs.join(page)).expect(page);
    for name in &listed {
        let page = read(&format!("demos/{name}.md"));
        let include = format!("{{{{#include ../../runtime/cli/examples/{name}.rs}}}}");
        assert!(page.lines().any(|line| line == include), "{name}: {page}");
    }
    let linked = |page: &str, before: &str| -> Vec<String> {
        let text = read(page);
        let links = text.split(before).skip(1);
        let names = links.filter_map(|link| Some(link.split_once(".md)")?.0.to_owned()));
        names.filter(|name| name != "README").collect()
    };
    assert_eq!(linked("SUMMARY.md", "](demos/"), listed);
    let mut overview = linked("demos/README.md", "](");
    overview.sort();
    overview.dedup();
    assert_eq!(overview, demos);
}

#[test]
fn every_demo_holds() {
    for name in names() {
        let (code, found) = demo(&format!("{name} --device flex"));
        if name == "tpu" && cfg!(not(feature = "xla")) {
            let error = found["error"].as_str().expect("a text");
            let refused = code == Some(2) && error.contains("cargo feature xla");
            assert!(refused, "{found}");
            continue;
        }
        assert_eq!((code, &found["holds"]), (Some(0), &true.into()), "{found}");
        assert_eq!(found["device"], "flex");
        for text in ["figures", "fact"] {
            let text = found[text].as_str();
            assert!(text.is_some_and(|text| !text.is_empty()), "{found}");
        }
    }
}

#[test]
fn a_demo_finds_a_weight_that_is_wrong() {
    let device = moebius::open(&moebius::Device::Flex).expect("flex");
    let layer = moe_layer::config().init(&device).expect("a layer");
    let x = Tensor::<2>::ones([4, layer.config().hidden], &device);
    let holds = |weights: &MoeWeights| {
        let fused = layer.forward(x.clone()).expect("an output");
        let compared = moe_layer::compare(fused, weights, x.clone());
        compared.expect("a comparison").2
    };
    let mut weights = layer.weights().expect("weights");
    assert!(holds(&weights));
    // By one part in a thousand.
    weights.w_out = weights.w_out * 1.001;
    assert!(!holds(&weights));
}

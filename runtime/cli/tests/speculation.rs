//! Tests of what the commands that answer keep keys and values in, and of tokens that are proposed to them, as programs.
#![cfg(feature = "flex")]
#![allow(
    clippy::expect_used,
    reason = "a test that cannot set itself up has failed"
)]

mod published;

use std::path::Path;
use std::process::{Command, Output};

use published::{model, model_of};
use serde_json::Value;

const PROMPT: [&str; 4] = ["--prompt", "w3 w14 w15 w3 w14", "--max-tokens", "24"];

fn generate(folder: &Path, more: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_moebius"));
    command.args(["generate", "--device", "flex", "--json", "--model"]);
    command.arg(folder).args(PROMPT).args(more);
    command.output().expect("the binary starts")
}

fn object(output: &Output) -> Value {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

/// Checks that a command ended with exit 2 and an error that contains `what`.
fn assert_refused(output: &Output, what: &str) {
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains(what), "{said}");
}

#[test]
fn proposed_tokens_change_no_answer() {
    let (folder, other) = (model(), model_of("decoder_gpt_oss"));
    let path = |folder: &tempfile::TempDir| folder.path().display().to_string();
    let [itself, another] = [&folder, &other].map(path);
    for draws in [&[][..], &["--temperature", "1", "--seed", "7"]] {
        let plain = object(&generate(folder.path(), draws));
        assert_eq!(plain["speculation"], Value::Null);
        for ways in [
            &["--speculate", "ngram"][..],
            &["--speculate", "ngram:2,7"],
            &["--draft-model", &itself],
            &["--draft-model", &another, "--draft-tokens", "2"],
        ] {
            let found = object(&generate(folder.path(), &[draws, ways].concat()));
            for same in ["ids", "text", "finish", "prompt_tokens"] {
                assert_eq!(found[same], plain[same], "{ways:?}");
            }
            let count = |what: &str| found["speculation"][what].as_u64();
            let [proposed, accepted] = ["proposed", "accepted"].map(count);
            assert!(proposed.is_some_and(|count| count > 0), "{found}");
            assert!(accepted <= proposed, "{found}");
            if ways.contains(&itself.as_str()) {
                assert_eq!(accepted, proposed, "{found}");
            }
        }
    }
}

/// Each model whose weights are rounded to blocks has rows that are no whole blocks, which is told.
#[test]
fn a_draft_has_its_weights_in_blocks_as_the_model_unless_told_otherwise() {
    let folder = model();
    let itself = folder.path().display().to_string();
    let draft = ["--weights", "q8_0", "--draft-model", &itself];
    for (more, rounded) in [(&["--draft-weights", "dtype"][..], 1), (&[], 2)] {
        let output = generate(folder.path(), &[&draft[..], more].concat());
        let found = object(&output);
        let said = String::from_utf8_lossy(&output.stderr);
        let told = said.matches("rows are no whole blocks of Q8_0").count();
        assert_eq!(told, rounded, "{said}");
        let count = |what: &str| found["speculation"][what].as_u64();
        assert!(count("proposed").is_some_and(|count| count > 0), "{found}");
        if rounded == 2 {
            assert_eq!(count("accepted"), count("proposed"), "{found}");
        }
    }
}

#[test]
fn a_narrow_embedding_is_one_of_f32() {
    let folder = model();
    object(&generate(folder.path(), &["--narrow-embedding"]));
    let narrow = ["--narrow-embedding", "--dtype", "bf16"];
    let refused = generate(folder.path(), &narrow);
    assert_refused(&refused, "expected --dtype f32, got bf16");
}

#[test]
fn proposers_that_do_not_fit_are_refused() {
    let (folder, other) = (model(), model_of("decoder_qwen3"));
    let [itself, other] = [&folder, &other].map(|of| of.path().display().to_string());
    for (more, what) in [
        (
            &["--speculate", "lookahead"][..],
            "expected ngram, or ngram:N,K",
        ),
        (&["--speculate", "ngram:0,4"], "expected at least 1, got 0"),
        (&["--draft-tokens", "3"], "--draft-model"),
        (
            &["--speculate", "ngram", "--draft-model", &other],
            "cannot be used with",
        ),
        (&["--draft-model", &other], "vocabulary of a draft model"),
        (&["--draft-weights", "q8_0"], "--draft-model"),
        (
            &["--draft-model", &itself, "--draft-weights", "file"],
            "--draft-model: weights as the file has them",
        ),
    ] {
        assert_refused(&generate(folder.path(), more), what);
    }
}

#[test]
fn a_cache_in_fp8_takes_a_fraction_of_the_memory() {
    let folder = model();
    let of = |format: &str| object(&generate(folder.path(), &["--kv-cache-dtype", format]));
    let [automatic, single, half, fp8] = ["auto", "f32", "bf16", "fp8"].map(of);
    let names = [&automatic, &single, &half, &fp8].map(|found| &found["kv_cache_dtype"]);
    assert_eq!(names, ["f32", "f32", "bf16", "e4m3"]);
    assert_eq!(automatic["ids"], single["ids"]);
    let bytes = |found: &Value| found["cache_bytes"].as_u64().unwrap_or_default();
    let [single, half, fp8] = [&single, &half, &fp8].map(bytes);
    assert_eq!(half, single / 2);
    // Each token and head has a scale for its key and one for its value.
    assert!(fp8 > single / 4 && fp8 < half, "{fp8} of {single}");
    let unknown = generate(folder.path(), &["--kv-cache-dtype", "int8"]);
    assert_refused(&unknown, "int8");
}

#[test]
fn a_benchmark_compares_proposed_tokens_with_none() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_moebius"));
    let line = "bench engine --device flex --streams 2 --prompt 20 --tokens 6 --known 40";
    command.args(line.split(' '));
    command.args(["--speculate", "ngram:3,3", "--json"]);
    let report = object(&command.output().expect("the binary starts"));
    assert_eq!(report["verified"], true);
    for time in ["slow_s", "fast_s"] {
        let seconds = report["plain_and_speculated"][time].as_f64();
        assert!(seconds.is_some_and(|seconds| seconds > 0.0), "{report}");
    }
    assert!(report["speculation"]["proposed"].is_u64(), "{report}");
}

/// With a cache of experts, the benchmark tells how many have places, what was read, and how long the disk takes for that. An expert of the
/// shipped model has 50,688 bytes, so that 1 MiB holds two in place and one on its way for each of six layers.
#[test]
fn a_benchmark_tells_what_experts_in_files_cost() {
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shipped");
    let mut command = Command::new(env!("CARGO_BIN_EXE_moebius"));
    let line = "bench engine --device flex --streams 2 --prompt 20 --tokens 6 --known 40 --json";
    command.args(line.split(' ')).arg("--model").arg(shipped);
    command.args(["--expert-cache", "1MiB", "--experts-from", "files"]);
    let report = object(&command.output().expect("the binary starts"));
    let found = &report["expert_cache"];
    let count = |what: &str| found[what].as_u64().unwrap_or_default();
    assert_eq!([count("places"), count("experts")], [12, 48], "{report}");
    // The file has the same codes and scales.
    assert!(count("misses") > 0, "{report}");
    assert_eq!(count("read_bytes"), count("moved_bytes"), "{report}");
    if cfg!(target_os = "linux") {
        let floor = found["floor_s"].as_f64();
        assert!(floor.is_some_and(|seconds| seconds > 0.0), "{report}");
    }
}

/// An expert of the model has 46,080 bytes in f32, so that 512 KiB hold two in place and one on its way for each of three layers.
#[test]
fn experts_in_main_memory_change_no_answer() {
    let folder = model();
    for dtype in ["f32", "fp8"] {
        let of = |more: &[&str]| generate(folder.path(), &[&["--dtype", dtype], more].concat());
        let resident = object(&of(&[]));
        assert_eq!(resident["expert_cache"], Value::Null);
        let moved = object(&of(&["--expert-cache", "512KiB"]));
        assert_eq!(moved["ids"], resident["ids"], "{dtype}");
        let count = |what: &str| moved["expert_cache"][what].as_u64();
        assert!(count("misses").is_some_and(|misses| misses > 0), "{moved}");
        assert!(
            count("moved_bytes").is_some_and(|bytes| bytes > 0),
            "{moved}"
        );
        assert_eq!(count("read_bytes"), Some(0));
        let files = ["--expert-cache", "512KiB", "--experts-from", "files"];
        let streamed = object(&of(&files));
        assert_eq!(streamed["ids"], resident["ids"], "{dtype}");
        for what in ["hits", "misses", "evictions", "moved_bytes"] {
            assert_eq!(
                streamed["expert_cache"][what].as_u64(),
                count(what),
                "{what}"
            );
        }
        let read = streamed["expert_cache"]["read_bytes"].as_u64();
        assert!(read.is_some_and(|bytes| bytes > 0), "{streamed}");
        let few = of(&["--expert-cache", "1KiB"]);
        assert_refused(&few, "budget: expected at least");
    }
    let dense = model_of("decoder_qwen3");
    let refused = generate(dense.path(), &["--expert-cache", "1GiB"]);
    assert_refused(&refused, "--expert-cache: this qwen3 model has no experts");
}

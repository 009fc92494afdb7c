//! Tests of `moebius optimize` as a program, with a tiny decoder of transformers: on `flex`, or on the devices that `MOEBIUS_TEST_DEVICES` names.
#![cfg(feature = "flex")]
#![allow(
    clippy::expect_used,
    reason = "a test that cannot set itself up has failed"
)]

mod published;

use std::path::Path;
use std::process::{Command, Output};
use std::{env, fs};

use published::model;
use serde_json::Value;
use tempfile::TempDir;

const REQUESTS: &str = "--prompt-file text.txt --streams 2 --prompt 6 --tokens 3 --known 12";

/// The devices of the tests that hold on every one.
fn devices() -> Vec<String> {
    let named = env::var("MOEBIUS_TEST_DEVICES").unwrap_or_else(|_| "flex".to_owned());
    named.split(',').map(str::to_owned).collect()
}

fn moebius(line: &str, folder: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_moebius"));
    // Behind `config show` it would be a flag of the command that is shown.
    command.arg("--json").args(line.split(' '));
    let output = command.current_dir(folder).output();
    output.expect("the binary starts")
}

fn object(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

/// Writes a sample text of the tiny models' words into a folder.
fn write_text(folder: &Path) {
    let words = (0..60).map(|place| format!("w{}", place * place % 199));
    let words: Vec<String> = words.collect();
    fs::write(folder.join("text.txt"), words.join(" ")).expect("written");
}

fn flags(found: &Value) -> Vec<&str> {
    let trials = found["trials"].as_array().expect("a list").iter();
    trials
        .filter_map(|trial| trial["change"].as_str())
        .collect()
}

#[test]
fn less_memory_is_found_and_packed_with_its_options() {
    let folder = model();
    write_text(folder.path());
    // The tiny model's weights are drawn, so that its likelihoods change by more than a trained model's.
    let of = "--device flex --model . --out found";
    let line = format!("optimize {of} --goal memory --budget 5 {REQUESTS}");
    let found = object(&moebius(&line, folder.path()));
    let tried = flags(&found);
    assert_eq!(tried[..3], ["--dtype f16", "--dtype bf16", "--dtype fp8"]);
    assert!(!tried.contains(&"--speculate ngram"), "{tried:?}");
    let kept = found["trials"].as_array().expect("a list").iter();
    let kept: Vec<&Value> = kept.filter(|trial| trial["kept"] == true).collect();
    // Half of the bytes of f32, if nothing else.
    assert!(!kept.is_empty(), "{found}");
    for trial in kept {
        let bytes = |of: &str| trial[of]["bytes"].as_f64().expect("a number");
        assert!(bytes("after") <= 0.95 * bytes("before"), "{trial}");
        for figure in ["alone_ms", "together_ms"] {
            let ms = trial["after"][figure].as_f64();
            assert!(ms.is_some_and(|ms| ms > 0.0), "{trial}");
        }
        let growth = trial["accuracy"]["perplexity_growth"].as_f64();
        assert!(growth.is_some_and(|growth| growth <= 0.05), "{trial}");
        let far = trial["accuracy"]["furthest"]["relative_l2"].as_f64();
        assert!(far.is_some_and(|far| far > 0.0 && far <= 0.1), "{trial}");
    }
    let dtype = found["chosen"]["dtype"].as_str().expect("a text");
    assert_ne!(dtype, "f32");
    assert_eq!(found["package"]["manifest"]["run"]["dtype"], dtype);
    object(&moebius("package --verify found", folder.path()));

    let file = "--config found/moebius.toml";
    let shown = object(&moebius(
        &format!("config show {file} serve"),
        folder.path(),
    ));
    assert_eq!(shown["serve"]["dtype"]["value"], dtype);
    let line = format!("generate {file} --device flex --model found --prompt w3 --max-tokens 4");
    let answer = object(&moebius(&line, folder.path()));
    assert!(answer["ids"].is_array(), "{answer}");

    let again = moebius(&format!("optimize {of} {REQUESTS}"), folder.path());
    assert_eq!(again.status.code(), Some(2), "{again:?}");
}

/// Finds options on a device for a new folder with the tiny model.
fn found_on(device: &str, level: &str) -> (TempDir, Value) {
    let folder = model();
    write_text(folder.path());
    let line = format!("optimize --model . --out found --device {device} {level} {REQUESTS}");
    let found = object(&moebius(&line, folder.path()));
    assert_eq!(found["device"], device);
    assert_eq!(found["package"]["verified"], true);
    (folder, found)
}

#[test]
fn auto_tries_what_the_goal_and_the_budget_allow() {
    let folder = model();
    write_text(folder.path());
    for (asked, level, tries_codes) in [
        ("--goal memory", "aggressive", true),
        ("--goal memory --budget 0.5", "conservative", false),
    ] {
        let of = format!("--device flex --model . --out {level} --level auto");
        let line = format!("optimize {of} {asked} {REQUESTS}");
        let found = object(&moebius(&line, folder.path()));
        assert_eq!(found["level"], level);
        let tried = flags(&found);
        let codes = tried.contains(&"--kv-cache-dtype fp8");
        assert_eq!(codes, tries_codes, "{tried:?}");
        let settings = fs::read_to_string(folder.path().join(level).join("moebius.toml"));
        let settings = settings.expect("a package");
        assert!(
            settings.contains(&format!("--level {level} ")),
            "{settings}"
        );
    }
}

#[test]
fn the_smallest_level_changes_no_likeliest_token() {
    for device in devices() {
        let (_folder, found) = found_on(&device, "--level conservative --budget 0.05");
        let tried = flags(&found);
        let dtypes = tried.iter().filter(|flag| flag.starts_with("--dtype"));
        assert_eq!(dtypes.count(), 0, "{tried:?}");
        assert_eq!(tried.last(), Some(&"--speculate ngram"));
        for trial in found["trials"].as_array().expect("a list") {
            let other = &trial["accuracy"]["first_other_token"];
            assert!(trial["kept"] == false || other.is_null(), "{trial}");
            if trial["change"] == "--speculate ngram" {
                assert_eq!(trial["same_tokens"], true, "{trial}");
            }
        }
        assert_eq!(found["budget"]["perplexity"], 0.0005);
        assert_eq!(found["chosen"]["dtype"], "f32");
    }
}

/// What a device lacks is told, and ends nothing. No option that is possible would save 5 % more: codes in FP8, whose rows are filled up to 64, take
/// as much of the tiny model as f16.
#[test]
fn the_fewest_bytes_are_found_whatever_a_device_lacks() {
    for device in devices() {
        let level = "--level aggressive --goal memory --budget 5";
        let (folder, found) = found_on(&device, level);
        let trials = found["trials"].as_array().expect("a list");
        let bytes = |trial: &Value, when: &str| trial[when]["bytes"].as_f64();
        let kept = trials.iter().filter(|trial| trial["kept"] == true);
        let kept: Vec<&Value> = kept.collect();
        let [first, last] = [kept.first(), kept.last()].map(|trial| trial.expect("one is kept"));
        let most = bytes(first, "before").expect("a number");
        let least = bytes(last, "after").expect("a number");
        assert!(least <= 0.55 * most, "{found}");
        for trial in trials {
            let verdict = trial["verdict"].as_str().expect("a text");
            let lacks = verdict.starts_with("not possible: ");
            assert_eq!(trial["accuracy"].is_null(), lacks, "{trial}");
            let after = bytes(trial, "after");
            assert!(after.is_none_or(|after| least <= after / 0.95), "{trial}");
        }
        let file = "--config found/moebius.toml --model found";
        let line = format!("generate {file} --device {device} --prompt w3 --max-tokens 4");
        let answer = object(&moebius(&line, folder.path()));
        assert_eq!(answer["ids"].as_array().map(Vec::len), Some(4), "{answer}");
    }
}

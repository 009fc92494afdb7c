//! Tests of the binary on the processor through XLA.
#![cfg(feature = "xla")]
#![allow(
    clippy::expect_used,
    reason = "a test that cannot set itself up has failed"
)]

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// The command with the arguments in `line`, which have no spaces.
fn command(line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_moebius"));
    command.args(line.split(' '));
    command
}

fn moebius(line: &str) -> Output {
    command(line).output().expect("the binary starts")
}

/// The JSON object that a command prints; the command must succeed.
fn report(line: &str) -> Value {
    let output = moebius(line);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{errors}");
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

#[test]
fn a_layer_is_measured_without_figures_that_are_not_there() {
    let line = "bench moe --hidden 32 --batch 1 --seq 16 --device xla:cpu";
    let figures = report(&format!("{line} --json"));
    assert_eq!(figures["verified"], true, "{figures}");
    assert_eq!(figures["device_bytes"], Value::Null, "{figures}");
    let stages = figures["stages"].as_array().expect("a list");
    let names: Vec<_> = stages.iter().map(|stage| stage["name"].as_str()).collect();
    assert_eq!(names, ["router", "sort", "experts"].map(Some));
    let output = moebius(line);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains("needed at least") && !text.contains("on the device"),
        "{text}"
    );
}

#[test]
fn both_passes_and_a_linear_layer_are_verified() {
    let small = "--hidden 32 --batch 1 --seq 16 --device xla:cpu --json";
    let figures = report(&format!("bench moe --backward --keep inputs {small}"));
    let run = &figures["runs"][0];
    assert_eq!(run["verified"], true, "{figures}");
    assert_eq!(run["kept_bytes"], Value::Null, "{figures}");
    let figures = report("bench linear --m 2 --n 64 --k 32 --device xla:cpu --json");
    assert_eq!(figures["verified"], true, "{figures}");
}

#[test]
fn the_next_process_finds_the_programs_of_the_last() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = |cache: &Path| {
        let mut command = command("bench linear --m 2 --n 64 --k 32 --device xla:cpu --json");
        let output = command.env("MOEBIUS_XLA_CACHE", cache).output();
        output.expect("the binary starts")
    };
    let kept = || folder.path().read_dir().expect("a folder").count();
    assert!(run(folder.path()).status.success());
    let first = kept();
    assert!(first > 0);
    assert!(run(folder.path()).status.success());
    assert_eq!(kept(), first);
    let file = tempfile::NamedTempFile::new().expect("a file");
    let refused = run(&file.path().join("under a file"));
    let error = String::from_utf8_lossy(&refused.stderr);
    assert!(
        !refused.status.success() && error.contains("under a file"),
        "{error}"
    );
}

#[test]
fn a_training_learns() {
    let sizes = "--hidden 16 --layers 1 --experts 4 --seq 16 --steps 4 --every 2";
    let output = moebius(&format!("train --device xla:cpu {sizes} --json"));
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.lines().count() >= 2, "{text}");
}

#[test]
fn a_placed_model_writes_and_learns_what_one_device_does() {
    let generate = "generate --prompt The --max-tokens 6 --device xla:cpu --json";
    let one = report(generate);
    let placed = report(&format!("{generate} --place experts=2,data=2"));
    assert_eq!(placed["ids"], one["ids"], "{placed}");
    let sizes = "--hidden 16 --layers 1 --experts 4 --seq 16 --steps 4 --every 4";
    let train = format!("train --device xla:cpu {sizes} --json");
    let loss = |line: &str| {
        let output = moebius(line);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{errors}");
        let text = String::from_utf8_lossy(&output.stdout);
        let last = text.lines().last().expect("a result");
        let result: Value = serde_json::from_str(last).expect("one JSON object");
        result["last_loss"].as_f64().expect("a loss")
    };
    let (one, placed) = (loss(&train), loss(&format!("{train} --place experts=4")));
    assert!((one - placed).abs() < 1e-3, "{one} and {placed}");
}

#[test]
fn placements_that_do_not_fit_are_errors() {
    let refused = |line: &str, said: &str| {
        let output = moebius(line);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(said), "{error}");
    };
    let generate = "generate --prompt The --max-tokens 1";
    refused(
        &format!("{generate} --device xla:cpu --place experts=5"),
        "experts: expected a multiple of the 5 places of experts, got",
    );
    refused(
        &format!("{generate} --device flex --place experts=2"),
        "it needs a device of XLA, such as `xla:cpu`, the device has flex",
    );
    refused(
        &format!("{generate} --device xla:cpu --place layers=2"),
        "expected `experts` or `data` before `=`, got `layers`",
    );
    refused(
        &format!("{generate} --device xla:cpu --place experts=2 --expert-cache 1GiB"),
        "cannot be used with",
    );
}

#[test]
fn no_plugin_is_chosen_whose_hardware_is_not_there() {
    let survey = report("devices --json");
    let auto = survey["auto"].as_str().expect("a device");
    let devices = survey["devices"].as_array().expect("a list");
    let chosen = devices.iter().find(|entry| entry["device"] == auto);
    assert_eq!(chosen.expect("it is listed")["available"], true);
    let bus = std::fs::read_dir("/sys/bus/pci/devices")
        .into_iter()
        .flatten();
    let google = bus.flatten().any(|device| {
        let vendor = std::fs::read_to_string(device.path().join("vendor"));
        vendor.is_ok_and(|vendor| vendor.trim() == "0x1ae0")
    });
    let tpu = devices.iter().find(|entry| entry["device"] == "xla:tpu");
    let usable = tpu.is_some_and(|entry| entry["available"] == true);
    assert!(google || !usable, "{survey}");
}

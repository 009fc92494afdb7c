//! Tests of the binary as a program: exit codes, streams and JSON.

#![allow(
    clippy::expect_used,
    reason = "a test that cannot set itself up has failed"
)]

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn moebius(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_moebius"));
    command.args(args).output().expect("the binary starts")
}

/// Runs the command line `line`, whose arguments have no spaces.
fn command(line: &str) -> Output {
    moebius(&line.split_whitespace().collect::<Vec<_>>())
}

fn case(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/cases")
        .join(name);
    path.with_extension("safetensors").display().to_string()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

fn error_lines(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stderr);
    text.lines().map(str::to_owned).collect()
}

/// Path of a copy of a bundled case with `from` replaced by `to`, of the same length.
fn edited(folder: &Path, name: &str, from: &str, to: &str) -> PathBuf {
    assert_eq!(from.len(), to.len(), "the header's length must not change");
    let mut bytes = fs::read(case(name)).expect("a bundled case");
    let at = bytes
        .windows(from.len())
        .position(|w| w == from.as_bytes())
        .expect("the text is there");
    bytes[at..at + from.len()].copy_from_slice(to.as_bytes());
    let path = folder.join("edited.safetensors");
    fs::write(&path, bytes).expect("written");
    path
}

#[test]
fn help_and_version_are_results() {
    for line in [
        "--help",
        "doctor --help",
        "demo --help",
        "verify --help",
        "validate --help",
        "validate merge --help",
        "validate compare --help",
        "validate reference --help",
        "bench moe -h",
        "bench linear --help",
        "bench attention --help",
        "bench decode --help",
        "bench chart --help",
        "train --help",
        "convert --help",
        "fetch --help",
        "generate --help",
        "optimize --help",
        "--version",
    ] {
        let output = command(line);
        assert_eq!(output.status.code(), Some(0), "{line}");
        let [no_result, no_error] = [&output.stdout, &output.stderr].map(Vec::is_empty);
        assert!(!no_result && no_error, "{line}");
    }
}

#[test]
fn a_wrong_command_line_is_one_error_and_one_hint() {
    for line in [
        "verfy",
        "demo whale",
        "verify",
        "verify x --device gpu7",
        "validate --devices gpu7",
        "validate --devices flex --tokens x",
        "validate --devices flex --parts model",
        "validate --devices flex --parts demos --cases x",
        "validate --devices flex --bundled --parts cases",
        "validate --devices flex --parts whales",
        "validate --devices flex --parts bench --emulated x",
        "validate --model x --bundled",
        "validate --bundled merge x y",
        "validate merge x",
        "validate compare --bundled --devices flex",
        "validate compare --devices flex,flex",
        "validate compare --bundled --devices flex,flex --trace 0",
        "validate reference",
        "bench moe --hidden 0",
        "bench moe --keep inputs",
        "bench moe --backward --keep all",
        "bench moe --compare-fine --backward",
        "bench moe --compare-fine --experts 8",
        "bench linear --m 0",
        "bench linear --format e3m4",
        "bench linear --granularity block64",
        "bench linear --dtype f64",
        "bench linear --activations static",
        "bench linear --peer jax",
        "bench attention --tokens 0",
        "bench attention --window 0",
        "bench attention --dtype f64",
        "bench attention --peer torch,jax",
        "bench decode --format fp4",
        "bench linear --simd mmx",
        "bench chart x.json",
        "bench chart --out x.svg",
        "train --resume",
        "convert --model x",
        "fetch",
        "fetch gpt2",
        "fetch org/name:",
        "fetch org/name --revision ../x",
        "convert --model x --out y --granularity 0x4",
        "convert --model x --out y --to gguf",
        "convert --model x --out y --to gguf:Q2_K",
        "convert --model x --out y --to gguf:Q3_K_M",
        "convert --model x --out y --to gguf:Q8_0 --granularity row",
        "convert --model x --out y --to gguf:Q8_0 --skip *",
        "optimize --model x",
        "optimize --model x --out y --level bold",
        "optimize --model x --out y --budget=-1",
        "emit --kernel k",
        "--device flex devices",
        "--colour never",
    ] {
        let output = command(line);
        assert_eq!(output.status.code(), Some(2), "{line}");
        let lines = error_lines(&output);
        assert_eq!(lines.len(), 2, "{line}: {lines:?}");
        let begin = ["error: ", "hint: "];
        let right = lines
            .iter()
            .zip(begin)
            .all(|(line, begin)| line.starts_with(begin));
        assert!(right, "{lines:?}");
    }
}

#[test]
fn devices_are_listed_with_the_choice() {
    let output = moebius(&["devices", "--json"]);
    assert_eq!(output.status.code(), Some(0));
    let found = json(&output);
    let devices = found["devices"].as_array().expect("a list");
    assert!(
        devices
            .iter()
            .any(|d| d["device"] == found["auto"] && d["auto"] == true),
        "{found}"
    );
    assert!(
        devices
            .iter()
            .all(|d| d["available"] == true || d["error"].is_string()),
        "{found}"
    );
    assert_eq!(moebius(&["devices"]).status.code(), Some(0));
}

#[test]
#[cfg(feature = "flex")]
fn bundled_files_pass() {
    let files = [
        "route_sigmoid",
        "moe_layer_relu",
        "moe_layer_capacity",
        "moe_layer_backward_glu_silu",
        "moe_layer_backward_capacity",
        "balance_losses",
        "fp8_cast_e5m2_ieee",
        "fp8_quantize_e4m3_mx",
        "fp8_training_linear_delayed",
        "attention_softcap_window_alibi",
        "attention_backward_document",
    ]
    .map(case);
    let mut args = vec!["verify", "--json", "--device", "flex"];
    args.extend(files.iter().map(String::as_str));
    let output = moebius(&args);
    let report = json(&output);
    assert_eq!(output.status.code(), Some(0), "{report}");
    assert_eq!(
        (&report["passed"], &report["failed"], &report["errors"]),
        (&11.into(), &0.into(), &0.into())
    );
    assert_eq!(report["device"], "flex");
    let first = &report["files"][0];
    assert_eq!(
        (&first["op"], &first["verdict"]),
        (&"route".into(), &"pass".into())
    );
    assert_eq!(first["outputs"][0]["tolerance"]["exact"], true);
}

#[test]
#[cfg(feature = "flex")]
fn a_mismatch_is_1_and_an_error_is_2_and_neither_stops_the_rest() {
    let folder = tempfile::tempdir().expect("a folder");
    // sigmoid and softmax choose the same experts with different weights.
    let wrong = edited(folder.path(), "route_sigmoid", "sigmoid", "softmax")
        .display()
        .to_string();
    let good = case("route_masked");
    let broken = folder.path().join("none").display().to_string();
    let flex = ["verify", "--json", "--device", "flex"];
    let run = |files: &[&str]| moebius(&[&flex[..], files].concat());
    let output = run(&[&wrong, &good]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(json(&output)["files"][1]["verdict"], "pass");
    let output = run(&[&broken, &wrong, &good]);
    assert_eq!(output.status.code(), Some(2));
    let report = json(&output);
    assert_eq!(
        (&report["passed"], &report["failed"], &report["errors"]),
        (&1.into(), &1.into(), &1.into())
    );
    assert!(
        report["files"][0]["error"]
            .as_str()
            .is_some_and(|e| e.contains("cannot read")),
        "{report}"
    );
}

#[test]
#[cfg(feature = "flex")]
fn an_unknown_operation_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = edited(folder.path(), "fp8_cast_e4m3_sat", "fp8_cast", "fp8_warp")
        .display()
        .to_string();
    let output = moebius(&["verify", &path, "--device", "flex"]);
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains("op `fp8_warp` is not supported by this version"),
        "{text}"
    );
}

#[cfg(feature = "flex")]
const SMALL: &str = "bench moe --hidden 32 --batch 2 --seq 24 --device flex";

#[test]
#[cfg(feature = "flex")]
fn the_figures_of_a_layer_follow_from_its_time() {
    let output = command(&format!("{SMALL} --json"));
    let report = json(&output);
    let figure = |name: &str| report[name].as_f64().unwrap_or(f64::NAN);
    let seconds = figure("median_ms") / 1e3;
    assert!(seconds > 0.0 && figure("peak_gflops") > 0.0, "{report}");
    // Each of 48 tokens goes through two ungated experts of width 4 · 32.
    let gflops = (2 * 2 * 48 * 2 * 32 * 128) as f64 / seconds / 1e9;
    for (name, want) in [
        ("tokens_per_s", 48.0 / seconds),
        ("gflops", gflops),
        ("peak_share", gflops / figure("peak_gflops")),
    ] {
        let off = (figure(name) / want - 1.0).abs();
        assert!(off < 1e-9, "{name}: expected {want}: {report}");
    }
    let stages = report["stages"].as_array().expect("a list").iter();
    let share: f64 = stages.filter_map(|stage| stage["share"].as_f64()).sum();
    assert!((share - 1.0).abs() < 1e-9, "{report}");
}

#[test]
#[cfg(feature = "flex")]
fn a_backward_pass_is_verified_and_measured_with_each_balance_of_memory() {
    let output = command(&format!("{SMALL} --backward --top-k 1 --json"));
    let report = json(&output);
    assert_eq!(output.status.code(), Some(0), "{report}");
    let runs = report["runs"].as_array().expect("a list");
    let kept: Vec<_> = runs.iter().map(|run| run["keep"].as_str()).collect();
    assert_eq!(kept, [Some("inputs"), Some("first_product")]);
    for run in runs {
        assert_eq!(run["verified"], true, "{run}");
        let figure = |name: &str| run[name].as_f64().unwrap_or(0.0);
        for name in ["median_ms", "forward_ms", "gflops", "tokens_per_s"] {
            assert!(figure(name) > 0.0, "{name}: {run}");
        }
    }
    let more = "--backward --keep inputs --gated --dtype bf16";
    let output = command(&format!("{SMALL} {more}"));
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(
        text.contains("verified to") && !text.contains("first product"),
        "{text}"
    );
}

/// Runs `moebius bench linear` with sizes that take no time.
#[cfg(any(feature = "flex", feature = "cpu"))]
fn linear(device: &str, more: &[&str]) -> Output {
    let sizes = "bench linear --m 5 --n 130 --k 200 --device";
    let args = sizes.split(' ').chain([device]).chain(more.iter().copied());
    moebius(&args.collect::<Vec<_>>())
}

/// The report of `linear`, which must verify and have figures.
#[cfg(any(feature = "flex", feature = "cpu"))]
fn linear_report(device: &str, more: &[&str]) -> Value {
    let output = linear(device, &[more, &["--json"]].concat());
    let report = json(&output);
    assert_eq!(output.status.code(), Some(0), "{more:?}: {report}");
    assert_eq!(report["verified"], true);
    assert_eq!(report["device"], device);
    assert_eq!(report["flops"], 2 * 5 * 130 * 200);
    let own = report["own"].as_array().expect("a list").iter();
    for path in own.chain([&report["fp8"]]) {
        for figure in ["median_ms", "gflops", "weights_gb_per_s", "ratio"] {
            let figure = path[figure].as_f64();
            assert!(figure.is_some_and(|figure| figure > 0.0), "{path}");
        }
    }
    report
}

#[test]
#[cfg(feature = "flex")]
fn a_linear_layer_is_verified_and_compared_on_flex() {
    let report = linear_report("flex", &["--granularity", "block128"]);
    let own = report["own"].as_array().map(Vec::len);
    assert_eq!((own, &report["variant"]), (Some(2), &"portable".into()));
    let ratios = [0, 1].map(|at| report["own"][at]["ratio"].as_f64());
    let least = ratios[0].zip(ratios[1]).map(|(a, b)| a.min(b));
    assert_eq!(report["ratio_to_best_own"].as_f64(), least);
    let layer = &report["layer_bytes"];
    // 130 outputs take three panels of 64; each of the 2 × 2 blocks has a scale.
    assert_eq!(
        (&layer["fp8"], &layer["f32"], &layer["of"]),
        (
            &(192 * 200 + 16).into(),
            &(4 * 130 * 200).into(),
            &"tensors".into()
        )
    );
    assert_eq!(report["floor_bytes"], 130 * 200 + 16 + 5 * 200 * 4);
    let error = report["weights_rel_l2"].as_f64().expect("a number");
    assert!(error > 0.02 && error < 0.027, "{error}");
    for more in [
        &["--format", "e5m2", "--granularity", "mx"][..],
        &["--activations", "dynamic-row", "--granularity", "tensor"],
        &["--dtype", "bf16", "--activations", "dynamic-row"],
        &["--dtype", "f16"],
    ] {
        linear_report("flex", more);
    }
    let output = linear("flex", &[]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains("× the speed of the best float layer")
            && text.contains("Burn's nn::Linear on flex"),
        "{text}"
    );
}

#[test]
#[cfg(feature = "cpu")]
fn a_linear_layer_is_verified_and_compared_on_cpu() {
    let report = linear_report("cpu", &["--activations", "dynamic-row"]);
    assert_eq!(report["variant"], "cpu");
    let layer = &report["layer_bytes"];
    assert_eq!(layer["of"], "allocator");
    let bytes = |name: &str| layer[name].as_u64().unwrap_or(0);
    assert!(
        bytes("fp8") >= 192 * 200 + 4 * 130 && bytes("f32") >= 4 * 130 * 200,
        "{layer}"
    );
    assert!(bytes("fp8") < bytes("f32") / 2, "{layer}");
}

#[test]
#[cfg(feature = "flex")]
fn a_linear_layer_of_impossible_sizes_is_an_error() {
    let output = command("bench linear --device flex --n 99999999999");
    assert_eq!(output.status.code(), Some(2));
    assert!(error_lines(&output)[0].contains("2^31 - 1 elements"));
}

/// Path of a result of `linear` on flex that `change` has altered.
#[cfg(feature = "flex")]
fn baseline(folder: &Path, change: impl Fn(&mut Value)) -> String {
    let mut report = linear_report("flex", &[]);
    change(&mut report);
    let path = folder.join("baseline.json");
    fs::write(&path, report.to_string()).expect("written");
    path.display().to_string()
}

/// Makes the FP8 layer of a result `factor` times as slow, with equal repetitions.
#[cfg(feature = "flex")]
fn slowed(report: &mut Value, factor: f64) {
    let row = &mut report["fp8"];
    let ms = row["median_ms"].as_f64().expect("a number") * factor;
    row["median_ms"] = ms.into();
    row["spread"] = serde_json::json!({ "runs": 5, "q1_ms": ms, "q3_ms": ms });
}

#[test]
#[cfg(feature = "flex")]
fn a_result_is_compared_with_an_earlier_one() {
    let folder = tempfile::tempdir().expect("a folder");
    for (factor, verdict) in [(1e4, "faster"), (1e-4, "slower")] {
        // The float layers are left out, since their times may differ by any factor on a busy machine.
        let path = baseline(folder.path(), |report| {
            slowed(report, factor);
            report["own"] = Value::Null;
            report["sparse24"] = Value::Null;
        });
        let output = linear("flex", &["--compare", &path, "--json"]);
        let report = json(&output);
        let comparison = &report["comparison"];
        let rows = comparison["rows"].as_array().expect("a list");
        assert_eq!(rows.len(), 1, "{comparison}");
        assert_eq!(rows[0]["figure"], report["fp8"]["name"]);
        let numbers = ["baseline_ms", "now_ms", "ratio", "noise"].map(|of| rows[0][of].as_f64());
        let [before, now, ratio, noise] = numbers.map(|of| of.expect("a number"));
        assert!((ratio / (before / now) - 1.0).abs() < 1e-9, "{comparison}");
        // A busy machine's noise may hide even this difference, but only if the result is slower, since noise is a share of the
        // baseline.
        let hidden = (now / before - 1.0).abs() <= noise;
        assert!(verdict == "slower" || !hidden, "{comparison}");
        let verdict = if hidden { "same" } else { verdict };
        let slower = i32::from(verdict == "slower");
        assert_eq!(rows[0]["verdict"], verdict, "{comparison}");
        assert_eq!(comparison["slower"], slower);
        assert_eq!(output.status.code(), Some(slower), "{report}");
        let lacking = comparison["not_in_both"].as_array().map(Vec::len);
        assert_eq!(lacking, Some(3), "{comparison}");
        let text = linear("flex", &["--compare", &path]);
        let text = String::from_utf8_lossy(&text.stdout).into_owned();
        let verdicts = ["faster", "same", "slower"];
        let said = text.contains("Compared with ") && verdicts.iter().any(|v| text.contains(v));
        assert!(said, "{text}");
    }
}

#[test]
#[cfg(feature = "flex")]
fn a_baseline_that_cannot_be_compared_says_why() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("other.json");
    let other = file.display().to_string();
    let path = baseline(folder.path(), |_| ());
    let text = fs::read_to_string(&path).expect("read");
    let unverified = text.replace("median_ms", "no_ms");
    for (content, said) in [
        (&text[..text.len() / 2], "expected JSON, got EOF"),
        ("{\"devices\": []}", "got an object without `run`"),
        (&unverified, "one that did not"),
    ] {
        fs::write(&file, content).expect("written");
        let output = linear("flex", &["--compare", &other]);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(error_lines(&output)[0].contains(said), "{output:?}");
    }
    for (what, now, then) in [("format", "e5m2", "e4m3"), ("dtype", "bf16", "f32")] {
        let option = format!("--{what}");
        let output = linear("flex", &["--compare", &path, &option, now]);
        assert_eq!(output.status.code(), Some(2));
        let said = format!("expected a result of {what} {now}, got {then}");
        assert!(error_lines(&output)[0].contains(&said), "{output:?}");
    }
    let gone = folder.path().join("gone").display().to_string();
    let output = linear("flex", &["--compare", &gone]);
    assert!(
        error_lines(&output)[0].contains("cannot read"),
        "{output:?}"
    );
}

#[test]
#[cfg(feature = "flex")]
fn results_of_several_sizes_are_a_chart() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("linear.json");
    let more = |n: &str, m: &str| {
        let line = format!("bench linear --m {m} --n {n} --k 64 --device flex --json");
        String::from_utf8_lossy(&command(&line).stdout).into_owned()
    };
    fs::write(&file, [more("64", "1"), more("64", "8")].concat()).expect("written");
    let (file, out) = (file.display().to_string(), folder.path().join("chart.svg"));
    let draw = || moebius(&["bench", "chart", &file, "--out", &out.display().to_string()]);
    let output = draw();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let svg = fs::read_to_string(&out).expect("written");
    assert!(
        svg.contains("tokens per second") && svg.contains("n 64"),
        "{svg}"
    );
    // One line each for the layer with FP8 weights, our float layer, those with 2:4 weights, in BF16 and in Q8_0, and Burn's.
    assert_eq!(svg.matches("<polyline").count(), 6, "{svg}");
    assert!(svg.contains("our layer in blocks, q8_0"), "{svg}");
    let other = more("128", "1");
    fs::write(&file, [more("64", "1"), other].concat()).expect("written");
    let output = draw();
    assert_eq!(output.status.code(), Some(2));
    let said = "expected a result of n 64, got 128";
    assert!(error_lines(&output)[0].contains(said), "{output:?}");
}

#[test]
#[cfg(feature = "flex")]
fn the_instruction_set_is_named_and_one_that_cannot_be_had_is_refused() {
    let report = linear_report("flex", &[]);
    let set = report["simd"].as_str().expect("a name").to_owned();
    assert_eq!(report["run"]["simd"], set.as_str());
    assert!(
        report["run"]["threads"]
            .as_u64()
            .is_some_and(|threads| threads > 0)
    );
    assert_eq!(
        linear_report("flex", &["--simd", &set])["simd"],
        set.as_str()
    );
    let held = |variable: &str, option: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_moebius"));
        let line = "bench linear --m 1 --n 64 --k 64 --device flex --json";
        command.args(line.split(' ')).args(option);
        command
            .env("MOEBIUS_SIMD", variable)
            .output()
            .expect("the binary starts")
    };
    // The option takes precedence over the variable.
    assert_eq!(
        json(&held("portable", &["--simd", &set]))["simd"],
        set.as_str()
    );
    let output = held("sse9", &[]);
    assert_eq!(output.status.code(), Some(2));
    let said =
        "instruction set: expected avx512bf16, avx512, avx2, neon, simd128 or portable, got `sse9`";
    assert!(error_lines(&output)[0].contains(said), "{output:?}");
    let foreign = if cfg!(target_arch = "aarch64") {
        "avx2"
    } else {
        "neon"
    };
    let output = held(foreign, &[]);
    assert!(
        error_lines(&output)[0].contains("expected one of this processor's"),
        "{output:?}"
    );
    if set != "portable" {
        let output = held("portable", &[]);
        assert_eq!(output.status.code(), Some(2));
        let said = "flex can't be held to portable";
        assert!(error_lines(&output)[0].contains(said), "{output:?}");
    }
}

#[test]
#[cfg(feature = "flex")]
fn a_floor_names_what_binds_and_memory_is_read_beyond_the_cache() {
    let report = linear_report("flex", &[]);
    let memory = &report["memory"];
    let of = |name: &str| memory[name].as_u64().unwrap_or(0);
    assert!(of("bytes") >= 4 * of("last_level_cache_bytes"), "{memory}");
    assert_eq!(memory["threads"], report["run"]["threads"]);
    let row = &report["fp8"];
    let floor = |name: &str| row["floor"][name].as_f64().unwrap_or(f64::NAN);
    let most = floor("compute_ms").max(floor("memory_ms"));
    let memory_binds = floor("memory_ms") > floor("compute_ms");
    let binds = if memory_binds { "memory" } else { "compute" };
    assert_eq!(row["floor"]["binds"], binds);
    let share = most / row["median_ms"].as_f64().unwrap_or(f64::NAN);
    assert!((floor("share") / share - 1.0).abs() < 1e-9, "{row}");
    assert!(row["copies"].as_u64().is_some_and(|copies| copies >= 1));
    assert!(row["spread"]["runs"].as_u64().is_some_and(|runs| runs >= 5));
}

/// The report of `moebius bench attention` with sizes that take no time; it must verify, and its figures must follow from its
/// time.
#[cfg(any(feature = "flex", feature = "cpu"))]
fn attention_report(device: &str, more: &str, pairs: u64, passes: u64) -> Value {
    let line = "bench attention --heads 4 --head-dim 8 --json";
    let output = command(&format!("{line} {more} --device {device}"));
    let report = json(&output);
    assert_eq!(output.status.code(), Some(0), "{more}: {report}");
    assert_eq!(
        (&report["verified"], &report["device"]),
        (&true.into(), &device.into())
    );
    assert_eq!(report["pairs"], pairs, "{report}");
    assert_eq!(report["flops"], 4 * 8 * pairs * passes, "{report}");
    let figure = |of: &Value, name: &str| of[name].as_f64().unwrap_or(f64::NAN);
    let seconds = figure(&report, "median_ms") / 1e3;
    assert!(
        seconds > 0.0 && figure(&report, "first_ms") > 0.0,
        "{report}"
    );
    let gflops = figure(&report, "flops") / seconds / 1e9;
    let share = gflops / figure(&report, "peak_gflops");
    let close = |got: f64, want: f64| (got / want - 1.0).abs() < 1e-9;
    assert!(close(figure(&report, "gflops"), gflops), "{report}");
    assert!(close(figure(&report, "peak_share"), share), "{report}");
    for peer in report["peers"].as_array().expect("a list") {
        let ratio = figure(peer, "median_ms") / 1e3 / seconds;
        assert!(
            close(figure(peer, "ratio"), ratio) && figure(peer, "gflops") > 0.0,
            "{peer}"
        );
    }
    report
}

/// Names of the measured peers.
#[cfg(any(feature = "flex", feature = "cpu"))]
fn peers(report: &Value) -> Vec<&str> {
    let peers = report["peers"].as_array().expect("a list").iter();
    peers.filter_map(|peer| peer["name"].as_str()).collect()
}

#[test]
#[cfg(feature = "flex")]
fn attention_is_verified_and_compared_on_flex() {
    // Query i of 20 sees i + 1 keys.
    let causal = 4 * 20 * 21 / 2;
    let report = attention_report("flex", "--kv-heads 2 --tokens 20 --causal", causal, 1);
    assert_eq!(
        (&report["variant"], peers(&report).len()),
        (&"portable".into(), 0)
    );
    // Values of q and o for 4 heads, of k and v for 2, and a log-sum-exp for each query.
    assert_eq!(report["floor_bytes"], 4 * (2 * 20 * 8 * (4 + 2) + 4 * 20));
    let line = "--tokens 20 --causal --backward --peer burn,composition";
    let both = attention_report("flex", line, causal, 3);
    let burn = ["Burn's attention", "Burn's product, softmax and product"];
    assert_eq!(peers(&both), burn);
    assert_eq!(both["floor_bytes"], 4 * (4 * 20 * 8 * (4 + 4) + 4 * 20));
    // The first two of 20 queries see one and two keys, the others three.
    let window = attention_report("flex", "--tokens 20 --window 3 --peer full", 4 * 57, 1);
    assert_eq!(peers(&window), ["ours, causal without a window"]);
    attention_report("flex", "--queries 3 --keys 50 --dtype bf16", 4 * 150, 1);
    // The last of 3 keys is aligned with the last of 5 queries, so the first two queries see no key.
    let line = "--kv-heads 1 --batch 2 --queries 5 --keys 3 --causal --backward";
    attention_report("flex", line, 2 * 4 * 6, 3);
}

#[test]
#[cfg(feature = "cpu")]
fn attention_is_verified_and_compared_on_cpu() {
    let line = "--kv-heads 2 --tokens 20 --causal --backward";
    let report = attention_report("cpu", line, 840, 3);
    assert_eq!(report["variant"], "cpu");
    let resident = report["process_peak_bytes"].as_u64();
    assert!(
        !cfg!(target_os = "linux") || resident.is_some_and(|most| most > 0),
        "{report}"
    );
}

#[test]
#[cfg(feature = "flex")]
fn an_engine_gives_the_same_tokens_in_company() {
    let line = "bench engine --device flex --streams 3 --prompt 20 --tokens 4 --known 40 --json";
    let output = command(line);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let report = json(&output);
    assert_eq!(report["verified"], true);
    for pair in ["alone_and_together", "cold_and_known"] {
        for time in ["slow_s", "fast_s"] {
            let seconds = report[pair][time].as_f64();
            assert!(seconds.is_some_and(|seconds| seconds > 0.0), "{report}");
        }
    }
    let output = command("bench engine --device flex --streams 100000 --prompt 1000");
    assert_eq!(output.status.code(), Some(2));
    assert!(error_lines(&output)[0].contains("all of the sample text"));
}

#[test]
#[cfg(feature = "flex")]
fn decoding_is_verified_in_every_format() {
    let sizes = "bench decode --device flex --heads 4 --kv-heads 2 --tokens 40 --head-dim 8";
    let formats = "--format f32,f16,bf16,e4m3 --paged";
    let report = json(&command(&format!("{sizes} {formats} --json")));
    assert_eq!(report["verified"], true, "{report}");
    let rows = report["formats"].as_array().expect("a list");
    // Three pages of 16 tokens; a token has a key and a value of 8 numbers for each of 2 heads, in FP8 also two scales.
    let bytes: Vec<_> = rows
        .iter()
        .filter_map(|row| row["bytes"].as_u64())
        .collect();
    let words = |per: u64| 3 * 16 * 2 * (2 * 8 * per + if per == 1 { 8 } else { 0 });
    assert_eq!(bytes, [4, 2, 2, 1].map(words), "{report}");
    for row in rows {
        let figure = |name: &str| row[name].as_f64().unwrap_or(f64::NAN);
        let rate = figure("bytes") / figure("median_ms") / 1e6;
        assert!((figure("gb_per_s") / rate - 1.0).abs() < 1e-9, "{row}");
    }
}

#[test]
#[cfg(feature = "flex")]
fn attention_that_a_peer_lacks_is_an_error() {
    for (line, said) in [
        ("--window 3 --peer torch,burn", "which has no windows"),
        ("--heads 4 --kv-heads 2 --peer composition", "as many as"),
        ("--heads 4 --kv-heads 3", "a divisor of the 4 query heads"),
    ] {
        let output = command(&format!("bench attention --device flex --tokens 8 {line}"));
        assert_eq!(output.status.code(), Some(2), "{line}");
        assert!(error_lines(&output)[0].contains(said), "{line}: {output:?}");
    }
}

/// Runs `moebius train` with sizes that take no time.
#[cfg(feature = "flex")]
fn train(more: &[&str]) -> Output {
    let sizes = "train --device flex --hidden 16 --layers 1 --experts 4 --seq 16";
    let args: Vec<&str> = sizes.split(' ').chain(more.iter().copied()).collect();
    moebius(&args)
}

/// The JSON objects that a training prints: reports, then the result.
#[cfg(feature = "flex")]
fn objects(output: &Output) -> Vec<Value> {
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines()
        .map(|line| serde_json::from_str(line).expect("an object on each line"))
        .collect()
}

#[test]
#[cfg(feature = "flex")]
fn many_small_experts_are_compared_with_few_large_ones() {
    let output = command(&format!("{SMALL} --compare-fine --json"));
    let report = json(&output);
    assert_eq!(output.status.code(), Some(0), "{report}");
    let ratio = report["tokens_ratio"].as_f64();
    assert!(ratio.is_some_and(|ratio| ratio > 0.0), "{report}");
    for layer in ["coarse", "fine"] {
        let share = report[layer]["overhead_share"].as_f64();
        assert!(
            share.is_some_and(|share| share > 0.0 && share < 1.0),
            "{report}"
        );
    }
    let odd = SMALL.replace("32", "33");
    let output = command(&format!("{odd} --compare-fine"));
    assert_eq!(output.status.code(), Some(2));
    assert!(error_lines(&output)[0].contains("hidden: expected an even number"));
}

#[test]
#[cfg(feature = "flex")]
fn a_training_stops_and_goes_on_as_if_it_had_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let moments = folder.path().join("moments").display().to_string();
    let folder = folder.path().join("run").display().to_string();
    let course = ["--steps", "12", "--every", "3", "--json"];
    let whole = train(&course);
    let result = objects(&whole).pop().expect("a result");
    assert_eq!(whole.status.code(), Some(0), "{result}");
    assert_eq!(
        (&result["fell"], &result["step"]),
        (&true.into(), &12.into())
    );
    let counts = result["layers"][0]["counts"].as_array().map(Vec::len);
    assert_eq!(counts, Some(4), "{result}");

    // Where the optimizer's moments are changes nothing, either.
    let stopping = ["--checkpoint", &folder, "--stop-after", "5"];
    let in_memory = ["--offload-optimizer", "host"];
    let begun = train(&[&course[..], &stopping, &in_memory].concat());
    let resume = ["train", "--device", "flex", "--json", "--every", "3"];
    let from = ["--checkpoint", &folder, "--resume"];
    let in_file = ["--offload-optimizer", &moments];
    let resumed = moebius(&[&resume[..], &from, &in_file].concat());
    assert!(!Path::new(&moments).exists());
    assert_eq!(resumed.status.code(), Some(0));
    let losses = |outputs: &[&Output]| -> Vec<Value> {
        let reports = outputs.iter().flat_map(|output| objects(output));
        let losses = reports.filter_map(|report| report["losses"].as_array().cloned());
        losses.flatten().collect()
    };
    assert_eq!(losses(&[&begun, &resumed]), losses(&[&whole]));
    assert_eq!(losses(&[&whole]).len(), 12);
    let again = train(&[&course[..], &["--checkpoint-activations"]].concat());
    assert_eq!(losses(&[&again]), losses(&[&whole]));

    // A finished training has nothing left to do, and an existing checkpoint isn't overwritten by mistake.
    let done = moebius(&[&resume[..], &from].concat());
    assert_eq!((done.status.code(), objects(&done).len()), (Some(0), 1));
    for (args, said) in [
        (&["--checkpoint", &folder][..], "holds a checkpoint already"),
        (
            &["--checkpoint", &folder, "--resume", "--batch", "5"],
            "batch was 16, not 5",
        ),
    ] {
        let output = train(args);
        assert_eq!(output.status.code(), Some(2));
        let lines = error_lines(&output);
        assert!(
            lines[0].contains(said) && lines[1].starts_with("hint: "),
            "{lines:?}"
        );
    }
}

#[test]
#[cfg(feature = "flex")]
fn a_training_that_cannot_begin_says_why() {
    let folder = tempfile::tempdir().expect("a folder");
    let short = folder.path().join("short.txt");
    fs::write(&short, "Call me.").expect("written");
    let (short, none) = (
        short.display().to_string(),
        folder.path().join("none").display().to_string(),
    );
    let few = "text: expected more than 16 bytes, got 8";
    let rate = "learning rate: expected a positive number";
    let twice = ["--checkpoint-activations", "--precision", "fp8-current"];
    let margin = ["--memory-margin", "4294967295"];
    for (args, said) in [
        (&["--text", &short][..], few),
        (&["--text", &none], "cannot read"),
        (&["--checkpoint", &none, "--resume"], "no checkpoint in"),
        (&["--offload-optimizer", &short], "cannot write"),
        (&twice, "layers to compute twice: expected products in f32"),
        (&margin, "memory of a training step: expected at most"),
        (&["--top-k", "5"], "top_k"),
        (&["--learning-rate", "0"], rate),
        (&["--batch", "99999999999"], "batch: expected fewer tokens"),
    ] {
        let output = train(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        let lines = error_lines(&output);
        assert!(lines[0].contains(said), "{lines:?}");
    }
    // After a single step, there is no earlier loss to fall from.
    assert_eq!(train(&["--steps", "1"]).status.code(), Some(1));
}

/// Runs `moebius convert` on the bundled checkpoint with blocks of 16 × 16.
fn convert(out: &Path, more: &[&str]) -> Output {
    let (model, out) = (case("weights/blocks"), out.display().to_string());
    let model = model.trim_end_matches(".safetensors");
    moebius(&[&["convert", "--model", model, "--out", &out], more].concat())
}

#[test]
fn a_checkpoint_is_converted_and_converted_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let rows = folder.path().join("rows");
    let output = convert(&rows, &["--granularity", "row", "--json"]);
    let report = json(&output);
    assert_eq!(output.status.code(), Some(0), "{report}");
    let layers = report["layers"].as_array().expect("a list");
    assert_eq!(layers.len(), 3, "{report}");
    for layer in layers {
        assert_eq!(layer["action"], "requantized", "{layer}");
        let error = layer["relative_rms"].as_f64().unwrap_or(1.0);
        assert!(error > 0.0 && error < 0.05, "{layer}");
    }
    assert_eq!(report["copied_tensors"], 2);
    let after = report["bytes_after"].as_u64();
    let file = rows.join("model.safetensors");
    assert_eq!(after, fs::metadata(file).ok().map(|about| about.len()));
    let config = fs::read_to_string(rows.join("config.json")).expect("copied");
    assert!(config.contains("compressed-tensors"), "{config}");

    let text = convert(&folder.path().join("same"), &["--granularity", "16x16"]);
    let said = String::from_utf8_lossy(&text.stdout);
    assert_eq!(text.status.code(), Some(0), "{said}");
    for part in [
        "q_proj.weight",
        "24 x 40",
        "e4m3 16x16",
        "3 weights in FP8, 2 tensors copied",
    ] {
        assert!(said.contains(part), "{part} in {said}");
    }
}

/// The folder of the bundled model.
#[cfg(feature = "flex")]
const SHIPPED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../shipped");

/// Greedy text of the model at `path`.
#[cfg(feature = "flex")]
fn continued(path: &str) -> serde_json::Value {
    let begin = [
        "generate",
        "--model",
        path,
        "--device",
        "flex",
        "--prompt",
        "The captain",
    ];
    let more = ["--max-tokens", "8", "--temperature", "0", "--json"];
    let output = moebius(&[&begin[..], &more].concat());
    assert_eq!(output.status.code(), Some(0), "{path}");
    json(&output)["text"].clone()
}

#[cfg(feature = "flex")]
#[test]
fn a_model_becomes_a_gguf_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("new/m.gguf").display().to_string();
    let model = ["convert", "--model", SHIPPED, "--out", &path, "--to"];
    let output = moebius(&[&model[..], &["gguf:f32", "--json"]].concat());
    let report = json(&output);
    assert_eq!(output.status.code(), Some(0), "{report}");
    assert_eq!(report["to"], "gguf:F32");
    assert_eq!(report["architecture"], "olmoe");
    let size = fs::metadata(&path).ok().map(|about| about.len());
    assert_eq!(report["bytes_after"].as_u64(), size);
    // The model divides by the sum of its experts' weights, which other OLMoEs don't.
    let note = report["note"].as_str().unwrap_or_default();
    assert!(note.contains("llama.cpp"), "{report}");
    let text = continued(&path);
    assert!(text.is_string() && text == continued(SHIPPED), "{text}");

    let again = moebius(&[&model[..], &["gguf:Q8_0"]].concat());
    assert_eq!(again.status.code(), Some(2));
    let lines = error_lines(&again);
    assert!(
        lines[0].contains("expected the name of a new file"),
        "{lines:?}"
    );
    assert!(lines[1].starts_with("hint: "), "{lines:?}");

    let of_file = [
        "convert",
        "--model",
        &path,
        "--out",
        "x.gguf",
        "--to",
        "gguf:Q8_0",
    ];
    let lines = error_lines(&moebius(&of_file));
    assert!(lines[0].contains("got a GGUF file"), "{lines:?}");
}

/// Rows of 128 values are no whole blocks of K types, which the command tells.
#[cfg(feature = "flex")]
#[test]
fn a_gguf_file_of_narrow_rows_has_another_type_and_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("m.gguf").display().to_string();
    let model = [
        "convert",
        "--model",
        SHIPPED,
        "--out",
        &path,
        "--to",
        "gguf:Q4_K",
    ];
    let output = moebius(&model);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}");
    for part in [
        "Q5_0",
        "rows are no whole blocks of Q4_K",
        "of the architecture olmoe",
    ] {
        assert!(said.contains(part), "{part} in {said}");
    }
    assert!(continued(&path).is_string());
}

#[test]
fn a_conversion_that_cannot_be_done_says_why() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("out");
    fs::create_dir(&out).expect("created");
    fs::write(out.join("mine"), "mine").expect("written");
    let skip = ["--granularity", "row", "--skip", "*q_proj*"];
    let new = folder.path().join("new");
    for (output, said) in [
        (convert(&out, &[]), "expected a new or an empty folder"),
        (convert(&new, &skip), "is skipped, but it is e4m3 16x16"),
    ] {
        assert_eq!(output.status.code(), Some(2));
        let lines = error_lines(&output);
        assert!(
            lines[0].contains(said) && lines[1].starts_with("hint: "),
            "{lines:?}"
        );
    }
    let none = folder.path().join("none").display().to_string();
    let new = new.display().to_string();
    let model = ["convert", "--model", &none, "--out", &new];
    let search = ["--granularity", "mx", "--scales", "least-squares"];
    for (more, said) in [
        (&search[..0], "cannot read"),
        (&search, "scales by least squares"),
    ] {
        let output = moebius(&[&model[..], more].concat());
        assert_eq!(output.status.code(), Some(2));
        assert!(error_lines(&output)[0].contains(said));
    }
    // Case files contain no weights, so the result has no FP8.
    let output = moebius(&["convert", "--model", &case("route_masked"), "--out", &new]);
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_device_that_is_not_there_is_an_error_in_text_and_json() {
    let more = ["--device", "cuda:4000", "--json"];
    let output = moebius(&[&["verify", &case("route_masked")], &more[..]].concat());
    assert_eq!(output.status.code(), Some(2));
    assert!(json(&output)["error"].is_string());
    let lines = error_lines(&output);
    assert!(
        lines
            .iter()
            .any(|l| l.starts_with("error: ") && l.contains("cuda")),
        "{lines:?}"
    );
}

#[test]
#[cfg(unix)]
fn a_reader_that_hangs_up_is_exit_0() {
    for args in [&["devices"][..], &["devices", "--json"], &["--help"]] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_moebius"))
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        drop(child.stdout.take());
        let mut said = String::new();
        child
            .stderr
            .take()
            .expect("piped")
            .read_to_string(&mut said)
            .expect("text");
        assert_eq!(
            child.wait().expect("ends").code(),
            Some(0),
            "{args:?}: {said}"
        );
        // Graphics drivers write to standard error as well; only our own messages must not be there.
        let ours = ["panicked", "cannot write", "Broken pipe"];
        assert!(
            !ours.iter().any(|text| said.contains(text)),
            "{args:?}: {said}"
        );
    }
}

#[test]
fn the_main_job_tells_of_all_devices_on_request() {
    // A device that isn't there ends the main job after the list of devices.
    for (line, short) in [
        ("--device cuda:4000", true),
        ("--device cuda:4000 --verbose", false),
    ] {
        let output = command(line);
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(2), "{line}: {said}");
        let errors = error_lines(&output).join("\n");
        let named = errors.contains("error: ") && errors.contains("cuda");
        assert!(named, "{line}: {errors}");
        let refers = said.contains("(`moebius devices` says why)");
        assert_eq!(refers, short, "{line}: {said}");
        assert_eq!(said.contains("auto: "), !short, "{line}: {said}");
    }
}

#[test]
fn colour_follows_the_flag() {
    let has_escape = |args: &[&str]| moebius(args).stdout.contains(&0x1B);
    assert!(!has_escape(&["devices"]));
    assert!(has_escape(&["devices", "--color", "always"]));
    assert!(!has_escape(&["devices", "--color", "never"]));
    assert!(!has_escape(&["devices", "--color", "always", "--json"]));
}

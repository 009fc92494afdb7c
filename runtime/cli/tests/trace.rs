//! Tests of `--trace` as a program: the file has every layer with its operations, and the table sums them up.
#![cfg(feature = "flex")]
#![allow(
    clippy::expect_used,
    reason = "a test that cannot set itself up has failed"
)]

mod published;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use moebius_ops::{Element, Experts, Operation, Routing, experts, routing};
use published::model;
use serde_json::Value;

/// Microseconds by which sums of rounded times may differ.
const ROUNDED: f64 = 0.01;

/// Layers, experts and experts of a token of the tiny model, and its widths.
const LAYERS: usize = 3;
const EXPERTS: [usize; 2] = [8, 3];
const WIDTHS: [usize; 2] = [48, 80];

/// Runs a command on Flex with a trace in `file`.
fn traced(args: &[&str], file: &Path) -> Output {
    traced_on("flex", args, file)
}

/// Runs a command on a device with a trace in `file`.
fn traced_on(device: &str, args: &[&str], file: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_moebius"));
    command.args(args).args(["--device", device, "--json"]);
    command.arg("--trace").arg(file);
    command.output().expect("the binary starts")
}

/// An event with a time.
#[derive(Debug)]
struct Span {
    event: Value,
    begins: f64,
    ends: f64,
}

impl Span {
    fn is(&self, kind: &str) -> bool {
        self.event["cat"] == kind
    }

    fn name(&self) -> &str {
        self.event["name"].as_str().unwrap_or_default()
    }

    fn argument(&self, name: &str) -> Option<u64> {
        self.event["args"][name].as_u64()
    }

    fn seconds(&self) -> f64 {
        (self.ends - self.begins) / 1e6
    }

    fn is_around(&self, other: &Self) -> bool {
        self.event["tid"] == other.event["tid"]
            && self.begins <= other.begins + ROUNDED
            && other.ends <= self.ends + ROUNDED
    }
}

/// The spans of a whole file.
fn spans(file: &Path) -> Vec<Span> {
    let text = fs::read_to_string(file).expect("a trace");
    let events: Vec<Value> = serde_json::from_str(&text).expect("a list");
    let timed = events.into_iter().filter(|event| event["ph"] == "X");
    let spans = timed.map(|event| {
        let time = |name: &str| event[name].as_f64().expect("a time");
        let (begins, took) = (time("ts"), time("dur"));
        Span {
            event,
            begins,
            ends: begins + took,
        }
    });
    spans.collect()
}

fn of<'a>(spans: &'a [Span], kind: &'a str) -> Vec<&'a Span> {
    spans.iter().filter(|span| span.is(kind)).collect()
}

/// The objects that a command wrote, one a line.
fn objects(output: &Output) -> Vec<Value> {
    let text = String::from_utf8_lossy(&output.stdout);
    let objects = text.lines().map(serde_json::from_str);
    objects.collect::<Result<_, _>>().expect("objects")
}

/// The operation that a layer of the tiny model computes of so many tokens.
fn described(name: &str, tokens: usize) -> Option<Operation> {
    let ([count, top_k], [hidden, inter]) = (EXPERTS, WIDTHS);
    let routing = |top_k| routing::Problem::new(tokens, count, top_k).expect("a routing");
    match name {
        "router logits" => Some(Operation::from(Routing::Logits {
            problem: routing(1),
            hidden,
            element: Element::F32,
            backward: false,
        })),
        "experts" => Some(Operation::from(Experts::Forward {
            problem: experts::Problem {
                gated: true,
                ..experts::Problem::new(routing(top_k), hidden, inter)
            },
            keep: false,
        })),
        _ => None,
    }
}

/// Checks that a table has the peak of the device, and the share of the experts in it.
fn assert_share_of_peak(table: &Value) {
    let peak = table["peak_gflops"].as_f64().expect("a peak");
    assert!(peak > 0.0, "{table}");
    let rows = table["operations"].as_array().expect("a table");
    let experts = rows.iter().find(|row| row["operation"] == "experts");
    let experts = experts.expect("the experts");
    let figure = |name: &str| experts[name].as_f64().expect("a figure");
    let share = figure("gflops") / peak;
    assert!((figure("peak_share") - share).abs() < 1e-9, "{experts}");
}

#[test]
fn an_answer_has_its_layers_and_their_operations() {
    let (folder, place) = (model(), tempfile::tempdir().expect("a folder"));
    let file = place.path().join("trace.json");
    let from = folder.path().to_str().expect("a path");
    let prompt = ["--prompt", "w3 w14 w15", "--max-tokens", "6"];
    let args = [&["generate", "--model", from][..], &prompt].concat();
    let output = traced(&args, &file);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let spans = spans(&file);
    let (steps, batches) = (of(&spans, "step"), of(&spans, "batch"));
    let (layers, operations) = (of(&spans, "layer"), of(&spans, "operation"));
    assert_eq!((steps.len(), batches.len()), (6, 6));
    assert_eq!(layers.len(), 6 * LAYERS);
    for kind in ["batch", "wait", "choose"] {
        for part in of(&spans, kind) {
            assert!(steps.iter().any(|step| step.is_around(part)), "{part:?}");
        }
    }
    for (at, layer) in layers.iter().enumerate() {
        assert_eq!(layer.argument("number"), Some((at % LAYERS) as u64));
        let batch = batches.iter().find(|batch| batch.is_around(layer));
        let batch = batch.expect("a batch around the layer");
        let tokens = batch.argument("sequences").zip(batch.argument("tokens"));
        let tokens = tokens.map_or(0, |(sequences, tokens)| sequences * tokens) as usize;
        let inside = operations.iter().filter(|of| layer.is_around(of));
        let inside: Vec<&&Span> = inside.collect();
        let took: f64 = inside.iter().map(|of| of.seconds()).sum();
        assert!(took <= layer.seconds() + 1e-6, "{layer:?}");
        for name in [
            "router logits",
            "experts",
            "cache append",
            "cache attention",
        ] {
            let found = inside.iter().find(|of| of.name() == name);
            let found = found.unwrap_or_else(|| unreachable!("{name} in {inside:?}"));
            let Some(operation) = described(name, tokens) else {
                continue;
            };
            assert_eq!(found.argument("bytes"), operation.bytes(), "{found:?}");
            assert_eq!(found.argument("flops"), operation.flops(), "{found:?}");
            assert_eq!(found.event["args"]["family"], operation.family());
            let sizes = operation.signature().to_string();
            assert_eq!(found.event["args"]["sizes"], sizes);
        }
    }
    let said = objects(&output);
    let [answer, table] = &said[..] else {
        unreachable!("expected two objects, got {said:?}");
    };
    assert_eq!(answer["ids"].as_array().map(Vec::len), Some(6));
    let rows = table["operations"].as_array().expect("a table");
    assert!(rows.len() > 3);
    assert_share_of_peak(table);
    for row in rows {
        let calls = operations.iter().filter(|of| of.name() == row["operation"]);
        let calls: Vec<f64> = calls.map(|of| of.seconds()).collect();
        assert_eq!(row["calls"], calls.len(), "{row}");
        assert_eq!(row["launches"], Value::Null, "{row}");
        let seconds = row["seconds"].as_f64().expect("seconds");
        assert!((seconds - calls.iter().sum::<f64>()).abs() < 1e-6, "{row}");
    }
}

#[test]
#[cfg(feature = "cpu")]
fn operations_tell_their_launches_where_kernels_run() {
    let (folder, place) = (model(), tempfile::tempdir().expect("a folder"));
    let file = place.path().join("trace.json");
    let from = folder.path().to_str().expect("a path");
    let prompt = ["--prompt", "w3 w14 w15", "--max-tokens", "2"];
    let args = [&["generate", "--model", from][..], &prompt].concat();
    let output = traced_on("cpu", &args, &file);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let spans = spans(&file);
    let operations = of(&spans, "operation");
    let said = objects(&output);
    let table = said.last().expect("a table");
    let rows = table["operations"].as_array().expect("a table");
    for row in rows {
        let calls = operations.iter().filter(|of| of.name() == row["operation"]);
        let launches: Vec<u64> = calls.filter_map(|of| of.argument("launches")).collect();
        assert_eq!(row["calls"], launches.len(), "{row}");
        assert_eq!(row["launches"], launches.iter().sum::<u64>(), "{row}");
        assert!(launches.iter().all(|count| *count > 0), "{row}");
    }
    let of = |name: &str| rows.iter().find(|row| row["operation"] == name);
    let [router, experts] = ["router logits", "experts"].map(|name| of(name).expect("a row"));
    assert_eq!(router["launches"], router["calls"]);
    // The two products and the combination.
    let count = |field: &str| experts[field].as_u64().expect("a count");
    assert!(count("launches") >= 3 * count("calls"), "{experts}");
}

#[test]
fn a_training_has_its_stages() {
    let place = tempfile::tempdir().expect("a folder");
    let file = place.path().join("trace.json");
    let args = "train --steps 2 --batch 2 --seq 16 --layers 1 --experts 4";
    let args: Vec<&str> = args.split(' ').collect();
    let output = traced(&args, &file);
    // Exit status 1 means that the loss didn't fall.
    assert!(matches!(output.status.code(), Some(0 | 1)), "{output:?}");
    let spans = spans(&file);
    let steps = of(&spans, "step");
    assert_eq!(steps.len(), 2);
    for step in steps {
        for (stage, within) in [
            ("forward", "experts"),
            ("backward", "experts backward"),
            ("optimizer", ""),
        ] {
            let stages = of(&spans, stage);
            let mut stages = stages.into_iter().filter(|stage| step.is_around(stage));
            let stage = stages.next().expect("the stage");
            assert!(stages.next().is_none(), "{stage:?}");
            let mut inside = spans.iter().filter(|of| stage.is_around(of));
            let found = inside.any(|of| of.name() == within);
            assert!(found || within.is_empty(), "no {within} in {stage:?}");
        }
    }
    assert!(!of(&spans, "wait").is_empty());
    let said = objects(&output);
    assert_share_of_peak(said.last().expect("a table"));
}

#[test]
fn a_benchmark_tells_the_share_of_its_peak() {
    let place = tempfile::tempdir().expect("a folder");
    let file = place.path().join("trace.json");
    let args = "bench moe --hidden 32 --batch 2 --seq 24";
    let output = traced(&args.split(' ').collect::<Vec<_>>(), &file);
    let said = objects(&output);
    let [report, table] = &said[..] else {
        unreachable!("expected two objects, got {said:?}");
    };
    assert_eq!(table["peak_gflops"], report["peak_gflops"]);
    assert_share_of_peak(table);
}

#[test]
fn a_file_that_can_not_be_written_is_an_error_before_the_work() {
    let place = tempfile::tempdir().expect("a folder");
    let nowhere = place.path().join("none/trace.json");
    let files = [nowhere.as_path(), Path::new("/dev/full")];
    let files = &files[..if cfg!(target_os = "linux") { 2 } else { 1 }];
    for file in files {
        // The model isn't there either, but isn't asked for.
        let output = traced(&["generate", "--model", "nowhere", "--prompt", "w3"], file);
        assert_eq!(output.status.code(), Some(2));
        let said = String::from_utf8_lossy(&output.stderr);
        let expected = format!("cannot write {}", file.display());
        assert!(said.contains(&expected), "{said}");
    }
}

//! What each preset changes, measured on `flex` without it and with it. Figures that are the same in every run stand in docs/configuration.md.
#![cfg(all(feature = "flex", unix))]
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot set itself up has failed"
)]

mod published;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use published::model;
use serde_json::{Value, json};

/// The longest time in which a server loads the tiny model.
const LONGEST: Duration = Duration::from_secs(120);

/// Heading of the table in docs/configuration.md.
const HEADING: &str = "| preset | command | figure | without | with |";

/// A figure of what a command writes.
type Figure = (&'static str, fn(&[Value]) -> u64);

/// A command line, and its figures that a preset changes. The folder that it runs in has a tiny model and a text.
struct Measured {
    preset: &'static str,
    command: &'static str,
    /// What follows the command; each `{out}` is a new folder.
    rest: &'static str,
    figures: &'static [Figure],
}

const MEASURED: [Measured; 10] = [
    Measured {
        preset: "inference",
        command: "bench engine",
        rest: "--model . --streams 2 --prompt 6 --tokens 3 --known 12",
        figures: &[
            ("bytes of the weights", |of| entry(of, "/weight_bytes")),
            ("bytes of the cache", |of| entry(of, "/cache_bytes")),
        ],
    },
    Measured {
        preset: "inference",
        command: "generate",
        rest: "--model . --prompt w3 --max-tokens 12",
        figures: &[("bytes of the cache", |of| entry(of, "/cache_bytes"))],
    },
    Measured {
        preset: "training",
        command: "train",
        rest: "--hidden 16 --layers 1 --experts 4 --seq 16 --batch 2 --steps 200",
        figures: &[("reports of 200 steps", reports)],
    },
    Measured {
        preset: "training",
        command: "bench moe",
        rest: "--hidden 32 --batch 2 --seq 24",
        figures: &[("floating-point operations", operations)],
    },
    Measured {
        preset: "training",
        command: "bench attention",
        rest: "--heads 4 --head-dim 8 --tokens 20",
        figures: &[("floating-point operations", |of| entry(of, "/flops"))],
    },
    Measured {
        preset: "development",
        command: "train",
        rest: "--hidden 16 --layers 1 --experts 4 --seq 16 --batch 2",
        figures: &[
            ("steps", |of| entry(of, "/step")),
            ("reports of all steps", reports),
        ],
    },
    Measured {
        preset: "development",
        command: "generate",
        rest: "--model . --prompt w3",
        figures: &[("tokens of the answer", |of| {
            let ids = last(of)["ids"].as_array();
            ids.expect("a list").len() as u64
        })],
    },
    Measured {
        preset: "development",
        command: "perplexity",
        rest: "--model . --text text.txt --context 64",
        figures: &[("judged tokens of a text of 1500", |of| entry(of, "/tokens"))],
    },
    Measured {
        preset: "development",
        command: "package",
        rest: "--model . --out {out} --prompt 6 --known 12",
        figures: &[("tokens of the measured answers", |of| {
            let of = |name: &str| entry(of, &format!("/manifest/figures/{name}"));
            of("streams") * of("answer_tokens")
        })],
    },
    Measured {
        preset: "development",
        command: "bench engine",
        rest: "--model . --prompt 6 --known 12",
        figures: &[("tokens of the measured answers", |of| {
            entry(of, "/streams") * entry(of, "/tokens")
        })],
    },
];

fn last(objects: &[Value]) -> &Value {
    objects.last().expect("an object")
}

/// A number in the last object.
fn entry(objects: &[Value], place: &str) -> u64 {
    let number = last(objects).pointer(place).and_then(Value::as_u64);
    number.unwrap_or_else(|| panic!("no {place} in {objects:?}"))
}

/// A training's reports, which are all objects but the last.
fn reports(objects: &[Value]) -> u64 {
    objects.len() as u64 - 1
}

/// The operations of a benchmark of a layer, whose speed and time it tells; of the first run, where there are several.
fn operations(objects: &[Value]) -> u64 {
    let report = last(objects);
    let run = report.pointer("/runs/0").unwrap_or(report);
    let figure = |name: &str| run[name].as_f64().expect("a number");
    (figure("gflops") * figure("median_ms") * 1e6).round() as u64
}

/// The program with a line of words, in the model's folder, with this preset if one is named.
fn moebius(folder: &Path, line: &str, preset: Option<&str>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_moebius"));
    command
        .args(line.split(' '))
        .args(["--device", "flex", "--json"]);
    if let Some(name) = preset {
        command.args(["--preset", name]);
    }
    for name in ["MOEBIUS_CONFIG", "MOEBIUS_PRESET", "MOEBIUS_API_KEYS"] {
        command.env_remove(name);
    }
    command.env("XDG_CONFIG_HOME", folder).current_dir(folder);
    command
}

/// The objects that a line writes.
fn objects(folder: &Path, line: &str, preset: Option<&str>) -> Vec<Value> {
    let output = moebius(folder, line, preset).output();
    let output = output.expect("the binary starts");
    assert_eq!(output.status.code(), Some(0), "{line}: {output:?}");
    let said = String::from_utf8_lossy(&output.stdout);
    let objects = said.lines().map(serde_json::from_str);
    objects.collect::<Result<_, _>>().expect("objects")
}

/// A server that is killed when it is dropped.
struct Served(Child);

impl Drop for Served {
    fn drop(&mut self) {
        // A server that has ended can't be killed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Bytes of a server's cache after its first, short answer.
fn bytes_of_a_server(folder: &Path, preset: Option<&str>) -> u64 {
    let line = "serve --model . --served-name tiny --address 127.0.0.1:0 --context 64";
    let mut command = moebius(folder, line, preset);
    let command = command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut served = Served(command.spawn().expect("the binary starts"));
    let output = served.0.stdout.take().expect("its output");
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line).expect("a line");
    let told: Value = serde_json::from_str(&line).expect("an object");
    let address = told["address"].as_str().expect("an address").to_owned();
    let get = |path: &str| {
        let reply = ureq::get(format!("http://{address}{path}")).call();
        reply.map(|mut reply| reply.body_mut().read_to_string().expect("a text"))
    };
    let until = Instant::now() + LONGEST;
    while get("/health/ready").is_err() {
        assert!(Instant::now() < until, "the model isn't loaded");
        sleep(Duration::from_millis(20));
    }
    let asked = json!({ "model": "tiny", "prompt": "w3", "max_tokens": 2, "temperature": 0 });
    let reply = ureq::post(format!("http://{address}/v1/completions"))
        .header("content-type", "application/json")
        .send(asked.to_string().as_bytes());
    reply.expect("an answer");
    let metrics = get("/metrics").expect("metrics");
    let mut lines = metrics.lines();
    let memory = lines
        .find(|line| line.starts_with("moebius_device_memory_bytes{") && line.contains("kv_cache"));
    let value = memory.and_then(|line| line.split(' ').next_back());
    let value = value.unwrap_or_else(|| panic!("no bytes of a cache in {metrics}"));
    value.parse::<f64>().expect("a number") as u64
}

/// A folder with the tiny model and a text.
fn place() -> tempfile::TempDir {
    let folder = model();
    let words = (0..1500).map(|place| format!("w{}", place * place % 199));
    let words: Vec<String> = words.collect();
    fs::write(folder.path().join("text.txt"), words.join(" ")).expect("written");
    folder
}

/// A row of the table; both figures must differ.
fn row(preset: &str, command: &str, figure: &str, [without, with]: [u64; 2]) -> String {
    assert_ne!(without, with, "{preset}, {command}: {figure}");
    format!("| `{preset}` | `{command}` | {figure} | {without} | {with} |\n")
}

#[test]
fn the_page_has_what_each_preset_changes() {
    let folder = place();
    let folder = folder.path();
    let mut rows = String::new();
    for of in &MEASURED {
        let ran = [None, Some(of.preset)].map(|preset| {
            let rest = of.rest.replace("{out}", preset.unwrap_or("plain"));
            objects(folder, &format!("{} {rest}", of.command), preset)
        });
        for &(figure, read) in of.figures {
            let figures = ran.each_ref().map(|objects| read(objects));
            rows += &row(of.preset, of.command, figure, figures);
        }
    }
    let preset = "development";
    let figures = [None, Some(preset)].map(|preset| bytes_of_a_server(folder, preset));
    rows += &row(preset, "serve", "bytes of the cache at the start", figures);

    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let page = fs::read_to_string(&path).expect("a page");
    let (before, rest) = page.split_once(HEADING).expect("the table");
    let (table, after) = rest.split_once("\n\n").expect("a table's end");
    let measured = format!("\n|---|---|---|---|---|\n{rows}");
    let measured = measured.trim_end();
    if std::env::var_os("MOEBIUS_BLESS").is_some() {
        let page = format!("{before}{HEADING}{measured}\n\n{after}");
        fs::write(&path, page).expect("written");
    } else {
        assert_eq!(table, measured, "MOEBIUS_BLESS=1 writes the table anew");
    }
}

#[test]
fn inference_judges_the_weights_that_answer() {
    let folder = place();
    let folder = folder.path();
    let fp8 = "--dtype fp8";
    for (line, place) in [
        ("logits --model . --prompt w3", "/tokens"),
        (
            "perplexity --model . --text text.txt --context 64 --tokens 200",
            "/perplexity",
        ),
    ] {
        let found = |line: &str, preset: Option<&str>| {
            let objects = objects(folder, line, preset);
            let found = last(&objects).pointer(place).cloned();
            found.unwrap_or_else(|| panic!("no {place} in {objects:?}"))
        };
        let with = found(line, Some("inference"));
        assert_eq!(with, found(&format!("{line} {fp8}"), None), "{line}");
        assert_ne!(with, found(line, None), "{line}");
    }
    let line = "package --model . --out packed --streams 2 --prompt 6 --tokens 3 --known 12";
    let packed = objects(folder, line, Some("inference"));
    assert_eq!(last(&packed)["manifest"]["run"]["dtype"], "fp8");
}

#[test]
fn inference_proposes_tokens_and_changes_none() {
    let folder = place();
    let folder = folder.path();
    let line = "generate --model . --max-tokens 24 --prompt w3";
    let answer = |more: &str, preset: Option<&str>| {
        let objects = objects(folder, &format!("{line}{more}"), preset);
        last(&objects).clone()
    };
    let with = answer("", Some("inference"));
    let same = answer(" --dtype fp8 --kv-cache-dtype fp8", None);
    assert_eq!(with["ids"], same["ids"]);
    assert!(with["speculation"]["proposed"].is_u64(), "{with}");
    assert!(same["speculation"].is_null(), "{same}");
}

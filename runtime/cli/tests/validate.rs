//! Tests of `moebius validate` as a program, on `flex`, with a tiny decoder of transformers, the bundled model, cases, demos and benchmarks.
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
    let of = [&of[..], &["--parts", "model"]].concat();
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
    let model = &device["parts"][0]["found"]["model"];
    let parts = model["parts"].as_array().expect("a list");
    // An embedding, three parts of each of three layers, and a head.
    assert_eq!(parts.len(), 2 + 3 * 3);
    for part in parts {
        let far = part["distance"]["relative_l2"].as_f64();
        assert!(far.is_some_and(|far| far < 1e-5), "{part}");
        assert_eq!(part["bits_of_first"], true);
    }
    assert_eq!(parts[2]["distance"]["part"], "router");
    let costs = model["costs"].as_array().expect("a list");
    let layers: Vec<Option<u64>> = costs.iter().map(|cost| cost["layer"].as_u64()).collect();
    assert_eq!(layers, [None, Some(0), Some(1), Some(2), None]);
    for cost in costs {
        assert!(cost["seconds"].as_f64().is_some_and(|time| time > 0.0));
        // Memory of `flex` is counted by no allocator of its own.
        assert!(cost["memory_bytes"].is_null());
    }
    let read = |name: &str| fs::read_to_string(out.path().join(name)).expect("written");
    let stored: Value = serde_json::from_str(&read("report.json")).expect("JSON");
    assert_eq!(stored, found);
    assert!(read("report.md").contains("the same answer on 1 of 1 devices"));
    assert_eq!(read("report.html").matches("</svg>").count(), 2);
}

#[test]
fn exact_models_are_certified_by_their_bits() {
    let of_model = |more: &[&str]| {
        let of = ["--bundled", "--parts", "model", "--json", "--devices"];
        let output = validate(&[&of[..], more].concat());
        let found = object(&output);
        assert_eq!(output.status.code(), Some(0), "{found}");
        found
    };
    let parts = |device: &Value| {
        let parts = device["parts"][0]["found"]["model"]["parts"].as_array();
        parts.expect("a list").clone()
    };
    let found = of_model(&["flex,flex", "--exact"]);
    assert_eq!(found["subject"]["model"]["exact"], true);
    let devices = found["devices"].as_array().expect("a list");
    assert_eq!(devices.len(), 2);
    let all = devices.iter().flat_map(parts).collect::<Vec<_>>();
    assert!(all.iter().all(|part| part["bits_of_first"] == true));
    // Codes stay codes without, and sums have another order.
    let ordinary = of_model(&["flex"]);
    assert_eq!(ordinary["subject"]["model"]["exact"], false);
    let head = |found: &Value| parts(&found["devices"][0]).pop().expect("a head")["hash"].clone();
    assert_ne!(head(&found), head(&ordinary));

    for (of, what) in [
        (&["--exact"][..], "--exact without a model"),
        (
            &["--exact", "--bundled", "--parts", "cases"],
            "without its part",
        ),
    ] {
        let refused = validate(&[&["--devices", "flex"][..], of].concat());
        assert_eq!(refused.status.code(), Some(2));
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(said.contains(what), "{said}");
    }
}

#[test]
fn training_is_certified_to_equal_inference() {
    let bundled = ["--bundled", "--devices", "flex", "--parts"];
    let of = |more: &[&str]| validate(&[&bundled[..], more].concat());
    let found = object(&of(&["model,training", "--json"]));
    assert_eq!(found["version"], 4);
    assert_eq!(found["subject"]["training"], true, "{found}");
    let text = found["subject"]["model"]["tokens"].as_array();
    let tokens = text.expect("a list").len() as u64;
    let part = &found["devices"][0]["parts"][1];
    assert_eq!(part["part"], "training");
    assert_eq!(part["verdict"], "same", "{part}");
    let training = &part["found"]["training"];
    assert_eq!(training["limit"], 0.0);
    let readings = training["readings"].as_array().expect("a list");
    let figures = readings.iter().map(|of| {
        assert!(of["first"].is_null(), "{of}");
        assert_eq!(of["largest"], 0.0);
        ["prompt", "tokens", "equal"].map(|name| of[name].as_u64().expect("a number"))
    });
    let half = tokens / 2;
    let expected = [
        [1, tokens - 1, tokens - 1],
        [half, tokens - half, tokens - half],
    ];
    assert_eq!(figures.collect::<Vec<_>>(), expected);

    let output = of(&["model,training"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let right = "the same answer, training equals inference on 1 of 1 devices";
    assert!(said.contains(right), "{said}");
    for (more, what) in [
        (&["training"][..], "without the part `model`"),
        (&["model,training", "--exact"], "does not train"),
    ] {
        let refused = of(more);
        assert_eq!(refused.status.code(), Some(2));
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(said.contains(what), "{said}");
    }
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
    let bits = devices[1]["parts"][0]["found"]["model"]["parts"].as_array();
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

/// Sums have another order on each device: bits differ although the answer is the same.
#[test]
#[cfg(feature = "cpu")]
fn values_that_differ_are_traced() {
    let folder = model();
    let of = ["compare", "--devices", "flex,cpu", "--tokens", WORDS];
    let of = [&of[..], &["--model", text(folder.path())]].concat();
    let compared = |more: &[&str]| validate(&[&of[..], more].concat());
    let output = compared(&["--trace", "3", "--json"]);
    let found = object(&output);
    assert_eq!(output.status.code(), Some(0), "{found}");
    let other = &found["others"][0];
    let trace = &other["trace"];
    assert!(trace["place"].is_string(), "{found}");
    assert_eq!(trace["place"], other["bits_differ_from"]);
    let values = trace["values"].as_array().expect("a list");
    assert!((1..=3).contains(&values.len()), "{trace}");
    for of in values {
        let [expected, got, difference] =
            ["expected", "got", "difference"].map(|name| of[name].as_f64().expect(name));
        assert_ne!(difference, 0.0, "{trace}");
        assert!((got - expected - difference).abs() < 1e-9, "{trace}");
    }
    let output = compared(&["--trace", "3"]);
    let said = String::from_utf8_lossy(&output.stdout);
    let place = trace["place"].as_str().expect("a text");
    assert!(
        said.contains(&format!("cpu beside flex: {place}")),
        "{said}"
    );
    let without = object(&compared(&["--json"]));
    assert_eq!(without["others"][0]["trace"], Value::Null);
}

#[test]
fn the_bundled_model_and_the_bundled_cases_are_certified() {
    let output = validate(&["--bundled", "--devices", "flex"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let right = "the same answer, all cases right on 1 of 1 devices";
    assert!(said.contains(right), "{said}");
    assert!(said.contains("conformance: "), "{said}");

    let output = validate(&["--devices", "flex,xla:tpu:7", "--json"]);
    let found = object(&output);
    // A device that isn't there is no reason to leave the others out, and no success.
    assert_eq!(output.status.code(), Some(2), "{found}");
    let devices = &found["devices"];
    assert_eq!(devices[0]["verdict"], "same", "{found}");
    let cases = &devices[0]["parts"][0]["found"]["cases"];
    assert_eq!(cases["wrong"], Value::Array(Vec::new()));
    let families = cases["families"].as_array().expect("a list");
    for name in ["attention", "moe_layer", "route", "fp8_linear"] {
        let of = families.iter().find(|of| of["family"] == name);
        let of = of.expect(name);
        let far = of["furthest"]["relative_l2"].as_f64();
        assert!(far.is_some_and(|far| far < 0.1), "{of}");
    }
    assert_eq!(devices[1]["verdict"], "failed", "{found}");
    assert!(devices[1]["error"].is_string());
    assert_eq!(devices[1]["parts"], Value::Array(Vec::new()));
}

#[test]
fn demos_and_benchmarks_are_certified() {
    let output = validate(&["--devices", "flex", "--parts", "bench,demos", "--json"]);
    let found = object(&output);
    assert_eq!(output.status.code(), Some(0), "{found}");
    let parts = found["devices"][0]["parts"].as_array().expect("a list");
    let names: Vec<&Value> = parts.iter().map(|part| &part["part"]).collect();
    assert_eq!(names, ["demos", "bench"]);
    let demos = parts[0]["found"]["demos"].as_array().expect("a list");
    let names: Vec<&Value> = demos.iter().map(|demo| &demo["demo"]).collect();
    let expected = found["subject"]["demos"].as_array().expect("a list");
    assert_eq!(names, expected.iter().collect::<Vec<_>>());
    assert_eq!(names.len(), 15);
    let results = parts[1]["found"]["bench"]["results"].as_array();
    for result in results.expect("a list") {
        assert_eq!(result["verified"], true, "{result}");
        let ms = result["median_ms"].as_f64();
        assert!(ms.is_some_and(|ms| ms > 0.0), "{result}");
    }
    assert_eq!(parts[1]["verdict"], "same");
}

#[test]
fn a_wrong_case_of_a_folder_is_named_by_family_and_case() {
    let folder = tempfile::tempdir().expect("a folder");
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases");
    let names = ["attention_causal.safetensors", "route_sigmoid.safetensors"];
    for name in names {
        fs::copy(cases.join(name), folder.path().join(name)).expect("copied");
    }
    let of = [
        "--devices",
        "flex",
        "--cases",
        text(folder.path()),
        "--json",
    ];
    let output = validate(&of);
    let found = object(&output);
    assert_eq!(output.status.code(), Some(0), "{found}");
    assert_eq!(found["subject"]["cases"]["files"], 2);

    // The last value of what is expected becomes another number.
    let planted = folder.path().join(names[0]);
    let mut bytes = fs::read(&planted).expect("a case");
    let last = bytes.len() - 4;
    bytes[last..].copy_from_slice(&1e3f32.to_le_bytes());
    fs::write(&planted, bytes).expect("written");
    let output = validate(&of);
    let found = object(&output);
    assert_eq!(output.status.code(), Some(1), "{found}");
    let cases = &found["devices"][0]["parts"][0]["found"]["cases"];
    let wrong = cases["wrong"].as_array().expect("a list");
    assert_eq!(wrong.len(), 1, "{found}");
    assert_eq!(wrong[0]["family"], "attention");
    assert_eq!(wrong[0]["case"], "attention_causal");
    let output = validate(&of[..4]);
    let said = String::from_utf8_lossy(&output.stdout);
    let named = "the first is attention in f32: attention_causal: ";
    assert!(said.contains(named), "{said}");
}

#[test]
fn cards_in_software_need_their_drivers() {
    let folder = tempfile::tempdir().expect("a folder");
    let none = folder.path().join("none");
    for place in [folder.path(), &none] {
        let output = validate(&["--devices", "flex", "--emulated", text(place)]);
        assert_eq!(output.status.code(), Some(2));
        let said = String::from_utf8_lossy(&output.stderr);
        if cfg!(any(feature = "cuda", feature = "rocm")) {
            assert!(
                said.contains("expected drivers of cards in software in "),
                "{said}"
            );
            assert!(said.contains("cargo build -p moebius-emulator"), "{said}");
        } else {
            assert!(said.contains("not part of this build"), "{said}");
        }
    }
}

/// Drivers that aren't any: the processes of the cards end without a device, which are cards in software that failed, and no devices.
#[test]
#[cfg(all(unix, feature = "cuda"))]
fn a_card_in_software_that_does_not_start_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("libcuda.so.1"), "").expect("written");
    let cases = folder.path().join("cases");
    fs::create_dir(&cases).expect("made");
    let name = "route_sigmoid.safetensors";
    let case = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases");
    fs::copy(case.join(name), cases.join(name)).expect("copied");
    let of = ["--devices", "flex", "--cases", text(&cases), "--json"];
    let output = validate(&[&of[..], &["--emulated", text(folder.path())]].concat());
    let found = object(&output);
    assert_eq!(output.status.code(), Some(2), "{found}");
    let devices = found["devices"].as_array().expect("a list");
    assert_eq!(devices.len(), 2, "{found}");
    assert_eq!(devices[0]["emulated"], false);
    assert_eq!(devices[1]["device"], "cuda:0");
    assert_eq!(devices[1]["emulated"], true);
    assert_eq!(devices[1]["verdict"], "failed");
    assert!(devices[1]["error"].is_string(), "{found}");
}

/// The header of a safetensors file, and its data as words.
fn read(bytes: &[u8]) -> (&[u8], Vec<u32>) {
    let (length, rest) = bytes.split_at(8);
    let length = u64::from_le_bytes(length.try_into().expect("eight bytes"));
    let (header, data) = rest.split_at(length as usize);
    let words = data.as_chunks::<4>().0.iter();
    (
        header,
        words.map(|word| u32::from_le_bytes(*word)).collect(),
    )
}

#[test]
fn the_page_has_the_commands_reference() {
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shipped");
    let file = shipped.join("reference.case.safetensors");
    let folder = tempfile::tempdir().expect("a folder");
    let written = folder.path().join("reference.safetensors");
    let output = validate(&["reference", text(&written)]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let now = fs::read(&written).expect("written");
    if std::env::var_os("MOEBIUS_BLESS").is_some() {
        fs::write(&file, &now).expect("written");
    }
    let committed = fs::read(&file).expect("MOEBIUS_BLESS=1 writes the file");
    let [(header, now), (kept, committed)] = [read(&now), read(&committed)];
    assert_eq!(
        String::from_utf8_lossy(header),
        String::from_utf8_lossy(kept)
    );
    assert_eq!(now.len(), committed.len());
    // Another machine's exponential may differ in the last place of f64, which rarely changes a number in f32.
    let near = |(now, kept): (&u32, &u32)| {
        let [x, y] = [*now, *kept].map(f32::from_bits);
        // Numbers of experts, which are no floats and would be tiny ones, must be equal.
        let float = (now | kept) >= 1 << 23;
        now == kept || (float && (x - y).abs() <= 1e-6 * y.abs().max(1e-3))
    };
    assert!(
        now.iter().zip(&committed).all(near),
        "MOEBIUS_BLESS=1 writes the file anew"
    );
    // The text is that of the case that transformers computed.
    let header: Value = serde_json::from_slice(header).expect("JSON");
    let described = header["__metadata__"]["certificate"].as_str();
    let described: Value = serde_json::from_str(described.expect("a text")).expect("JSON");
    let case = moebius_weights::Reader::open(&shipped.join("logits.case.safetensors"));
    let case = case.expect("a case");
    let tokens = case.read("in.tokens").expect("tokens");
    let (tokens, _) = tokens.as_chunks::<4>();
    let tokens: Vec<u32> = tokens
        .iter()
        .map(|word| u32::from_le_bytes(*word))
        .collect();
    assert_eq!(described["subject"]["tokens"], serde_json::json!(tokens));
    assert_eq!(described["subject"]["exact"], false);
}

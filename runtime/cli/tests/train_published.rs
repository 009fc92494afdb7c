//! Tests of `moebius train --model` and `moebius upcycle` as programs, with tiny decoders.
#![cfg(feature = "flex")]
#![allow(
    clippy::expect_used,
    reason = "a test that cannot set itself up has failed"
)]

mod published;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

fn moebius(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_moebius"));
    command.args(args).output().expect("the binary starts")
}

/// The JSON object on the last line of a command's output.
fn object(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    let last = text.lines().last().unwrap_or_default();
    serde_json::from_str(last).expect("an object on the last line")
}

/// Checks that a command ended with exit 2 and an error that contains `what`.
fn assert_refused(output: &Output, what: &str) {
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains(what), "{said}");
}

fn text_of(path: &Path) -> &str {
    path.to_str().expect("a path of UTF-8")
}

/// Writes a text of the tiny tokenizer's words that follows a rule, so that it can be learned; returns its path.
fn write_text(folder: &Path) -> String {
    let words: Vec<String> = (0..600)
        .map(|at| format!("w{}", at * at / 5 % 9 + at % 7))
        .collect();
    let path = folder.join("text.txt");
    fs::write(&path, words.join(" ")).expect("written");
    text_of(&path).to_owned()
}

#[test]
fn a_published_model_learns_and_is_read_again() {
    let model = published::model();
    let work = tempfile::tempdir().expect("a folder");
    let (text, out) = (write_text(work.path()), work.path().join("out"));
    let out = text_of(&out);
    let source = text_of(model.path());
    let sizes = "--steps 30 --seq 16 --batch 2 --learning-rate 0.003 --held-out 60 --device flex";
    let mut args = vec![
        "train", "--model", source, "--text", &text, "--out", out, "--json",
    ];
    args.extend(sizes.split(' '));
    let trained = moebius(&args);
    let found = object(&trained);
    assert_eq!(trained.status.code(), Some(0), "{found}");
    assert_eq!(found["step"], 30);
    assert_eq!(found["fell"], true);
    let number = |key: &str| found[key].as_f64().unwrap_or(f64::NAN);
    assert!(
        number("perplexity") < 0.8 * number("perplexity_before"),
        "{found}"
    );
    assert_ne!(found["experts_apart"], found["experts_apart_before"]);

    let more = ["--context", "16", "--device", "flex", "--json"];
    let measured = ["perplexity", "--model", out, "--text", &text];
    let measured = object(&moebius(&[&measured[..], &more].concat()));
    let perplexity = measured["perplexity"].as_f64();
    assert!(perplexity.is_some_and(|found| found < 100.0), "{measured}");

    // The output folder is no longer empty.
    assert_refused(&moebius(&args), "expected a new or an empty folder");
}

#[test]
fn a_configuration_alone_is_trained_from_scratch() {
    let work = tempfile::tempdir().expect("a folder");
    let model = work.path().join("new");
    fs::create_dir(&model).expect("made");
    let config = json!({
        "model_type": "olmoe", "vocab_size": 300, "hidden_size": 16, "intermediate_size": 16,
        "num_attention_heads": 2, "num_hidden_layers": 1, "num_experts": 4, "num_experts_per_tok": 2,
        "max_position_embeddings": 64, "tie_word_embeddings": true,
    });
    fs::write(model.join("config.json"), config.to_string()).expect("written");
    let out = work.path().join("out");
    let (model, out) = (text_of(&model), text_of(&out));
    let sizes = "--steps 8 --seq 16 --learning-rate 0.01 --held-out 64 --device flex --json";
    let mut args = vec!["train", "--model", model, "--out", out];
    args.extend(sizes.split(' '));
    let refused = moebius(&args);
    assert_eq!(refused.status.code(), Some(2), "there are no weights");
    args.extend(["--from-scratch", "--paragraphs"]);
    let trained = object(&moebius(&args));
    assert_eq!(trained["fell"], true, "{trained}");

    let prompt = ["--prompt", "Call me", "--max-tokens", "5"];
    let more = ["--device", "flex", "--json"];
    let generated = moebius(&[&["generate", "--model", out][..], &prompt, &more].concat());
    assert_eq!(object(&generated)["finish"], "length");
}

#[test]
fn a_published_model_stops_and_goes_on_as_if_it_had_not() {
    let model = published::model();
    let work = tempfile::tempdir().expect("a folder");
    let text = write_text(work.path());
    let folder = |name: &str| text_of(&work.path().join(name)).to_owned();
    let course = "--steps 6 --every 2 --seq 16 --batch 2 --held-out 60 --device flex --json";
    for precision in ["f32", "fp8-delayed"] {
        let [whole, parts, kept] =
            ["whole", "parts", "kept"].map(|name| folder(&format!("{name}-{precision}")));
        let train = |out: &str, more: &[&str]| {
            let source = text_of(model.path());
            let mut args = vec!["train", "--model", source, "--text", &text, "--out", out];
            args.extend(course.split(' ').chain(["--precision", precision]));
            moebius(&[&args[..], more].concat())
        };
        let straight = object(&train(&whole, &[]));
        assert_eq!(straight["out"], whole, "{straight}");
        assert_eq!(straight["fp8"].is_null(), precision == "f32", "{straight}");
        let begun = object(&train(
            &parts,
            &["--checkpoint", &kept, "--stop-after", "3"],
        ));
        assert!(
            begun["out"].is_null() && !Path::new(&parts).exists(),
            "{begun}"
        );
        assert_eq!(begun["step"], 3, "{begun}");
        let taken = train(&parts, &["--checkpoint", &kept]);
        assert_eq!(taken.status.code(), Some(2), "{taken:?}");
        let resumed = object(&train(&parts, &["--checkpoint", &kept, "--resume"]));
        for key in [
            "step",
            "first_loss",
            "last_loss",
            "perplexity",
            "experts_apart",
            "fp8",
        ] {
            assert_eq!(resumed[key], straight[key], "{precision}, {key}");
        }
        let weights = |out: &str| fs::read(Path::new(out).join("model.safetensors"));
        let [straight, resumed] = [&whole, &parts].map(|out| weights(out).expect("weights"));
        assert!(straight == resumed, "{precision}: other weights");
    }
}

#[test]
fn a_published_model_learns_samples_and_is_measured_as_it_does() {
    let model = published::model();
    let work = tempfile::tempdir().expect("a folder");
    let file = work.path().join("samples.jsonl");
    let sample = |number: usize| {
        let words = |from: usize, count: usize| {
            let words = (from..from + count).map(|at| format!("w{}", at % 9));
            words.collect::<Vec<_>>().join(" ")
        };
        let (prompt, completion) = (words(number, 4), words(number + 4, 5));
        if number.is_multiple_of(3) {
            json!({ "text": prompt }).to_string()
        } else {
            json!({ "prompt": prompt + " ", "completion": completion }).to_string()
        }
    };
    let samples: Vec<String> = (0..60).map(sample).collect();
    fs::write(&file, samples.join("\n")).expect("written");
    let (source, data) = (text_of(model.path()), text_of(&file));
    let train = |out: &str, more: &str| {
        let out = work.path().join(out);
        let mut args = vec!["train", "--model", source, "--data", data, "--out"];
        args.push(text_of(&out));
        let course = "--steps 12 --every 6 --seq 16 --batch 2 --accumulate 2 --device flex --json";
        args.extend(course.split(' ').chain(more.split(' ')));
        moebius(&args)
    };
    let trained = train("out", "--learning-rate 0.003 --evaluate-every 4");
    let found = object(&trained);
    assert_eq!(found["step"], 12, "{trained:?}");
    let number = |of: &Value| of.as_f64().unwrap_or(f64::NAN);
    assert!(
        number(&found["perplexity"]) < number(&found["perplexity_before"]),
        "{found}"
    );
    let text = String::from_utf8_lossy(&trained.stdout);
    let objects = text
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let evaluated: Vec<Value> = objects.map(|of| of["evaluated"]["step"].clone()).collect();
    let evaluated: Vec<&Value> = evaluated.iter().filter(|step| !step.is_null()).collect();
    assert_eq!(evaluated, [&json!(4), &json!(8)]);

    fs::write(&file, format!("{}\n{{\"messages\": []}}\n", samples[0])).expect("written");
    let refused = train("other", "--held-out 0");
    assert_refused(
        &refused,
        "samples.jsonl:2: messages: expected a model with a chat template",
    );
    let refused = train("other", "--text x");
    assert_refused(&refused, "--data");
}

/// An adapter is trained, stopped and resumed, added to its model by other commands, and merged into a whole model that answers the same.
#[test]
fn an_adapter_is_trained_added_and_merged() {
    let model = published::model();
    let work = tempfile::tempdir().expect("a folder");
    let text = write_text(work.path());
    let folder = |name: &str| text_of(&work.path().join(name)).to_owned();
    let source = text_of(model.path());
    let train = |out: &str, more: &[&str]| {
        let mut args = vec!["train", "--model", source, "--text", &text, "--out", out];
        let course = "--steps 12 --every 4 --seq 16 --batch 2 --held-out 60 --device flex --json";
        let adapter = "--lora 4 --lora-alpha 8 --lora-targets o_proj,up_proj,down_proj";
        let rate = "--learning-rate 0.01";
        args.extend(
            [course, adapter, rate]
                .into_iter()
                .flat_map(|of| of.split(' ')),
        );
        moebius(&[&args[..], more].concat())
    };
    let [whole, parts, kept] = ["whole", "parts", "kept"].map(folder);
    let trained = object(&train(&whole, &[]));
    assert_eq!(trained["out"], whole, "{trained}");
    let number = |of: &Value| of.as_f64().unwrap_or(f64::NAN);
    let (before, after) = (
        number(&trained["perplexity_before"]),
        number(&trained["perplexity"]),
    );
    assert!(after < before, "{trained}");
    train(&parts, &["--checkpoint", &kept, "--stop-after", "5"]);
    let other = train(
        &parts,
        &["--checkpoint", &kept, "--resume", "--lora-rslora"],
    );
    assert_refused(&other, "rank_stabilized was false, not true");
    let resumed = object(&train(&parts, &["--checkpoint", &kept, "--resume"]));
    assert_eq!(resumed["last_loss"], trained["last_loss"]);
    let weights = |out: &str| fs::read(Path::new(out).join("adapter_model.safetensors"));
    let [one, other] = [&whole, &parts].map(|out| weights(out).expect("factors"));
    assert!(one == other, "other factors");
    let config = fs::read(Path::new(&whole).join("adapter_config.json")).expect("written");
    let config: Value = serde_json::from_slice(&config).expect("JSON");
    assert_eq!(config["base_model_name_or_path"], source);
    assert_eq!(
        [&config["r"], &config["lora_alpha"]],
        [&json!(4), &json!(8.0)]
    );

    let perplexity = |model: &str, more: &[&str]| {
        let args = [
            "perplexity",
            "--model",
            model,
            "--text",
            &text,
            "--context",
            "16",
        ];
        let rest = ["--device", "flex", "--json"];
        let found = object(&moebius(&[&args[..], &rest[..], more].concat()));
        number(&found["perplexity"])
    };
    let plain = perplexity(source, &[]);
    let added = perplexity(source, &["--adapter", &whole]);
    assert!(added < plain, "{added} {plain}");
    let merged = folder("merged");
    let merge = [
        "merge",
        "--model",
        source,
        "--adapter",
        &whole,
        "--out",
        &merged,
        "--json",
    ];
    let made = object(&moebius(&merge));
    assert_eq!(made["out"], merged, "{made}");
    assert_eq!(perplexity(&merged, &[]), added);
    assert_refused(&moebius(&merge), "expected a new or an empty folder");
    let nothing = moebius(&[
        "generate",
        "--model",
        source,
        "--adapter",
        source,
        "--prompt",
        "w1",
    ]);
    assert_refused(&nothing, "adapter_config.json");
}

/// An adapter that is trained above FP8 codes goes on above the same ones, and helps a model that has them.
#[test]
fn an_adapter_above_codes_is_for_a_model_of_the_same_codes() {
    let model = published::model();
    let work = tempfile::tempdir().expect("a folder");
    let text = write_text(work.path());
    let folder = |name: &str| text_of(&work.path().join(name)).to_owned();
    let source = text_of(model.path());
    let train = |out: &str, more: &str| {
        let fixed = ["train", "--model", source, "--text", &text, "--out", out];
        let course = "--steps 12 --every 4 --seq 16 --batch 2 --held-out 60 --device flex --json";
        let adapter = "--lora 4 --lora-alpha 8 --lora-targets o_proj,up_proj,down_proj";
        let words = [course, adapter, "--learning-rate 0.01", more];
        let words = words.into_iter().flat_map(str::split_whitespace);
        moebius(&fixed.into_iter().chain(words).collect::<Vec<_>>())
    };
    let [whole, parts, kept] = ["whole", "parts", "kept"].map(folder);
    let trained = object(&train(&whole, "--base fp8"));
    let number = |of: &Value| of.as_f64().unwrap_or(f64::NAN);
    let [before, after] = ["perplexity_before", "perplexity"].map(|name| number(&trained[name]));
    assert!(after < before, "{trained}");
    let in_f32 = object(&train(&folder("other"), ""));
    assert_ne!(in_f32["first_loss"], trained["first_loss"]);
    let checkpoint = format!("--checkpoint {kept}");
    train(&parts, &format!("{checkpoint} --base fp8 --stop-after 5"));
    let other = train(&parts, &format!("{checkpoint} --resume --base f32"));
    assert_refused(&other, "base was");
    let resumed = object(&train(&parts, &format!("{checkpoint} --resume")));
    assert_eq!(resumed["last_loss"], trained["last_loss"]);

    let perplexity = |more: &[&str]| {
        let asked = ["perplexity", "--model", source, "--text", &text, "--json"];
        let how = ["--context", "16", "--device", "flex", "--dtype", "fp8"];
        let found = object(&moebius(&[&asked[..], &how[..], more].concat()));
        number(&found["perplexity"])
    };
    let (plain, added) = (perplexity(&[]), perplexity(&["--adapter", &whole]));
    assert!(added < plain, "{added} {plain}");
    let alone = moebius(&["train", "--model", source, "--out", &parts, "--base", "fp8"]);
    assert_refused(&alone, "--lora");
}

#[test]
fn numbers_of_the_small_transformer_are_refused_beside_a_model() {
    let refused = moebius(&["train", "--model", "x", "--out", "y", "--hidden", "8"]);
    assert_refused(&refused, "--hidden");
}

#[test]
fn only_dense_models_are_upcycled() {
    let model = published::model();
    let work = tempfile::tempdir().expect("a folder");
    let out = work.path().join("out");
    let (source, out) = (text_of(model.path()), text_of(&out));
    let refused = moebius(&["upcycle", "--model", source, "--out", out]);
    assert_refused(&refused, "layers without experts");
}

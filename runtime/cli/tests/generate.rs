//! Tests of `moebius generate`, `logits` and `perplexity` as a program, with a tiny decoder of transformers and a tokenizer of as
//! many words.
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

fn generate(folder: &Path, more: &[&str]) -> Output {
    run("generate", folder, more)
}

fn run(what: &str, folder: &Path, more: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_moebius"));
    command.args([what, "--device", "flex", "--model"]);
    command.arg(folder).args(more);
    command.output().expect("the binary starts")
}

/// Checks that a command ended with exit 2 and an error that contains `what`.
fn assert_refused(output: &Output, what: &str) {
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains(what), "{said}");
}

fn object(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

#[test]
fn a_prompt_is_gone_on_with() {
    let folder = model();
    let more = ["--prompt", "w3 w14 w15", "--max-tokens", "6"];
    let output = generate(folder.path(), &[&more[..], &["--json"]].concat());
    let found = object(&output);
    assert_eq!(output.status.code(), Some(0), "{found}");
    let ids = found["ids"].as_array().expect("a list");
    assert_eq!(ids.len(), 6, "{found}");
    assert_eq!(found["finish"], "length");
    assert_eq!(found["prompt_tokens"], 3);
    assert_eq!(found["family"], "olmoe");
    let words: Vec<String> = ids.iter().map(|id| format!("w{id}")).collect();
    assert_eq!(found["text"], words.join(" "));

    let text = generate(folder.path(), &more);
    let said = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(said.starts_with(&words.join(" ")), "{said}");

    let stop = [&more[..], &["--stop", &words[2], "--json"]].concat();
    let stopped = object(&generate(folder.path(), &stop));
    assert_eq!(stopped["finish"], "stop", "{stopped}");
    let text = stopped["text"].as_str().unwrap_or_default().to_owned();
    assert!(
        !text.contains(&words[2])
            && found["text"]
                .as_str()
                .is_some_and(|all| all.starts_with(&text))
    );
}

/// What a prompt gets is the same in any company, and a stop string ends its own answer alone.
#[test]
fn prompts_of_a_file_are_answered_together() {
    let folder = model();
    let path = folder.path().join("prompts.jsonl");
    let file = path.display().to_string();
    let prompts = ["w3 w14 w15", "w7", "w3 w14\nw2 w9"];
    let lines = prompts.map(|prompt| format!("{}\n", Value::from(prompt)));
    fs::write(&path, lines.concat()).expect("written");
    let asked = |prompt: &[&str], options: &[&str]| {
        let more = [prompt, &["--max-tokens", "6"], options].concat();
        generate(folder.path(), &more)
    };
    let first = object(&asked(&["--prompt", prompts[0]], &["--json"]));
    let stop = format!("w{}", first["ids"][2]);
    for options in [&["--json"][..], &["--json", "--stop", &stop]] {
        let found = object(&asked(&["--prompts", &file], options));
        assert_eq!(found["prompt_tokens"], 8, "{found}");
        assert_eq!(found["ids"], Value::Null);
        let answers = found["answers"].as_array().expect("a list");
        assert_eq!(answers.len(), prompts.len(), "{found}");
        for (prompt, answer) in prompts.iter().zip(answers) {
            let alone = object(&asked(&["--prompt", prompt], options));
            for same in ["text", "ids", "finish", "prompt_tokens"] {
                assert_eq!(answer[same], alone[same], "{prompt}");
            }
        }
    }
    let shown = asked(&["--prompts", &file], &[]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    let text = first["text"].as_str().expect("a text");
    assert!(shown.contains(&format!("1 of 3\n{text}\n")), "{shown}");

    let both = asked(&["--prompts", &file], &["--prompt", "w1"]);
    assert_refused(&both, "cannot be used with");
    for (content, what) in [
        ("\"w1\"\nw2\n", "line 2: expected a text in JSON, got w2"),
        ("\"\"\n", "line 1: the prompt is empty"),
        ("", "expected a prompt or more, got none"),
    ] {
        fs::write(&path, content).expect("written");
        assert_refused(&asked(&["--prompts", &file], &[]), what);
    }
    fs::remove_file(&path).expect("removed");
    assert_refused(&asked(&["--prompts", &file], &[]), "cannot read");
}

/// A prompt is named by its line where it is too long for the model, and where the model doesn't have all of its tokens.
#[test]
fn a_refused_prompt_of_a_file_is_named_by_its_line() {
    let folder = model_of("decoder_llama4_text");
    let path = folder.path().join("prompts.jsonl");
    let file = path.display().to_string();
    let more = ["--prompts", &file, "--max-tokens", "6"];
    let long = ["w3"; 12].join(" ");
    for (second, what) in [
        (
            &long[..],
            "line 2: tokens of a sequence in a cache: expected at most 16",
        ),
        (
            "w120",
            "line 2: token of a prompt: expected less than 99, got 120",
        ),
    ] {
        let lines = ["w3", second, "w4"].map(|prompt| format!("{}\n", Value::from(prompt)));
        fs::write(&path, lines.concat()).expect("written");
        let refused = generate(folder.path(), &more);
        assert_refused(&refused, &format!("{file}, {what}"));
    }
    let alone = generate(folder.path(), &["--prompt", "w120", "--max-tokens", "6"]);
    assert_refused(&alone, "error: token of a prompt: expected less than 99");
}

/// An exact model has its own bits, and what rounds in ways of a device is refused.
#[test]
fn an_exact_model_goes_on_like_an_ordinary_one() {
    let folder = model();
    let more = ["--prompt", "w3 w14 w15", "--max-tokens", "6", "--json"];
    let ordinary = object(&generate(folder.path(), &more));
    let exact = [&more[..], &["--exact"]].concat();
    let found = object(&generate(folder.path(), &exact));
    assert_eq!(found["ids"], ordinary["ids"], "{found}");
    for (option, what) in [
        (&["--dtype", "bf16"][..], "expected --dtype f32, got bf16"),
        (
            &["--kv-cache-dtype", "f16"],
            "cache of an exact model: expected f32",
        ),
        (&["--narrow-embedding"], "cannot be used with"),
    ] {
        let refused = generate(folder.path(), &[&exact[..], option].concat());
        assert_refused(&refused, what);
    }
    let latent = model_of("decoder_deepseek_v3");
    let refused = generate(latent.path(), &exact);
    assert_refused(&refused, "expected separate projections, got latent");
}

/// Weights stay as a file has them only where it has blocks of codes. Experts that wait in the files change no token, and an exact model has its own
/// bits, those of decoded weights.
#[test]
fn weights_of_a_file_are_blocks() {
    let folder = model();
    let more = ["--prompt", "w3 w14", "--weights", "file"];
    let refused = generate(folder.path(), &more);
    assert_refused(&refused, "weights as the file has them");
    let rounded = generate(folder.path(), &[&more[..], &["--dtype", "fp8"]].concat());
    assert_refused(&rounded, "expected --dtype f32, f16 or bf16, got fp8");
    let narrow = [&more[..], &["--narrow-embedding"]].concat();
    assert_refused(&generate(folder.path(), &narrow), "cannot be used with");
    let blocks = model_of("decoder_gpt_oss_mxfp4");
    let kept = [&more[..], &["--max-tokens", "3", "--json"]].concat();
    let asked = |options: &[&str]| {
        let words = [&kept[..], options].concat();
        object(&generate(blocks.path(), &words))
    };
    let resident = asked(&[]);
    assert_eq!([&resident["dtype"], &resident["weights"]], ["f32", "file"]);
    let cached = asked(&["--expert-cache", "24KiB", "--experts-from", "files"]);
    assert_eq!(cached["ids"], resident["ids"]);
    let read = cached["expert_cache"]["read_bytes"].as_u64();
    assert!(read.is_some_and(|bytes| bytes > 0), "{cached}");
    let exact = asked(&["--exact"]);
    let decoded = [
        "--prompt",
        "w3 w14",
        "--max-tokens",
        "3",
        "--json",
        "--exact",
    ];
    let decoded = object(&generate(blocks.path(), &decoded));
    assert_eq!(exact["ids"], decoded["ids"]);
}

/// Weights are rounded to blocks while they are loaded, and tensors whose rows are no whole blocks are told.
#[test]
fn weights_are_rounded_to_blocks_on_load() {
    let (even, odd) = (model_of("decoder_gpt_oss_mxfp4"), model());
    let more = ["--prompt", "w3 w14", "--max-tokens", "3", "--json"];
    let more = [&more[..], &["--weights", "q8_0"]].concat();
    for (folder, told) in [(even, false), (odd, true)] {
        let output = generate(folder.path(), &more);
        let found = object(&output);
        let kept = [&found["dtype"], &found["weights"]];
        assert_eq!(kept, ["f32", "q8_0"], "{found}");
        let said = String::from_utf8_lossy(&output.stderr);
        let what = "rows are no whole blocks of Q8_0, so that they have another type";
        assert_eq!(said.contains(what), told, "{said}");
    }
}

/// Memory is taken as tokens come: room for four million of them reserves nothing in 9 GB, and four billion are refused in words.
#[test]
#[cfg(target_os = "linux")] // where `prlimit` is
fn room_for_many_tokens_takes_no_memory() {
    let folder = model();
    let more = ["--prompt", "w3 w14 w15", "--json"];
    let few = object(&generate(
        folder.path(),
        &[&more[..], &["--max-tokens", "6"]].concat(),
    ));
    let third = few["ids"][2].to_string();
    let stop = format!("w{third}");
    let mut limited = Command::new("prlimit");
    limited.args(["--as=9000000000", env!("CARGO_BIN_EXE_moebius")]);
    limited.args(["generate", "--device", "flex", "--model"]);
    limited.arg(folder.path()).args(more);
    limited.args(["--max-tokens", "4000000", "--stop", &stop]);
    let output = limited.output().expect("prlimit starts");
    let found = object(&output);
    assert_eq!(
        (output.status.code(), &found["finish"]),
        (Some(0), &Value::from("stop"))
    );

    let many = ["--max-tokens", "4000000000"];
    let refused = generate(folder.path(), &[&more[..], &many].concat());
    assert_refused(&refused, "tokens of a cache: expected at most");
}

/// A margin that no machine has is refused before anything is loaded; none at all lets everything be tried that may fit.
#[test]
fn memory_is_asked_for_with_a_margin() {
    let folder = model();
    let more = ["--prompt", "w3", "--max-tokens", "1", "--memory-margin"];
    let tried = |margin: &str| generate(folder.path(), &[&more[..], &[margin]].concat());
    let most = u32::MAX.to_string();
    assert_refused(&tried(&most), "memory for weights and cache: expected");
    assert_refused(&tried(&most), "--memory-margin 0");
    assert_refused(&tried("few"), "--memory-margin");
    assert_eq!(tried("0").status.code(), Some(0));
    let refused = run(
        "logits",
        folder.path(),
        &["--prompt", "w3", "--memory-margin", &most],
    );
    assert_refused(&refused, "memory for weights and cache: expected");
}

#[test]
fn draws_follow_their_seed() {
    let folder = model();
    let draw = |seed: &str| {
        let more = ["--prompt", "w1", "--json", "--seed", seed];
        let more = [&more[..], &["--temperature", "1"]].concat();
        object(&generate(folder.path(), &more))["ids"].clone()
    };
    assert_eq!(draw("1"), draw("1"));
    assert_ne!(draw("1"), draw("2"));
}

/// What `config show` writes of a line, a variable, a file and a preset draws the same tokens without them.
#[test]
fn a_configuration_that_is_shown_repeats_a_run() {
    let folder = model();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("given.toml"), "[generate]\ntemperature = 2\n").expect("written");
    let moebius = |line: &str, top_k: Option<&str>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_moebius"));
        command.args(line.split(' ')).current_dir(folder.path());
        command.env_remove("MOEBIUS_CONFIG");
        command.env("XDG_CONFIG_HOME", folder.path());
        command.envs(top_k.map(|k| ("MOEBIUS_GENERATE_TOP_K", k)));
        let output = command.output().expect("the binary starts");
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        output.stdout
    };
    let ids = |line: &str, top_k: Option<&str>| {
        let answer = moebius(&format!("{line} --json"), top_k);
        let answer: Value = serde_json::from_slice(&answer).expect("one JSON object");
        answer["ids"].as_array().expect("a list").clone()
    };
    let asked = "generate --device flex --model . --prompt w3 --preset development";
    let (file, seeded) = ("--config given.toml", format!("{asked} --seed 3"));
    let shown = moebius(&format!("config show {file} {seeded}"), Some("7"));
    fs::write(at("shown.toml"), shown).expect("written");
    let want = ids(&format!("{seeded} {file}"), Some("7"));
    assert_eq!(ids("generate --config shown.toml", None), want);
    // The preset's number of tokens; the line, the variable and the file have their parts in them, too.
    assert_eq!(want.len(), 32);
    assert_ne!(ids(&format!("{asked} {file}"), Some("7")), want);
    assert_ne!(ids(&format!("{seeded} {file}"), None), want);
    assert_ne!(ids(&seeded, Some("7")), want);
}

#[test]
fn a_folder_that_does_not_fit_is_one_error() {
    let folder = model();
    let refused = |more: &[&str], what: &str| {
        let more = [&["--prompt"], more].concat();
        assert_refused(&generate(folder.path(), &more), what);
    };
    refused(&["w1", "--temperature", "NaN"], "temperature");
    refused(&[""], "the prompt is empty");
    refused(&["w1", "--chat"], "template");
    let any = r#"{"type": "object"}"#;
    let words = "expected tokens that are the same bytes in every text";
    refused(&["w1", "--json-schema", any], words);
    refused(
        &["w1", "--json-schema", "none.json"],
        "cannot read none.json",
    );
    fs::write(folder.path().join("tokenizer.json"), "{").expect("written");
    refused(&["w1"], "tokenizer.json");
    fs::remove_file(folder.path().join("tokenizer.json")).expect("removed");
    refused(&["w1"], "tokenizer.json");
}

#[test]
fn perplexity_of_a_text() {
    let folder = model();
    let text = folder.path().join("text");
    let words = |ids: [u32; 40]| ids.map(|id| format!("w{id}")).join(" ");
    let perplexity = |more: &[&str]| {
        let path = text.display().to_string();
        let more = [&["--text", &path], more, &["--json"]].concat();
        let output = run("perplexity", folder.path(), &more);
        let found = object(&output);
        assert_eq!(output.status.code(), Some(0), "{found}");
        found
    };
    let mut id = 1;
    let drawn = std::array::from_fn(|_| {
        id = id * 31 % 199;
        id
    });
    fs::write(&text, words(drawn)).expect("written");
    let drawn = perplexity(&[]);
    assert_eq!(drawn["tokens"], 39);
    let number = |found: &Value, name: &str| found[name].as_f64().unwrap_or(f64::NAN);
    let (value, nats) = (
        number(&drawn, "perplexity"),
        number(&drawn, "nats_per_token"),
    );
    assert!((value - nats.exp()).abs() < 1e-9 * value, "{drawn}");
    // Untrained weights guess among 199 words.
    assert!((100.0..1000.0).contains(&value), "{drawn}");
    let fewer = perplexity(&["--tokens", "10", "--context", "4", "--stride", "1"]);
    assert_eq!([&fewer["tokens"], &fewer["stride"]], [9, 1]);

    let refused = |path: &str, more: &[&str], what: &str| {
        let more = [&["--text", path], more].concat();
        assert_refused(&run("perplexity", folder.path(), &more), what);
    };
    let path = text.display().to_string();
    let stride = ["--context", "4", "--stride", "4"];
    refused(&path, &stride, "expected 1 to 3, got 4");
    refused("nowhere.txt", &[], "nowhere.txt");
    fs::write(&text, "w1").expect("written");
    refused(&path, &[], "expected 2 or more, got 1");
}

#[test]
fn the_likeliest_token_is_what_is_generated() {
    let folder = model();
    let prompt = ["--prompt", "w3 w14 w15", "--json"];
    let next = [&prompt[..], &["--max-tokens", "1"]].concat();
    let generated = object(&generate(folder.path(), &next));
    let all = [&prompt[..], &["--top", "1000"]].concat();
    let found = object(&run("logits", folder.path(), &all));
    let tokens = found["tokens"].as_array().expect("a list");
    assert_eq!(tokens.len(), 199, "the vocabulary");
    assert_eq!(tokens[0]["id"], generated["ids"][0]);
    assert_eq!(tokens[0]["text"], generated["text"]);
    let numbers = |name: &str| -> Vec<f64> {
        let values = tokens.iter().map(|token| token[name].as_f64());
        values.map(|value| value.expect("a number")).collect()
    };
    let (logits, logs) = (numbers("logit"), numbers("log_probability"));
    assert!(logits.is_sorted_by(|a, b| a >= b));
    let sum: f64 = logs.iter().map(|log| log.exp()).sum();
    assert!((sum - 1.0).abs() < 1e-9, "{sum}");
    let apart = (logits[0] - logits[9]) - (logs[0] - logs[9]);
    assert!(apart.abs() < 1e-6, "{apart}");

    let text = run("logits", folder.path(), &["--prompt", "w3", "--top", "2"]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert_eq!(text.matches(" %").count(), 2, "{text}");
}

#[test]
fn routes_are_recorded_and_replayed() {
    let folder = model();
    let place = tempfile::tempdir().expect("a folder");
    let file = place.path().join("routes.safetensors");
    let file = file.to_str().expect("UTF-8");
    let prompt = ["--prompt", "w3 w14 w15", "--json"];
    let logits =
        |folder: &Path, more: &[&str]| run("logits", folder, &[&prompt[..], more].concat());
    let recorded = logits(folder.path(), &["--record-routes", file]);
    assert_eq!(recorded.status.code(), Some(0));
    let replayed = logits(folder.path(), &["--replay-routes", file]);
    assert_eq!(object(&replayed), object(&recorded));
    let longer = ["--prompt", "w3 w14 w15 w16", "--replay-routes", file];
    let longer = run("logits", folder.path(), &longer);
    assert_refused(&longer, "tokens of the routes: expected 4, got 3");
    let both = ["--record-routes", file, "--replay-routes", file];
    assert_refused(&logits(folder.path(), &both), "cannot be used with");
    let other = model_of("decoder_gpt_oss");
    let of_another = logits(other.path(), &["--replay-routes", file]);
    assert_refused(&of_another, "model of the routes");
    let missing = logits(folder.path(), &["--replay-routes", "nowhere.safetensors"]);
    assert_refused(&missing, "nowhere.safetensors");
    let dense = model_of("decoder_qwen3");
    let without = logits(dense.path(), &["--record-routes", file]);
    assert_refused(&without, "--record-routes: this qwen3 model has no experts");
}

/// The word w1 is a special token here, which the word w14 contains.
#[test]
fn special_tokens_in_a_text_are_text_on_request() {
    let folder = model();
    let path = folder.path().join("tokenizer.json");
    let tokenizer = fs::read(&path).expect("written before");
    let mut tokenizer: Value = serde_json::from_slice(&tokenizer).expect("JSON");
    tokenizer["added_tokens"] = serde_json::json!([{
        "id": 1, "content": "w1", "special": true, "normalized": false,
        "single_word": false, "lstrip": false, "rstrip": false,
    }]);
    fs::write(path, tokenizer.to_string()).expect("written");
    let config = r#"{"chat_template": "w1 {{ messages[0].content }}"}"#;
    fs::write(folder.path().join("tokenizer_config.json"), config).expect("written");
    let ids = |more: &[&str]| {
        let more = [&["--prompt", "w14 w3", "--top", "1", "--json"], more].concat();
        let found = object(&run("logits", folder.path(), &more));
        let ids = found["prompt_ids"].as_array().expect("a list").iter();
        ids.filter_map(Value::as_u64).collect::<Vec<u64>>()
    };
    // What is left of w14 is no word.
    assert_eq!(ids(&[]), [1, 0, 3]);
    assert_eq!(ids(&["--no-special"]), [14, 3]);
    assert_eq!(ids(&["--chat"]), [1, 1, 0, 3]);
    assert_eq!(ids(&["--chat", "--no-special"]), [1, 14, 3]);
    let prompt = ["--prompt", "w14 w3", "--max-tokens", "1", "--json"];
    let generated = [&prompt[..], &["--no-special"]].concat();
    let generated = object(&generate(folder.path(), &generated));
    assert_eq!(generated["prompt_tokens"], 2);

    let text = folder.path().join("text");
    fs::write(&text, "w14 w3 w5").expect("written");
    let text = text.display().to_string();
    let tokens = |more: &[&str]| {
        let more = [&["--text", text.as_str(), "--json"], more].concat();
        object(&run("perplexity", folder.path(), &more))["tokens"].clone()
    };
    // The first token is only seen.
    assert_eq!(tokens(&[]), 3);
    assert_eq!(tokens(&["--no-special"]), 2);
}

/// Checks the number of tokens per expert in each layer; `computed` tokens went through the model.
fn assert_counted(found: &Value, computed: u64) {
    let layers = found["experts"].as_array().expect("a list");
    assert_eq!(layers.len(), 3, "{found}");
    for (number, layer) in layers.iter().enumerate() {
        assert_eq!(layer["layer"], number);
        let tokens = layer["tokens"].as_array().expect("a list");
        assert_eq!(tokens.len(), 8, "{layer}");
        let sum: u64 = tokens.iter().filter_map(Value::as_u64).sum();
        // Each token goes to three experts.
        assert_eq!(sum, 3 * computed, "{layer}");
    }
}

#[test]
fn tokens_of_experts_are_counted_where_that_is_asked() {
    let folder = model();
    let more = ["--prompt", "w3 w14 w15", "--max-tokens", "6"];
    let with = |last: &'static str| [&more[..], &["--experts", last]].concat();
    let plain = object(&generate(folder.path(), &[&more[..], &["--json"]].concat()));
    assert_eq!(plain["experts"], Value::Null);
    let found = object(&generate(folder.path(), &with("--json")));
    assert_eq!(found["ids"], plain["ids"]);
    // The last generated token doesn't go through the model.
    assert_counted(&found, 3 + 5);
    let text = generate(folder.path(), &with("--seed=0"));
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("tokens of each expert"), "{text}");
    assert_eq!(text.matches("0–7").count(), 3, "{text}");

    let path = folder.path().join("text");
    fs::write(&path, "w1 w2 w3 w4 w5 w6 w7 w8").expect("written");
    let path = path.display().to_string();
    let windows = ["--text", &path, "--context", "4", "--stride", "2", "--json"];
    let found = |more: &[&str]| {
        object(&run(
            "perplexity",
            folder.path(),
            &[&windows[..], more].concat(),
        ))
    };
    let (plain, counted) = (found(&[]), found(&["--experts"]));
    assert_eq!(plain["experts"], Value::Null);
    assert_eq!(plain["perplexity"], counted["perplexity"]);
    // Of each of three windows with four tokens, three go through the model.
    assert_counted(&counted, 9);

    let dense = model_of("decoder_qwen3");
    let output = generate(dense.path(), &["--prompt", "w1", "--experts"]);
    assert_refused(&output, "qwen3 model has no experts");
}

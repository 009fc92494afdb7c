//! Tests of `moebius chat` as a program, with a tiny decoder of transformers whose chat template writes only the
//! messages.
#![cfg(feature = "flex")]
#![allow(
    clippy::expect_used,
    reason = "a test that cannot set itself up has failed"
)]

mod published;

use std::fs;
use std::io::{Read, Write};
use std::process::{Child, Command, Output, Stdio};

use published::model;
use serde_json::{Value, json};
use tempfile::TempDir;

const TEMPLATE: &str = "{% for message in messages %}{% if message['role'] == 'system' and message['content'] == 'w9' %}\
    {{ raise_exception('w9 is refused') }}{% endif %}{{ message['content'] }} {% endfor %}";

fn talkative() -> TempDir {
    let folder = model();
    let path = folder.path().join("tokenizer_config.json");
    let config = json!({ "chat_template": TEMPLATE });
    fs::write(path, config.to_string()).expect("written");
    folder
}

fn start(folder: &TempDir, more: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_moebius"));
    command.args(["chat", "--device", "flex", "--model"]);
    command.arg(folder.path()).args(more);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command.stderr(Stdio::piped());
    command.spawn().expect("the binary starts")
}

fn chat(folder: &TempDir, more: &[&str], lines: &str) -> Output {
    let mut child = start(folder, more);
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(lines.as_bytes()).expect("it reads");
    drop(input);
    child.wait_with_output().expect("it ends")
}

/// The JSON objects that a conversation over `lines` prints; the command must succeed.
fn objects(folder: &TempDir, more: &[&str], lines: &str) -> Vec<Value> {
    let output = chat(folder, &[more, &["--json"]].concat(), lines);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{text}");
    let objects = text.lines().map(serde_json::from_str);
    objects.map(|object| object.expect("JSON")).collect()
}

const SHORT: [&str; 2] = ["--max-tokens", "4"];

#[test]
fn a_conversation_is_what_was_said_so_far() {
    let folder = talkative();
    let said = objects(&folder, &SHORT, "w3 w14 w15\n\nw2\n");
    assert_eq!(said.len(), 2);
    assert_eq!(said[0]["prompt_tokens"], 3);
    // The second prompt: three tokens of the first message, four of the answer, and one of the second message.
    assert_eq!(said[1]["prompt_tokens"], 8);
    assert_eq!(said[1]["finish"], "length");
    let first = said[0]["text"].as_str().expect("text");
    // The same conversation in a single message gets the same answer.
    let whole = objects(&folder, &SHORT, &format!("w3 w14 w15 {first} w2\n"));
    assert_eq!(whole[0]["ids"], said[1]["ids"]);
}

/// The word w1 is a special token here, which the word w14 contains.
#[test]
fn special_tokens_in_messages_are_text_on_request() {
    let folder = talkative();
    let config = json!({ "chat_template": TEMPLATE, "extra_special_tokens": ["w1"] });
    let path = folder.path().join("tokenizer_config.json");
    fs::write(path, config.to_string()).expect("written");
    let prompt = |more: &[&str]| {
        let said = objects(&folder, &[&SHORT[..], more].concat(), "w14 w3\n");
        said[0]["prompt_tokens"].clone()
    };
    assert_eq!(prompt(&[]), 3);
    assert_eq!(prompt(&["--no-special"]), 2);
}

#[test]
fn commands_change_what_was_said() {
    let folder = talkative();
    let said = objects(&folder, &SHORT, "w3\n/retry\n/undo\nw4\n/clear\nw3\n");
    let tokens: Vec<_> = said.iter().map(|turn| &turn["prompt_tokens"]).collect();
    assert_eq!(tokens, [1, 1, 1, 1]);
    assert_eq!(said[0]["ids"], said[1]["ids"]);
    assert_eq!(said[0]["ids"], said[3]["ids"]);
    assert_ne!(said[0]["ids"], said[2]["ids"]);
    let told = objects(&folder, &SHORT, "w3\n/system w7\nw3\n/quit\nw3\n");
    assert_eq!(told.len(), 2);
    assert_eq!(told[1]["prompt_tokens"], 2);
    let option = [&SHORT[..], &["--system", "w7"]].concat();
    assert_eq!(objects(&folder, &option, "w3\n")[0]["ids"], told[1]["ids"]);

    let output = chat(&folder, &[], "/help\n/nothing\n/undo\n");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("/retry  "), "{text}");
    let notes = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(notes.contains("/nothing is no command"), "{notes}");
    assert!(notes.contains("no message yet"), "{notes}");
}

#[test]
fn a_message_that_has_no_answer_is_said_and_forgotten() {
    let folder = talkative();
    let more = [&SHORT[..], &["--context", "8"]].concat();
    let lines = "w1 w2 w3 w4 w5 w6 w7 w8\n/system w9\nw1\n/system\nw1 w2 w3 w4 w5 w6\n";
    let said = objects(&folder, &more, lines);
    assert_eq!(said.len(), 3);
    let error = |turn: &Value| turn["error"].as_str().unwrap_or_default().to_owned();
    assert!(error(&said[0]).contains("no room"), "{}", said[0]);
    assert!(error(&said[1]).contains("w9 is refused"), "{}", said[1]);
    // The answer has as many tokens as the context leaves room for.
    let ids = said[2]["ids"].as_array().expect("a list");
    assert_eq!(ids.len(), 2, "{}", said[2]);
    fs::remove_file(folder.path().join("tokenizer_config.json")).expect("removed");
    let output = chat(&folder, &[], "w1\n");
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("template"), "{error}");
}

#[test]
fn a_text_ends_answers() {
    let folder = talkative();
    let whole = objects(&folder, &SHORT, "w3 w14 w15\n");
    let words = whole[0]["text"].as_str().expect("text").to_owned();
    let words: Vec<&str> = words.split(' ').collect();
    assert_eq!(words.len(), 4);
    let stops = [&SHORT[..], &["--stop", "no such", "--stop", words[2]]].concat();
    let said = objects(&folder, &stops, "w3 w14 w15\nw2\n");
    assert_eq!(said[0]["finish"], "stop");
    let text = said[0]["text"].as_str().expect("text");
    assert!(!text.contains(words[2]), "{text}");
    assert!(text.starts_with(words[0]), "{text}");
    // The conversation keeps the answer as shown, cut at the stop text: the second prompt is three tokens, the shown
    // words, and one more token.
    let kept = 3 + text.split_whitespace().count() + 1;
    assert_eq!(said[1]["prompt_tokens"], kept);

    let empty = chat(&folder, &["--stop", ""], "w3\n");
    assert_eq!(empty.status.code(), Some(2));
}

#[test]
fn tokens_of_experts_are_counted_over_a_conversation() {
    let folder = talkative();
    let said = objects(&folder, &[&SHORT[..], &["--experts"]].concat(), "w3\nw2\n");
    assert_eq!(said.len(), 3);
    let layers = said[2]["experts"].as_array().expect("a list");
    assert_eq!(layers.len(), 3);
    for layer in layers {
        let tokens = layer["tokens"].as_array().expect("a list");
        let sum: u64 = tokens.iter().filter_map(Value::as_u64).sum();
        // First turn: one token of the prompt and three of the answer's four. Second turn: six tokens of the prompt,
        // none of which were kept in a full page, and three of the answer.
        assert_eq!(sum, 3 * (4 + 9), "{layer}");
    }
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_an_answer_and_then_the_program() {
    let folder = talkative();
    let long = ["--context", "100000", "--max-tokens", "90000"];
    let mut child = start(&folder, &long);
    let mut input = child.stdin.take().expect("a pipe");
    let mut output = child.stdout.take().expect("a pipe");
    let mut until = |end: &str| {
        let mut text = Vec::new();
        while !text.ends_with(end.as_bytes()) {
            let mut byte = [0];
            let read = output.read(&mut byte).expect("a pipe");
            assert_eq!(read, 1, "{}", String::from_utf8_lossy(&text));
            text.push(byte[0]);
        }
    };
    let interrupt = || {
        // `kill` is built into the shell; a bare system has no program of that name.
        let kill = format!("kill -INT {}", child.id());
        let sent = Command::new("sh").args(["-c", &kill]).status();
        assert!(sent.expect("a shell starts").success());
    };
    for _ in 0..2 {
        input.write_all(b"w3 w14\n").expect("it reads");
        until(" w");
        interrupt();
        until("interrupted");
    }
    // The program is waiting for a message when the last signal comes.
    until("tokens\n");
    interrupt();
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
}

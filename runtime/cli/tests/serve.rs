//! Tests of `moebius serve` as a program: it tells its address, answers, and ends with the documented status.
#![cfg(all(feature = "flex", unix))]
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot set itself up has failed"
)]

mod published;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use published::model;
use serde_json::{Value, json};

/// A server that is killed when it is dropped.
struct Served {
    child: Child,
    address: String,
}

impl Served {
    fn start(model: &Path, more: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_moebius"));
        command.args([
            "serve",
            "--json",
            "--device",
            "flex",
            "--address",
            "127.0.0.1:0",
        ]);
        command
            .args(["--served-name", "tiny", "--model"])
            .arg(model);
        command.args(more).env_remove("MOEBIUS_API_KEYS");
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary starts");
        let output = child.stdout.take().expect("its output");
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).expect("a line");
        let told: Value = serde_json::from_str(&line).expect("an object");
        let address = told["address"].as_str().expect("an address").to_owned();
        let served = Self { child, address };
        for _ in 0..500 {
            if served.get("/health/ready", None).0 == 200 {
                return served;
            }
            sleep(Duration::from_millis(20));
        }
        panic!("the server is not ready");
    }

    fn get(&self, path: &str, key: Option<&str>) -> (u16, String) {
        let agent = ureq::Agent::new_with_config(
            ureq::Agent::config_builder()
                .http_status_as_error(false)
                .build(),
        );
        let mut request = agent.get(format!("http://{}{path}", self.address));
        if let Some(key) = key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        let mut reply = request.call().expect("a response");
        let text = reply.body_mut().read_to_string().expect("a text");
        (reply.status().as_u16(), text)
    }

    fn signal(&self, name: &str) {
        let status = Command::new("kill")
            .args([format!("-{name}"), self.child.id().to_string()])
            .status();
        assert!(status.expect("kill runs").success());
    }

    fn status(mut self) -> Option<i32> {
        self.child.wait().expect("it ends").code()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // A server that has ended can't be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_server_answers_until_it_is_told_to_stop() {
    let folder = model();
    let file = folder.path().join("trace.json");
    let trace = file.to_str().expect("a path");
    let served = Served::start(folder.path(), &["--context", "64", "--trace", trace]);
    let (status, models) = served.get("/v1/models", None);
    let models: Value = serde_json::from_str(&models).expect("JSON");
    assert_eq!((status, &models["data"][0]["id"]), (200, &json!("tiny")));
    assert_eq!(models["data"][0]["max_model_len"], 64);
    let request =
        json!({"model": "tiny", "prompt": "w3 w14 w15", "max_tokens": 6, "temperature": 0});
    let url = format!("http://{}/v1/completions", served.address);
    let reply = ureq::post(url)
        .header("content-type", "application/json")
        .send(request.to_string().as_bytes());
    let text = reply.expect("a response").body_mut().read_to_string();
    let reply: Value = serde_json::from_str(&text.expect("a text")).expect("JSON");
    assert_eq!(reply["usage"]["completion_tokens"], 6, "{reply}");
    served.signal("TERM");
    assert_eq!(served.status(), Some(0));
    let trace = std::fs::read_to_string(&file).expect("a trace");
    let events: Vec<Value> = serde_json::from_str(&trace).expect("a list");
    // The engine warms up by some steps of its own.
    let steps = events.iter().filter(|event| event["cat"] == "step");
    assert!(steps.count() > 6, "{trace}");
}

#[test]
fn keys_are_read_again() {
    let folder = model();
    let file = folder.path().join("keys");
    std::fs::write(&file, "sk-0123456789abcdef\n").expect("written");
    let path = file.to_str().expect("a path");
    let served = Served::start(folder.path(), &["--keys", path]);
    let status = |key| served.get("/v1/models", Some(key)).0;
    assert_eq!(status("sk-0123456789abcdef"), 200);
    assert_eq!(served.get("/v1/models", None).0, 401);
    std::fs::write(&file, "sk-bbbbbbbbbbbbbbbb\n").expect("written");
    served.signal("HUP");
    let mut tries = 0;
    while status("sk-bbbbbbbbbbbbbbbb") != 200 {
        tries += 1;
        assert!(tries < 500, "the new keys are not taken");
        sleep(Duration::from_millis(10));
    }
    assert_eq!(status("sk-0123456789abcdef"), 401);
    served.signal("INT");
    assert_eq!(served.status(), Some(0));
}

#[test]
fn what_can_not_be_served_ends_with_an_error() {
    let folder = model();
    let run = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_moebius"));
        command.args(["serve", "--device", "flex", "--model"]);
        command.arg(folder.path()).args(more);
        let output = command.env_remove("MOEBIUS_API_KEYS").output();
        let output = output.expect("the binary starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), said)
    };
    let (status, said) = run(&["--address", "0.0.0.0:0"]);
    assert_eq!(status, Some(2));
    assert!(said.contains("--insecure"), "{said}");
    let (status, said) = run(&["--keys", "nowhere"]);
    assert_eq!(status, Some(2));
    assert!(said.contains("nowhere"), "{said}");
    let (status, said) = run(&["--otlp-endpoint", "nowhere"]);
    assert_eq!(status, Some(2));
    assert!(said.contains("OTLP: expected"), "{said}");
}

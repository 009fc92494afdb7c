//! Tests of the table of settings, settings.toml: what a flag is said to change differs when the flag is set. That the table has every flag is
//! tested in src/config/tests.rs, which knows them.
#![cfg(all(feature = "flex", target_os = "linux"))]
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot set itself up has failed"
)]

mod published;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::iter;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use published::{model, model_of};
use serde::Deserialize;
use serde_json::{Value, json};
use tempfile::TempDir;

/// The longest time of a program.
const LONGEST: Duration = Duration::from_secs(120);

/// What the programs read, and what `{prompt}` is.
const WORDS: &str = "w3 w14 w15 w3 w14";

/// Sources by their paths in the tree.
macro_rules! sources {
    ($($path:literal)*) => {
        [$(($path, include_str!(concat!("../../../", $path)))),*]
    };
}

/// The sources of the tests that the table names. They are part of this program, so that `scripts/test` runs it again when one of them changes.
const SOURCES: [(&str, &str); 14] = sources![
    "runtime/cli/src/args/serve.rs"
    "runtime/cli/tests/chat.rs"
    "runtime/cli/tests/cli.rs"
    "runtime/cli/tests/config.rs"
    "runtime/cli/tests/doctor.rs"
    "runtime/cli/tests/fetch.rs"
    "runtime/cli/tests/optimize.rs"
    "runtime/cli/tests/package.rs"
    "runtime/cli/tests/serve.rs"
    "runtime/cli/tests/speculation.rs"
    "runtime/cli/tests/train_published.rs"
    "runtime/cli/tests/validate.rs"
    "runtime/serve/tests/api.rs"
    "runtime/serve/tests/faults.rs"
];

/// The table.
#[derive(Deserialize)]
struct Settings {
    lines: BTreeMap<String, String>,
    #[serde(flatten)]
    commands: BTreeMap<String, BTreeMap<String, Entry>>,
}

/// What a flag changes, and either the tests that show it or the line that does, with one place to look at.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    shows: String,
    #[serde(default)]
    test: Vec<String>,
    run: Option<String>,
    without: Option<String>,
    with: Option<String>,
    line: Option<String>,
    field: Option<String>,
    file: Option<String>,
    told: Option<String>,
}

impl Entry {
    /// Whether the entry has the parts of one of its two forms, and no others, and its line sets the flag.
    fn is_whole(&self, flag: &str) -> bool {
        let places = [&self.line, &self.field, &self.file, &self.told];
        let places = places.iter().filter(|place| place.is_some()).count();
        let sets = |with: &String| mentions(with, &format!("--{flag}"));
        let runs = self.run.is_some() && self.with.as_ref().is_some_and(sets) && places == 1;
        let lines = [&self.run, &self.without, &self.with];
        let none = places == 0 && lines.iter().all(|line| line.is_none());
        let is_one_form = if self.test.is_empty() { runs } else { none };
        is_one_form && !self.shows.is_empty()
    }

    /// The program's line with the flag, or without it.
    fn line(&self, with: bool, lines: &BTreeMap<String, String>) -> Line {
        let end = if with { &self.with } else { &self.without };
        let parts = [&self.run, end].into_iter().flatten();
        let words = parts.flat_map(|part| part.split_whitespace());
        let words = words.flat_map(|word| match word.strip_prefix('$') {
            Some(name) => lines.get(name).expect(name).split_whitespace(),
            None => word.split_whitespace(),
        });
        // Lines with the same flags are the same program, whatever the order.
        let mut flags: Vec<Vec<String>> = vec![Vec::new()];
        for word in words {
            if word.starts_with("--") {
                flags.push(Vec::new());
            }
            flags.last_mut().expect("one").push(word.to_owned());
        }
        flags[1..].sort();
        Line {
            words: flags.concat(),
            serves: self.told.is_some(),
        }
    }
}

/// A command line, whose words may have names of files in braces.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Line {
    words: Vec<String>,
    /// Whether the program is a server, which is asked something.
    serves: bool,
}

#[test]
fn each_setting_changes_what_the_table_says() {
    let text = fs::read_to_string(root().join("runtime/cli/tests/settings.toml"));
    let settings: Settings = toml::from_str(&text.expect("the table")).expect("TOML");
    let flags = settings.commands.iter().flat_map(|(command, flags)| {
        let flags = flags.iter();
        flags.map(move |(flag, entry)| (command, flag, entry))
    });
    let flags: Vec<_> = flags.collect();
    // What the program does without the flag must be the same each time.
    let mut times = BTreeMap::<Line, usize>::new();
    for (_, _, entry) in flags.iter().filter(|(_, _, entry)| entry.run.is_some()) {
        times.insert(entry.line(false, &settings.lines), 2);
        times.entry(entry.line(true, &settings.lines)).or_insert(1);
    }
    let ran = run_all(&times, &Fixtures::new());
    let mut wrong = Vec::new();
    for (command, flag, entry) in flags {
        let problem = if !entry.is_whole(flag) {
            Some("expected tests, or a line that sets it with one place to look at".to_owned())
        } else if entry.run.is_some() {
            let [without, with] = [false, true].map(|with| entry.line(with, &settings.lines));
            same_or_unsteady(entry, &ran[&without], &ran[&with][0])
        } else {
            let untrue = |test: &&String| !tests(test, flag);
            let test = entry.test.iter().find(untrue);
            test.map(|test| format!("no test that uses it: {test}"))
        };
        wrong.extend(problem.map(|problem| format!("{command} --{flag}: {problem}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What is wrong where a flag changes nothing, or nothing can be said because the program without it is never the same.
fn same_or_unsteady(entry: &Entry, without: &[Ran], with: &Ran) -> Option<String> {
    let [one, other, changed] = [&without[0], &without[1], with].map(|ran| ran.seen(entry));
    if one == changed {
        return Some(format!("the same with it and without: {}", shown(&one)));
    }
    if changed.is_empty() && entry.line.is_none() {
        // An error that has nothing to do with the flag would be a change, too.
        let wrote = shown(with.text.as_bytes());
        return Some(format!("with it there is nothing to look at: {wrote}"));
    }
    let [one_shown, other_shown] = [&one, &other].map(|seen| shown(seen));
    let unsteady = format!("without it {one_shown} and another time {other_shown}");
    (one != other).then_some(unsteady)
}

/// The beginning of what was seen.
fn shown(seen: &[u8]) -> String {
    let text = String::from_utf8_lossy(seen);
    let text: String = text.chars().take(400).collect();
    format!("{text:?}")
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Whether there is a test of this path and name that uses the flag, or, of the server's library, what the flag sets.
fn tests(test: &str, flag: &str) -> bool {
    let (path, name) = test.split_once("::").expect("a file and a function");
    let source = SOURCES.iter().find(|(known, _)| *known == path);
    let (_, source) = source.unwrap_or_else(|| panic!("{path} is not in SOURCES"));
    let items = items(source);
    let marks = ["#[test]", "#[tokio::test"];
    let is_test = |text: &String| marks.iter().any(|mark| text.contains(mark));
    if !items.get(name).is_some_and(is_test) {
        return false;
    }
    // The test, and all that it uses of its file.
    let (mut left, mut seen, mut text) = (vec![name], BTreeSet::from([name]), String::new());
    while let Some(item) = left.pop().and_then(|name| items.get(name)) {
        text.push_str(item);
        let used = items.keys().filter(|name| mentions(item, name));
        left.extend(used.filter(|name| seen.insert(**name)));
    }
    let is_set = path.starts_with("runtime/serve/");
    mentions(&text, &format!("--{flag}")) || is_set && mentions(&text, &flag.replace('-', "_"))
}

/// Whether a text has a word, and not as a part of a longer one.
fn mentions(text: &str, word: &str) -> bool {
    let longer = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + word.len()..]);
        !before.ends_with(longer) && !after.starts_with(|c: char| longer(c) || c == '-')
    })
}

/// The functions and constants of a source by name, functions with their attributes.
fn items(source: &str) -> BTreeMap<&str, String> {
    let lines: Vec<&str> = source.lines().collect();
    let mut found = BTreeMap::<&str, String>::new();
    for (at, line) in lines.iter().enumerate() {
        let item = line.trim_start();
        let indent = &line[..line.len() - item.len()];
        let item = item.strip_prefix("pub(crate) ").unwrap_or(item);
        let item = item.strip_prefix("async ").unwrap_or(item);
        let function = item.strip_prefix("fn ");
        let Some(named) = function.or_else(|| item.strip_prefix("const ")) else {
            continue;
        };
        let is_end = |line: &&str| match function {
            Some(_) => line.strip_prefix(indent) == Some("}"),
            None => line.ends_with(';'),
        };
        let end = lines[at..].iter().position(is_end);
        let attributes = lines[..at].iter().rev();
        let attributes = attributes.take_while(|line| line.trim_start().starts_with("#["));
        let begin = at - attributes.count();
        let text = lines[begin..=at + end.unwrap_or_default()].join("\n");
        let ends = |c: char| !c.is_alphanumeric() && c != '_';
        let name = named.split(ends).next().unwrap_or_default();
        found.entry(name).or_default().push_str(&text);
    }
    found
}

/// What a program did.
struct Ran {
    /// What it wrote, or what a server told.
    text: String,
    started: Started,
}

impl Ran {
    /// What an entry says to look at: nothing where it isn't there.
    fn seen(&self, entry: &Entry) -> Vec<u8> {
        if let Some(file) = &entry.file {
            return fs::read(self.started.at("here").join(file)).unwrap_or_default();
        }
        if let Some(field) = &entry.field {
            let objects = self.text.lines().rev();
            let objects = objects.filter_map(|line| serde_json::from_str::<Value>(line).ok());
            let mut values = objects.filter_map(|object| object.pointer(field).cloned());
            return values
                .next()
                .map_or_else(Vec::new, |value| value.to_string().into_bytes());
        }
        let part = entry.line.as_ref().or(entry.told.as_ref());
        let part = part.expect("a whole entry");
        let lines = self
            .text
            .lines()
            .filter(|line| line.contains(part.as_str()));
        lines.collect::<Vec<_>>().join("\n").into_bytes()
    }
}

/// Runs all lines as often as is said, as many at a time as there are processors.
fn run_all<'a>(
    times: &'a BTreeMap<Line, usize>,
    fixtures: &Fixtures,
) -> BTreeMap<&'a Line, Vec<Ran>> {
    let jobs = times.iter();
    let jobs = jobs.flat_map(|(line, times)| iter::repeat_n(line, *times));
    let (jobs, next) = (jobs.collect::<Vec<_>>(), AtomicUsize::new(0));
    let work = || {
        let job = || jobs.get(next.fetch_add(1, Ordering::Relaxed));
        let done = iter::from_fn(job).map(|line| (*line, line.run(fixtures)));
        done.collect::<Vec<_>>()
    };
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let done = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let done = threads
            .into_iter()
            .flat_map(|of| of.join().expect("all ran"));
        done.collect::<Vec<_>>()
    });
    let mut ran = BTreeMap::<&Line, Vec<Ran>>::new();
    for (line, of) in done {
        ran.entry(line).or_default().push(of);
    }
    ran
}

impl Line {
    fn run(&self, fixtures: &Fixtures) -> Ran {
        let words = self.words.iter().map(|word| fixtures.placed(word));
        let words: Vec<String> = words.collect();
        let mut started = Started::new(&words);
        let text = if self.serves {
            started.asked()
        } else {
            started.ended();
            [started.wrote("stdout"), started.wrote("stderr")].join("\n")
        };
        // The folder has another name each time.
        let here = started.at("here").display().to_string();
        let text = text.replace(&here, ".");
        Ran { text, started }
    }
}

/// A program in a folder of its own, which is ended when it is dropped.
struct Started {
    words: Vec<String>,
    child: Child,
    folder: TempDir,
    until: Instant,
}

impl Started {
    /// Starts the program without settings of anybody and without other programs.
    fn new(words: &[String]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        for name in ["here", "settings", "programs"] {
            fs::create_dir(at(name)).expect("made");
        }
        fs::write(at("stdin"), format!("{WORDS}\n")).expect("written");
        let output = |name: &str| File::create(at(name)).expect("made");
        let mut command = Command::new(env!("CARGO_BIN_EXE_moebius"));
        command.args(words).current_dir(at("here"));
        for name in ["MOEBIUS_CONFIG", "MOEBIUS_PRESET", "MOEBIUS_API_KEYS"] {
            command.env_remove(name);
        }
        command.env("XDG_CONFIG_HOME", at("settings"));
        command.env("PATH", at("programs"));
        command.stdin(File::open(at("stdin")).expect("written"));
        command.stdout(output("stdout")).stderr(output("stderr"));
        Self {
            words: words.to_vec(),
            child: command.spawn().expect("the binary starts"),
            folder,
            until: Instant::now() + LONGEST,
        }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// What the program has written so far.
    fn wrote(&self, stream: &str) -> String {
        let bytes = fs::read(self.at(stream)).expect("written");
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Waits until `found` finds something.
    fn wait<T>(&mut self, mut found: impl FnMut(&mut Self) -> Option<T>) -> T {
        loop {
            if let Some(found) = found(self) {
                return found;
            }
            assert!(Instant::now() < self.until, "too long: {:?}", self.words);
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn ended(&mut self) {
        self.wait(|program| program.child.try_wait().expect("a status"));
    }

    /// Asks a server for an answer and for its metrics, and ends it. Returns what it told.
    fn asked(&mut self) -> String {
        let address = self.wait(|server| {
            let ended = server.child.try_wait().expect("a status");
            assert!(ended.is_none(), "{}", server.wrote("stderr"));
            let wrote = server.wrote("stdout");
            let (line, _) = wrote.split_once('\n')?;
            let told: Value = serde_json::from_str(line).expect("an object");
            told["address"].as_str().map(str::to_owned)
        });
        let ready = |_: &mut Self| (get(&address, "/health/ready").0 == 200).then_some(());
        self.wait(ready);
        let prompt = [WORDS; 4].join(" ");
        let asked =
            json!({ "model": "tiny", "prompt": prompt, "max_tokens": 24, "temperature": 0 });
        let (_, answer) = post(&address, "/v1/completions", &asked);
        let answer: Value = serde_json::from_str(&answer).expect("an object");
        let messages = json!([{ "role": "user", "content": WORDS }]);
        let nested = json!({ "model": "tiny", "messages": messages, "max_tokens": 1 });
        let (nested, _) = post(&address, "/v1/chat/completions", &nested);
        // The last step may be counted after the answer.
        let mut before = String::new();
        let metrics = self.wait(|_| {
            thread::sleep(Duration::from_millis(50));
            let (_, now) = get(&address, "/metrics");
            let is_steady = now == before;
            before.clone_from(&now);
            is_steady.then_some(now)
        });
        self.child.kill().expect("it runs");
        self.ended();
        let (usage, log) = (&answer["usage"], self.wrote("stderr"));
        format!("usage: {usage}\nnested: {nested}\n{metrics}\n{log}")
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // A program that has ended can't be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn agent() -> ureq::Agent {
    let config = ureq::Agent::config_builder().http_status_as_error(false);
    ureq::Agent::new_with_config(config.build())
}

/// The status and the body of a response.
fn get(address: &str, path: &str) -> (u16, String) {
    let reply = agent().get(format!("http://{address}{path}")).call();
    let mut reply = reply.expect("a response");
    let text = reply.body_mut().read_to_string().expect("a text");
    (reply.status().as_u16(), text)
}

fn post(address: &str, path: &str, body: &Value) -> (u16, String) {
    let request = agent().post(format!("http://{address}{path}"));
    let request = request.header("content-type", "application/json");
    let reply = request.send(body.to_string().as_bytes());
    let mut reply = reply.expect("a response");
    let text = reply.body_mut().read_to_string().expect("a text");
    (reply.status().as_u16(), text)
}

/// What the names in braces stand for.
struct Fixtures {
    values: BTreeMap<&'static str, String>,
    /// Folders, which are removed in the end.
    _folders: Vec<TempDir>,
}

impl Fixtures {
    fn new() -> Self {
        let cases = root().join("tests/cases");
        let case = cases.join("route_masked.safetensors");
        let own = tempfile::tempdir().expect("a folder");
        let at = |name: &str| own.path().join(name);
        let mut values = BTreeMap::from([
            ("prompt", WORDS.to_owned()),
            ("missing", "nowhere/at/all".to_owned()),
            ("many", words(99, 1)),
        ]);
        fs::write(at("text"), words(200, 7)).expect("written");
        fs::create_dir(at("cases")).expect("made");
        fs::copy(&case, at("cases/route_masked.safetensors")).expect("copied");
        fs::write(at("unscaled.safetensors"), unscaled()).expect("written");
        for (name, workload) in workloads() {
            fs::write(at(name), baseline(workload).to_string()).expect("written");
            values.insert(name, at(name).display().to_string());
        }
        for (name, file) in [
            ("text", at("text")),
            ("cases", at("cases")),
            ("unscaled", at("unscaled.safetensors")),
            ("case", case),
        ] {
            values.insert(name, file.display().to_string());
        }
        let models = [
            ("model", model()),
            ("special", model()),
            ("dense", model_of("decoder_qwen3")),
            ("other", model_of("decoder_gpt_oss")),
            ("latent", model_of("decoder_deepseek_v3")),
        ];
        let mut folders = vec![own];
        for (name, folder) in models {
            talkative(folder.path(), name == "special");
            if name == "dense" {
                windowless(folder.path());
            }
            values.insert(name, folder.path().display().to_string());
            folders.push(folder);
        }
        Self {
            values,
            _folders: folders,
        }
    }

    /// A word with what its names stand for.
    fn placed(&self, word: &str) -> String {
        let values = self.values.iter();
        let placed = values.fold(word.to_owned(), |word, (name, value)| {
            word.replace(&format!("{{{name}}}"), value)
        });
        assert!(!placed.contains('{'), "{word}");
        placed
    }
}

/// So many words, `step` apart, of the first 99, which all models have.
fn words(number: usize, step: usize) -> String {
    let words = (0..number).map(|at| format!("w{}", at * step % 99));
    words.collect::<Vec<_>>().join(" ")
}

/// Gives a model a template of conversations, and, if wanted, a special token: the word w1, which the word w14 contains.
fn talkative(folder: &Path, special: bool) {
    let template = "w9 {% for message in messages %}{{ message['content'] }} {% endfor %}";
    let config = json!({ "chat_template": template });
    let path = folder.join("tokenizer_config.json");
    fs::write(path, config.to_string()).expect("written");
    if special {
        let path = folder.join("tokenizer.json");
        let tokenizer = fs::read(&path).expect("written before");
        let mut tokenizer: Value = serde_json::from_slice(&tokenizer).expect("JSON");
        tokenizer["added_tokens"] = json!([{
            "id": 1, "content": "w1", "special": true, "normalized": false,
            "single_word": false, "lstrip": false, "rstrip": false,
        }]);
        fs::write(path, tokenizer.to_string()).expect("written");
    }
}

/// Takes a model's windows of single layers away, which the family of its mixture lacks.
fn windowless(folder: &Path) {
    let path = folder.join("config.json");
    let config = fs::read(&path).expect("written before");
    let mut config: Value = serde_json::from_slice(&config).expect("JSON");
    config["use_sliding_window"] = Value::Bool(false);
    config["layer_types"] = Value::Null;
    fs::write(path, config.to_string()).expect("written");
}

/// A file of safetensors with weights in FP8 that have no scale.
fn unscaled() -> Vec<u8> {
    let header = json!({
        "layer.weight": { "dtype": "F8_E4M3", "shape": [16, 16], "data_offsets": [0, 256] },
    });
    let header = header.to_string();
    let length = (header.len() as u64).to_le_bytes();
    [&length[..], header.as_bytes(), &[0x38; 256]].concat()
}

/// The usual work of each benchmark.
fn workloads() -> [(&'static str, Value); 4] {
    let moe = json!({
        "name": "moe", "tokens": 4096, "hidden": 512, "inter": 2048, "experts": 8, "top_k": 2, "dtype": "f32", "gated": false,
    });
    let linear = json!({
        "name": "linear", "tokens": 1, "n": 4096, "k": 4096, "format": "e4m3", "granularity": "row", "dtype": "f32",
        "activations": "float",
    });
    let attention = json!({
        "name": "attention", "tokens": 2048, "keys": null, "batch": 1, "heads": 8, "kv_heads": 8, "head_dim": 64, "causal": false,
        "window": null, "backward": false, "dtype": "f32",
    });
    let decode = json!({
        "name": "decode", "tokens": 32768, "batch": 1, "heads": 32, "kv_heads": 8, "head_dim": 64, "paged": false,
    });
    [
        ("moe", moe),
        ("linear", linear),
        ("attention", attention),
        ("decode", decode),
    ]
}

/// The result of a benchmark elsewhere.
fn baseline(workload: Value) -> Value {
    json!({
        "median_ms": 1.0,
        "spread": { "q1_ms": 1.0, "q3_ms": 1.0 },
        "run": { "workload": workload, "device": "nowhere", "simd": null, "threads": 1, "adapter": "", "version": "" },
    })
}

//! A server in this process with a tiny decoder of transformers and a tokenizer of as many words, or one of letters, and a client for it.
#![allow(
    dead_code,
    reason = "each test program takes a part of what they have in common"
)]

mod client;
mod scripted;

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

pub(crate) use client::{Events, Reply, call, open};
use scripted::Scripted;

use moebius_engine::{
    Counts, Draw, Engine, EngineError, EngineOptions, Event, Generation, LayerTokens, Limits,
    Proposals, Queue, RequestId, StepSummary, Usage,
};
use moebius_model::load::{LoadOptions, ModelFiles};
use moebius_serve::{
    Access, Generator, LoadError, Loader, ServeError, ServeOptions, ServedText, Server,
};
use moebius_text::{ChatTemplate, Tokenizer};
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Name of the model.
pub(crate) const MODEL: &str = "tiny/olmoe";

/// Tokens of a request, prompt and answer.
pub(crate) const CONTEXT: usize = 128;

/// Answers at the same time.
pub(crate) const RUNNING: usize = 4;

/// Time that a step of an engine takes which will fail, so that requests come before.
const STEP: Duration = Duration::from_millis(20);

/// What the engine does beside its work.
#[derive(Clone, Copy)]
pub(crate) enum Fault {
    /// Nothing.
    None,
    /// Takes this long for each step.
    Slow(Duration),
    /// Panics in this step, counted from 1; the first is that of the start.
    Panics(usize),
    /// Loses its device in this step.
    Loses(usize),
}

/// An engine with a fault.
struct Faulty {
    engine: Engine,
    fault: Fault,
    steps: usize,
}

impl Generator for Faulty {
    fn add(&mut self, generation: Generation) -> Result<RequestId, EngineError> {
        self.engine.add(generation)
    }

    fn cancel(&mut self, id: RequestId) -> bool {
        self.engine.cancel(id)
    }

    fn is_idle(&self) -> bool {
        self.engine.is_idle()
    }

    fn step(&mut self) -> Result<Vec<(RequestId, Event)>, EngineError> {
        self.steps += 1;
        match self.fault {
            Fault::None => {}
            Fault::Slow(time) => std::thread::sleep(time),
            Fault::Panics(_) | Fault::Loses(_) => std::thread::sleep(STEP),
        }
        match self.fault {
            Fault::Panics(step) if step == self.steps => panic!("the test asked for a panic"),
            Fault::Loses(step) if step == self.steps => {
                return Err(EngineError::Device("lost".to_owned()));
            }
            _ => {}
        }
        self.engine.step()
    }

    fn last_logits(&mut self, tokens: &[u32]) -> Result<Vec<f32>, EngineError> {
        self.engine.last_logits(tokens)
    }

    fn last_step(&self) -> &StepSummary {
        self.engine.last_step()
    }

    fn queue(&self) -> Queue {
        self.engine.queue()
    }

    fn usage(&self) -> Usage {
        self.engine.usage()
    }

    fn counts(&self) -> Counts {
        self.engine.counts()
    }

    fn proposals(&self) -> Proposals {
        self.engine.proposals()
    }

    fn expert_load(&self) -> Result<Vec<LayerTokens>, EngineError> {
        self.engine.expert_load()
    }

    fn cache_bytes(&self) -> usize {
        self.engine.cache_bytes()
    }
}

/// The engine of a server, or one to compare it with.
pub(crate) fn engine() -> Engine {
    let device = moebius::open(&moebius::Device::Flex).unwrap();
    let case = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases/decoder_olmoe");
    let files = ModelFiles::open(&case).unwrap();
    let model = files.load(&device, LoadOptions::default(), &mut |_| ());
    let limits = Limits {
        longest: CONTEXT,
        ..Limits::new(64, 256, RUNNING)
    };
    Engine::new(model.unwrap(), EngineOptions::new(limits), &device).unwrap()
}

/// A tokenizer whose token n is the word `wn`.
pub(crate) fn tokenizer() -> Tokenizer {
    let words = (0..199).map(|id| (format!("w{id}"), json!(id)));
    let vocabulary: Map<String, Value> = words.collect();
    let tokenizer = json!({
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": { "type": "WhitespaceSplit" },
        "model": { "type": "WordLevel", "vocab": vocabulary, "unk_token": "w0" },
    });
    Tokenizer::from_bytes(tokenizer.to_string().as_bytes()).unwrap()
}

/// A tokenizer whose tokens are the characters of ASCII without the space, and those of these names, of which the first ends an answer.
/// Names in `<|` and `|>` or in brackets are those of special tokens; `Ġ` and `Ċ` are the space and the end of a line.
pub(crate) fn letters(names: &[&str]) -> Tokenizer {
    let letters = (b'!'..=b'~').map(|letter| char::from(letter).to_string());
    let named = names.iter().map(|name| (*name).to_owned());
    let words = letters.chain(named).zip(0..);
    let vocabulary: Map<String, Value> = words.map(|(word, id)| (word, json!(id))).collect();
    let marks = names.iter().filter(|name| name.starts_with(['<', '[']));
    let added = marks.map(|name| {
        json!({
            "id": vocabulary[*name], "content": name, "single_word": false, "lstrip": false,
            "rstrip": false, "normalized": false, "special": name.starts_with("<|") || name.starts_with('['),
        })
    });
    let added: Vec<Value> = added.collect();
    let bytes = json!({
        "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false,
    });
    let tokenizer = json!({
        "version": "1.0",
        "added_tokens": added,
        "pre_tokenizer": bytes,
        "decoder": bytes,
        "model": { "type": "BPE", "vocab": vocabulary, "merges": [] },
    });
    let tokenizer = Tokenizer::from_bytes(tokenizer.to_string().as_bytes()).unwrap();
    let end = tokenizer.id(names[0]).unwrap();
    tokenizer.with_ends(None, vec![end]).unwrap()
}

/// The text side of a model whose tokens are letters and those of these names.
fn spelled(names: &[&str], template: &str) -> ServedText {
    ServedText {
        tokenizer: letters(names),
        template: Some(ChatTemplate::new("test", template).unwrap()),
    }
}

/// Loads an engine with a fault.
fn loader(fault: Fault) -> Loader {
    Box::new(move || -> Result<Box<dyn Generator>, LoadError> {
        let mut engine = engine();
        assert!(engine.count_experts());
        Ok(Box::new(Faulty {
            engine,
            fault,
            steps: 0,
        }))
    })
}

/// All draws of an engine for a generation alone.
pub(crate) fn alone(generation: Generation) -> Vec<Draw> {
    let mut engine = engine();
    engine.add(generation).unwrap();
    let mut draws = Vec::new();
    while !engine.is_idle() {
        for (_, event) in engine.step().unwrap() {
            if let Event::Token(draw) = event {
                draws.push(draw);
            }
        }
    }
    draws
}

/// The text of ids.
pub(crate) fn words(ids: impl IntoIterator<Item = u32>) -> String {
    let words = ids.into_iter().map(|id| format!("w{id}"));
    words.collect::<Vec<_>>().join(" ")
}

/// A server that runs.
pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    ended: JoinHandle<Result<(), ServeError>>,
}

impl Served {
    /// A server with the documented limits on a sound engine.
    pub(crate) async fn start() -> Self {
        Self::with(options(), Access::local(0), Fault::None).await
    }

    /// A server that is ready.
    pub(crate) async fn with(options: ServeOptions, access: Access, fault: Fault) -> Self {
        let served = Self::begin(options, access, fault).await;
        served.until_ready().await;
        served
    }

    /// A server on a sound engine whose tokens are letters and those of these names, with a chat template, when it is ready.
    pub(crate) async fn spelling(names: &[&str], template: &str) -> Self {
        let text = spelled(names, template);
        let load = loader(Fault::None);
        let served = Self::begin_with(options(), Access::local(0), text, load).await;
        served.until_ready().await;
        served
    }

    /// A server like [`Served::spelling`], whose answers to all requests are these tokens.
    pub(crate) async fn scripted(names: &[&str], template: &str, script: &str) -> Self {
        let text = spelled(names, template);
        let ids = text.tokenizer.encode(script, false).unwrap();
        let load =
            move || -> Result<Box<dyn Generator>, LoadError> { Ok(Box::new(Scripted::new(ids))) };
        let served = Self::begin_with(options(), Access::local(0), text, Box::new(load));
        let served = served.await;
        served.until_ready().await;
        served
    }

    /// A server that listens.
    pub(crate) async fn begin(options: ServeOptions, access: Access, fault: Fault) -> Self {
        let template = "{% for message in messages %}{{ message.content }} {% endfor %}";
        let text = ServedText {
            tokenizer: tokenizer(),
            template: Some(ChatTemplate::new("test", template).unwrap()),
        };
        Self::begin_with(options, access, text, loader(fault)).await
    }

    async fn begin_with(
        options: ServeOptions,
        access: Access,
        text: ServedText,
        load: Loader,
    ) -> Self {
        let server = Server::start(options, access, text, load).await;
        let server = server.unwrap();
        let address = server.address();
        let (stop, stopped) = oneshot::channel::<()>();
        let ended = tokio::spawn(server.run(async {
            stopped.await.ok();
        }));
        Self {
            address,
            stop: Some(stop),
            ended,
        }
    }

    async fn until_ready(&self) {
        for _ in 0..1000 {
            if self.get("/health/ready").await.status == 200 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("the server is not ready");
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        call(self.address, "GET", path, &[], "").await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Reply {
        self.send(path, body.to_string()).await
    }

    /// Posts a body that may be no JSON.
    pub(crate) async fn send(&self, path: &str, body: impl Into<Vec<u8>>) -> Reply {
        let json = [("content-type", "application/json")];
        call(self.address, "POST", path, &json, body).await
    }

    /// Posts a request for a stream, and returns when its head is there.
    pub(crate) async fn stream(&self, path: &str, body: &Value) -> Events {
        open(self.address, path, &body.to_string()).await
    }

    /// The value of a metric; the sum, if there are several with the labels.
    pub(crate) async fn metric(&self, name: &str, label: &str) -> f64 {
        let text = self.get("/metrics").await.text();
        let lines = text.lines().filter(|line| {
            let rest = line.strip_prefix(name);
            rest.is_some_and(|rest| rest.starts_with('{')) && line.contains(label)
        });
        let values = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
        values.sum()
    }

    /// Waits until a metric has a value, as what a client did last may be counted a little later.
    pub(crate) async fn until(&self, name: &str, label: &str, value: f64) {
        for _ in 0..500 {
            if self.metric(name, label).await == value {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{name} is {}", self.metric(name, label).await);
    }

    /// Begins to stop the server.
    pub(crate) fn begin_stop(&mut self) {
        self.stop.take().unwrap().send(()).unwrap();
    }

    /// Waits for the server's end.
    pub(crate) async fn end(self) -> Result<(), ServeError> {
        self.ended.await.unwrap()
    }

    pub(crate) async fn stop(mut self) {
        self.begin_stop();
        self.end().await.unwrap();
    }
}

/// Options with the documented limits, but for the answers at the same time.
pub(crate) fn options() -> ServeOptions {
    let mut options = ServeOptions::new(MODEL, CONTEXT);
    options.limits.running = RUNNING;
    options
}

/// A request for a chat's answer of 12 tokens at most, with `more` fields.
pub(crate) fn chat(content: &str, more: &Value) -> Value {
    let message = json!({ "role": "user", "content": content });
    let request = json!({
        "model": MODEL,
        "messages": [message],
        "max_completion_tokens": 12,
        "temperature": 0,
    });
    merged(request, more)
}

/// A request for a continuation of 12 tokens at most, with `more` fields.
pub(crate) fn completion(prompt: &Value, more: &Value) -> Value {
    let request = json!({
        "model": MODEL,
        "prompt": prompt,
        "max_tokens": 12,
        "temperature": 0,
    });
    merged(request, more)
}

fn merged(mut request: Value, more: &Value) -> Value {
    for (name, value) in more.as_object().unwrap() {
        request[name] = value.clone();
    }
    request
}

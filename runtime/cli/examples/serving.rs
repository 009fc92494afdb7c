//! A server in the shape of OpenAI's interface: what a client gets depends on its seed, and not on who asks at the same time.

use std::error::Error;
use std::time::Duration;
use std::{fs, thread};

use burn::tensor::Device;
use moebius_engine::{Engine, EngineOptions, Limits};
use moebius_model::load::{LoadOptions, ModelFiles};
use moebius_serve::{Access, Generator, LoadError, ServeOptions, ServedText, Server};
use moebius_text::Tokenizer;
use serde_json::{Value, json};

const PROMPT: &str = "The whale";

/// Computes the figures, the fact that they show, and whether it holds.
pub(crate) fn run(device: &Device) -> Result<(String, String, bool), Box<dyn Error>> {
    // The model that the command brings along, in a folder as published models have.
    let folder = tempfile::tempdir()?;
    for (name, bytes) in moebius_shipped::FILES {
        fs::write(folder.path().join(name), bytes)?;
    }
    let text = ServedText {
        tokenizer: Tokenizer::from_folder(folder.path())?,
        template: None,
    };
    let (path, device) = (folder.path().to_owned(), device.clone());
    let load = move || -> Result<Box<dyn Generator>, LoadError> {
        let model = ModelFiles::open(&path)?.load(&device, LoadOptions::default(), &mut |_| ())?;
        // Sixteen pages of sixteen tokens for up to four requests at once.
        let options = EngineOptions::new(Limits::new(16, 256, 4));
        Ok(Box::new(Engine::new(model, options, &device)?))
    };
    let runtime = tokio::runtime::Runtime::new()?;
    let (options, access) = (ServeOptions::new("bundled", 256), Access::local(0));
    let server = runtime.block_on(Server::start(options, access, text, Box::new(load)))?;
    let url = format!("http://{}", server.address());
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let ended = runtime.spawn(server.run(async { drop(stopped.await) }));
    let config = ureq::Agent::config_builder().http_status_as_error(false);
    let agent: ureq::Agent = config.proxy(None).build().into();
    while agent.get(format!("{url}/health/ready")).call()?.status() == 503 {
        thread::sleep(Duration::from_millis(20)); // the model is being loaded
    }
    let ask = |seed: u64| -> Result<String, ureq::Error> {
        let request = json!({ "model": "bundled", "prompt": PROMPT, "seed": seed });
        let post = agent.post(format!("{url}/v1/completions"));
        let post = post.header("content-type", "application/json");
        post.send(request.to_string())?.body_mut().read_to_string()
    };
    let (alone, other) = (text_of(&ask(7)?)?, text_of(&ask(8)?)?);
    let beside = thread::scope(|scope| {
        for seed in [8, 9] {
            scope.spawn(move || ask(seed));
        }
        ask(7)
    });
    let beside = text_of(&beside?)?;
    drop(stop);
    runtime.block_on(ended)??;
    let holds = beside == alone && other != alone;
    let same = if holds { "the same" } else { "another" };
    let figures = format!("seed 7: {PROMPT}{alone}\nseed 8: {PROMPT}{other}");
    let fact = format!("seed 7 gets {same} answer beside two other requests");
    Ok((figures, fact, holds))
}

/// The answer in a reply.
fn text_of(reply: &str) -> Result<String, Box<dyn Error>> {
    let reply: Value = serde_json::from_str(reply)?;
    let text = reply["choices"][0]["text"].as_str().map(str::to_owned);
    Ok(text.ok_or_else(|| format!("no answer: {reply}"))?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let (figures, fact, holds) = run(&moebius::open(&moebius::Device::Auto)?)?;
    println!("{figures}\n{fact}");
    assert!(holds, "this doesn't hold");
    Ok(())
}

//! From a model's files to a server that is watched: packed with checksums and measured figures, verified, served, asked once, counted.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};
use std::{env, fs, iter, thread};

use burn::tensor::Device;
use moebius_engine::{Engine, EngineOptions, Event, Generation, Limits};
use moebius_model::Text;
use moebius_model::load::{LoadOptions, ModelFiles};
use moebius_serve::{Access, Generator, LoadError, ServeOptions, ServedText, Server};
use moebius_text::Tokenizer;
use moebius_weights::package::{
    self, Figures, Hardware, ModelFacts, Package, PackageFacts, PackageWriter, Software, Use,
};
use serde_json::{Value, json};

/// Tokens of the prompts of the two requests that are measured.
const ASKED: usize = 16;

/// Tokens of their answers.
const ANSWERED: usize = 8;

/// Tokens of the prompt whose first token is timed.
const LONG: usize = 64;

/// How many of these are new where the cache knows the others.
const NEW: usize = 8;

/// Computes the figures, the fact that they show, and whether it holds.
pub(crate) fn run(device: &Device) -> Result<(String, String, bool), Box<dyn Error>> {
    // The model that the command brings along, in a folder as published models have.
    let folder = tempfile::tempdir()?;
    let model = folder.path().join("model");
    fs::create_dir(&model)?;
    for (name, bytes) in moebius_shipped::FILES {
        fs::write(model.join(name), bytes)?;
    }
    let made = packed(&model, &folder.path().join("package"), device)?;

    // A file with another byte is told; as it was, the package is the one that was made.
    let config = made.folder.join("config.json");
    let whole = fs::read(&config)?;
    fs::write(&config, [&whole[..], b" "].concat())?;
    let changed = package::verify(&made.folder, None, &mut |_| ());
    fs::write(&config, whole)?;
    let package = package::verify(&made.folder, Some(&made.fingerprint), &mut |_| ())?;
    let told = changed.is_err_and(|error| error.is_fault());

    let Served {
        text,
        tokens,
        counted,
    } = served(&package.folder, device)?;
    let (manifest, measured) = (&package.manifest, &package.manifest.figures);
    let figures = format!(
        "{} files, {} KiB, on {}\ntokens/s: {:.0} one by one, {:.0} together\nfirst token: {:.1} ms, with a known beginning {:.1} ms\nserved: {text}",
        manifest.files.len(),
        manifest.bytes() >> 10,
        manifest.run.device,
        measured.alone_tokens_per_s,
        measured.together_tokens_per_s,
        measured.first_token_ms,
        measured.first_token_known_ms
    );
    let [requests, generated] = counted;
    let holds = told && tokens > 0 && requests == 1.0 && generated == tokens as f64;
    let is = if told { "is told" } else { "isn't told" };
    let fact = format!(
        "a changed file {is}, and the server counts {requests} answer and {generated} tokens of the {tokens} that its client got"
    );
    Ok((figures, fact, holds))
}

/// Packs the model in a folder, with what was measured of it on the device.
fn packed(model: &Path, to: &Path, device: &Device) -> Result<Package, Box<dyn Error>> {
    let name = name_of(device)?;
    let files = ModelFiles::open(model)?;
    let (spec, reader) = (files.spec(), files.reader().ok_or("expected safetensors")?);
    let mut writer = PackageWriter::begin(to)?;
    for (from, path) in package::of_safetensors(model, reader)? {
        writer.add(&from, &path, &mut |_| ())?;
    }
    let stored = reader.tensors().map(|(_, info)| info.dtype.to_string());
    let stored: BTreeSet<String> = stored.collect();
    let capability = moebius_device::probe(&name)?;
    let facts = PackageFacts {
        model: ModelFacts {
            name: "bundled".to_owned(),
            family: files.family().to_owned(),
            parameters: spec.parameters() as u64,
            active_parameters: spec.active_parameters() as u64,
            layers: spec.layers.len() as u64,
            vocabulary: spec.vocabulary as u64,
            context: spec.positions as u64,
            stored: stored.into_iter().collect(),
            weight_bytes: reader.file_bytes(),
        },
        run: Use {
            device: name.to_string(),
            dtype: "f32".to_owned(),
            weights: None,
        },
        hardware: Hardware {
            device_name: capability.name,
            architecture: capability.architecture,
            driver: capability.driver,
            memory_bytes: capability.memory.map(|memory| memory.total),
            processors: usize::from(thread::available_parallelism()?) as u64,
            system: format!("{} {}", env::consts::OS, env::consts::ARCH),
        },
        figures: measured(&files, model, device)?,
        software: Software {
            moebius: env!("CARGO_PKG_VERSION").to_owned(),
        },
    };
    Ok(writer.finish(facts)?)
}

/// The name of a device as the command's `--device` takes it.
fn name_of(device: &Device) -> Result<moebius::Device, Box<dyn Error>> {
    let runtimes = moebius::Device::RUNTIMES.into_iter();
    let runtimes = runtimes.filter(|name| !matches!(name, moebius::Device::Xla(..)));
    let found = iter::once_with(moebius_device::discover).flatten();
    let found = found.filter(|found| found.status.is_ok());
    // Flex is the cheapest to ask.
    let names = [moebius::Device::Flex].into_iter().chain(runtimes);
    let mut names = names.chain(found.map(|found| found.device));
    let named = names.find(|name| moebius::open(name).is_ok_and(|opened| opened == *device));
    let needs = "a device that `moebius devices` lists, and not XLA's";
    let refused = || moebius_shaders::Unsupported::new("a package", needs, format!("{device:?}"));
    Ok(named.ok_or_else(|| moebius::Error::from(refused()))?)
}

/// Seconds and tokens of some answers, in the order of their prompts.
type Answers = (f64, Vec<Vec<u32>>);

/// Loads a model, and measures it once.
fn measured(files: &ModelFiles, model: &Path, device: &Device) -> Result<Figures, Box<dyn Error>> {
    let text = String::from_utf8_lossy(Text::bundled().bytes()).into_owned();
    let ids = Tokenizer::from_folder(model)?.encode(&text, true)?;
    let begun = Instant::now();
    let loaded = files.load(device, LoadOptions::default(), &mut |_| ())?;
    let load_s = begun.elapsed().as_secs_f64();
    // Sixteen pages of sixteen tokens for up to two requests at once.
    let options = EngineOptions::new(Limits::new(16, 256, 2)).reserved();
    let mut engine = Engine::new(loaded, options, device)?;
    let [one, other] = [&ids[..ASKED], &ids[ASKED..2 * ASKED]];
    // Requests of another salt know nothing of earlier prompts.
    let first = answers(&mut engine, 0, &[one], ANSWERED)?;
    let second = answers(&mut engine, 0, &[other], ANSWERED)?;
    let both = answers(&mut engine, 1, &[one, other], ANSWERED)?;
    let cold = answers(&mut engine, 2, &[&ids[..LONG]], 1)?;
    answers(&mut engine, 3, &[&ids[..LONG - NEW]], 1)?;
    let known = answers(&mut engine, 3, &[&ids[..LONG]], 1)?;
    if [first.1, second.1].concat() != both.1 || cold.1 != known.1 {
        return Err("the tokens of a request depend on its company".into());
    }
    let tokens = (2 * ANSWERED) as f64;
    Ok(Figures {
        runs: 1,
        load_s,
        streams: 2,
        prompt_tokens: ASKED as u64,
        answer_tokens: ANSWERED as u64,
        alone_tokens_per_s: tokens / (first.0 + second.0),
        together_tokens_per_s: tokens / both.0,
        long_prompt_tokens: LONG as u64,
        first_token_ms: 1e3 * cold.0,
        first_token_known_ms: 1e3 * known.0,
    })
}

/// The likeliest tokens after some prompts, which are answered together.
fn answers(
    engine: &mut Engine,
    salt: u8,
    prompts: &[&[u32]],
    tokens: usize,
) -> Result<Answers, Box<dyn Error>> {
    let begun = Instant::now();
    let mut said = BTreeMap::new();
    for prompt in prompts {
        let mut request = Generation::new(prompt.to_vec(), tokens);
        request.salt = vec![salt];
        said.insert(engine.add(request)?, Vec::new());
    }
    while !engine.is_idle() {
        for (id, event) in engine.step()? {
            if let (Event::Token(draw), Some(said)) = (event, said.get_mut(&id)) {
                said.push(draw.id);
            }
        }
    }
    Ok((begun.elapsed().as_secs_f64(), said.into_values().collect()))
}

/// What a client got of a server, and what the server counts of it.
struct Served {
    text: String,
    tokens: u64,
    /// Answers, and their tokens.
    counted: [f64; 2],
}

/// Serves a package on a free port of this machine, asks once, and reads the metrics.
fn served(package: &Path, device: &Device) -> Result<Served, Box<dyn Error>> {
    let text = ServedText {
        tokenizer: Tokenizer::from_folder(package)?,
        template: None,
    };
    let (path, device) = (package.to_owned(), device.clone());
    let load = move || -> Result<Box<dyn Generator>, LoadError> {
        let model = ModelFiles::open(&path)?.load(&device, LoadOptions::default(), &mut |_| ())?;
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
    let request = json!({ "model": "bundled", "prompt": "The whale", "max_tokens": 12, "seed": 7 });
    let post = agent.post(format!("{url}/v1/completions"));
    let post = post.header("content-type", "application/json");
    let mut reply = post.send(request.to_string())?;
    let reply: Value = serde_json::from_str(&reply.body_mut().read_to_string()?)?;
    let mut metrics = agent.get(format!("{url}/metrics")).call()?;
    let metrics = metrics.body_mut().read_to_string()?;
    drop(stop);
    runtime.block_on(ended)??;
    let names = [
        "moebius_request_success_total",
        "moebius_generation_tokens_total",
    ];
    let wrong = || format!("expected an answer, got {reply}");
    Ok(Served {
        text: reply["choices"][0]["text"]
            .as_str()
            .ok_or_else(wrong)?
            .to_owned(),
        tokens: reply["usage"]["completion_tokens"]
            .as_u64()
            .ok_or_else(wrong)?,
        counted: names.map(|name| sum(&metrics, name)),
    })
}

/// The sum of a metric over all of its labels.
fn sum(metrics: &str, name: &str) -> f64 {
    let samples = metrics.lines().filter_map(|line| line.strip_prefix(name));
    let values = samples.filter_map(|rest| rest.rsplit(' ').next()?.parse::<f64>().ok());
    values.sum()
}

fn main() -> Result<(), Box<dyn Error>> {
    let (figures, fact, holds) = run(&moebius::open(&moebius::Device::Auto)?)?;
    println!("{figures}\n{fact}");
    assert!(holds, "this doesn't hold");
    Ok(())
}

//! `moebius serve`: a published model behind an HTTP server in the shape of OpenAI's interface, until a signal ends it.

use std::env;
use std::fs;
use std::path::Path;

use moebius_device::Device;
use moebius_engine::{Engine, EngineOptions, Limits, PAGE};
use moebius_model::load::{LoadOptions, ModelFiles};
use moebius_serve::{
    Access, Certificate, Generator, KeyRing, Keys, LoadError, ServeOptions, ServedText, Server,
    Traces,
};
use moebius_weights::folder::model_at;
use moebius_weights::package;
use serde_json::json;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::registry::Registry;

use crate::args::ServeArgs;
use crate::error::CliError;
use crate::hub::located;
use crate::process;
use crate::published::{self, Source};
use crate::screen::{Outcome, Screen};
use crate::signals::Signals;
use crate::speculation::Speculation;
use crate::trace::Listener;

/// Variable that has keys if no file is named, with commas between them.
const KEYS: &str = "MOEBIUS_API_KEYS";

/// Variables that name a collector if the command line doesn't.
const COLLECTORS: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
];

/// Name under which the bundled model is served.
const BUNDLED: &str = "bundled";

/// Largest number of tokens of a request where the command line doesn't say it: models for longer texts are often used for shorter ones, and
/// the cache is bounded by it.
const MOST_CONTEXT: usize = 8192;

/// Runs `moebius serve`.
pub(crate) fn run(args: &ServeArgs, screen: &mut Screen) -> Result<Outcome, CliError> {
    let prepared = prepare(args, screen)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| cannot("no threads can be started", &error))?;
    let ended = runtime.block_on(serve(prepared, args, screen));
    // A connection that is left open, or an engine that hangs, ends with the process.
    runtime.shutdown_background();
    ended
}

/// What a server is started with: files have been read, and the device was opened.
struct Prepared {
    options: ServeOptions,
    access: Access,
    text: ServedText,
    device_name: Device,
    loading: Loading,
}

/// Reads the files, and then opens the device, since the first fails sooner.
fn prepare(args: &ServeArgs, screen: &Screen) -> Result<Prepared, CliError> {
    let certificate = certificate(args)?;
    let keys = KeyRing::new(read_keys(args.keys.as_deref())?);
    let traces = traces(args.otlp_endpoint.as_deref())?;
    for model in [&args.model.model, &args.engine.speculation.draft_model] {
        verify(model.as_deref())?;
    }
    let source = Source::named(&args.model)?.with_special_as_text(args.no_special);
    let template = source.template_if_any()?;
    let counts = published::counted(args.experts, &source.files)?.is_some();
    let made_for = source.files.spec().positions;
    let context = args.context.unwrap_or(made_for.min(MOST_CONTEXT));
    let speculation = Speculation::open(&args.engine, &source, screen)?;
    let room = args.engine.room(room(args, context));
    let opened = published::opened(&source.files, &args.engine.place, Some(room), screen)?;
    let (device_name, device, load) = opened;
    let served_name = args.served_name.clone();
    let served_name = served_name.unwrap_or_else(|| name(args.model.model.as_deref()));
    let mut options = ServeOptions::new(served_name, context);
    options.limits = args.limits.limits();
    options.lost = process::lost;
    options.traces = traces;
    Ok(Prepared {
        options,
        access: Access {
            address: args.address,
            keys,
            insecure: args.insecure,
            certificate,
        },
        text: ServedText {
            tokenizer: source.tokenizer,
            template,
        },
        device_name,
        loading: Loading {
            files: source.files,
            load,
            device,
            room,
            speculation,
            counts,
        },
    })
}

/// Compares a package with its manifest, before anything of it is loaded; any other model passes.
fn verify(model: Option<&Path>) -> Result<(), CliError> {
    let Some(model) = model else {
        return Ok(());
    };
    let place = model_at(&located(model)?)?;
    if let Some(package) = package::verify_at(&place, None, &mut |_| ())? {
        tracing::info!(
            folder = %package.folder.display(),
            sha256 = package.fingerprint,
            "the package is as its manifest says"
        );
    }
    Ok(())
}

/// Loads the model and serves it until a signal ends that.
async fn serve(
    prepared: Prepared,
    args: &ServeArgs,
    screen: &mut Screen,
) -> Result<Outcome, CliError> {
    let Prepared {
        options,
        access,
        text,
        device_name,
        loading,
    } = prepared;
    let signals = Signals::listen();
    let mut signals = signals.map_err(|error| cannot("signals can't be taken", &error))?;
    let file = args.keys.clone();
    signals.reload(access.keys.clone(), move || read_keys(file.as_deref()));
    let name = options.model.clone();
    let loader = Box::new(move || loading.engine().map_err(|e| LoadError::from(e.to_string())));
    let server = Server::start(options, access, text, loader).await?;
    let address = server.address();
    let scheme = match &args.tls_certificate {
        Some(_) => "https",
        None => "http",
    };
    screen.line(&format!(
        "{name} on {device_name} at {scheme}://{address}/v1"
    ))?;
    screen.object(&json!({ "model": name, "device": device_name, "address": address }))?;
    screen.flush()?;
    server.run(signals.first()).await?;
    Ok(Outcome::Good)
}

/// A model that the engine's thread loads, with all that its engine is made from.
struct Loading {
    files: ModelFiles,
    load: LoadOptions,
    device: burn::tensor::Device,
    room: EngineOptions,
    speculation: Option<Speculation>,
    /// Whether the tokens of experts are counted.
    counts: bool,
}

impl Loading {
    fn engine(self) -> Result<Box<dyn Generator>, CliError> {
        let device = &self.device;
        let model = self.files.load(device, self.load, &mut |_| ())?;
        let mut engine = Engine::new(model, self.room, device)?;
        if let Some(speculation) = &self.speculation {
            let place = (self.room, device);
            speculation.begin(&mut engine, place, &mut |_| ())?;
        }
        if self.counts {
            engine.count_experts();
        }
        Ok(Box::new(engine))
    }
}

/// The listener that writes the log to standard error.
pub(crate) fn log(json: bool) -> Listener {
    let lines = tracing_subscriber::fmt::layer::<Registry>().with_writer(std::io::stderr);
    if json {
        lines.json().with_filter(LevelFilter::INFO).boxed()
    } else {
        lines
            .with_ansi(false)
            .with_filter(LevelFilter::INFO)
            .boxed()
    }
}

/// The error for what the system refuses.
fn cannot(what: &str, error: &std::io::Error) -> CliError {
    CliError::usage(format!("{what}: {error}"), None)
}

/// Limits of the engine.
fn room(args: &ServeArgs, context: usize) -> EngineOptions {
    let running = args.limits.running;
    let all = context.saturating_mul(running);
    let pages = args.cache_tokens.unwrap_or(all).div_ceil(PAGE);
    let limits = Limits {
        longest: context,
        ..Limits::new(pages, args.batch_tokens.max(running), running)
    };
    EngineOptions::new(limits)
}

/// The name under which a model is served if the command line has none: that of its folder or file, or the one in the cache.
fn name(model: Option<&Path>) -> String {
    let Some(path) = model else {
        return BUNDLED.to_owned();
    };
    if !path.exists() {
        return path.display().to_string();
    }
    // A path such as `.` has a name only when it is whole.
    let whole = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let name = whole.file_name().unwrap_or(whole.as_os_str());
    let name = name.to_string_lossy();
    name.strip_suffix(".gguf").unwrap_or(&name).to_owned()
}

/// The keys of those who may use the server. A file without keys is an error: a server that reads it while it is being written would answer
/// everybody.
fn read_keys(file: Option<&Path>) -> Result<Keys, CliError> {
    let (text, place) = match file {
        Some(file) => {
            let text = fs::read_to_string(file);
            let text = text.map_err(CliError::read(file.display()))?;
            (text, file.display().to_string())
        }
        None => {
            let text = env::var_os(KEYS).unwrap_or_default().into_string();
            let refused = |_| CliError::usage(format!("{KEYS}: expected UTF-8, got others"), None);
            (text.map_err(refused)?.replace(',', "\n"), KEYS.to_owned())
        }
    };
    let wrong = |said: String| CliError::usage(format!("{place}: {said}"), None);
    let keys = Keys::parse(&text).map_err(|error| wrong(error.to_string()))?;
    if file.is_some() && keys.is_empty() {
        return Err(wrong("expected at least one key, got none".to_owned()));
    }
    Ok(keys)
}

/// Where spans of requests go: to a collector that the command line names, else the environment. A build without the feature `otlp` leaves
/// the environment's to other programs.
fn traces(collector: Option<&str>) -> Result<Traces, CliError> {
    let set = |name: &&str| env::var_os(name).is_some_and(|value| !value.is_empty());
    let named = cfg!(feature = "otlp") && COLLECTORS.iter().any(set);
    if collector.is_none() && !named {
        return Ok(Traces::default());
    }
    let traces = Traces::over_otlp(collector);
    traces.map_err(|error| CliError::usage(error.to_string(), None))
}

fn certificate(args: &ServeArgs) -> Result<Option<Certificate>, CliError> {
    let (Some(chain), Some(key)) = (&args.tls_certificate, &args.tls_key) else {
        return Ok(None);
    };
    let read = |path: &Path| fs::read(path).map_err(CliError::read(path.display()));
    Ok(Some(Certificate::from_pem(&read(chain)?, &read(key)?)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_served_under_a_name_without_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("small.gguf");
        fs::write(&file, "").unwrap();
        assert_eq!(name(Some(&file)), "small");
        let inner = folder.path().join("SmolLM2");
        fs::create_dir(&inner).unwrap();
        assert_eq!(name(Some(&inner)), "SmolLM2");
        assert_eq!(name(Some(&inner.join("."))), "SmolLM2");
        assert_eq!(name(Some("org/name".as_ref())), "org/name");
        assert_eq!(name(None), "bundled");
    }

    #[test]
    fn keys_come_from_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("keys");
        fs::write(&file, "# ours\nsk-0123456789abcdef\n").unwrap();
        assert!(!read_keys(Some(&file)).unwrap().is_empty());
        fs::write(&file, "short\n").unwrap();
        let said = read_keys(Some(&file)).unwrap_err().to_string();
        assert!(said.contains("key 1"), "{said}");
        fs::write(&file, "# none any more\n").unwrap();
        let said = read_keys(Some(&file)).unwrap_err().to_string();
        assert!(
            said.ends_with("expected at least one key, got none"),
            "{said}"
        );
        let missing = read_keys(Some(&folder.path().join("none")));
        assert!(matches!(missing, Err(CliError::ReadFile { .. })));
    }
}

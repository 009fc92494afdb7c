//! `moebius package`: makes a package of a model, or checks one.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use moebius_device::probe;
use moebius_model::load::ModelFiles;
use moebius_weights::folder::model_at;
use moebius_weights::package::{
    self, Figures, Hardware, Hashing, ModelFacts, Package, PackageFacts, PackageWriter, Software,
    Use,
};
use serde_json::{Value, json};

use crate::args::{BenchEngineArgs, EngineArgs, ModelArgs, PackageArgs, RequestsArgs, TraceArgs};
use crate::bench::engine::{self, EngineRun};
use crate::config;
use crate::devices::{bytes, system};
use crate::error::CliError;
use crate::hub::located;
use crate::published::Source;
use crate::screen::{BAD, DIM, GOOD, Outcome, Screen, one_line};

/// Runs `moebius package`.
pub(crate) fn run(args: &PackageArgs, screen: &mut Screen) -> Result<Outcome, CliError> {
    match (&args.verify, &args.model, &args.out) {
        (Some(folder), ..) => verify(folder, args.sha256.as_deref(), screen),
        (None, Some(model), Some(out)) => {
            let engine = EngineArgs::at(args.place);
            let bench = bench_args(engine, args.requests);
            let package = make(model, bench, out, None, screen)?;
            if let Some(package) = &package {
                show(package, screen)?;
            }
            screen.object(&object(package.as_ref(), out))?;
            Ok(Outcome::of(package.is_some()))
        }
        _ => {
            let message = "expected --model and --out, or --verify";
            Err(CliError::usage(message, None))
        }
    }
}

/// Checks a package and shows what it says of itself.
fn verify(
    folder: &Path,
    fingerprint: Option<&str>,
    screen: &mut Screen,
) -> Result<Outcome, CliError> {
    let bar = screen.bytes("files");
    let found = package::verify(folder, fingerprint, &mut |hashing| {
        bar.set_length(hashing.of);
        bar.set_position(hashing.done);
        bar.set_message(one_line(hashing.file));
    });
    bar.finish_and_clear();
    match found {
        Ok(package) => {
            show(&package, screen)?;
            screen.object(&object(Some(&package), folder))?;
            Ok(Outcome::Good)
        }
        Err(error) if error.is_fault() => {
            let said = error.to_string();
            screen.line(&format!(
                "{} {said}",
                screen.paint(BAD, "not as it should be:")
            ))?;
            screen.echo_error(&said);
            screen.object(&json!({
                "folder": folder.display().to_string(),
                "verified": false,
                "error": said,
            }))?;
            Ok(Outcome::Negative)
        }
        Err(error) => Err(error.into()),
    }
}

/// Makes a package: copies the files, adds `settings` as the file of settings, loads the model from the copies, measures it as `bench` says, and
/// writes the manifest. `None` where the tokens of a request depend on its company.
pub(crate) fn make(
    model: &Path,
    mut bench: BenchEngineArgs,
    out: &Path,
    settings: Option<&str>,
    screen: &mut Screen,
) -> Result<Option<Package>, CliError> {
    let place = model_at(&located(model)?)?;
    let files = ModelFiles::at(&place)?;
    let mut packed = packed(&files, &place)?;
    let facts = facts(&files, name(model)?);
    drop(files);
    let mut writer = PackageWriter::begin(out)?;
    packed.retain(|(_, path)| settings.is_none() || path != config::HERE);
    copy(&mut writer, &packed, screen)?;
    if let Some(settings) = settings {
        writer.add_bytes(settings.as_bytes(), config::HERE)?;
    }
    bench.model.model = Some(writer.folder().to_owned());
    let source = Source::open(bench.model.model.as_deref())?;
    let measured = engine::measure(&bench, &source, screen)?;
    drop(source);
    if !measured.verified() {
        screen.line("the tokens of a request depend on its company: no figures, no package")?;
        return Ok(None);
    }
    let at = &bench.engine.place;
    let package = writer.finish(PackageFacts {
        model: facts,
        run: Use {
            device: measured.device.to_string(),
            dtype: at.dtype.option().to_owned(),
            weights: at.weights_option().map(str::to_owned),
        },
        hardware: hardware(&measured)?,
        figures: figures(&bench, &measured),
        software: Software {
            moebius: env!("CARGO_PKG_VERSION").to_owned(),
        },
    })?;
    Ok(Some(package))
}

/// The files to pack, each with its path in the package.
fn packed(files: &ModelFiles, place: &Path) -> Result<Vec<(PathBuf, String)>, CliError> {
    let packed = match (files.gguf(), files.reader()) {
        (Some(file), _) => package::of_gguf(file)?,
        (None, Some(reader)) => package::of_safetensors(reader.folder().unwrap_or(place), reader)?,
        // Files are of one of the two kinds.
        (None, None) => unreachable!("model files without weights"),
    };
    Ok(packed)
}

/// The name of the model at `path`: its folder's or its file's, or that in the cache.
fn name(path: &Path) -> Result<String, CliError> {
    let name = match path.file_name() {
        Some(name) if path.exists() => name.to_owned(),
        // `.` has a name only when it is whole. Otherwise links aren't followed: those of the cache lead to files named by their sums.
        None => {
            let whole = path.canonicalize();
            let whole = whole.map_err(CliError::read(path.display()))?;
            whole.file_name().unwrap_or_default().to_owned()
        }
        Some(_) => path.as_os_str().to_owned(),
    };
    Ok(name.to_string_lossy().into_owned())
}

/// What the headers of the files tell of the model.
fn facts(files: &ModelFiles, name: String) -> ModelFacts {
    let spec = files.spec();
    let (mut stored, mut weight_bytes) = (BTreeSet::new(), 0);
    if let Some(reader) = files.reader() {
        stored.extend(reader.tensors().map(|(_, info)| info.dtype.to_string()));
        weight_bytes = reader.file_bytes();
    }
    if let Some(file) = files.gguf() {
        stored.extend(file.tensors().map(|(_, info)| info.kind.to_string()));
        weight_bytes = file.file_bytes();
    }
    ModelFacts {
        name,
        family: files.family().to_owned(),
        parameters: spec.parameters() as u64,
        active_parameters: spec.active_parameters() as u64,
        layers: spec.layers.len() as u64,
        vocabulary: spec.vocabulary as u64,
        context: spec.positions as u64,
        stored: stored.into_iter().collect(),
        weight_bytes,
    }
}

/// Copies the files into the package and shows the progress on a bar.
fn copy(
    writer: &mut PackageWriter,
    packed: &[(PathBuf, String)],
    screen: &Screen,
) -> Result<(), CliError> {
    let bar = screen.bytes("files");
    let mut of = 0;
    for (from, _) in packed {
        let about = from.metadata().map_err(CliError::read(from.display()))?;
        of += about.len();
    }
    bar.set_length(of);
    let mut tell = |hashing: Hashing<'_>| {
        bar.set_position(hashing.done);
        bar.set_message(one_line(hashing.file));
    };
    let copied = packed
        .iter()
        .try_for_each(|(from, path)| writer.add(from, path, &mut tell));
    bar.finish_and_clear();
    copied?;
    Ok(())
}

/// A benchmark by these requests, of a model that isn't named yet.
pub(crate) fn bench_args(engine: EngineArgs, requests: RequestsArgs) -> BenchEngineArgs {
    BenchEngineArgs {
        model: ModelArgs {
            model: None,
            adapter: None,
        },
        engine,
        streams: requests.streams,
        prompt: requests.prompt,
        tokens: requests.tokens,
        known: requests.known,
        trace: TraceArgs::default(),
    }
}

/// The machine that was measured, as the device's driver and the system tell it.
fn hardware(measured: &EngineRun) -> Result<Hardware, CliError> {
    let capability = probe(&measured.device).map_err(moebius::Error::from)?;
    let processors = std::thread::available_parallelism();
    let processors = processors.map_err(CliError::read("the number of processors"))?;
    Ok(Hardware {
        device_name: capability.name,
        architecture: capability.architecture,
        driver: capability.driver,
        memory_bytes: capability.memory.map(|memory| memory.total),
        processors: usize::from(processors) as u64,
        system: system(),
    })
}

fn figures(bench: &BenchEngineArgs, measured: &EngineRun) -> Figures {
    let tokens = (bench.streams * bench.tokens) as f64;
    Figures {
        runs: engine::RUNS as u64,
        load_s: measured.load_s,
        streams: bench.streams as u64,
        prompt_tokens: bench.prompt as u64,
        answer_tokens: bench.tokens as u64,
        alone_tokens_per_s: tokens / measured.streams.slow,
        together_tokens_per_s: tokens / measured.streams.fast,
        long_prompt_tokens: (bench.known + engine::BEHIND) as u64,
        first_token_ms: 1e3 * measured.known.slow,
        first_token_known_ms: 1e3 * measured.known.fast,
    }
}

/// Shows a package that is as it should be.
pub(crate) fn show(package: &Package, screen: &mut Screen) -> Result<(), CliError> {
    let manifest = &package.manifest;
    let (model, run, figures) = (&manifest.model, &manifest.run, &manifest.figures);
    let weights = run.weights.as_ref();
    let weights = weights.map_or_else(String::new, |of| format!(", weights {of}"));
    screen.line(&format!(
        "{} {} files, {} · {}",
        screen.paint(GOOD, "package:"),
        manifest.files.len(),
        bytes(manifest.bytes()),
        package.folder.display(),
    ))?;
    screen.line(&format!(
        "  {} · {} with {:.1} million weights, of which a token is multiplied with {:.1} · {} of {}",
        model.name,
        model.family,
        model.parameters as f64 / 1e6,
        model.active_parameters as f64 / 1e6,
        bytes(model.weight_bytes),
        model.stored.join(", "),
    ))?;
    screen.line(&format!(
        "  {} in {}{weights} · {} requests of {} + {} tokens: {:.1} tokens/s one by one, {:.1} together · first token after {}: {:.1} ms",
        run.device,
        run.dtype,
        figures.streams,
        figures.prompt_tokens,
        figures.answer_tokens,
        figures.alone_tokens_per_s,
        figures.together_tokens_per_s,
        figures.long_prompt_tokens,
        figures.first_token_ms,
    ))?;
    if manifest.licences.is_empty() {
        let said =
            "  no licence: the model's folder has none, find out under which terms it may be used";
        screen.line(&screen.paint(DIM, said))?;
    }
    screen.line(&format!("  sha256 {}", package.fingerprint))
}

/// A package for JSON; without one, that none was made in the folder.
pub(crate) fn object(package: Option<&Package>, folder: &Path) -> Value {
    let Some(package) = package else {
        return json!({ "folder": folder.display().to_string(), "verified": false });
    };
    json!({
        "folder": package.folder.display().to_string(),
        "verified": true,
        "sha256": package.fingerprint,
        "manifest": package.manifest,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_called_by_its_folder_its_file_or_its_name_in_the_cache() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("small");
        std::fs::create_dir(&folder).unwrap();
        let file = folder.join("model.gguf");
        std::fs::write(&file, "").unwrap();
        for (path, expected) in [
            (folder.clone(), "small"),
            (folder.join("."), "small"),
            (file, "model.gguf"),
            (folder.join("inner/.."), "small"),
            (PathBuf::from("org/name:Q8_0"), "org/name:Q8_0"),
        ] {
            if path.ends_with("..") {
                std::fs::create_dir(folder.join("inner")).unwrap();
            }
            assert_eq!(name(&path).unwrap(), expected, "{}", path.display());
        }
    }
}

//! A published model's weights, tokenizer and chat template.

use std::fmt::Display;
use std::io::Read;
use std::path::Path;
use std::time::Instant;

use anstyle::Style;
use burn::tensor::DType;
use indicatif::ProgressBar;
use moebius::nn::takes_half_weights;
use moebius_device::{Device, Work, host_memory_free};
use moebius_engine::{Constraint, EngineOptions};
use moebius_grammar::{Grammars, Part};
use moebius_model::decoder::{CacheMemory, Model};
use moebius_model::load::{ExpertsFrom, InBlocks, LoadOptions, ModelFiles, Progress};
use moebius_model::{Adapter, ExpertLoad, LayerTokens};
use moebius_text::{Chat, ChatTemplate, Files, Message, Tokenizer};
use moebius_weights::folder::model_at;

use crate::args::{FormArgs, ModelArgs, ModelPrecision, PlaceArgs, PromptArgs, Weights};
use crate::bundled;
use crate::devices::bytes;
use crate::error::CliError;
use crate::hub::located;
use crate::resolve::open_for;
use crate::screen::{Screen, Table, one_line};

/// Number of experts per row of the table.
const ACROSS: usize = 16;

/// A model whose headers have been read, and its tokenizer.
pub(crate) struct Source {
    pub(crate) files: ModelFiles,
    pub(crate) tokenizer: Tokenizer,
    /// The files beside the weights.
    beside: Files,
    name: String,
}

impl Source {
    /// Opens the model in a folder or a GGUF file, or the one of this name in the cache; without a path, the bundled one.
    pub(crate) fn open(path: Option<&Path>) -> Result<Self, CliError> {
        let (files, beside, name) = match path {
            Some(path) => {
                let place = model_at(&located(path)?)?;
                (
                    ModelFiles::at(&place)?,
                    Files::in_folder(&place),
                    path.display().to_string(),
                )
            }
            None => {
                let (files, beside) = bundled::model()?;
                (files, beside, bundled::MODEL_NAME.to_owned())
            }
        };
        let tokenizer = match files.gguf() {
            Some(file) => {
                let vocabulary = file.vocabulary()?;
                let vocabulary = vocabulary.ok_or_else(|| missing(&name, "tokenizer"))?;
                Tokenizer::from_gguf(vocabulary)?
            }
            None => Tokenizer::from_files(&beside)?,
        };
        Ok(Self {
            files,
            tokenizer,
            beside,
            name,
        })
    }

    /// Opens the model that a command line names, with its adapter.
    pub(crate) fn named(args: &ModelArgs) -> Result<Self, CliError> {
        Self::open(args.model.as_deref())?.with_adapter(args.adapter.as_deref())
    }

    /// This model with the changes of the adapter in a folder, if one is given.
    pub(crate) fn with_adapter(self, folder: Option<&Path>) -> Result<Self, CliError> {
        let Some(folder) = folder else {
            return Ok(self);
        };
        let files = self.files.with_adapter(&Adapter::read(folder)?)?;
        Ok(Self { files, ..self })
    }

    /// This model, where names of special tokens in texts stand for their characters if `as_text`.
    pub(crate) fn with_special_as_text(self, as_text: bool) -> Self {
        let tokenizer = self.tokenizer.with_special_as_text(as_text);
        Self { tokenizer, ..self }
    }

    /// The model's path, or the name of the bundled model.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The model's chat template, which also writes the tokens that begin and end a text.
    pub(crate) fn template(&self) -> Result<ChatTemplate, CliError> {
        let Some(file) = self.files.gguf() else {
            return Ok(ChatTemplate::from_files(&self.beside, None)?);
        };
        let text = file.chat_template();
        let text = text.ok_or_else(|| missing(&self.name, "chat template"))?;
        Ok(ChatTemplate::from_gguf(text, &self.tokenizer)?)
    }

    /// The model's chat template, if it has one.
    pub(crate) fn template_if_any(&self) -> Result<Option<ChatTemplate>, CliError> {
        let has = match self.files.gguf() {
            Some(file) => file.chat_template().is_some(),
            None => ChatTemplate::is_in(&self.beside)?,
        };
        has.then(|| self.template()).transpose()
    }
}

fn missing(name: &str, what: &str) -> CliError {
    CliError::usage(
        format!("{name} has no {what}"),
        Some("a folder with config.json and tokenizer.json can be used, too"),
    )
}

/// A model loaded on its device.
pub(crate) struct Ready {
    pub(crate) name: Device,
    pub(crate) device: burn::tensor::Device,
    pub(crate) model: Model,
    pub(crate) load_s: f64,
}

/// Chooses the device, opens it and loads the model, after a check that the device has memory for the weights, and for the first pages and a
/// step of an engine.
pub(crate) fn ready(
    files: &ModelFiles,
    place: &PlaceArgs,
    room: Option<EngineOptions>,
    screen: &mut Screen,
) -> Result<Ready, CliError> {
    let (name, device, options) = opened(files, place, room, screen)?;
    let begun = Instant::now();
    let model = load(files, options, &device, screen)?;
    Ok(Ready {
        name,
        device,
        model,
        load_s: begun.elapsed().as_secs_f64(),
    })
}

/// Chooses and opens the device, and checks that it has memory for the weights, and for the first pages and a step of an engine, with the asked
/// margin. Returns how the weights are to be loaded, too.
pub(crate) fn opened(
    files: &ModelFiles,
    place: &PlaceArgs,
    room: Option<EngineOptions>,
    screen: &Screen,
) -> Result<(Device, burn::tensor::Device, LoadOptions), CliError> {
    if place.expert_cache.is_some() {
        check_experts("--expert-cache", files)?;
    }
    check_place(place)?;
    let memory = |scores: bool| match room {
        Some(room) if scores => room.exact_memory(files.spec()),
        Some(room) => room.memory(files.spec()),
        None => Ok(CacheMemory::default().with_margin(place.memory_margin)),
    };
    // What doesn't depend on the device fails before one is opened.
    memory(false)?;
    let (name, device) = open_for(Work::Tokens, place.devices, screen)?;
    if place.narrow_embedding && !takes_half_weights(&device) {
        let expected = "expected a device that multiplies f32 by bf16";
        let message = format!("--narrow-embedding: {expected}, got {name}");
        return Err(CliError::usage(message, Some("flex does")));
    }
    let has_kernels = moebius::largest_buffer(&device).is_some();
    let memory = memory(place.exact && has_kernels)?;
    let asked = waiting(files, place, &device);
    let options = files.fitting(&device, asked, memory)?;
    if options.experts_from == ExpertsFrom::Files && place.experts_from.is_none() {
        let cache = bytes(options.expert_cache.unwrap_or(0));
        screen.note(&format!(
            "memory doesn't hold all experts: they are read from the files when tokens need them, and {cache} keep those that were needed last"
        ));
    }
    note_other_types(files, options, screen);
    Ok((name, device, options))
}

/// Checks that what a place asks for goes together, without its device.
fn check_place(place: &PlaceArgs) -> Result<(), CliError> {
    check_weights("--weights", place.weights, place.dtype)?;
    if place.narrow_embedding && place.dtype != ModelPrecision::F32 {
        let got = place.dtype.option();
        let message = format!("--narrow-embedding: expected --dtype f32, got {got}");
        let hint = "fp8 has a narrow embedding where the device takes it, f16 and bf16 narrow all";
        return Err(CliError::usage(message, Some(hint)));
    }
    if place.exact && place.dtype != ModelPrecision::F32 {
        let got = place.dtype.option();
        let message = format!("--exact: expected --dtype f32, got {got}");
        let hint = "other types are rounded in ways of their devices";
        return Err(CliError::usage(message, Some(hint)));
    }
    if place.exact && place.weights == Some(Weights::Fp8) {
        let message = "--exact: expected --weights f32, file or a type of blocks, got fp8";
        let hint = "FP8 codes have products of their own";
        return Err(CliError::usage(message, Some(hint)));
    }
    Ok(())
}

/// Checks that the weights that `flag` asks for can be beside what the model computes in.
pub(crate) fn check_weights(
    flag: &str,
    weights: Option<Weights>,
    dtype: ModelPrecision,
) -> Result<(), CliError> {
    use ModelPrecision::{F32, Fp8};
    let (fits, expected, hint) = match weights.unwrap_or_default() {
        Weights::Blocks(InBlocks::None) => return Ok(()),
        Weights::Blocks(_) => (
            dtype != Fp8,
            "f32, f16 or bf16",
            "fp8 is a type of weights, too",
        ),
        Weights::Fp8 => (
            matches!(dtype, F32 | Fp8),
            "f32",
            "what is computed from FP8 weights is f32",
        ),
        Weights::F32 => (
            dtype == F32,
            "f32",
            "without the flag weights are values of --dtype",
        ),
    };
    if fits {
        return Ok(());
    }
    let message = format!(
        "{flag}: expected --dtype {expected}, got {}",
        dtype.option()
    );
    Err(CliError::usage(message, Some(hint)))
}

/// Says which weights become blocks of another type than the one that is asked for.
pub(crate) fn note_other_types(files: &ModelFiles, options: LoadOptions, screen: &Screen) {
    if let InBlocks::Format(format) = options.blocks {
        let others = files.of_another_type(options);
        if let Some(said) = of_another_type(&others, &format.name().to_uppercase()) {
            screen.note(&said);
        }
    }
}

/// What is said of tensors that got another type than `kind`, by their names, if there are any.
pub(crate) fn of_another_type(names: &[impl Display], kind: &str) -> Option<String> {
    let (first, others) = names.split_first()?;
    let others = match others.len() {
        0 => String::new(),
        count => format!(" and {count} more"),
    };
    Some(format!(
        "{first}{others}: rows are no whole blocks of {kind}, so that they have another type"
    ))
}

/// How weights are loaded at a place. Experts that a cache on the device doesn't hold wait where the command line says, else in main memory if it
/// holds all of them and the cache, or doesn't tell what is free.
fn waiting(files: &ModelFiles, place: &PlaceArgs, device: &burn::tensor::Device) -> LoadOptions {
    let options = loading(place);
    let Some(cache) = options.expert_cache else {
        return options;
    };
    let needed = files.expert_bytes(device, options).saturating_add(cache);
    let scarce = host_memory_free().is_some_and(|free| free < needed);
    let found = if scarce {
        ExpertsFrom::Files
    } else {
        ExpertsFrom::Memory
    };
    LoadOptions {
        experts_from: place.experts_from.unwrap_or(found),
        ..options
    }
}

/// Shows the progress of loading on a bar over bytes.
fn show(bar: &ProgressBar, at: Progress<'_>) {
    bar.set_length(at.bytes);
    bar.set_position(at.read);
    bar.set_message(one_line(at.tensor));
}

/// How weights are loaded at a place.
pub(crate) fn loading(place: &PlaceArgs) -> LoadOptions {
    let precision = if place.exact {
        LoadOptions::exact()
    } else {
        options(place.dtype)
    };
    LoadOptions {
        expert_cache: place.expert_cache,
        ..with_weights(precision, place, place.weights.unwrap_or_default())
    }
}

/// How weights are loaded at a place if all are on the device and none is exact, as `weights` says.
pub(crate) fn resident(place: &PlaceArgs, weights: Weights) -> LoadOptions {
    with_weights(options(place.dtype), place, weights)
}

/// `options` with these weights; where they are values, with a narrow embedding if the place asks for one.
fn with_weights(options: LoadOptions, place: &PlaceArgs, weights: Weights) -> LoadOptions {
    match weights {
        Weights::Blocks(InBlocks::None) => LoadOptions {
            narrow_embedding: options.narrow_embedding || place.narrow_embedding,
            ..options
        },
        Weights::Blocks(blocks) => options.with_blocks(blocks),
        Weights::Fp8 => LoadOptions::fp8(),
        Weights::F32 => LoadOptions {
            keep_fp8: false,
            ..options
        },
    }
}

/// How weights are loaded for a precision.
fn options(precision: ModelPrecision) -> LoadOptions {
    let of = |dtype| LoadOptions {
        dtype,
        ..LoadOptions::default()
    };
    match precision {
        ModelPrecision::F32 => of(DType::F32),
        ModelPrecision::F16 => of(DType::F16),
        ModelPrecision::Bf16 => of(DType::BF16),
        ModelPrecision::Fp8 => LoadOptions::fp8(),
    }
}

/// Loads the model onto a device and shows the progress on a bar.
fn load(
    files: &ModelFiles,
    options: LoadOptions,
    device: &burn::tensor::Device,
    screen: &Screen,
) -> Result<Model, CliError> {
    Ok(shown(screen, |progress| {
        files.load(device, options, progress)
    })?)
}

/// Runs what loads weights, and shows on a bar how far it is.
pub(crate) fn shown<T>(screen: &Screen, load: impl FnOnce(&mut dyn FnMut(Progress<'_>)) -> T) -> T {
    let bar = screen.bytes("weights");
    let loaded = load(&mut |progress| show(&bar, progress));
    bar.finish_and_clear();
    loaded
}

/// Tokens of the prompt, at least one.
pub(crate) fn prompt(args: &PromptArgs, source: &Source) -> Result<Vec<u32>, CliError> {
    let text = match &args.prompt {
        Some(text) => text.clone(),
        None => standard_input()?,
    };
    let ids = encoded(text, args.chat, source)?;
    if ids.is_empty() {
        let hint = "--prompt TEXT, or text on standard input";
        return Err(CliError::usage("the prompt is empty", Some(hint)));
    }
    Ok(ids)
}

/// Tokens of a text, or of a message in the model's chat template.
pub(crate) fn encoded(text: String, chat: bool, source: &Source) -> Result<Vec<u32>, CliError> {
    if !chat {
        return Ok(source.tokenizer.encode(&text, true)?);
    }
    let template = source.template()?;
    let chat = Chat::new([Message::new("user", text)]).with_generation_prompt(true);
    Ok(template.encode(&chat, &source.tokenizer)?)
}

/// What restricts answers to the form that is asked for, if one is.
pub(crate) fn constraint(
    args: &FormArgs,
    tokenizer: &Tokenizer,
) -> Result<Option<Box<dyn Constraint>>, CliError> {
    let Some(given) = &args.json_schema else {
        return Ok(None);
    };
    let schema = if given.trim_start().starts_with('{') {
        given.clone()
    } else {
        std::fs::read_to_string(given).map_err(CliError::read(given))?
    };
    let grammar = Grammars::new(tokenizer)?.compile(&[Part::Json(schema)])?;
    Ok(Some(Box::new(grammar)))
}

fn standard_input() -> Result<String, CliError> {
    let mut text = String::new();
    let read = std::io::stdin().read_to_string(&mut text);
    read.map_err(CliError::read("standard input"))?;
    Ok(text)
}

/// Counter of each expert's tokens, if asked for; an error for a model without experts.
pub(crate) fn counted(asked: bool, files: &ModelFiles) -> Result<Option<ExpertLoad>, CliError> {
    if !asked {
        return Ok(None);
    }
    let load = ExpertLoad::of(files.spec());
    let load = load.ok_or_else(|| without_experts("--experts", files))?;
    Ok(Some(load))
}

/// Refuses an option about experts for a model that has none.
pub(crate) fn check_experts(option: &str, files: &ModelFiles) -> Result<(), CliError> {
    match ExpertLoad::of(files.spec()) {
        Some(_) => Ok(()),
        None => Err(without_experts(option, files)),
    }
}

/// The error for an option about experts and a model that has none.
fn without_experts(option: &str, files: &ModelFiles) -> CliError {
    let message = format!("{option}: this {} model has no experts", files.family());
    CliError::usage(message, None)
}

/// Writes the table of each expert's tokens: a row for each layer, or several if it has many experts.
pub(crate) fn show_experts(layers: &[LayerTokens], screen: &mut Screen) -> Result<(), CliError> {
    screen.line("")?;
    let headings = "layer | experts | busiest | tokens of each expert";
    let mut table = Table::new(headings).right(&[0, 2]);
    for LayerTokens { layer, tokens } in layers {
        let all: u64 = tokens.iter().sum();
        let most = tokens.iter().copied().max().unwrap_or(0);
        let width = most.to_string().len();
        for (row, tokens) in tokens.chunks(ACROSS).enumerate() {
            let first = row * ACROSS;
            let figures = tokens.iter().map(|count| format!("{count:width$}"));
            let busiest = 100.0 * most as f64 / all.max(1) as f64;
            let cells = [
                layer.to_string(),
                format!("{first}–{}", first + tokens.len() - 1),
                format!("{busiest:.1} %"),
                figures.collect::<Vec<_>>().join("  "),
            ];
            table.row(cells, Style::new());
        }
    }
    table.print(screen)
}

//! `moebius train --model`: trains a published model further, or from random weights.

use std::fs;
use std::path::{Path, PathBuf};

use moebius_device::{Device, Work};
use moebius_model::decoder::ModelSpec;
use moebius_model::families::describe_all;
use moebius_model::load::{LoadOptions, ModelFiles};
use moebius_model::{
    AdapterConfig, BaseWeights, Beside, Subject, TrainConfig, Trainer, TrainingData, check_target,
    save, spread,
};
use moebius_text::Tokenizer;
use moebius_weights::python_json;
use serde_json::{Value, json};

use super::lessons::{HeldOut, Lessons, say_packed};
use super::{
    Course, Evaluate, StepMemory, check_memory, goes_on, precision, save_memory, sequences, steps,
    text,
};
use crate::args::TrainArgs;
use crate::error::CliError;
use crate::hub::located;
use crate::published::{note_other_types, shown};
use crate::resolve::open_for;
use crate::screen::{Outcome, Screen};

/// Special token that comes first in a learned vocabulary.
const END: &str = "<|endoftext|>";

/// File name of the tokenizer.
const TOKENIZER: &str = "tokenizer.json";

/// Runs `moebius train --model`.
pub(super) fn run(
    args: &TrainArgs,
    (model, out): (&Path, &Path),
    screen: &mut Screen,
) -> Result<Outcome, CliError> {
    // Files are read before the device is opened, since that fails sooner.
    check_target(out)?;
    let source = Source::read(args, model)?;
    let course = Course::read(args, TrainConfig::fine_tuning(), |_| {
        Subject::from(source.spec())
    })?;
    let (held_out, sequence) = (args.published.held_out, course.config.sequence);
    let (data, held_out) = source.lessons.parts(held_out, sequence)?;
    if args.published.evaluate_every.is_some() && held_out.targets() == 0 {
        let message = "--evaluate-every: expected something held out, got nothing";
        let hint = "--held-out N holds some out";
        return Err(CliError::usage(message, Some(hint)));
    }
    let flops = course.config.step_flops(source.spec());
    let (name, device) = open_for(Work::Steps { flops }, args.devices, screen)?;
    source.spec().check_experts(&device)?;
    let adapter = course.adapter.clone();
    let step = source.step_memory(&course, &device, screen)?;
    check_memory(args, step, (name, &device))?;
    say_packed(&data, screen)?;
    let mut trainer = source.trainer(course, data, &device, screen)?;
    save_memory(args, &mut trainer)?;
    title(name, (&source, &trainer), screen)?;
    let before = judged("before", (&source, &trainer), &held_out, screen)?;
    let evaluate = |trainer: &Trainer, screen: &mut Screen| evaluated(trainer, &held_out, screen);
    let evaluate = (args.published.evaluate_every).map(|n| (n, &evaluate as &Evaluate<'_>));
    let run = steps(args, &mut trainer, evaluate, screen)?;
    let after = judged("after", (&source, &trainer), &held_out, screen)?;
    let ended = trainer.is_finished() || args.checkpoint.is_none();
    let folder = ended.then(|| source.save(&trainer, out)).transpose()?;
    let good = run.say(args, &trainer, screen)?;
    if let (Some(before), Some(after)) = (mean(&before.apart), mean(&after.apart)) {
        let [before, after] = [before, after].map(|apart| 100.0 * apart);
        screen.line(&format!(
            "  experts from {before:.2} % to {after:.2} % apart from their mean"
        ))?;
    }
    if let Some(folder) = &folder {
        let what = adapter.map_or("trained model", |_| "adapter");
        screen.line(&format!("  the {what} is in {}", folder.display()))?;
    }
    let mut object = run.object(args, name, &trainer);
    for (name, value) in [
        ("perplexity_before", json!(before.perplexity)),
        ("perplexity", json!(after.perplexity)),
        ("experts_apart_before", json!(before.apart)),
        ("experts_apart", json!(after.apart)),
        ("out", json!(folder)),
    ] {
        object[name] = value;
    }
    screen.object(&object)?;
    Ok(Outcome::of(good))
}

fn title(
    device: Device,
    (source, trainer): (&Source, &Trainer),
    screen: &mut Screen,
) -> Result<(), CliError> {
    let config = trainer.config();
    let title = format!(
        "Training {} on {device} in {} · {} parameters{} · {} steps of {} × {} tokens",
        source.family(),
        precision(config),
        trainer.parameters(),
        source.origin(),
        config.steps,
        sequences(config),
        config.sequence,
    );
    screen.heading(&title)?;
    goes_on(trainer, screen)
}

/// Measures of a model, taken before and after training.
struct Judged {
    /// Perplexity on what is held out; `None` if that is nothing.
    perplexity: Option<f64>,
    /// Distance of each layer's experts from their mean.
    apart: Vec<f64>,
}

/// Measures the model on what is held out.
fn judged(
    when: &str,
    (source, trainer): (&Source, &Trainer),
    held_out: &HeldOut,
    screen: &mut Screen,
) -> Result<Judged, CliError> {
    let apart = spread(&mut trainer.model(), source.spec())?;
    let bar = screen.steps("held-out tokens", held_out.targets());
    let mut judged = |tokens: usize| bar.set_position(tokens as u64);
    let found = held_out.perplexity(trainer, &mut judged);
    bar.finish_and_clear();
    let perplexity = found?.map(|found| (found.perplexity(), found.tokens));
    if let Some((perplexity, tokens)) = perplexity {
        screen.line(&format!(
            "  perplexity {when}: {perplexity:.2} on {tokens} held-out tokens"
        ))?;
    }
    Ok(Judged {
        perplexity: perplexity.map(|(perplexity, _)| perplexity),
        apart,
    })
}

/// Measures the model on what is held out during its training, and writes what it found as a line or an object.
fn evaluated(trainer: &Trainer, held_out: &HeldOut, screen: &mut Screen) -> Result<(), CliError> {
    let Some(found) = held_out.perplexity(trainer, &mut |_| ())? else {
        return Ok(());
    };
    let (step, loss, perplexity) = (trainer.steps_done(), found.nats, found.perplexity());
    screen.line(&format!(
        "  step {step:>5}  held out: loss {loss:.3}  perplexity {perplexity:.2}"
    ))?;
    screen.object(&json!({
        "evaluated": { "step": step, "loss": loss, "perplexity": perplexity, "tokens": found.tokens },
    }))
}

fn mean(of: &[f64]) -> Option<f64> {
    (!of.is_empty()).then(|| of.iter().sum::<f64>() / of.len() as f64)
}

/// A model to train, and what it learns from.
struct Source {
    /// The name that the model was given by.
    name: String,
    folder: PathBuf,
    config: Value,
    weights: Weights,
    lessons: Lessons,
    /// Files made here because the model's folder lacks them.
    made: Vec<(&'static str, Vec<u8>)>,
}

/// What a command line gives to learn from.
enum Given<'a> {
    Text(String),
    /// The file of the samples.
    Samples(&'a Path),
}

/// Origin of the initial weights.
enum Weights {
    Files(Box<ModelFiles>),
    Drawn(ModelSpec, &'static str),
}

impl Source {
    fn read(args: &TrainArgs, model: &Path) -> Result<Self, CliError> {
        let folder = &located(model)?;
        let given = match &args.published.data {
            Some(path) => Given::Samples(path),
            None => Given::Text(characters(args)?),
        };
        let (config, weights) = if args.published.from_scratch {
            drawn(folder)?
        } else {
            loaded(folder)?
        };
        let mut made = Vec::new();
        let learns = args.published.from_scratch && !folder.join(TOKENIZER).is_file();
        let tokenizer = if let (Given::Text(text), true) = (&given, learns) {
            let json = Tokenizer::learn(text, weights.spec().vocabulary, END)?;
            let tokenizer = Tokenizer::from_bytes(&json)?;
            made.push((TOKENIZER, json));
            tokenizer
        } else {
            Tokenizer::from_folder(folder)?
        };
        let lessons = match given {
            Given::Samples(path) => Lessons::read(path, folder, &tokenizer)?,
            Given::Text(text) => Lessons::Text(tokenizer.encode(&text, false)?),
        };
        Ok(Self {
            name: model.display().to_string(),
            folder: folder.to_owned(),
            lessons,
            config,
            weights,
            made,
        })
    }

    fn spec(&self) -> &ModelSpec {
        self.weights.spec()
    }

    fn family(&self) -> &'static str {
        match &self.weights {
            Weights::Files(files) => files.family(),
            Weights::Drawn(_, family) => family,
        }
    }

    /// Note on the initial weights, for a title.
    fn origin(&self) -> &'static str {
        match &self.weights {
            Weights::Files(_) => "",
            Weights::Drawn(..) => ", drawn",
        }
    }

    /// Number of parameters of an adapter of the model; `None` where all weights are trained.
    fn parameters_of(&self, adapter: Option<&AdapterConfig>) -> Result<Option<u64>, CliError> {
        match (&self.weights, adapter) {
            (Weights::Files(files), Some(adapter)) => Ok(Some(adapter.parameters(files)?)),
            _ => Ok(None),
        }
    }

    /// What the memory of a step depends on.
    fn step_memory<'a>(
        &'a self,
        course: &'a Course,
        device: &burn::tensor::Device,
        screen: &Screen,
    ) -> Result<StepMemory<'a>, CliError> {
        Ok(StepMemory {
            adapter: self.parameters_of(course.adapter.as_ref())?,
            base: self.base_bytes(&course.config, device, screen),
            ..StepMemory::of(self.spec(), &course.config)
        })
    }

    /// Bytes of the weights below an adapter; `None` for f32. Says which of them have another type than the one that is asked for.
    fn base_bytes(
        &self,
        config: &TrainConfig,
        device: &burn::tensor::Device,
        screen: &Screen,
    ) -> Option<u64> {
        match (&self.weights, config.base) {
            (Weights::Drawn(..), _) | (_, BaseWeights::F32) => None,
            (Weights::Files(files), base) => {
                let options = LoadOptions::below_adapter(base);
                note_other_types(files, options, screen);
                Some(files.weight_bytes(device, options))
            }
        }
    }

    /// A trainer on `data`, from the checkpoint or the initial weights.
    fn trainer(
        &self,
        course: Course,
        data: TrainingData,
        device: &burn::tensor::Device,
        screen: &Screen,
    ) -> Result<Trainer, CliError> {
        let Course {
            config,
            subject,
            checkpoint,
            adapter,
        } = course;
        let trainer = match (&self.weights, checkpoint, adapter) {
            (Weights::Files(files), Some(checkpoint), Some(_)) => shown(screen, |progress| {
                Trainer::resume_adapter(checkpoint, files, data, device, progress)
            }),
            (_, Some(checkpoint), _) => Trainer::resume(checkpoint, subject, data, device),
            (Weights::Files(files), None, Some(adapter)) => shown(screen, |progress| {
                Trainer::load_adapter(config, adapter, files, data, device, progress)
            }),
            (Weights::Files(files), None, None) => shown(screen, |progress| {
                Trainer::load(config, files, data, device, progress)
            }),
            (Weights::Drawn(..), None, _) => Trainer::new(config, subject, data, device),
        };
        Ok(trainer?)
    }

    /// Writes the current model into a new folder, with the files beside the original's weights, or the adapter that was trained alone.
    fn save(&self, trainer: &Trainer, out: &Path) -> Result<PathBuf, CliError> {
        if let Some(adapter) = trainer.adapter()? {
            return Ok(adapter.write(Some(&self.name), out)?);
        }
        let beside = Beside {
            folder: Some(&self.folder),
            files: &self.made,
        };
        Ok(save(&mut trainer.model(), &self.config, beside, out)?)
    }
}

impl Weights {
    fn spec(&self) -> &ModelSpec {
        match self {
            Self::Files(files) => files.spec(),
            Self::Drawn(spec, _) => spec,
        }
    }
}

/// The text to train on, which must be UTF-8.
fn characters(args: &TrainArgs) -> Result<String, CliError> {
    let text = String::from_utf8(text(args)?.bytes().to_vec());
    let text = text.map_err(|error| {
        let path = args.text.as_ref();
        let path = path.map_or_else(
            || "the bundled text".to_owned(),
            |path| path.display().to_string(),
        );
        let message = format!("{path}: expected UTF-8, got {}", error.utf8_error());
        CliError::usage(message, Some("a tokenizer takes characters, not bytes"))
    })?;
    Ok(if args.published.paragraphs {
        joined(&text)
    } else {
        text
    })
}

/// The text with each paragraph's lines joined into one.
fn joined(text: &str) -> String {
    let mut joined = String::with_capacity(text.len());
    for line in text.lines().map(str::trim) {
        let begins = joined.is_empty() || joined.ends_with('\n');
        if !begins {
            joined.push(if line.is_empty() { '\n' } else { ' ' });
        }
        joined.push_str(line);
    }
    joined
}

fn loaded(folder: &Path) -> Result<(Value, Weights), CliError> {
    let files = ModelFiles::open(folder)?;
    let config = files.config();
    let config = config.ok_or_else(|| {
        let message = format!("{}: expected a folder with config.json", folder.display());
        CliError::usage(message, Some("a GGUF file can't be trained"))
    })?;
    Ok((config, Weights::Files(Box::new(files))))
}

fn drawn(folder: &Path) -> Result<(Value, Weights), CliError> {
    let path = folder.join("config.json");
    let bytes = fs::read(&path).map_err(CliError::read(path.display()))?;
    let config: Value = python_json(&bytes).map_err(|error| {
        let message = format!("{}: expected JSON, got {error}", path.display());
        CliError::usage(message, None)
    })?;
    let described = describe_all(&config).map_err(|misfits| {
        let message = format!("{}: {misfits}", path.display());
        CliError::usage(message, None)
    })?;
    let family = described.family.name;
    Ok((config, Weights::Drawn(described.spec, family)))
}

#[cfg(test)]
mod tests {
    use super::joined;

    #[test]
    fn lines_of_a_paragraph_become_one() {
        let text = "CHAPTER 1.\n\n\nCall me\nIshmael.  \nSome years\n\nago";
        assert_eq!(joined(text), "CHAPTER 1.\nCall me Ishmael. Some years\nago");
    }
}

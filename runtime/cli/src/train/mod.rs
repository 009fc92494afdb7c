//! `moebius train`: trains a model and shows its progress, here the small decoder over bytes, in [`published`] published
//! models.

mod lessons;
mod published;

use std::path::Path;

use anstyle::Style;
use moebius::fp8::training::{Fp8Scaling, MomentStore};
use moebius_device::{Device, Work, probe};
use moebius_model::decoder::ModelSpec;
use moebius_model::{
    AdapterConfig, BaseWeights, Checkpoint, DecoderConfig, Fp8Report, LayerLoad, Precision, Report,
    Savings, Subject, Text, TrainConfig, TrainMemory, Trainer,
};
use serde_json::{Value, json};

use crate::args::TrainArgs;
use crate::error::CliError;
use crate::resolve::open_for;
use crate::screen::{BAD, GOOD, Outcome, Screen, Table};

/// Runs `moebius train`.
pub(crate) fn run(args: &TrainArgs, screen: &mut Screen) -> Result<Outcome, CliError> {
    if let (Some(model), Some(out)) = (&args.published.model, &args.published.out) {
        return published::run(args, (model, out), screen);
    }
    // Files are read before the device is opened, since that fails sooner.
    let course = Course::read(args, TrainConfig::default(), |checkpoint| {
        let known = checkpoint.and_then(Checkpoint::sizes);
        Subject::from(sizes(args, known.unwrap_or_default()))
    })?;
    let ids = text(args)?.ids();
    let flops = course.config.step_flops(&course.subject.spec());
    let (name, device) = open_for(Work::Steps { flops }, args.devices, screen)?;
    let spec = course.subject.spec();
    spec.check_experts(&device)?;
    let step = StepMemory::of(&spec, &course.config);
    check_memory(args, step, (name, &device))?;
    let Course {
        config,
        subject,
        checkpoint,
        ..
    } = course;
    let mut trainer = match checkpoint {
        Some(checkpoint) => Trainer::resume(checkpoint, subject, ids, &device)?,
        None => Trainer::new(config, subject, ids, &device)?,
    };
    save_memory(args, &mut trainer)?;
    title(name, &trainer, screen)?;
    let run = steps(args, &mut trainer, None, screen)?;
    let fell = run.say(args, &trainer, screen)?;
    screen.object(&run.object(args, name, &trainer))?;
    Ok(Outcome::of(fell))
}

/// `sizes`, replaced by those on the command line.
fn sizes(args: &TrainArgs, mut sizes: DecoderConfig) -> DecoderConfig {
    if let Some(hidden) = args.hidden {
        sizes = sizes.with_hidden(hidden);
    }
    let numbers = [
        (&mut sizes.layers, args.layers),
        (&mut sizes.experts, args.experts),
        (&mut sizes.top_k, args.top_k),
        (&mut sizes.sequence, args.seq),
    ];
    for (number, wanted) in numbers {
        *number = wanted.unwrap_or(*number);
    }
    sizes
}

fn title(device: Device, trainer: &Trainer, screen: &mut Screen) -> Result<(), CliError> {
    let config = trainer.config();
    if let Subject::Bytes(sizes) = trainer.subject() {
        let title = format!(
            "Training on {device} in {} · {} layers of {}, {} experts, top-{} · {} parameters · {} steps of {} × {} bytes",
            precision(config),
            sizes.layers,
            sizes.hidden,
            sizes.experts,
            sizes.top_k,
            trainer.parameters(),
            config.steps,
            sequences(config),
            config.sequence,
        );
        screen.heading(&title)?;
    }
    goes_on(trainer, screen)
}

/// The configuration of a training, the model it trains, and the checkpoint to resume from.
struct Course {
    config: TrainConfig,
    subject: Subject,
    checkpoint: Option<Checkpoint>,
    /// The adapter that is trained; `None` where all weights are.
    adapter: Option<AdapterConfig>,
}

impl Course {
    /// Reads the course from the command line; what that leaves out comes from the checkpoint or else `default`. The checkpoint must be
    /// of the same training. `subject` returns the model to train.
    fn read(
        args: &TrainArgs,
        default: TrainConfig,
        subject: impl FnOnce(Option<&Checkpoint>) -> Subject,
    ) -> Result<Self, CliError> {
        let checkpoint = checkpoint(args)?;
        let known = checkpoint.as_ref();
        let config = config(args, known.map_or(default, |known| *known.config()));
        let subject = subject(known);
        let adapter = adapter(args);
        let adapter = adapter.or_else(|| known.and_then(Checkpoint::adapter).cloned());
        if let Some(known) = known {
            let same = known.check_config(&config);
            let same = same.and_then(|()| known.check_subject(&subject));
            let same = same.and_then(|()| known.check_adapter(adapter.as_ref()));
            same.map_err(moebius_model::Error::from)?;
        }
        subject.check(&config)?;
        Ok(Self {
            config,
            subject,
            checkpoint,
            adapter,
        })
    }
}

/// The adapter that a command line asks for.
fn adapter(args: &TrainArgs) -> Option<AdapterConfig> {
    let (of, default) = (&args.published, AdapterConfig::default());
    let targets = Some(of.lora_targets.clone()).filter(|targets| !targets.is_empty());
    Some(AdapterConfig {
        rank: of.lora?,
        alpha: of.lora_alpha.unwrap_or(default.alpha),
        rank_stabilized: of.lora_rslora,
        targets: targets.unwrap_or(default.targets),
    })
}

/// The text to train on.
fn text(args: &TrainArgs) -> Result<Text, CliError> {
    Ok(match &args.text {
        Some(path) => Text::read(path)?,
        None => Text::bundled(),
    })
}

/// The checkpoint to resume from, if asked for.
fn checkpoint(args: &TrainArgs) -> Result<Option<Checkpoint>, CliError> {
    let Some(folder) = &args.checkpoint else {
        return Ok(None);
    };
    if args.resume {
        let checkpoint = Checkpoint::read(folder).map_err(moebius_model::Error::from)?;
        return Ok(Some(checkpoint));
    }
    if Checkpoint::exists(folder) {
        let message = format!("{} holds a checkpoint already", folder.display());
        let hint = "--resume goes on with it; to begin anew, name another folder";
        return Err(CliError::usage(message, Some(hint)));
    }
    Ok(None)
}

/// `config`, with the numbers of the command line.
fn config(args: &TrainArgs, mut config: TrainConfig) -> TrainConfig {
    let numbers = [
        (&mut config.batch, args.batch),
        (&mut config.accumulate, args.accumulate),
        (&mut config.warm_up, args.warm_up),
        (&mut config.sequence, args.seq),
        (&mut config.steps, args.steps),
    ];
    for (number, wanted) in numbers {
        *number = wanted.unwrap_or(*number);
    }
    if let Some(precision) = args.precision {
        config = config.with_precision(precision);
    }
    config.loss_scaling = args.loss_scale.unwrap_or(config.loss_scaling);
    config.schedule = args.schedule.unwrap_or(config.schedule);
    config.learning_rate = args.learning_rate.unwrap_or(config.learning_rate);
    config.weight_decay = args.published.weight_decay.unwrap_or(config.weight_decay);
    let lora = args.published.lora.is_some();
    config.base = match args.published.base {
        Some(base) => base,
        // Only weights in bf16 are multiplied in bf16 below an adapter.
        None if lora && args.precision == Some(Precision::Bf16) => BaseWeights::Bf16,
        None => config.base,
    };
    config.seed = args.seed.unwrap_or(config.seed);
    config
}

/// Name of a precision in a title, with what weights are below an adapter where they aren't f32.
fn precision(config: &TrainConfig) -> String {
    let name = match config.precision {
        Precision::F32 => "f32",
        Precision::Bf16 => "bf16",
        Precision::Fp8(recipe) => match recipe.scaling {
            Fp8Scaling::Current => "FP8 with current scaling",
            Fp8Scaling::Delayed { .. } => "FP8 with delayed scaling",
        },
    };
    match config.base {
        BaseWeights::F32 | BaseWeights::Bf16 => name.to_owned(),
        base => format!("{name}, weights {base}"),
    }
}

/// What a step's memory depends on beside the options about memory.
struct StepMemory<'a> {
    spec: &'a ModelSpec,
    config: &'a TrainConfig,
    /// The parameters of an adapter; `None` where all weights are trained.
    adapter: Option<u64>,
    /// The bytes of the weights below an adapter; `None` for f32.
    base: Option<u64>,
}

impl<'a> StepMemory<'a> {
    /// A step that trains all weights.
    fn of(spec: &'a ModelSpec, config: &'a TrainConfig) -> Self {
        Self {
            spec,
            config,
            adapter: None,
            base: None,
        }
    }
}

/// Checks that a device has memory for the steps that the command line asks for.
fn check_memory(
    args: &TrainArgs,
    step: StepMemory<'_>,
    (name, device): (Device, &burn::tensor::Device),
) -> Result<(), CliError> {
    if args.memory_margin == 0 {
        return Ok(());
    }
    // On a processor, behind whatever runtime, main memory is the device's.
    let has_own = !probe(&name).is_ok_and(|capability| capability.is_cpu());
    let place = args.offload_optimizer.as_deref();
    let savings = Savings {
        recomputes: args.checkpoint_activations,
        offloads: place.is_some_and(|place| has_own || place != Path::new("host")),
        adapter: step.adapter,
        base: step.base,
    };
    let memory = TrainMemory::new(step.spec, step.config, savings, device);
    let checked = memory.check(args.memory_margin, device);
    Ok(checked.map_err(moebius_model::Error::from)?)
}

/// The sequences of a step in a title.
fn sequences(config: &TrainConfig) -> String {
    match config.accumulate {
        1 => config.batch.to_string(),
        batches => format!("{batches} × {}", config.batch),
    }
}

/// Writes the step after which a resumed training continues.
fn goes_on(trainer: &Trainer, screen: &mut Screen) -> Result<(), CliError> {
    match trainer.steps_done() {
        0 => Ok(()),
        step => screen.line(&format!("  goes on after step {step}")),
    }
}

/// Function that measures a model during its training.
type Evaluate<'a> = dyn Fn(&Trainer, &mut Screen) -> Result<(), CliError> + 'a;

/// Makes a training take less memory, where that is asked for.
fn save_memory(args: &TrainArgs, trainer: &mut Trainer) -> Result<(), CliError> {
    if let Some(place) = &args.offload_optimizer {
        trainer.keep_moments_in(moments(place)?);
    }
    if args.checkpoint_activations {
        trainer.checkpoint_activations()?;
    }
    Ok(())
}

/// Trains until the last step or the one to stop at, measures the model after every so many steps, and writes checkpoints if asked for.
fn steps(
    args: &TrainArgs,
    trainer: &mut Trainer,
    evaluate: Option<(usize, &Evaluate<'_>)>,
    screen: &mut Screen,
) -> Result<Run, CliError> {
    let (first, unit) = (trainer.steps_done(), trainer.subject().unit());
    let bar = screen.steps("steps", trainer.config().steps);
    bar.inc(first as u64);
    let stop = args.stop_after.map(|n| first.saturating_add(n));
    let (mut last, mut seconds) = (None, 0.0);
    while !trainer.is_finished() && stop.is_none_or(|stop| trainer.steps_done() < stop) {
        trainer.step()?;
        bar.inc(1);
        let step = trainer.steps_done();
        let ends = trainer.is_finished() || Some(step) == stop;
        let due = |(every, _): &(usize, &Evaluate<'_>)| step.is_multiple_of(*every);
        // The end of a training is measured by its caller.
        let evaluate = evaluate.filter(|of| due(of) && !trainer.is_finished());
        if !ends && !step.is_multiple_of(args.every) && evaluate.is_none() {
            continue;
        }
        let report = trainer.report()?;
        bar.set_message(format!("loss {:.3}", report.loss));
        bar.suspend(|| say(&report, unit, screen))?;
        if let Some(folder) = &args.checkpoint {
            let written = trainer.checkpoint()?.write(folder);
            written.map_err(moebius_model::Error::from)?;
        }
        if let Some((_, evaluate)) = evaluate {
            bar.suspend(|| evaluate(trainer, screen))?;
        }
        seconds += report.seconds;
        last = Some(report);
    }
    bar.finish_and_clear();
    let tokens = (trainer.steps_done() - first) * trainer.config().tokens();
    Ok(Run {
        last,
        speed: tokens as f64 / seconds,
    })
}

/// The store of an optimizer's moments that a command line names.
fn moments(place: &Path) -> Result<MomentStore, CliError> {
    if place == Path::new("host") {
        return Ok(MomentStore::host());
    }
    MomentStore::file(place).map_err(CliError::write(place.display()))
}

/// Result of the steps of one run.
struct Run {
    /// The last report; `None` if there was no step.
    last: Option<Report>,
    /// Tokens per second.
    speed: f64,
}

impl Run {
    /// Whether the loss fell; `None` if there was no step.
    fn fell(&self, trainer: &Trainer) -> Option<bool> {
        let last = self.last.as_ref()?;
        // A loss of NaN did not fall.
        Some(trainer.first_loss().is_some_and(|first| last.loss < first))
    }

    /// Writes the last report's expert loads, the loss and the checkpoint's place; returns whether the loss fell, or true if there was
    /// nothing left to do.
    fn say(
        &self,
        args: &TrainArgs,
        trainer: &Trainer,
        screen: &mut Screen,
    ) -> Result<bool, CliError> {
        let (Some(last), Some(fell)) = (&self.last, self.fell(trainer)) else {
            screen.line("  nothing left to do")?;
            return Ok(true);
        };
        if !last.layers.is_empty() {
            loads(&last.layers, screen)?;
        }
        let (style, verdict) = if fell {
            (GOOD, "fell")
        } else {
            (BAD, "did not fall")
        };
        let unit = trainer.subject().unit();
        screen.line(&format!(
            "\n  loss {} from {:.3} to {:.3} nats a {unit} · {:.0} {unit}s/s",
            screen.paint(style, verdict),
            trainer.first_loss().unwrap_or(f32::NAN),
            last.loss,
            self.speed,
        ))?;
        if let Some(folder) = &args.checkpoint {
            let step = trainer.steps_done();
            let folder = folder.display();
            screen.line(&format!("  checkpoint of step {step} in {folder}"))?;
        }
        Ok(fell)
    }

    /// The result of the run as a JSON object.
    fn object(&self, args: &TrainArgs, device: Device, trainer: &Trainer) -> Value {
        let last = self.last.as_ref();
        json!({
            "device": device,
            "step": trainer.steps_done(),
            "parameters": trainer.parameters(),
            "first_loss": trainer.first_loss(),
            "last_loss": last.map(|last| last.loss),
            "fell": self.fell(trainer),
            "tokens_per_s": last.map(|_| self.speed),
            "layers": last.map(|last| &last.layers),
            "fp8": last.map(|last| &last.fp8),
            "checkpoint": args.checkpoint,
        })
    }
}

/// Writes one report, as a line or as an object; `unit` is the name of one token.
fn say(report: &Report, unit: &str, screen: &mut Screen) -> Result<(), CliError> {
    let used: Vec<String> = report
        .layers
        .iter()
        .map(|layer| format!("{}/{}", layer.used(), layer.counts.len()))
        .collect();
    // A model without experts has no such part.
    let used = if used.is_empty() {
        String::new()
    } else {
        format!("  experts used {}", used.join(" "))
    };
    screen.line(&format!(
        "  step {:>5}  loss {:.3}  rate {:.1e}  {:>7.0} {unit}s/s{used}",
        report.step, report.loss, report.learning_rate, report.tokens_per_s,
    ))?;
    if let Some(fp8) = &report.fp8 {
        say_fp8(fp8, screen)?;
    }
    screen.object(report)
}

fn say_fp8(fp8: &Fp8Report, screen: &mut Screen) -> Result<(), CliError> {
    let loss = &fp8.loss_scale;
    let scales = match fp8.scales {
        0 => String::new(),
        all => format!(
            "  never saturated {}/{all} scales, {} steps in all",
            fp8.never_saturated, fp8.saturated
        ),
    };
    screen.line(&format!(
        "              loss scale {}  skipped steps {}{scales}",
        loss.scale, loss.skipped_steps
    ))
}

/// Writes how the last report's tokens were shared out among the experts.
fn loads(layers: &[LayerLoad], screen: &mut Screen) -> Result<(), CliError> {
    screen.line("")?;
    let headings = "layer | variation | dropped | slots of each expert, %";
    let mut table = Table::new(headings).right(&[1, 2]);
    for (index, layer) in layers.iter().enumerate() {
        let shares: Vec<String> = layer
            .utilization
            .iter()
            .map(|share| format!("{:.1}", 100.0 * share))
            .collect();
        let unused = layer.used() < layer.counts.len();
        let cells = [
            index.to_string(),
            layer
                .coefficient_of_variation
                .map_or_else(|| "–".to_owned(), |variation| format!("{variation:.2}")),
            layer.dropped.to_string(),
            shares.join(" "),
        ];
        table.row(cells, if unused { BAD } else { Style::new() });
    }
    table.print(screen)
}

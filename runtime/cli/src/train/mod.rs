//! `moebius train`: of the small transformer here, of published models in [`published`].

mod published;
mod said;

use std::path::Path;

use moebius::fp8::training::Fp8Scaling;
use moebius_device::{Device, Work};
use moebius_model::{Checkpoint, Precision, Report, Text, TrainConfig, Trainer};
use serde_json::json;

use crate::args::TrainArgs;
use crate::error::CliError;
use crate::progress;
use crate::resolve::resolve_for;
use crate::screen::{BAD, GOOD, Outcome, Screen};
use said::{loads, say};

/// Runs `moebius train`.
pub(crate) fn run(args: &TrainArgs, screen: &mut Screen) -> Result<Outcome, CliError> {
    if let (Some(model), Some(out)) = (&args.published.model, &args.published.out) {
        return published::run(args, (model, out), screen);
    }
    // What reads files comes first: it fails sooner than a device opens.
    let checkpoint = checkpoint(args)?;
    let text = match &args.text {
        Some(path) => Text::read(path)?,
        None => Text::bundled(),
    };
    let config = match &checkpoint {
        Some(checkpoint) => *checkpoint.config(),
        None => config(args, TrainConfig::default()),
    };
    let flops = config.step_flops();
    let name = resolve_for(Work::Steps { flops }, args.device, screen)?;
    let device = moebius::open(&name)?;
    let mut trainer = match checkpoint {
        Some(checkpoint) => Trainer::resume(checkpoint, text, &device)?,
        None => Trainer::new(config, text, &device)?,
    };
    title(name, &trainer, screen)?;
    let done = trainer.steps_done();
    let (last, seconds) = steps(args, &mut trainer, screen)?;
    let tokens = (trainer.steps_done() - done) * trainer.config().tokens();
    let speed = tokens as f64 / seconds;
    result(args, name, &trainer, (last, speed), screen)
}

/// The checkpoint to go on from, if that is wanted; it must be of the training asked for.
fn checkpoint(args: &TrainArgs) -> Result<Option<Checkpoint>, CliError> {
    let Some(folder) = &args.checkpoint else {
        return Ok(None);
    };
    if args.resume {
        let checkpoint = Checkpoint::read(folder).map_err(moebius_model::Error::from)?;
        checkpoint
            .check_config(&config(args, *checkpoint.config()))
            .map_err(moebius_model::Error::from)?;
        return Ok(Some(checkpoint));
    }
    if Checkpoint::exists(folder) {
        let message = format!("{} holds a checkpoint already", folder.display());
        let hint = "--resume goes on with it; to begin anew, name another folder";
        return Err(CliError::usage(message, Some(hint)));
    }
    Ok(None)
}

/// `config` with the numbers of the command line.
fn config(args: &TrainArgs, mut config: TrainConfig) -> TrainConfig {
    if let Some(hidden) = args.hidden {
        config.decoder = config.decoder.with_hidden(hidden);
    }
    let decoder = &mut config.decoder;
    let numbers = [
        (&mut decoder.layers, args.layers),
        (&mut decoder.experts, args.experts),
        (&mut decoder.top_k, args.top_k),
        (&mut decoder.sequence, args.seq),
        (&mut config.batch, args.batch),
        (&mut config.steps, args.steps),
    ];
    for (number, wanted) in numbers {
        *number = wanted.unwrap_or(*number);
    }
    if let Some(precision) = args.precision {
        config = config.with_precision(precision);
    }
    config.loss_scaling = args.loss_scale.unwrap_or(config.loss_scaling);
    config.learning_rate = args.learning_rate.unwrap_or(config.learning_rate);
    config.seed = args.seed.unwrap_or(config.seed);
    config
}

/// What a precision is called in the title.
fn precision(precision: &Precision) -> &'static str {
    match precision.recipe().map(|recipe| recipe.scaling) {
        None => "f32",
        Some(Fp8Scaling::Current) => "FP8 with current scaling",
        Some(Fp8Scaling::Delayed { .. }) => "FP8 with delayed scaling",
    }
}

fn title(device: Device, trainer: &Trainer, screen: &mut Screen) -> Result<(), CliError> {
    let (config, sizes) = (trainer.config(), &trainer.config().decoder);
    let title = format!(
        "Training on {device} in {} · {} layers of {}, {} experts, top-{} · {} parameters · {} steps of {} × {} bytes",
        precision(&sizes.precision),
        sizes.layers,
        sizes.hidden,
        sizes.experts,
        sizes.top_k,
        trainer.parameters(),
        config.steps,
        config.batch,
        sizes.sequence,
    );
    screen.heading(&title)?;
    match trainer.steps_done() {
        0 => Ok(()),
        step => screen.line(&format!("  goes on after step {step}")),
    }
}

/// Trains until the last step or the one to stop at; returns the last report, if there was a step,
/// and the seconds of all steps.
fn steps(
    args: &TrainArgs,
    trainer: &mut Trainer,
    screen: &mut Screen,
) -> Result<(Option<Report>, f64), CliError> {
    let bar = progress::steps(screen, "steps", trainer.config().steps);
    bar.inc(trainer.steps_done() as u64);
    let stop = args
        .stop_after
        .map(|n| trainer.steps_done().saturating_add(n));
    let (mut last, mut seconds) = (None, 0.0);
    while !trainer.is_finished() && stop.is_none_or(|stop| trainer.steps_done() < stop) {
        trainer.step()?;
        bar.inc(1);
        let step = trainer.steps_done();
        let ends = trainer.is_finished() || Some(step) == stop;
        if !ends && !step.is_multiple_of(args.every) {
            continue;
        }
        let report = trainer.report()?;
        bar.set_message(format!("loss {:.3}", report.loss));
        bar.suspend(|| say(&report, "bytes", screen))?;
        if let Some(folder) = &args.checkpoint {
            save(trainer, folder)?;
        }
        seconds += report.seconds;
        last = Some(report);
    }
    bar.finish_and_clear();
    Ok((last, seconds))
}

fn save(trainer: &Trainer, folder: &Path) -> Result<(), CliError> {
    let written = trainer.checkpoint()?.write(folder);
    Ok(written.map_err(moebius_model::Error::from)?)
}

fn result(
    args: &TrainArgs,
    device: Device,
    trainer: &Trainer,
    (last, speed): (Option<Report>, f64),
    screen: &mut Screen,
) -> Result<Outcome, CliError> {
    let first = trainer.first_loss();
    let Some(last) = last else {
        screen.line("  nothing left to do")?;
        screen.object(&json!({ "device": device, "step": trainer.steps_done() }))?;
        return Ok(Outcome::Good);
    };
    // A loss that isn't a number didn't fall.
    let fell = first.is_some_and(|first| last.loss < first);
    loads(&last.layers, screen)?;
    let (style, verdict) = if fell {
        (GOOD, "fell")
    } else {
        (BAD, "did not fall")
    };
    screen.line(&format!(
        "\n  loss {} from {:.3} to {:.3} nats a byte · {speed:.0} bytes/s",
        screen.paint(style, verdict),
        first.unwrap_or(f32::NAN),
        last.loss,
    ))?;
    if let Some(folder) = &args.checkpoint {
        let step = trainer.steps_done();
        screen.line(&format!(
            "  checkpoint of step {step} in {}",
            folder.display()
        ))?;
    }
    screen.object(&json!({
        "device": device,
        "step": last.step,
        "parameters": trainer.parameters(),
        "first_loss": first,
        "last_loss": last.loss,
        "fell": fell,
        "tokens_per_s": speed,
        "layers": last.layers,
        "fp8": last.fp8,
        "checkpoint": args.checkpoint,
    }))?;
    Ok(Outcome::of(fell))
}

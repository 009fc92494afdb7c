//! `moebius train`: of the small decoder over bytes, of published models in [`published`].

mod course;
mod published;
mod said;

use moebius_device::{Device, Work};
use moebius_model::{Checkpoint, DecoderConfig, Subject, TrainConfig, Trainer};

use crate::args::TrainArgs;
use crate::error::CliError;
use crate::resolve::resolve_for;
use crate::screen::{Outcome, Screen};
use course::{Course, goes_on, precision, steps, text};

/// Runs `moebius train`.
pub(crate) fn run(args: &TrainArgs, screen: &mut Screen) -> Result<Outcome, CliError> {
    if let (Some(model), Some(out)) = (&args.published.model, &args.published.out) {
        return published::run(args, (model, out), screen);
    }
    // What reads files comes first: it fails sooner than a device opens.
    let course = Course::read(args, TrainConfig::default(), |checkpoint| {
        let known = checkpoint.and_then(Checkpoint::sizes);
        Subject::from(sizes(args, known.unwrap_or_default()))
    })?;
    let ids = text(args)?.ids();
    let flops = course.config.step_flops(&course.subject.spec());
    let name = resolve_for(Work::Steps { flops }, args.device, screen)?;
    let device = moebius::open(&name)?;
    let Course {
        config,
        subject,
        checkpoint,
    } = course;
    let mut trainer = match checkpoint {
        Some(checkpoint) => Trainer::resume(checkpoint, subject, ids, &device)?,
        None => Trainer::new(config, subject, ids, &device)?,
    };
    title(name, &trainer, screen)?;
    let run = steps(args, &mut trainer, screen)?;
    let fell = run.say(args, &trainer, screen)?;
    screen.object(&run.object(args, name, &trainer))?;
    Ok(Outcome::of(fell))
}

/// `sizes` with those of the command line.
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
            config.batch,
            config.sequence,
        );
        screen.heading(&title)?;
    }
    goes_on(trainer, screen)
}

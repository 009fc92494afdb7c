//! `moebius train --model`: a published model goes on learning, or learns from drawn weights.

mod source;

use std::path::Path;

use moebius_device::{Device, Work};
use moebius_model::{Subject, TrainConfig, Trainer, Windows, check_target, spread};
use serde_json::json;

use super::course::{Course, goes_on, precision, steps};
use crate::args::TrainArgs;
use crate::error::CliError;
use crate::progress;
use crate::resolve::resolve_for;
use crate::screen::{Outcome, Screen};
use source::Source;

/// Tokens at the end of a text that are not learnt from, unless the command line says how many.
const HELD_OUT: usize = 2048;

/// Runs `moebius train --model`.
pub(super) fn run(
    args: &TrainArgs,
    (model, out): (&Path, &Path),
    screen: &mut Screen,
) -> Result<Outcome, CliError> {
    // What reads files comes first: it fails sooner than a device opens.
    check_target(out)?;
    let source = Source::read(args, model)?;
    let (learnt, held_out) = source.parts(args.published.held_out.unwrap_or(HELD_OUT));
    let course = Course::read(args, TrainConfig::fine_tuning(), |_| {
        Subject::from(source.spec())
    })?;
    let flops = course.config.step_flops(source.spec());
    let name = resolve_for(Work::Steps { flops }, args.device, screen)?;
    let device = moebius::open(&name)?;
    let mut trainer = source.trainer(course, learnt.to_vec(), &device, screen)?;
    title(name, (&source, &trainer), screen)?;
    let before = judged("before", (&source, &trainer), held_out, screen)?;
    let run = steps(args, &mut trainer, screen)?;
    let after = judged("after", (&source, &trainer), held_out, screen)?;
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
        screen.line(&format!("  the trained model is in {}", folder.display()))?;
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
        config.batch,
        config.sequence,
    );
    screen.heading(&title)?;
    goes_on(trainer, screen)
}

/// What a model is judged by, before and after.
struct Judged {
    /// On what wasn't learnt from.
    perplexity: Option<f64>,
    /// How far the experts of each layer are from their mean.
    apart: Vec<f64>,
}

/// On the text `held_out`, in windows of the length of a sequence.
fn judged(
    when: &str,
    (source, trainer): (&Source, &Trainer),
    held_out: &[u32],
    screen: &mut Screen,
) -> Result<Judged, CliError> {
    let apart = spread(&mut trainer.model(), source.spec())?;
    if held_out.len() < 2 {
        let perplexity = None;
        return Ok(Judged { perplexity, apart });
    }
    let context = trainer.config().sequence.max(2);
    let windows = Windows::new(context, context / 2)?;
    let bar = progress::steps(screen, "held-out tokens", held_out.len() - 1);
    let found = trainer.perplexity(held_out, windows, &mut |judged| {
        bar.set_position(judged as u64);
    });
    bar.finish_and_clear();
    let found = found?;
    let (perplexity, tokens) = (found.perplexity(), found.tokens);
    screen.line(&format!(
        "  perplexity {when}: {perplexity:.2} on {tokens} held-out tokens"
    ))?;
    let perplexity = Some(perplexity);
    Ok(Judged { perplexity, apart })
}

fn mean(of: &[f64]) -> Option<f64> {
    (!of.is_empty()).then(|| of.iter().sum::<f64>() / of.len() as f64)
}

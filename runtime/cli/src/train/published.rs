//! `moebius train --model`: a published model goes on learning, or learns from drawn weights.

mod source;

use std::path::Path;

use moebius_device::{Device, Work};
use moebius_model::{
    Beside, Perplexity, Report, Tuner, TuningConfig, Windows, check_target, save, spread,
};
use serde_json::{Value, json};

use super::said::{loads, say};
use crate::args::TrainArgs;
use crate::error::CliError;
use crate::progress;
use crate::resolve::resolve_for;
use crate::screen::{BAD, GOOD, Outcome, Screen};
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
    let config = config(args);
    let flops = config.step_flops(source.spec());
    let name = resolve_for(Work::Steps { flops }, args.device, screen)?;
    let device = moebius::open(&name)?;
    let tuner = source.tuner(config, learnt.to_vec(), &device, screen)?;
    let mut training = Training {
        held_out,
        tuner,
        screen,
    };
    training.title(name, &source)?;
    let before = training.perplexity("before")?;
    let apart_before = training.spread(&source)?;
    let (last, seconds) = training.steps(args.every)?;
    let after = training.perplexity("after")?;
    let apart = training.spread(&source)?;
    let mut model = training.tuner.model();
    let beside = Beside {
        folder: Some(source.folder()),
        files: source.made(),
    };
    let folder = save(&mut model, source.config(), beside, out)?;
    let speed = (training.tuner.steps_done() * config.tokens()) as f64 / seconds;
    let result = Trained {
        name,
        last,
        speed,
        perplexity: [before, after],
        apart: [apart_before, apart],
        folder: folder.display().to_string(),
    };
    result.say(&training.tuner, training.screen)
}

/// The numbers of the command line.
fn config(args: &TrainArgs) -> TuningConfig {
    let default = TuningConfig::default();
    let rate = args.learning_rate.map(f64::from);
    TuningConfig {
        batch: args.batch.unwrap_or(default.batch),
        sequence: args.seq.unwrap_or(default.sequence),
        steps: args.steps.unwrap_or(default.steps),
        learning_rate: rate.unwrap_or(default.learning_rate),
        weight_decay: args.published.weight_decay.unwrap_or(default.weight_decay),
        seed: args.seed.unwrap_or(default.seed),
        ..default
    }
}

/// A training, what it is judged by, and who watches it.
struct Training<'a> {
    tuner: Tuner,
    held_out: &'a [u32],
    screen: &'a mut Screen,
}

impl Training<'_> {
    fn title(&mut self, device: Device, source: &Source) -> Result<(), CliError> {
        let config = self.tuner.config();
        let title = format!(
            "Training {} on {device} in f32 · {} parameters{} · {} steps of {} × {} tokens",
            source.family(),
            self.tuner.parameters(),
            source.origin(),
            config.steps,
            config.batch,
            config.sequence,
        );
        self.screen.heading(&title)
    }

    /// On what wasn't learnt from, in windows of the length of a sequence.
    fn perplexity(&mut self, when: &str) -> Result<Option<Perplexity>, CliError> {
        if self.held_out.len() < 2 {
            return Ok(None);
        }
        let context = self.tuner.config().sequence.max(2);
        let windows = Windows::new(context, context / 2)?;
        let bar = progress::steps(self.screen, "held-out tokens", self.held_out.len() - 1);
        let found = self
            .tuner
            .perplexity(self.held_out, windows, &mut |judged| {
                bar.set_position(judged as u64);
            });
        bar.finish_and_clear();
        let found = found?;
        self.screen.line(&format!(
            "  perplexity {when}: {:.2} on {} held-out tokens",
            found.perplexity(),
            found.tokens,
        ))?;
        Ok(Some(found))
    }

    fn spread(&self, source: &Source) -> Result<Vec<f64>, CliError> {
        Ok(spread(&mut self.tuner.model(), source.spec())?)
    }

    /// Trains until the last step; returns the last report and the seconds of all steps.
    fn steps(&mut self, every: usize) -> Result<(Option<Report>, f64), CliError> {
        let bar = progress::steps(self.screen, "steps", self.tuner.config().steps);
        let (mut last, mut seconds) = (None, 0.0);
        while !self.tuner.is_finished() {
            self.tuner.step()?;
            bar.inc(1);
            let step = self.tuner.steps_done();
            if !self.tuner.is_finished() && !step.is_multiple_of(every) {
                continue;
            }
            let report = self.tuner.report()?;
            bar.set_message(format!("loss {:.3}", report.loss));
            bar.suspend(|| say(&report, "tokens", self.screen))?;
            seconds += report.seconds;
            last = Some(report);
        }
        bar.finish_and_clear();
        Ok((last, seconds))
    }
}

/// What came out.
struct Trained {
    name: Device,
    last: Option<Report>,
    speed: f64,
    perplexity: [Option<Perplexity>; 2],
    /// How far the experts of each layer are from their mean, before and after.
    apart: [Vec<f64>; 2],
    folder: String,
}

impl Trained {
    fn say(self, tuner: &Tuner, screen: &mut Screen) -> Result<Outcome, CliError> {
        let first = tuner.first_loss();
        let last = self.last.as_ref().map(|report| report.loss);
        // A loss that isn't a number didn't fall.
        let fell = first.zip(last).is_some_and(|(first, last)| last < first);
        if let Some(report) = self.last.as_ref().filter(|of| !of.layers.is_empty()) {
            loads(&report.layers, screen)?;
        }
        let (style, verdict) = if fell {
            (GOOD, "fell")
        } else {
            (BAD, "did not fall")
        };
        screen.line(&format!(
            "\n  loss {} from {:.3} to {:.3} nats a token · {:.0} tokens/s",
            screen.paint(style, verdict),
            first.unwrap_or(f32::NAN),
            last.unwrap_or(f32::NAN),
            self.speed,
        ))?;
        let [before, after] = [&self.apart[0], &self.apart[1]].map(|apart| mean(apart));
        if let (Some(before), Some(after)) = (before, after) {
            let percent = [before, after].map(|apart| 100.0 * apart);
            let [before, after] = percent;
            screen.line(&format!(
                "  experts from {before:.2} % to {after:.2} % apart from their mean"
            ))?;
        }
        screen.line(&format!("  the trained model is in {}", self.folder))?;
        let perplexity = self
            .perplexity
            .map(|found| found.map(Perplexity::perplexity));
        screen.object(&json!({
            "device": self.name,
            "step": tuner.steps_done(),
            "parameters": tuner.parameters(),
            "first_loss": first,
            "last_loss": last,
            "fell": fell,
            "perplexity_before": perplexity[0],
            "perplexity": perplexity[1],
            "experts_apart_before": self.apart[0],
            "experts_apart": self.apart[1],
            "tokens_per_s": self.speed,
            "layers": self.last.map_or(Value::Null, |report| json!(report.layers)),
            "out": self.folder,
        }))?;
        Ok(Outcome::of(fell))
    }
}

fn mean(of: &[f64]) -> Option<f64> {
    (!of.is_empty()).then(|| of.iter().sum::<f64>() / of.len() as f64)
}

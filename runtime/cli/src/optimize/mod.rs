//! `moebius optimize`: finds options with which a model is faster or smaller, and makes a package with them.

mod accuracy;
mod lab;
mod plan;
mod search;

use std::fs;

use anstyle::Style;
use moebius_device::Device;
use moebius_model::{Text, check_target};
use serde_json::{Map, Value, json};

use crate::args::OptimizeArgs;
use crate::bench::engine;
use crate::config;
use crate::devices::bytes;
use crate::error::CliError;
use crate::package;
use crate::published::Source;
use crate::screen::{BAD, GOOD, Outcome, Screen, Table};
use accuracy::Judge;
use lab::{Bed, TURNS, Work};
use plan::{Budget, Plan, level};
use search::{Accuracy, Figures, Trial, Verdict, Wanted, search};

/// Runs `moebius optimize`.
pub(crate) fn run(args: &OptimizeArgs, screen: &mut Screen) -> Result<Outcome, CliError> {
    // What keeps the package from being made is told before hours of work.
    check_target(&args.out)?;
    let level = level(args.level, args.goal, args.budget);
    let wanted = Wanted {
        level,
        goal: args.goal,
        budget: Budget::of(level, args.budget),
    };
    let source = Source::open(Some(&args.model))?;
    let (name, plan, trials) = searched(args, &source, wanted, screen)?;
    let (level, goal) = (wanted.level.name(), args.goal.name());
    let family = source.files.family();
    drop(source);
    screen.heading(&format!(
        "{family} on {name} · {level}, for {goal} · medians of {TURNS} turns with the best so far"
    ))?;
    table(&trials).print(screen)?;
    let kept = trials.iter().filter(|trial| trial.verdict == Verdict::Kept);
    let kept: Vec<String> = kept.map(|trial| trial.change.flag()).collect();
    let said = if kept.is_empty() {
        "nothing to change: the defaults".to_owned()
    } else {
        format!("kept: {}", kept.join(" "))
    };
    screen.line(&format!("\n{}\n", screen.paint(GOOD, &said)))?;
    let version = env!("CARGO_PKG_VERSION");
    let found =
        format!("Found by `moebius optimize --level {level} --goal {goal}` {version} on {name}.");
    let bench = package::bench_args(plan.engine_args(name), args.requests);
    let settings = plan.settings(&found);
    let package = package::make(&args.model, bench, &args.out, Some(&settings), screen)?;
    if let Some(package) = &package {
        package::show(package, screen)?;
        let folder = args.out.display();
        let settings = args.out.join(config::HERE);
        screen.line(&format!(
            "  moebius serve --model {folder} --config {}",
            settings.display()
        ))?;
    }
    let chosen = plan.flags().into_iter();
    let chosen: Map<String, Value> = chosen
        .map(|(flag, value)| (flag.to_owned(), json!(value)))
        .collect();
    screen.object(&json!({
        "model": args.model.display().to_string(),
        "device": name,
        "level": wanted.level,
        "goal": args.goal,
        "budget": wanted.budget,
        "trials": trials.iter().map(object).collect::<Vec<_>>(),
        "chosen": chosen,
        "package": package::object(package.as_ref(), &args.out),
    }))?;
    Ok(Outcome::of(package.is_some()))
}

/// Loads the model by the default plan, and searches from there. Returns the device's name, the plan and all trials.
fn searched(
    args: &OptimizeArgs,
    source: &Source,
    wanted: Wanted,
    screen: &mut Screen,
) -> Result<(Device, Plan, Vec<Trial>), CliError> {
    let text = match &args.prompt_file {
        Some(path) => fs::read_to_string(path).map_err(CliError::read(path.display()))?,
        None => String::from_utf8_lossy(Text::bundled().bytes()).into_owned(),
    };
    let plan = Plan::default();
    let requests = package::bench_args(plan.engine_args(args.device), args.requests);
    let needed = requests.streams.saturating_mul(requests.prompt);
    let ids = engine::tokens(source, &text, needed)?;
    let work = Work {
        source,
        requests: &requests,
        ids: &ids,
    };
    let best = work.load(plan, args.device, screen)?;
    let (name, sample) = (best.name, source.tokenizer.encode(&text, true)?);
    let spinner = screen.spinner();
    spinner.set_message("what f32 computes");
    let judge = Judge::new(best.bench.engine.model(), &sample, &best.device);
    spinner.finish_and_clear();
    let mut bed = Bed {
        work,
        name,
        judge: judge?,
        screen,
    };
    let (plan, trials) = search(&mut bed, best, wanted);
    Ok((name, plan, trials))
}

/// A table of what was tried.
fn table(trials: &[Trial]) -> Table {
    let headings =
        "change | one by one, ms | together, ms | memory | perplexity | furthest part | verdict";
    let mut table = Table::new(headings).right(&[1, 2, 3, 4]);
    for trial in trials {
        let figure = |shown: fn(&Figures) -> String| {
            let turns = trial.turns.as_ref();
            turns.map_or(String::new(), |of| {
                format!("{} → {}", shown(&of.best), shown(&of.other))
            })
        };
        let accuracy = trial.accuracy.as_ref();
        let perplexity = accuracy.and_then(|of| of.perplexity);
        let perplexity = perplexity.map(|growth| format!("{:+.3} %", 100.0 * growth));
        let cells = [
            trial.change.flag(),
            figure(|of| format!("{:.1}", of.alone.ms())),
            figure(|of| format!("{:.1}", of.together.ms())),
            figure(|of| bytes(of.bytes)),
            perplexity.unwrap_or_default(),
            accuracy.map_or(String::new(), furthest),
            verdict(&trial.verdict),
        ];
        let style = match trial.verdict {
            Verdict::Kept => GOOD,
            Verdict::Small | Verdict::Noise => Style::new(),
            Verdict::Inaccurate(_) | Verdict::Unverified(_) | Verdict::Failed(_) => BAD,
        };
        table.row(cells, style);
    }
    table
}

/// The part that is the furthest from f32, and how far.
fn furthest(accuracy: &Accuracy) -> String {
    let part = accuracy.furthest();
    part.map_or(String::new(), |part| {
        let far = part.relative_l2.unwrap_or(f64::INFINITY);
        format!("{far:.1e} {}", part.place())
    })
}

fn verdict(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Kept => "kept".to_owned(),
        Verdict::Small => "saves less than 5 %".to_owned(),
        Verdict::Noise => "saves no more than the noise".to_owned(),
        Verdict::Inaccurate(why) => why.clone(),
        Verdict::Unverified(why) => (*why).to_owned(),
        Verdict::Failed(why) => format!("not possible: {why}"),
    }
}

/// A trial for JSON.
fn object(trial: &Trial) -> Value {
    let figures = |of: &Figures| {
        json!({
            "alone_ms": of.alone.ms(),
            "alone_spread": of.alone.spread(),
            "together_ms": of.together.ms(),
            "together_spread": of.together.spread(),
            "bytes": of.bytes,
        })
    };
    let accuracy = trial.accuracy.as_ref().map(|of| {
        let furthest = of.furthest();
        let furthest =
            furthest.map(|of| json!({ "part": of.place(), "relative_l2": of.relative_l2 }));
        json!({
            "perplexity_growth": of.perplexity,
            "furthest": furthest,
            "first_other_token": of.greedy,
        })
    });
    json!({
        "change": trial.change.flag(),
        "before": trial.turns.as_ref().map(|turns| figures(&turns.best)),
        "after": trial.turns.as_ref().map(|turns| figures(&turns.other)),
        "same_tokens": trial.turns.as_ref().map(|turns| turns.same_tokens),
        "accuracy": accuracy,
        "kept": trial.verdict == Verdict::Kept,
        "verdict": verdict(&trial.verdict),
    })
}

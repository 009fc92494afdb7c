//! `bench moe --backward`.

use moebius::moe::Keep;
use moebius_benches::moe::backward::{self, BackwardReport, FLOPS_OF_FORWARD, TrainingRun};
use serde_json::Value;

use super::{batch, bench, inter, outcome_of, peer, without_unverified};
use crate::args::{BenchKeep, BenchMoeArgs};
use crate::devices::bytes;
use crate::error::CliError;
use crate::screen::{BAD, GOOD, HEADING, Outcome, Screen};
use crate::table::Table;

/// Verifies and measures; `progress` is told what is being done.
pub(crate) fn measure(
    args: &BenchMoeArgs,
    progress: &mut dyn FnMut(&str),
) -> Result<BackwardReport, CliError> {
    let keeps: &[Keep] = match args.keep {
        // The smaller first: what is left of a larger one would count as its memory.
        None => &[Keep::Inputs, Keep::FirstProduct],
        Some(BenchKeep::FirstProduct) => &[Keep::FirstProduct],
        Some(BenchKeep::Inputs) => &[Keep::Inputs],
    };
    Ok(backward::run(&bench(args)?, keeps, progress)?)
}

/// Negative when a run did not verify.
pub(crate) fn outcome(report: &BackwardReport) -> Outcome {
    outcome_of(report.runs.iter().all(|run| run.verified))
}

/// The report as JSON; where a run did not verify, everything measured in it is `null`.
pub(crate) fn figures(report: &BackwardReport) -> Result<Value, CliError> {
    let mut value = serde_json::to_value(report)?;
    if let Some(runs) = value["runs"].as_array_mut() {
        for run in runs {
            *run = without_unverified(run.take(), &["keep", "verified", "max_rel_l2"]);
        }
    }
    Ok(value)
}

/// Writes the figures; none of a run that did not verify.
pub(crate) fn print(
    args: &BenchMoeArgs,
    report: &BackwardReport,
    screen: &mut Screen,
) -> Result<(), CliError> {
    let title = format!(
        "MoE {} → {} · {} experts, top-{} · {} · forward and backward · {} ({})",
        args.hidden,
        inter(args)?,
        args.experts,
        args.top_k,
        batch(args),
        report.device,
        report.variant,
    );
    screen.line(&format!("\n{}", screen.paint(HEADING, &title)))?;
    let headings = [
        "keeps", "kept", "forward", "both", "GFLOP/s", "of peak", "tokens/s", "memory", "",
    ];
    let mut table = Table::new(&headings).right(&[1, 2, 3, 4, 5, 6, 7]);
    for run in &report.runs {
        let (cells, style) = match run.verified {
            true => (row(run), GOOD),
            false => (refused(run), BAD),
        };
        table.row(cells, style);
    }
    table.print(screen)?;
    screen.line(&format!(
        "  GFLOP/s count {FLOPS_OF_FORWARD} × the forward's products, not what is computed again · peak {:.1}, {}",
        report.peak_gflops, report.peak_of,
    ))?;
    let verified = report.runs.iter().filter(|run| run.verified);
    for (run, figures) in verified.filter_map(|run| Some((run, run.peer.as_ref()?))) {
        screen.line(&format!("  {}:", name(run.keep)))?;
        peer(figures, screen)?;
    }
    Ok(())
}

fn row(run: &TrainingRun) -> [String; 9] {
    [
        name(run.keep).to_owned(),
        run.kept_bytes.map_or("–".to_owned(), bytes),
        format!("{:.2} ms", run.forward_ms),
        format!("{:.2} ms", run.median_ms),
        format!("{:.1}", run.gflops),
        format!("{:.0} %", 100.0 * run.peak_share),
        format!("{:.0}", run.tokens_per_s),
        run.device_bytes.map_or("–".to_owned(), bytes),
        format!("verified to {:.1e}", run.max_rel_l2),
    ]
}

fn refused(run: &TrainingRun) -> [String; 9] {
    let mut cells = [const { String::new() }; 9];
    cells[0] = name(run.keep).to_owned();
    cells[8] = format!("does not verify: relative L2 {:.2e}", run.max_rel_l2);
    cells
}

fn name(keep: Keep) -> &'static str {
    match keep {
        Keep::FirstProduct => "first product",
        Keep::Inputs => "inputs",
    }
}

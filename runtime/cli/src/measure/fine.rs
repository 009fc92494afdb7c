//! `bench moe --compare-fine`.

use moebius_benches::moe::MoeReport;
use moebius_benches::moe::fine::{self, FineReport, TARGET_OVERHEAD, TARGET_RATIO};
use serde_json::{Value, json};

use super::{batch, bench, figures as forward_figures, outcome_of};
use crate::args::BenchMoeArgs;
use crate::error::CliError;
use crate::screen::{BAD, GOOD, HEADING, Outcome, Screen};
use crate::table::Table;

/// Verifies and measures both; `progress` is told what is being done.
pub(crate) fn measure(
    args: &BenchMoeArgs,
    progress: &mut dyn FnMut(&str),
) -> Result<FineReport, CliError> {
    Ok(fine::compare(&bench(args)?, progress)?)
}

/// Negative when a result did not verify.
pub(crate) fn outcome(report: &FineReport) -> Outcome {
    outcome_of(verified(report))
}

fn verified(report: &FineReport) -> bool {
    report.coarse.verified && report.fine.verified
}

/// The report as JSON; where a result did not verify, everything measured in it, and the ratio, is
/// `null`.
pub(crate) fn figures(report: &FineReport) -> Result<Value, CliError> {
    Ok(json!({
        "coarse": forward_figures(&report.coarse)?,
        "fine": forward_figures(&report.fine)?,
        "tokens_ratio": verified(report).then_some(report.tokens_ratio),
    }))
}

/// Writes the figures; none of a result that did not verify.
pub(crate) fn print(
    args: &BenchMoeArgs,
    report: &FineReport,
    screen: &mut Screen,
) -> Result<(), CliError> {
    let title = format!(
        "MoE {} · few large experts and many small ones, equal FLOPs · {} · {} ({})",
        args.hidden,
        batch(args),
        report.fine.device,
        report.fine.variant,
    );
    screen.line(&format!("\n{}", screen.paint(HEADING, &title)))?;
    let headings = [
        "experts",
        "time",
        "GFLOP/s",
        "tokens/s",
        "router, sort, combine",
        "",
    ];
    let mut table = Table::new(&headings).right(&[1, 2, 3, 4]);
    let layers = fine::layers(&bench(args)?)?;
    for (layer, report) in layers.iter().zip([&report.coarse, &report.fine]) {
        let experts = format!("top-{} of {} × {}", layer.top_k, layer.experts, layer.inter);
        let (cells, style) = match report.verified {
            true => (row(experts, report), GOOD),
            false => (refused(experts, report), BAD),
        };
        table.row(cells, style);
    }
    table.print(screen)?;
    if !verified(report) {
        return Ok(());
    }
    screen.line(&format!(
        "  many small experts run at {:.2} × the speed of few large ones (target {TARGET_RATIO}); \
         router, sort and combine: target {:.0} % at hidden 1024",
        report.tokens_ratio,
        100.0 * TARGET_OVERHEAD,
    ))
}

fn row(experts: String, report: &MoeReport) -> [String; 6] {
    [
        experts,
        format!("{:.2} ms", report.median_ms),
        format!("{:.1}", report.gflops),
        format!("{:.0}", report.tokens_per_s),
        format!("{:.1} %", 100.0 * report.overhead_share),
        format!("verified to {:.1e}", report.max_rel_l2),
    ]
}

fn refused(experts: String, report: &MoeReport) -> [String; 6] {
    let mut cells = [const { String::new() }; 6];
    cells[0] = experts;
    cells[5] = format!("does not verify: relative L2 {:.2e}", report.max_rel_l2);
    cells
}

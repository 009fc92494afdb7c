//! `bench moe`: forward; with `--backward` both passes; with `--compare-fine` few large experts against many small
//! ones.

use anstyle::Style;
use moebius::moe::Keep;
use moebius_benches::FLOPS_OF_FORWARD;
use moebius_benches::moe::backward::{self, BackwardReport, TrainingRun};
use moebius_benches::moe::fine::{self, FineReport, TARGET_OVERHEAD, TARGET_RATIO};
use moebius_benches::moe::{self, MoeBench, MoeReport};
use serde_json::{Value, json};

use super::{
    Measured, bound, judged, limits, memory, peer, place, show, title, without_unverified,
};
use crate::args::{BenchMoeArgs, How};
use crate::devices::bytes;
use crate::error::CliError;
use crate::resolve::resolve;
use crate::screen::{Outcome, Screen, Table};

/// Runs `moebius bench moe`.
pub(super) fn run(
    args: &BenchMoeArgs,
    how: &How,
    screen: &mut Screen,
) -> Result<Outcome, CliError> {
    let device = resolve(args.bench.device, screen)?;
    let bench = MoeBench {
        device,
        ..args.bench
    };
    if bench.top_k > bench.experts {
        let (most, got) = (bench.experts, bench.top_k);
        let message = format!("--top-k: expected at most {most} (--experts), got {got}");
        return Err(CliError::usage(message, None));
    }
    if args.compare_fine {
        return show(&bench, device, how, screen, fine::compare);
    }
    if args.backward {
        // The balance with less memory comes first, since what is left of a larger one would count as its memory.
        let both = [Keep::Inputs, Keep::FirstProduct];
        let keeps = args.keep.as_slice();
        let keeps = if keeps.is_empty() { &both[..] } else { keeps };
        return show(&bench, device, how, screen, |bench, say| {
            backward::run(bench, keeps, say)
        });
    }
    show(&bench, device, how, screen, moe::run)
}

impl Measured for MoeReport {
    type Bench = MoeBench;

    fn workload(bench: &MoeBench) -> Value {
        moe_workload("moe", bench)
    }

    fn verified(&self) -> bool {
        self.forward.checked.verified
    }

    fn print(&self, bench: &MoeBench, screen: &mut Screen) -> Result<(), CliError> {
        print_short(bench, self, screen)?;
        if !self.verified() {
            return Ok(());
        }
        let held = self.device_bytes.map(|held| (held, "on the device"));
        let launches = match self.launches {
            0 => String::new(),
            launches => format!(" · {launches} launches"),
        };
        limits(&self.forward, held, &launches, screen)?;
        stages(self, screen)?;
        self.peer.as_ref().map_or(Ok(()), |p| peer(p, screen))
    }
}

/// Writes the layer and its speed, or that its result is wrong.
pub(crate) fn print_short(
    bench: &MoeBench,
    report: &MoeReport,
    screen: &mut Screen,
) -> Result<(), CliError> {
    let forward = &report.forward;
    if !title(&layer(bench), &forward.ran, &forward.checked, screen)? {
        return Ok(());
    }
    screen.line(&format!(
        "  {:.2} ms · {:.0} tokens/s · {:.1} GFLOP/s, {:.0} % of the {:.1} measured here ({}) · verified to {:.1e}",
        forward.speed.median_ms,
        report.tokens_per_s,
        forward.speed.gflops,
        100.0 * forward.reached.peak_share,
        forward.ceilings.peak_gflops,
        forward.ceilings.peak_of,
        forward.checked.max_rel_l2,
    ))
}

impl Measured for BackwardReport {
    type Bench = MoeBench;

    fn workload(bench: &MoeBench) -> Value {
        moe_workload("moe, both ways", bench)
    }

    fn verified(&self) -> bool {
        self.runs.iter().all(|run| run.checked.verified)
    }

    fn figures(&self) -> Result<Value, CliError> {
        let mut value = serde_json::to_value(self)?;
        for run in value["runs"].as_array_mut().into_iter().flatten() {
            *run = without_unverified(run.take(), &["keep", "verified", "max_rel_l2"]);
        }
        Ok(value)
    }

    fn print(&self, bench: &MoeBench, screen: &mut Screen) -> Result<(), CliError> {
        let place = place(&self.ran);
        let layer = layer(bench);
        screen.heading(&format!("{layer} · forward and backward · {place}"))?;
        let headings =
            "keeps | kept | forward | both | GFLOP/s | of peak | floor | tokens/s | memory | ";
        let mut table = Table::new(headings).right(&[1, 2, 3, 4, 5, 6, 7, 8]);
        for run in &self.runs {
            judged(
                &mut table,
                name(run.keep).to_owned(),
                &run.checked,
                |name| row_of_run(name, run),
            );
        }
        table.print(screen)?;
        screen.line(&format!(
            "  GFLOP/s count {FLOPS_OF_FORWARD} × the forward's products, not what is computed again · peak {:.1}, {}",
            self.ceilings.peak_gflops, self.ceilings.peak_of,
        ))?;
        memory(self.ceilings.memory.as_ref(), screen)?;
        let verified = self.runs.iter().filter(|run| run.checked.verified);
        for (run, figures) in verified.filter_map(|run| Some((run, run.peer.as_ref()?))) {
            screen.line(&format!("  {}:", name(run.keep)))?;
            peer(figures, screen)?;
        }
        Ok(())
    }
}

fn row_of_run(name: String, run: &TrainingRun) -> [String; 10] {
    [
        name,
        run.kept_bytes.map_or("–".to_owned(), bytes),
        format!("{:.2} ms", run.forward_ms),
        format!("{:.2} ms", run.speed.median_ms),
        format!("{:.1}", run.speed.gflops),
        format!("{:.0} %", 100.0 * run.reached.peak_share),
        bound(run.reached.floor.as_ref()),
        format!("{:.0}", run.tokens_per_s),
        run.device_bytes.map_or("–".to_owned(), bytes),
        format!("verified to {:.1e}", run.checked.max_rel_l2),
    ]
}

fn name(keep: Keep) -> &'static str {
    match keep {
        Keep::FirstProduct => "first product",
        Keep::Inputs => "inputs",
    }
}

impl Measured for FineReport {
    type Bench = MoeBench;

    fn workload(bench: &MoeBench) -> Value {
        let mut workload = moe_workload("moe, few and many experts", bench);
        // These three options differ between the two layers.
        for own in ["inter", "experts", "top_k"] {
            workload[own] = Value::Null;
        }
        workload
    }

    fn verified(&self) -> bool {
        self.coarse.verified() && self.fine.verified()
    }

    fn figures(&self) -> Result<Value, CliError> {
        Ok(json!({
            "coarse": self.coarse.figures()?,
            "fine": self.fine.figures()?,
            "tokens_ratio": self.verified().then_some(self.tokens_ratio),
        }))
    }

    fn print(&self, bench: &MoeBench, screen: &mut Screen) -> Result<(), CliError> {
        screen.heading(&format!(
            "MoE {} · few large experts and many small ones, equal FLOPs · {} · {}",
            bench.hidden,
            batch(bench),
            place(&self.fine.forward.ran),
        ))?;
        let headings = "experts | time | GFLOP/s | floor | tokens/s | router, sort, combine | ";
        let mut table = Table::new(headings).right(&[1, 2, 3, 4, 5]);
        let layers = fine::layers(bench)?;
        for (layer, report) in layers.iter().zip([&self.coarse, &self.fine]) {
            let experts = format!(
                "top-{} of {} × {}",
                layer.top_k,
                layer.experts,
                layer.inter()
            );
            judged(&mut table, experts, &report.forward.checked, |experts| {
                row_of_layer(experts, report)
            });
        }
        table.print(screen)?;
        if !self.verified() {
            return Ok(());
        }
        memory(self.fine.forward.ceilings.memory.as_ref(), screen)?;
        screen.line(&format!(
            "  many small experts run at {:.2} × the speed of few large ones (target {TARGET_RATIO}); \
             router, sort and combine: target {:.0} % at hidden 1024",
            self.tokens_ratio,
            100.0 * TARGET_OVERHEAD,
        ))
    }
}

fn row_of_layer(experts: String, report: &MoeReport) -> [String; 7] {
    let forward = &report.forward;
    [
        experts,
        format!("{:.2} ms", forward.speed.median_ms),
        format!("{:.1}", forward.speed.gflops),
        bound(forward.reached.floor.as_ref()),
        format!("{:.0}", report.tokens_per_s),
        format!("{:.1} %", 100.0 * report.overhead_share),
        format!("verified to {:.1e}", forward.checked.max_rel_l2),
    ]
}

/// The options that determine the work of a mixture of experts.
fn moe_workload(name: &str, bench: &MoeBench) -> Value {
    let mut workload = json!({
        "name": name,
        "tokens": bench.batch.saturating_mul(bench.seq),
        "hidden": bench.hidden,
        "inter": bench.inter(),
        "experts": bench.experts,
        "top_k": bench.top_k,
        "dtype": bench.dtype.name(),
        "gated": bench.gated,
    });
    if let Some(variant) = bench.variant {
        workload["variant"] = variant.name().into();
    }
    workload
}

/// Description of the layer, for a title.
fn layer(bench: &MoeBench) -> String {
    let (hidden, experts, top_k) = (bench.hidden, bench.experts, bench.top_k);
    let (inter, batch) = (bench.inter(), batch(bench));
    format!("MoE {hidden} → {inter} · {experts} experts, top-{top_k} · {batch}")
}

/// Description of the batch, for a title.
fn batch(bench: &MoeBench) -> String {
    let gated = if bench.gated { ", gated" } else { "" };
    let dtype = bench.dtype.name();
    format!("{} × {} tokens · {dtype}{gated}", bench.batch, bench.seq)
}

fn stages(report: &MoeReport, screen: &mut Screen) -> Result<(), CliError> {
    let mut table = Table::new("stage | ms | share | ").right(&[1, 2]);
    for stage in &report.stages {
        // The bar has one block for each 4 %.
        let blocks = (stage.share * 25.0).round().clamp(0.0, 25.0) as usize;
        let cells = [
            stage.name.clone(),
            format!("{:.3}", stage.median_ms),
            format!("{:.1} %", 100.0 * stage.share),
            "█".repeat(blocks),
        ];
        table.row(cells, Style::new());
    }
    table.print(screen)
}

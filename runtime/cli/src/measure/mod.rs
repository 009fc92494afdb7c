//! The benchmarks: asked for, and shown. Here: `bench moe`.

mod attention;
mod backward;
mod decode;
pub(crate) mod engine;
mod fine;
mod linear;

mod run_of;

use anstyle::Style;
use moebius_benches::moe::{MoeBench, MoeReport};
use moebius_benches::{BenchError, CacheSize, Checked, Floor, Measurement, MemoryRead, Peer, Ran};
use serde::Serialize;
use serde_json::{Value, json};

use crate::devices::bytes;
use crate::error::CliError;
use crate::progress;
use crate::results;
use crate::screen::{BAD, GOOD, Outcome, Screen};
use crate::table::Table;

/// What a benchmark measured, as the command shows it.
pub(crate) trait Measured: Serialize {
    /// What was asked for.
    type Bench;

    /// What decides the work, but for the device: its `name`, its `tokens`, and the rest.
    fn workload(bench: &Self::Bench) -> Value;

    /// Whether the result verified; one that did not is negative.
    fn verified(&self) -> bool;

    /// The report as JSON; where the result did not verify, everything measured in it is `null`.
    fn figures(&self) -> Result<Value, CliError> {
        Ok(without_unverified(serde_json::to_value(self)?, &ALWAYS))
    }

    /// Writes the figures; none of a result that did not verify.
    fn print(&self, bench: &Self::Bench, screen: &mut Screen) -> Result<(), CliError>;
}

/// Verifies, measures and shows the report; what `measure` says it is doing is shown while it runs.
pub(crate) fn show<R: Measured>(
    asked: &Asked<R::Bench>,
    screen: &mut Screen,
    measure: impl FnOnce(&R::Bench, &mut dyn FnMut(&str)) -> Result<R, BenchError>,
) -> Result<Outcome, CliError> {
    let run = asked.run_of(R::workload(asked.bench))?;
    // Before minutes are spent on what can't be compared.
    let baseline = asked.baseline(&run, screen)?;
    let report = watched(screen, |say| measure(asked.bench, say))?;
    report.print(asked.bench, screen)?;
    let mut figures = report.figures()?;
    let mut outcome = Outcome::of(report.verified());
    if let Some(baseline) = baseline.filter(|_| report.verified()) {
        let comparison = baseline.compare(&results::figures(&figures, &run.workload));
        comparison.print(screen)?;
        outcome = outcome.max(comparison.outcome());
        figures["comparison"] = json!(comparison);
    }
    figures["run"] = json!(run);
    screen.object(&figures)?;
    Ok(outcome)
}

pub(crate) use run_of::Asked;

/// What `measure` gives; what it says it is doing is shown while it runs.
pub(crate) fn watched<T>(screen: &Screen, measure: impl FnOnce(&mut dyn FnMut(&str)) -> T) -> T {
    let bar = progress::spinner(screen);
    let result = measure(&mut |stage| bar.set_message(stage.to_owned()));
    bar.finish_and_clear();
    result
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

/// What is said of a result that did not verify.
const ALWAYS: [&str; 5] = ["device", "variant", "simd", "verified", "max_rel_l2"];

/// `report` with `null` for all but `always` where its `verified` is false.
fn without_unverified(mut report: Value, always: &[&str]) -> Value {
    if let Value::Object(entries) = &mut report
        && entries.get("verified") == Some(&Value::Bool(false))
    {
        for (key, entry) in entries.iter_mut() {
            if !always.contains(&key.as_str()) {
                *entry = Value::Null;
            }
        }
    }
    report
}

/// Writes what was measured, and how fast it is or that it is wrong.
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
        "  {:.2} ms · {:.0} tokens/s · {:.1} GFLOP/s, {:.0} % of the {:.1} measured here · verified to {:.1e}",
        forward.speed.median_ms,
        report.tokens_per_s,
        forward.speed.gflops,
        100.0 * forward.reached.peak_share,
        forward.ceilings.peak_gflops,
        forward.checked.max_rel_l2,
    ))
}

/// Writes what was measured and where, and of a result that did not verify why there are no figures; whether there are.
fn title(
    subject: &str,
    ran: &Ran,
    checked: &Checked,
    screen: &mut Screen,
) -> Result<bool, CliError> {
    screen.heading(&format!("{subject} · {}", place(ran)))?;
    if !checked.verified {
        let verdict = screen.paint(BAD, "does not verify");
        let error = checked.max_rel_l2;
        screen.line(&format!("  {verdict}: relative L2 {error:.2e}; no figures"))?;
    }
    Ok(checked.verified)
}

/// Adds the row of a result; of one that did not verify its name, and in the last column why.
fn judged<const N: usize>(
    table: &mut Table,
    name: String,
    checked: &Checked,
    row: impl FnOnce(String) -> [String; N],
) {
    if checked.verified {
        return table.row(row(name), GOOD);
    }
    let mut cells = [const { String::new() }; N];
    cells[0] = name;
    cells[N - 1] = format!("does not verify: relative L2 {:.2e}", checked.max_rel_l2);
    table.row(cells, BAD)
}

/// Where it ran, in a title.
fn place(ran: &Ran) -> String {
    let simd = ran.simd.map(|simd| simd.to_string());
    let how: Vec<String> = ran.variant.iter().cloned().chain(simd).collect();
    match &how[..] {
        [] => ran.device.clone(),
        how => format!("{} ({})", ran.device, how.join(", ")),
    }
}

/// Writes the bytes that were taken and are needed, and what a result can't be faster than.
fn limits(
    result: &Measurement,
    taken: Option<(u64, &str)>,
    more: &str,
    screen: &mut Screen,
) -> Result<(), CliError> {
    let taken = taken.map(|(taken, of)| format!("{} {of}, ", bytes(taken)));
    screen.line(&format!(
        "  {}{} needed at least{more}",
        taken.unwrap_or_default(),
        bytes(result.floor_bytes),
    ))?;
    floor(result.reached.floor.as_ref(), screen)?;
    memory(result.ceilings.memory.as_ref(), screen)
}

/// What binds, and how far a result is from it; in a cell of a table.
fn bound(floor: Option<&Floor>) -> String {
    floor.map_or("–".to_owned(), |floor| {
        let binds = floor.binds.name();
        format!("{binds}, {:.0} %", 100.0 * floor.share)
    })
}

/// Writes both floors of a result, and how far it is from the one that binds.
fn floor(floor: Option<&Floor>, screen: &mut Screen) -> Result<(), CliError> {
    let Some(floor) = floor else {
        return Ok(());
    };
    screen.line(&format!(
        "  floor: {} binds (arithmetic {:.3} ms, memory {:.3} ms); this is {:.0} % of its speed",
        floor.binds.name(),
        floor.compute_ms,
        floor.memory_ms,
        100.0 * floor.share,
    ))
}

/// Writes how fast memory was read, and how much of it.
fn memory(memory: Option<&MemoryRead>, screen: &mut Screen) -> Result<(), CliError> {
    let Some(memory) = memory else {
        return Ok(());
    };
    let assumed = match memory.cache_size_of {
        CacheSize::System => "",
        CacheSize::Assumed => ", assumed",
    };
    screen.line(&format!(
        "  memory is read at {:.1} GB/s here: {} threads, {} in turn, last-level cache {}{assumed}",
        memory.gb_per_s,
        memory.threads,
        bytes(memory.bytes),
        bytes(memory.last_level_cache_bytes),
    ))
}

/// What decides the work of a mixture of experts.
fn moe_workload(name: &str, bench: &MoeBench) -> Value {
    json!({
        "name": name,
        "tokens": bench.batch.saturating_mul(bench.seq),
        "hidden": bench.hidden,
        "inter": bench.inter(),
        "experts": bench.experts,
        "top_k": bench.top_k,
        "dtype": bench.dtype.name(),
        "gated": bench.gated,
    })
}

/// The layer in a title.
fn layer(bench: &MoeBench) -> String {
    let MoeBench {
        hidden,
        experts,
        top_k,
        ..
    } = bench;
    let (inter, batch) = (bench.inter(), batch(bench));
    format!("MoE {hidden} → {inter} · {experts} experts, top-{top_k} · {batch}")
}

/// The batch in a title.
fn batch(bench: &MoeBench) -> String {
    let gated = if bench.gated { ", gated" } else { "" };
    let dtype = bench.dtype.name();
    format!("{} × {} tokens · {dtype}{gated}", bench.batch, bench.seq)
}

fn stages(report: &MoeReport, screen: &mut Screen) -> Result<(), CliError> {
    let mut table = Table::new(&["stage", "ms", "share", ""]).right(&[1, 2]);
    for stage in &report.stages {
        // One block for each 4 %.
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

fn peer(peer: &Peer, screen: &mut Screen) -> Result<(), CliError> {
    screen.line(&format!(
        "  {}: {:.2} ms, {:.1} GFLOP/s; ours runs at {:.2} × its speed",
        peer.name, peer.speed.median_ms, peer.speed.gflops, peer.ratio,
    ))
}

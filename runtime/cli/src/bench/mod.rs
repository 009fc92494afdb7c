//! `moebius bench`: what was asked for is measured and shown.

mod attention;
mod engine;
mod linear;
mod moe;

use moebius_benches::{
    self as benches, BenchError, CacheSize, Checked, Floor, Measurement, MemoryRead, Peer, Ran,
    instructions,
};
use moebius_device::{Device, probe};
use serde::Serialize;
use serde_json::{Value, json};

use crate::args::{BenchArgs, BenchCommand, How};
use crate::chart;
use crate::compare::Baseline;
use crate::devices::bytes;
use crate::error::CliError;
use crate::resolve::resolve;
use crate::results::{self, RunOf};
use crate::screen::{BAD, GOOD, Outcome, Screen, Table};

pub(crate) use moe::print_short;

/// Runs `moebius bench`.
pub(crate) fn run(args: &BenchArgs, screen: &mut Screen) -> Result<Outcome, CliError> {
    match &args.what {
        BenchCommand::Moe(args) => moe::run(&args.bench, &args.how, screen),
        BenchCommand::Linear(args) => {
            let mut bench = args.bench;
            let device = resolve(bench.device, screen)?;
            bench.device = device;
            show(&bench, device, &args.how, screen, benches::linear::run)
        }
        BenchCommand::Attention(args) => {
            let mut bench = args.bench.clone();
            let device = resolve(bench.device, screen)?;
            bench.device = device;
            show(&bench, device, &args.how, screen, benches::attention::run)
        }
        BenchCommand::Decode(args) => {
            let mut bench = args.bench.clone();
            let device = resolve(bench.device, screen)?;
            bench.device = device;
            show(&bench, device, &args.how, screen, benches::decode::run)
        }
        BenchCommand::Engine(args) => engine::run(args, screen),
        BenchCommand::Chart(args) => chart::run(args, screen),
    }
}

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

/// Verifies, measures and shows the report of a benchmark on `device`, which isn't `auto`; what `measure` says it is doing is shown while
/// it runs.
fn show<R: Measured>(
    bench: &R::Bench,
    device: Device,
    how: &How,
    screen: &mut Screen,
    measure: impl FnOnce(&R::Bench, &mut dyn FnMut(&str)) -> Result<R, BenchError>,
) -> Result<Outcome, CliError> {
    let run = run_of(R::workload(bench), device)?;
    // Before minutes are spent on what can't be compared.
    let baseline = how.compare.as_ref();
    let baseline = baseline
        .map(|path| Baseline::read(path, &run))
        .transpose()?;
    if let Some(other) = baseline.as_ref().and_then(|of| of.other_adapter(&run)) {
        screen.note(&format!("the baseline was measured on {other}"));
    }
    let report = watched(screen, |say| measure(bench, say))?;
    report.print(bench, screen)?;
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

/// The entry `run` of a result: what is asked for, and where it is about to run.
fn run_of(workload: Value, device: Device) -> Result<RunOf, CliError> {
    let found = probe(&device).map_err(moebius::Error::from)?;
    let simd = instructions(&device, &found).map_err(BenchError::from)?;
    let device = device.to_string();
    Ok(RunOf {
        workload: workload.as_object().cloned().unwrap_or_default(),
        device: device.strip_suffix(":0").unwrap_or(&device).to_owned(),
        simd,
        threads: std::thread::available_parallelism().map_or(1, usize::from),
        adapter: found.name,
        version: env!("CARGO_PKG_VERSION").to_owned(),
    })
}

/// What `measure` gives; what it says it is doing is shown while it runs.
pub(crate) fn watched<T>(screen: &Screen, measure: impl FnOnce(&mut dyn FnMut(&str)) -> T) -> T {
    let bar = screen.spinner();
    let result = measure(&mut |stage| bar.set_message(stage.to_owned()));
    bar.finish_and_clear();
    result
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

fn peer(peer: &Peer, screen: &mut Screen) -> Result<(), CliError> {
    screen.line(&format!(
        "  {}: {:.2} ms, {:.1} GFLOP/s; ours runs at {:.2} × its speed",
        peer.name, peer.speed.median_ms, peer.speed.gflops, peer.ratio,
    ))
}

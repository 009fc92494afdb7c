//! `moebius bench`: runs the benchmark that was asked for and shows its results.

mod attention;
pub(crate) mod engine;
mod experts;
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
use crate::trace;

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

/// Results of a benchmark, as the command shows them.
pub(crate) trait Measured: Serialize {
    /// Options of the benchmark.
    type Bench;

    /// The work except for its device, as a JSON object: its `name`, its `tokens`, and all other options that determine
    /// it.
    fn workload(bench: &Self::Bench) -> Value;

    /// Whether the result verified; if not, the outcome is negative.
    fn verified(&self) -> bool;

    /// The report as JSON; if the result did not verify, everything measured in it is `null`.
    fn figures(&self) -> Result<Value, CliError> {
        Ok(without_unverified(serde_json::to_value(self)?, &ALWAYS))
    }

    /// Writes the figures; a result that did not verify has none.
    fn print(&self, bench: &Self::Bench, screen: &mut Screen) -> Result<(), CliError>;
}

/// Verifies, measures and shows a benchmark on `device`, which isn't `auto`; the steps that `measure` reports are shown while it runs.
fn show<R: Measured>(
    bench: &R::Bench,
    device: Device,
    how: &How,
    screen: &mut Screen,
    measure: impl FnOnce(&R::Bench, &mut dyn FnMut(&str)) -> Result<R, BenchError>,
) -> Result<Outcome, CliError> {
    let run = run_of(R::workload(bench), device)?;
    // Read first, so that a baseline that doesn't fit is an error before minutes are spent.
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
    trace::keep_peak(figures["peak_gflops"].as_f64());
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

/// The entry `run` of a result: the work, and the device that is about to run it.
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

/// Runs `measure`, and shows the steps that it reports in a spinner.
pub(crate) fn watched<T>(screen: &Screen, measure: impl FnOnce(&mut dyn FnMut(&str)) -> T) -> T {
    let bar = screen.spinner();
    let result = measure(&mut |stage| bar.set_message(stage.to_owned()));
    bar.finish_and_clear();
    result
}

/// Entries that are kept of a result that did not verify.
const ALWAYS: [&str; 5] = ["device", "variant", "simd", "verified", "max_rel_l2"];

/// `report`, with `null` for all entries but `always` if its `verified` is false.
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

/// Writes the heading of a result, and why there are no figures if it did not verify; returns whether it verified.
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

/// Adds the row of a result; if it did not verify, the row has its name, and the reason in the last column.
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

/// Device, variant and vector instructions, for a title.
fn place(ran: &Ran) -> String {
    let simd = ran.simd.map(|simd| simd.to_string());
    let how: Vec<String> = ran.variant.iter().cloned().chain(simd).collect();
    match &how[..] {
        [] => ran.device.clone(),
        how => format!("{} ({})", ran.device, how.join(", ")),
    }
}

/// Writes the bytes that were taken and that are needed at least, and the result's floor.
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

/// The bound that holds and the share of it that a result reaches, for a cell of a table.
fn bound(floor: Option<&Floor>) -> String {
    floor.map_or("–".to_owned(), |floor| {
        let binds = floor.binds.name();
        format!("{binds}, {:.0} %", 100.0 * floor.share)
    })
}

/// Writes the floors of arithmetic and memory, and the share of the binding one that the result reaches.
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

/// Writes how fast memory was read, and how many bytes.
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

//! `--trace`: what a command computes, as a file of Chrome's trace events and as a table of its operations.
//!
//! The libraries open spans of `tracing` for steps, layers and operations. A [`Trace`] listens to them, and writes an event with its times
//! when a span closes. The crate `tracing-chrome` panics where a file can't be written, and writes numbers as text.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use anstyle::Style;
use moebius_benches::BenchError;
use moebius_device::Device;
use serde::Serialize;
use serde_json::{Map, Value, json};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::Registry;

use crate::error::CliError;
use crate::screen::{Outcome, Screen, Table};

/// Who gets spans and lines of the log.
pub(crate) type Listener = Box<dyn Layer<Registry> + Send + Sync>;

/// Beginnings of the targets whose spans a trace has; the server's requests aren't among them.
const TARGETS: [&str; 3] = ["moebius::", "moebius_engine", "moebius_model"];

/// The peak of the device in GFLOP/s, if the command measured it.
static PEAK: OnceLock<f64> = OnceLock::new();

/// Keeps the measured peak of the device, for the table.
pub(crate) fn keep_peak(gflops: Option<f64>) {
    if let Some(gflops) = gflops {
        // A command that measures several times shows the first.
        let _ = PEAK.set(gflops);
    }
}

/// The device that the command chose; the first, where it chooses several.
static DEVICE: OnceLock<Device> = OnceLock::new();

/// Keeps the device on which the command computes, for the table.
pub(crate) fn keep_device(device: Device) {
    let _ = DEVICE.set(device);
}

/// The peak of the device in GFLOP/s: that of a benchmark, or what is measured now, after the command's work. `None` for a command without a device
/// of its own, such as several as one, and for a device that fails meanwhile, which a note says.
fn peak(screen: &Screen) -> Option<f64> {
    if let Some(gflops) = PEAK.get() {
        return Some(*gflops);
    }
    let measured = moebius_benches::peak_gflops(DEVICE.get()?);
    let say = |error: &BenchError| screen.note(&format!("the peak of the device: {error}"));
    measured.inspect_err(say).ok()
}

/// A trace under way.
#[derive(Clone)]
pub(crate) struct Trace(Arc<Inner>);

struct Inner {
    path: String,
    begun: Instant,
    state: Mutex<State>,
}

/// The file of a trace, and the sums of its operations.
struct State {
    file: File,
    /// Events that aren't in the file yet, each whole.
    waiting: String,
    /// Why the file could not be written; nothing is written after that.
    failed: Option<io::Error>,
    operations: BTreeMap<String, Total>,
}

/// Sums over the calls of an operation.
#[derive(Default)]
struct Total {
    calls: u64,
    launches: u64,
    time: Duration,
    /// 0 where the descriptions don't tell.
    flops: u64,
    bytes: u64,
}

/// A span that has not closed yet.
struct Open {
    name: String,
    fields: Map<String, Value>,
    track: u64,
    /// When the span was first entered.
    start: Option<Instant>,
}

impl Trace {
    /// Creates the file, or empties it.
    pub(crate) fn begin(path: &Path) -> Result<Self, CliError> {
        let named =
            json!({ "name": "process_name", "ph": "M", "pid": 1, "args": { "name": "moebius" } });
        let begun = File::create(path).and_then(|mut file| {
            write!(file, "[\n{named}")?;
            Ok(file)
        });
        let file = begun.map_err(CliError::write(path.display()))?;
        Ok(Self(Arc::new(Inner {
            path: path.display().to_string(),
            begun: Instant::now(),
            state: Mutex::new(State {
                file,
                waiting: String::new(),
                failed: None,
                operations: BTreeMap::new(),
            }),
        })))
    }

    /// The listener that writes the trace.
    pub(crate) fn listener(&self) -> Listener {
        let targets = TARGETS.map(|target| (target, LevelFilter::TRACE));
        let targets = Targets::new().with_targets(targets);
        self.clone().with_filter(targets).boxed()
    }

    /// Completes the file, and shows the operations of a command that gave a result; the error of a command that gave none comes first.
    pub(crate) fn end(
        &self,
        outcome: Result<Outcome, CliError>,
        screen: &mut Screen,
    ) -> Result<Outcome, CliError> {
        let operations = self.complete();
        let outcome = outcome?;
        let (mut operations, peak) = (operations?, peak(screen));
        for row in &mut operations {
            row.peak_share = row.gflops.zip(peak).map(|(rate, peak)| rate / peak);
        }
        self.show(&operations, peak, screen)?;
        Ok(outcome)
    }

    /// Ends the list of events; returns the operations, those that took longest first, without shares of a peak.
    fn complete(&self) -> Result<Vec<Row>, CliError> {
        let mut state = self.state();
        state.waiting += "\n]\n";
        state.write();
        if let Some(failed) = state.failed.take() {
            return Err(CliError::write(&self.0.path)(failed));
        }
        let rows = state.operations.iter();
        let mut rows: Vec<Row> = rows.map(|(name, total)| Row::new(name, total)).collect();
        rows.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
        Ok(rows)
    }

    fn show(&self, rows: &[Row], peak: Option<f64>, screen: &mut Screen) -> Result<(), CliError> {
        screen.heading(&format!(
            "Operations, each waited for · trace in {}",
            self.0.path
        ))?;
        let headings = "operation | calls | launches | ms | GFLOP/s | GB/s | of peak";
        let mut table = Table::new(headings).right(&[1, 2, 3, 4, 5]);
        let number = |rate: Option<f64>| rate.map_or("–".to_owned(), |rate| format!("{rate:.1}"));
        for row in rows {
            let percent = |share: f64| format!("{:.0} %", 100.0 * share);
            let share = row.peak_share.map(percent);
            let cells = [
                row.operation.clone(),
                row.calls.to_string(),
                row.launches
                    .map_or("–".to_owned(), |count| count.to_string()),
                format!("{:.1}", 1e3 * row.seconds),
                number(row.gflops),
                number(row.gb_per_s),
                share.unwrap_or_else(|| "–".to_owned()),
            ];
            table.row(cells, Style::new());
        }
        table.print(screen)?;
        screen.object(&json!({
            "trace": self.0.path,
            "peak_gflops": peak,
            "operations": rows,
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A row of the table.
#[derive(Serialize)]
struct Row {
    operation: String,
    calls: u64,
    /// Kernels that the calls launched; `None` on devices that CubeCL doesn't drive.
    launches: Option<u64>,
    seconds: f64,
    gflops: Option<f64>,
    gb_per_s: Option<f64>,
    peak_share: Option<f64>,
}

impl Row {
    fn new(name: &str, total: &Total) -> Self {
        let seconds = total.time.as_secs_f64();
        let rate = |sum: u64| (sum > 0 && seconds > 0.0).then(|| sum as f64 / seconds / 1e9);
        Self {
            operation: name.to_owned(),
            calls: total.calls,
            launches: (total.launches > 0).then_some(total.launches),
            seconds,
            gflops: rate(total.flops),
            gb_per_s: rate(total.bytes),
            peak_share: None,
        }
    }
}

impl State {
    /// Adds a call to the sums of its operation.
    fn count(&mut self, open: &Open, time: Duration) {
        let cost = |name: &str| open.fields.get(name).and_then(Value::as_u64).unwrap_or(0);
        let total = self.operations.entry(open.name.clone()).or_default();
        total.calls += 1;
        total.time += time;
        total.launches += cost("launches");
        total.flops += cost("flops");
        total.bytes += cost("bytes");
    }

    /// Writes the waiting events. The file then lacks only its last bracket, which readers of traces don't need.
    fn write(&mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        if self.failed.is_none() {
            self.failed = self.file.write_all(waiting.as_bytes()).err();
        }
    }
}

impl Layer<Registry> for Trace {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, Registry>) {
        let Some(span) = context.span(id) else {
            return;
        };
        // A call that goes on on another thread stays on the track of its caller.
        let above = span.parent().and_then(|parent| {
            let extensions = parent.extensions();
            extensions.get::<Open>().map(|open| open.track)
        });
        let mut open = Open {
            name: span.name().to_owned(),
            fields: Map::new(),
            track: above.unwrap_or_else(own_track),
            start: None,
        };
        attributes.record(&mut open);
        span.extensions_mut().insert(open);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, Registry>) {
        let Some(span) = context.span(id) else {
            return;
        };
        if let Some(open) = span.extensions_mut().get_mut::<Open>() {
            values.record(open);
        }
    }

    fn on_enter(&self, id: &Id, context: Context<'_, Registry>) {
        let Some(span) = context.span(id) else {
            return;
        };
        if let Some(open) = span.extensions_mut().get_mut::<Open>() {
            open.start.get_or_insert_with(Instant::now);
        }
    }

    /// Writes the event of a span, and what waits once no other span is around it.
    fn on_close(&self, id: Id, context: Context<'_, Registry>) {
        let ended = Instant::now();
        let Some(span) = context.span(&id) else {
            return;
        };
        let Some(open) = span.extensions_mut().remove::<Open>() else {
            return;
        };
        let Some(start) = open.start else {
            return;
        };
        let time = ended.duration_since(start);
        let mut state = self.state();
        if span.name() == "operation" {
            state.count(&open, time);
        }
        let event = json!({
            "name": open.name,
            "cat": span.name(),
            "ph": "X",
            "ts": microseconds(start.duration_since(self.0.begun)),
            "dur": microseconds(time),
            "pid": 1,
            "tid": open.track,
            "args": open.fields,
        });
        state.waiting += &format!(",\n{event}");
        if span.parent().is_none() {
            state.write();
        }
    }
}

impl Visit for Open {
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.fields.insert(field.name().to_owned(), value.into());
    }

    /// Takes the field `name` for the name of the event, in place of that of all such spans.
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "name" => value.clone_into(&mut self.name),
            name => {
                self.fields.insert(name.to_owned(), value.into());
            }
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}

/// The track of the calling thread: a number for each thread that begins a span.
fn own_track() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local! {
        static OWN: u64 = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    OWN.with(|own| *own)
}

fn microseconds(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e3
}

#[cfg(test)]
#[path = "trace_tests.rs"]
mod tests;

//! `cargo bench`: runs the benchmarks of `moebius_benches::suite` on every device of this build that the machine has,
//! and prints the results.
//!
//! The bench target belongs to the command's crate, because a plain `cargo bench` at the root runs those of the default
//! members, and with another default member `cargo run` would unite the features of both.

#[path = "../src/drivers.rs"]
mod drivers;
#[path = "../src/process.rs"]
mod process;

use anstyle::{AnsiColor, Style};
use clap::Parser;
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use indicatif::{ProgressBar, ProgressStyle};
use moebius_benches::BenchError;
use moebius_benches::suite::{Event, How, Options, Places, Report, Row, Verdict, collect, measure};
use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

/// Columns of figures, which are aligned right.
const RIGHT: [usize; 2] = [5, 6];
const HEADING: Style = Style::new().bold();
const BAD: Style = AnsiColor::Red.on_default().bold();

fn main() -> ExitCode {
    drivers::expect_no_display();
    // Arguments that can't be parsed end the program with exit 2 and a list of the valid ones.
    let options = Options::parse();
    match run(&options) {
        Ok(Verdict::Good) => ExitCode::SUCCESS,
        Ok(verdict) => {
            let why = match &verdict {
                Verdict::Bad(faults) => faults,
                Verdict::Good | Verdict::Nothing => "nothing could be measured",
            };
            say(why);
            ExitCode::from(verdict.code())
        }
        Err(error) => {
            say(&error.to_string());
            ExitCode::from(2)
        }
    }
}

/// Writes an error message to standard error.
fn say(error: &str) {
    // If standard error is gone, only the exit status reports the error.
    let _ = writeln!(anstream::stderr(), "{BAD}error:{BAD:#} {error}");
}

fn run(options: &Options) -> Result<Verdict, Box<dyn Error>> {
    process::hold(None)?;
    process::listen();
    let places = Places::find(&options.devices)?;
    let bar = bar();
    let how = How {
        full: options.full,
        peer_jax: options.peer_jax,
    };
    let report = collect(
        places,
        &options.benchmarks(),
        how,
        &mut |task, progress| launched(measure(task, progress)),
        &mut |event| show(&bar, event),
    );
    bar.finish_and_clear();
    let written = if options.json {
        let document = report.to_json()?;
        writeln!(io::stdout(), "{document}")
    } else {
        print(&report)
    };
    match written {
        // A reader that closed the pipe has seen enough; that is no error.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(report.verdict()),
    }
}

/// Returns `result`, or an error if a launch was lost while computing it.
fn launched(result: Result<Vec<Row>, BenchError>) -> Result<Vec<Row>, BenchError> {
    match process::lost() {
        Some(text) if result.is_ok() => {
            let message = format!("a kernel could not be launched: {text}");
            Err(BenchError::Device(message))
        }
        _ => result,
    }
}

/// Spinner with the current task and step; hidden unless standard error is a terminal.
fn bar() -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    // The template is a constant; if it were wrong the default style would do.
    if let Ok(style) = ProgressStyle::with_template("{spinner} {prefix} {msg}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(120));
    bar
}

/// Shows progress on standard error: a line for each task, or the task and its step in the spinner.
fn show(bar: &ProgressBar, event: Event<'_>) {
    match event {
        Event::Begins { number, of, task } => {
            let title = format!("[{number}/{of}] {} on {}", task.benchmark, task.device);
            if bar.is_hidden() {
                // A failed write is ignored, since nobody has to read it.
                let _ = writeln!(io::stderr(), "{title}");
            }
            bar.set_prefix(title);
            bar.set_message("");
        }
        Event::Doing(text) => bar.set_message(text.to_owned()),
    }
}

/// Writes the table and the summary to standard output.
fn print(report: &Report) -> io::Result<()> {
    let mut out = anstream::stdout().lock();
    let rows = report.table();
    if !rows.is_empty() {
        print_table(&rows, &mut out)?;
        writeln!(out)?;
    }
    for line in report.summary() {
        writeln!(out, "{line}")?;
    }
    out.flush()
}

/// Writes the table of results, with wrong ones in red.
fn print_table(rows: &[([String; 7], bool)], out: &mut impl Write) -> io::Result<()> {
    let mut table = Table::new();
    // `Disabled` keeps each row on one line at any width, so that styles find their row and grep works.
    table
        .load_preset(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(Report::HEADINGS);
    for (cells, _) in rows {
        table.add_row(cells.clone());
    }
    for column in RIGHT {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for (index, line) in table.lines().enumerate() {
        let row = index.checked_sub(1).and_then(|row| rows.get(row));
        let style = match row {
            None => HEADING,
            Some((_, true)) => Style::new(),
            Some((_, false)) => BAD,
        };
        writeln!(out, "{style}{}{style:#}", line.trim_end())?;
    }
    Ok(())
}

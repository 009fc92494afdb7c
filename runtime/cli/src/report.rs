//! Runs case files and reports a verdict for each output.

use std::any::Any;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::panic::{self, AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::Once;

use burn::tensor::DType;
use indicatif::ProgressBar;
use moebius_cases::{CaseError, CaseFile, OutputReport, Tolerance, Verdict};
use moebius_device::Device;
use serde::Serialize;

use crate::error::CliError;
use crate::screen::{BAD, GOOD, Outcome, Screen, Table};

/// File name of the case of a whole model, which lies in a folder of its own.
pub(crate) const MODEL_CASE: &str = "logits.case.safetensors";

/// The result of a run over case files; the JSON object of `verify --json`.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// Device the cases ran on.
    pub(crate) device: String,
    /// A report for each file, in the order given.
    pub(crate) files: Vec<FileReport>,
    /// Number of files whose outputs all pass.
    pub(crate) passed: usize,
    /// Number of files with an output that fails.
    pub(crate) failed: usize,
    /// Number of files that could not be run.
    pub(crate) errors: usize,
}

/// Report on one case file.
#[derive(Debug, Serialize)]
pub(crate) struct FileReport {
    /// Path, or name of a bundled case.
    pub(crate) file: String,
    /// Operation of the case, if the file could be read that far.
    pub(crate) op: Option<String>,
    /// Type in which the case computes, if the file could be read that far.
    #[serde(skip)]
    pub(crate) dtype: Option<DType>,
    /// Reports on the outputs; empty after an error.
    pub(crate) outputs: Vec<OutputReport>,
    /// The file's verdict.
    pub(crate) verdict: FileVerdict,
    /// Error message, if the case could not be run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
}

/// Verdict on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum FileVerdict {
    /// Every output passes.
    Pass,
    /// At least one output fails.
    Fail,
    /// The case could not be run.
    Error,
}

impl Report {
    /// Runs every case on the named device, one after another; an error in one does not stop the others.
    pub(crate) fn run(
        (name, device): (Device, &burn::tensor::Device),
        cases: impl Iterator<Item = (String, Result<CaseFile, CaseError>)>,
        bar: &ProgressBar,
    ) -> Self {
        let run = |(file, case): (String, _)| {
            bar.set_message(file.clone());
            let report = FileReport::run(file, case, device);
            bar.inc(1);
            report
        };
        let files: Vec<FileReport> = cases.map(run).collect();
        bar.finish_and_clear();
        let count = |verdict| files.iter().filter(|file| file.verdict == verdict).count();
        Self {
            device: name.to_string(),
            passed: count(FileVerdict::Pass),
            failed: count(FileVerdict::Fail),
            errors: count(FileVerdict::Error),
            files,
        }
    }

    /// The files that don't pass.
    pub(crate) fn bad(&self) -> impl Iterator<Item = &FileReport> {
        let files = self.files.iter();
        files.filter(|file| file.verdict != FileVerdict::Pass)
    }

    /// Number of files that don't pass, and the problem of the first; `None` if all pass.
    pub(crate) fn first_problem(&self) -> Option<String> {
        let first = self.bad().next()?;
        Some(format!(
            "{} of {} cases don't pass, the first is {}: {}",
            self.failed + self.errors,
            self.files.len(),
            first.file,
            first.problem()
        ))
    }

    /// Outcome of all cases; an error outweighs a mismatch.
    pub(crate) fn outcome(&self) -> Outcome {
        match (self.errors, self.failed) {
            (0, 0) => Outcome::Good,
            (0, _) => Outcome::Negative,
            _ => Outcome::Incomplete,
        }
    }

    /// Writes a line for each operation with its cases, a table of those that don't pass, and the totals.
    pub(crate) fn print_operations(&self, screen: &mut Screen) -> Result<(), CliError> {
        let mut operations: BTreeMap<&str, Vec<&FileReport>> = BTreeMap::new();
        for file in &self.files {
            let op = file.op.as_deref().unwrap_or("unreadable");
            operations.entry(op).or_default().push(file);
        }
        let headings = "operation | cases | largest rel L2 | verdict";
        let mut table = Table::new(headings).right(&[1, 2]);
        for (op, files) in operations {
            let bad = files
                .iter()
                .filter(|file| file.verdict != FileVerdict::Pass);
            let (verdict, style) = match bad.count() {
                0 => ("pass".to_owned(), GOOD),
                bad => (format!("{bad} not passed"), BAD),
            };
            let outputs = files.iter().flat_map(|file| &file.outputs);
            let worst = outputs.map(|output| output.rel_l2).fold(0.0, f64::max);
            let count = files.len().to_string();
            table.row([op.to_owned(), count, figure(worst), verdict], style);
        }
        table.print(screen)?;
        if self.bad().next().is_some() {
            screen.line("")?;
            table_of(self.bad()).print(screen)?;
        }
        self.print_totals(screen)
    }

    /// Writes the table of all outputs and the totals.
    pub(crate) fn print(&self, screen: &mut Screen) -> Result<(), CliError> {
        table_of(self.files.iter()).print(screen)?;
        self.print_totals(screen)
    }

    fn print_totals(&self, screen: &mut Screen) -> Result<(), CliError> {
        let style = match self.outcome() {
            Outcome::Good => GOOD,
            _ => BAD,
        };
        let totals = format!(
            "{} passed, {} failed, {} errors",
            self.passed, self.failed, self.errors
        );
        let totals = screen.paint(style, &totals);
        screen.line(&format!("\n{totals} on {}", self.device))
    }
}

/// Table with a row for each output.
fn table_of<'a>(files: impl Iterator<Item = &'a FileReport>) -> Table {
    let headings = "file | output | max abs | rel L2 | tolerance | verdict";
    let mut table = Table::new(headings).right(&[2, 3, 4]);
    files.for_each(|file| file.add_rows(&mut table));
    table
}

impl FileReport {
    fn run(file: String, case: Result<CaseFile, CaseError>, device: &burn::tensor::Device) -> Self {
        let op = case.as_ref().ok().map(|c| c.op().to_owned());
        let dtype = case.as_ref().ok().map(CaseFile::dtype);
        let judged = case.map_err(|error| error.to_string());
        let judged = judged.and_then(|case| judge(&case, device));
        let (outputs, verdict, error) = match judged {
            Err(error) => (Vec::new(), FileVerdict::Error, Some(error)),
            Ok(outputs) if outputs.iter().all(|o| o.verdict == Verdict::Pass) => {
                (outputs, FileVerdict::Pass, None)
            }
            Ok(outputs) => (outputs, FileVerdict::Fail, None),
        };
        Self {
            file,
            op,
            dtype,
            outputs,
            verdict,
            error,
        }
    }

    /// What is wrong with a file that doesn't pass: the error, or the first output that fails.
    pub(crate) fn problem(&self) -> String {
        let failing = self.outputs.iter().find(|o| o.verdict != Verdict::Pass);
        match (&self.error, failing) {
            (Some(error), _) => error.clone(),
            (None, Some(output)) => format!("{} {}", output.name, failure(output)),
            (None, None) => String::new(),
        }
    }

    fn add_rows(&self, table: &mut Table) {
        let mut parts = self.file.rsplit(['/', '\\']);
        let name = parts.next().unwrap_or(&self.file);
        // Cases of whole models share a file name, so their folders identify them. Only a file's first row shows its name.
        let folder = parts.next().filter(|_| name == MODEL_CASE);
        let mut file = folder.unwrap_or(name).to_owned();
        if let Some(error) = &self.error {
            let [output, max_abs, rel_l2, tolerance] = [const { String::new() }; 4];
            let error = format!("error: {error}");
            table.row([file, output, max_abs, rel_l2, tolerance, error], BAD);
            return;
        }
        for output in &self.outputs {
            let (verdict, style) = match output.verdict {
                Verdict::Pass => ("pass".to_owned(), GOOD),
                Verdict::Fail => (failure(output), BAD),
            };
            let cells = [
                std::mem::take(&mut file),
                output.name.clone(),
                figure(output.max_abs),
                figure(output.rel_l2),
                output.tolerance.to_string(),
                verdict,
            ];
            table.row(cells, style);
        }
    }
}

/// Computes one case and compares its outputs.
fn judge(case: &CaseFile, device: &burn::tensor::Device) -> Result<Vec<OutputReport>, String> {
    let judged = guarded(|| pollster::block_on(moebius_cases::judge(case, device)))?;
    judged.map_err(|error| error.to_string())
}

/// Runs `f` and turns a panic in a library into an error of this case or demo, so that the run goes on. A panic in our own
/// code, such as a parser, is a bug and is resumed.
pub(crate) fn guarded<T>(f: impl FnOnce() -> T) -> Result<T, String> {
    thread_local! {
        static OURS: Cell<bool> = const { Cell::new(false) };
    }
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            // Sources of this workspace have relative paths, those of dependencies absolute ones.
            let ours = info.location().map(|at| Path::new(at.file()).is_relative());
            OURS.set(ours.unwrap_or(false));
            before(info);
        }));
    });
    // Unwind safety: everything the closure touches is dropped or only read afterwards.
    catch_unwind(AssertUnwindSafe(f)).map_err(|payload| {
        if OURS.get() {
            resume_unwind(payload);
        }
        let message = panic_message(payload.as_ref());
        format!("the device's library panicked: {message}")
    })
}

fn panic_message(payload: &(dyn Any + Send)) -> String {
    let text = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no message").to_owned()
}

/// Description of a failing output's error.
fn failure(output: &OutputReport) -> String {
    if let Some(shapes) = &output.shapes {
        return format!(
            "fail: expected shape {:?}, got {:?}",
            shapes.expected, shapes.got
        );
    }
    match (output.tolerance, output.mismatches, output.first_mismatch) {
        (Tolerance::Exact, Some(count), Some(first)) => {
            format!("fail: {count} differ, the first at {first}")
        }
        _ => "fail".to_owned(),
    }
}

fn figure(value: f64) -> String {
    if value.is_nan() {
        "-".to_owned()
    } else if value == 0.0 {
        "0".to_owned()
    } else {
        format!("{value:.2e}")
    }
}

#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;

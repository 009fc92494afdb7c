//! The report of a run: its results, what was left out, and whether all results are right.

use super::options::Benchmark;
use super::places::{Place, Places};
use crate::Checked;
use crate::timing::Spread;
use moebius_device::Device;
use serde::Serialize;
use serde_json::{Value, json};
use std::thread::available_parallelism;

/// A result of a benchmark, with figures if it verified.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Description of the sizes that determine the work.
    pub sizes: String,
    /// Name of the variant that was measured.
    pub variant: String,
    /// Whether the result agrees with the oracle.
    pub verified: bool,
    /// Relative error of the result: 0 if it is exact, `null` in JSON if it isn't a finite number.
    pub error: f64,
    /// Time and rate; `None` for a result that did not verify.
    #[serde(flatten)]
    pub figures: Option<Figures>,
}

/// Time and rate of a result.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// Median milliseconds.
    pub median_ms: f64,
    /// Spread of the repetitions; `None` if they were not kept.
    pub spread: Option<Spread>,
    /// Work per second.
    pub rate: Rate,
}

/// An amount of work per second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Rate {
    /// The amount.
    pub value: f64,
    /// Unit of the amount, e.g. `GFLOP/s`.
    pub unit: &'static str,
}

/// A benchmark on a device, with its outcome.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The benchmark.
    pub benchmark: Benchmark,
    /// The device.
    pub device: Device,
    /// The outcome.
    pub outcome: Outcome,
}

/// Outcome of a benchmark on a device.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The benchmark ran, with right or wrong results.
    Measured(Vec<Row>),
    /// The device can't run it, for this reason.
    Skipped(String),
    /// The benchmark failed, for this reason.
    Failed(String),
}

/// Everything that a run found.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Whether the sizes are those of `benches/RESULTS.md`.
    pub full: bool,
    /// The devices, including the missing ones.
    pub places: Places,
    /// The outcomes, in the order in which the benchmarks ran.
    pub entries: Vec<Entry>,
}

/// Verdict on a whole run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Something was measured, and all results verified.
    Good,
    /// A result is wrong or a benchmark failed: which, and where.
    Bad(String),
    /// Nothing could be measured.
    Nothing,
}

impl Verdict {
    /// Exit status: 0 for a good run, 1 for a wrong result or a failure, 2 if nothing ran.
    pub fn code(&self) -> u8 {
        match self {
            Self::Good => 0,
            Self::Bad(_) => 1,
            Self::Nothing => 2,
        }
    }
}

impl Row {
    /// A row from a result; `figures` are dropped unless it verified.
    pub fn new(
        sizes: impl Into<String>,
        variant: impl Into<String>,
        checked: Checked,
        figures: Figures,
    ) -> Self {
        Self {
            sizes: sizes.into(),
            variant: variant.into(),
            verified: checked.verified,
            error: checked.max_rel_l2,
            figures: checked.verified.then_some(figures),
        }
    }

    /// The check's result, as text for the table.
    fn verdict(&self) -> String {
        match (self.verified, self.error) {
            (true, 0.0) => "exact".to_owned(),
            (true, error) => format!("to {error:.1e}"),
            (false, error) => format!("WRONG, off by {error:.1e}"),
        }
    }
}

impl Entry {
    /// Name of the entry in a sentence.
    fn title(&self) -> String {
        format!("{} on {}", self.benchmark, self.device)
    }

    /// A description of a wrong result or failure, if there is one.
    fn fault(&self) -> Option<String> {
        let title = self.title();
        match &self.outcome {
            Outcome::Skipped(_) => None,
            Outcome::Failed(reason) => Some(format!("{title} failed: {reason}")),
            Outcome::Measured(rows) if rows.is_empty() => Some(format!("{title} gave no result")),
            Outcome::Measured(rows) => {
                let wrong = rows.iter().find(|row| !row.verified)?;
                Some(format!("{title} is wrong ({})", wrong.variant))
            }
        }
    }
}

impl Report {
    /// Headings of the columns of [`Report::table`].
    pub const HEADINGS: [&'static str; 7] = [
        "benchmark",
        "device",
        "sizes",
        "variant",
        "verified",
        "median",
        "speed",
    ];

    /// Every result with the entry it belongs to.
    pub fn rows(&self) -> impl Iterator<Item = (&Entry, &Row)> {
        self.entries.iter().flat_map(|entry| {
            let rows = match &entry.outcome {
                Outcome::Measured(rows) => &rows[..],
                Outcome::Skipped(_) | Outcome::Failed(_) => &[],
            };
            rows.iter().map(move |row| (entry, row))
        })
    }

    /// The cells of each row of the table, and whether the row's result is right.
    pub fn table(&self) -> Vec<([String; 7], bool)> {
        let rows = self.rows().map(|(entry, row)| {
            let figures = row.figures.as_ref();
            let cells = [
                entry.benchmark.to_string(),
                entry.device.to_string(),
                row.sizes.clone(),
                row.variant.clone(),
                row.verdict(),
                figures.map_or_else(String::new, |figures| time(figures.median_ms)),
                figures.map_or_else(String::new, |figures| speed(&figures.rate)),
            ];
            (cells, row.verified)
        });
        rows.collect()
    }

    /// The verdict on the run.
    pub fn verdict(&self) -> Verdict {
        let faults: Vec<String> = self.entries.iter().filter_map(Entry::fault).collect();
        if !faults.is_empty() {
            return Verdict::Bad(faults.join("; "));
        }
        match self.rows().next() {
            Some(_) => Verdict::Good,
            None => Verdict::Nothing,
        }
    }

    /// Lines that a reader of the table has to know besides.
    pub fn summary(&self) -> Vec<String> {
        let (all, wrong) = self.rows().fold((0, 0), |(all, wrong), (_, row)| {
            (all + 1, wrong + usize::from(!row.verified))
        });
        let devices: Vec<String> = self.places.present().map(described).collect();
        let found = match (all, wrong) {
            (0, _) => "no results".to_owned(),
            (all, 0) => format!("{all} results, all verified"),
            (all, wrong) => format!("{all} results, {wrong} wrong"),
        };
        let mut lines = vec![found];
        lines.extend(
            devices
                .into_iter()
                .map(|device| format!("measured: {device}")),
        );
        for place in &self.places.all {
            if let Some(reason) = &place.missing {
                lines.push(format!("missing: {}: {reason}", place.device));
            }
        }
        for (entry, reason) in self.skipped() {
            lines.push(format!("skipped: {}: {reason}", entry.title()));
        }
        if !self.places.not_built.is_empty() {
            let names: Vec<&str> = self.places.not_built.iter().map(Device::name).collect();
            let (names, first) = (names.join(", "), names[0]);
            lines.push(format!(
                "not in this build: {names} (`cargo bench --features {first}` adds one)"
            ));
        }
        lines
    }

    /// Entries that devices can't run, with the reasons.
    fn skipped(&self) -> impl Iterator<Item = (&Entry, &str)> {
        self.entries
            .iter()
            .filter_map(|entry| match &entry.outcome {
                Outcome::Skipped(reason) => Some((entry, reason.as_str())),
                Outcome::Measured(_) | Outcome::Failed(_) => None,
            })
    }

    /// The run as one JSON document. `results` without `verified` have no figures; `exit` is the exit status.
    ///
    /// # Errors
    /// [`serde_json::Error`] for a result without a JSON form; there is no such result.
    pub fn to_json(&self) -> Result<Value, serde_json::Error> {
        let mut results = Vec::new();
        for (entry, row) in self.rows() {
            let mut value = serde_json::to_value(row)?;
            value["benchmark"] = json!(entry.benchmark);
            value["device"] = json!(entry.device);
            results.push(value);
        }
        let left_out = |entry: &Entry, reason: &str| {
            json!({
                "benchmark": entry.benchmark,
                "device": entry.device,
                "reason": reason,
            })
        };
        let failed = self.entries.iter().filter_map(|entry| {
            let Outcome::Failed(reason) = &entry.outcome else {
                return None;
            };
            Some(left_out(entry, reason))
        });
        let skipped = self.skipped();
        let skipped = skipped.map(|(entry, reason)| left_out(entry, reason));
        let verdict = self.verdict();
        Ok(json!({
            "version": env!("CARGO_PKG_VERSION"),
            "threads": available_parallelism().map_or(1, usize::from),
            "sizes": if self.full { "full" } else { "small" },
            "devices": self.places.all,
            "not_built": self.places.not_built,
            "results": results,
            "skipped": skipped.collect::<Vec<Value>>(),
            "failed": failed.collect::<Vec<Value>>(),
            "verified": verdict == Verdict::Good,
            "exit": verdict.code(),
        }))
    }
}

/// Name of a device with that of its adapter.
fn described(place: &Place) -> String {
    let adapter = place.adapter.as_deref().unwrap_or("no name");
    format!("{} ({adapter})", place.device)
}

/// A time in milliseconds, formatted in a suitable unit.
fn time(ms: f64) -> String {
    match ms {
        ms if ms >= 100.0 => format!("{ms:.0} ms"),
        ms if ms >= 1.0 => format!("{ms:.2} ms"),
        ms => format!("{:.1} µs", ms * 1e3),
    }
}

/// A rate, formatted with a suitable number of digits.
fn speed(rate: &Rate) -> String {
    let Rate { value, unit } = rate;
    match *value {
        value if value >= 100.0 => format!("{value:.0} {unit}"),
        value => format!("{value:.2} {unit}"),
    }
}

#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;

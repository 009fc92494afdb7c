//! `bench … --compare`: compares a result with an earlier one of the same work on the same device.

use std::path::Path;

use anstyle::Style;
use serde::Serialize;

use crate::error::CliError;
use crate::results::{Figure, Part, ResultError, RunOf, Stored};
use crate::screen::{BAD, GOOD, Outcome, Screen, Table};

/// Relative difference in speed up to which results count as the same: processes differ by as much, which repetitions within
/// one process don't show.
const LEAST: f64 = 0.02;

/// The earlier result of a comparison.
pub(crate) struct Baseline(Stored);

/// Verdict on the change of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    /// The figure takes significantly less time than before.
    Faster,
    /// The difference is within the noise of the repetitions.
    Same,
    /// The figure takes significantly more time than before.
    Slower,
}

/// A figure that both results have, compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Row {
    /// Name of what was timed.
    figure: String,
    /// Median milliseconds of the baseline.
    baseline_ms: f64,
    /// Median milliseconds of the new result.
    now_ms: f64,
    /// New speed divided by the speed of the baseline.
    ratio: f64,
    /// Sum of both interquartile ranges, divided by the baseline's median.
    noise: f64,
    verdict: Verdict,
    /// Whether a slower figure makes the comparison negative; false for stages and peers.
    counts: bool,
}

/// A result compared with its baseline.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Comparison {
    /// Path of the baseline's file.
    baseline: String,
    /// The figures that both results have.
    rows: Vec<Row>,
    /// Names of the figures that only one result has.
    not_in_both: Vec<String>,
    /// Number of rows that count and are slower.
    slower: usize,
}

impl Baseline {
    /// Reads the result for the same work and place as `now` from a file.
    ///
    /// # Errors
    /// [`ResultError`] for a file that can't be used, or with the first difference if no result in it fits.
    pub(crate) fn read(path: &Path, now: &RunOf) -> Result<Self, ResultError> {
        let mut first = None;
        for stored in Stored::read(path)? {
            let difference = now.difference(&stored.run, &[]);
            let Some([what, expected, got]) = difference.or_else(|| now.other_place(&stored.run))
            else {
                return Ok(Self(stored));
            };
            first.get_or_insert(ResultError::Differs {
                path: stored.path,
                what,
                expected,
                got,
            });
        }
        let path = path.display().to_string();
        let got = "no result".to_owned();
        Err(first.unwrap_or(ResultError::Foreign { path, got }))
    }

    /// The baseline's adapter if it isn't that of `now`.
    pub(crate) fn other_adapter(&self, now: &RunOf) -> Option<&str> {
        let adapter = &self.0.run.adapter;
        (*adapter != now.adapter).then_some(adapter)
    }

    /// Compares the figures of both results.
    pub(crate) fn compare(&self, now: &[Figure]) -> Comparison {
        let before = &self.0.figures;
        let named = |all: &'_ [Figure], name: &str| all.iter().any(|of| of.name == name);
        let rows = now.iter().filter_map(|now| {
            let before = before.iter().find(|before| before.name == now.name)?;
            Some(Row::of(before, now))
        });
        let rows: Vec<Row> = rows.collect();
        let lost = before.iter().filter(|of| !named(now, &of.name));
        let new = now.iter().filter(|of| !named(before, &of.name));
        let slower = rows
            .iter()
            .filter(|row| row.counts && row.verdict == Verdict::Slower);
        Comparison {
            baseline: self.0.path.clone(),
            slower: slower.count(),
            not_in_both: lost.chain(new).map(|of| of.name.clone()).collect(),
            rows,
        }
    }
}

impl Row {
    fn of(before: &Figure, now: &Figure) -> Self {
        let range = |figure: &Figure| figure.quartiles[1] - figure.quartiles[0];
        let ranges = range(before) + range(now);
        let ratio = before.ms / now.ms;
        let differs = (now.ms - before.ms).abs() > ranges && (ratio - 1.0).abs() > LEAST;
        let verdict = match (differs, ratio > 1.0) {
            (false, _) => Verdict::Same,
            (true, true) => Verdict::Faster,
            (true, false) => Verdict::Slower,
        };
        Self {
            figure: now.name.clone(),
            baseline_ms: before.ms,
            now_ms: now.ms,
            ratio,
            noise: ranges / before.ms,
            verdict,
            counts: now.of == Part::Whole,
        }
    }
}

impl Comparison {
    /// Negative if a figure that counts is slower.
    pub(crate) fn outcome(&self) -> Outcome {
        Outcome::of(self.slower == 0)
    }

    /// Writes the table of the comparison.
    pub(crate) fn print(&self, screen: &mut Screen) -> Result<(), CliError> {
        screen.heading(&format!("Compared with {}", self.baseline))?;
        let headings = "figure | baseline | now | speed | noise | verdict";
        let mut table = Table::new(headings).right(&[1, 2, 3, 4]);
        for row in &self.rows {
            let (verdict, style) = match row.verdict {
                Verdict::Faster => ("faster", GOOD),
                Verdict::Same => ("same", Style::new()),
                Verdict::Slower => ("slower", BAD),
            };
            let cells = [
                row.figure.clone(),
                format!("{:.3} ms", row.baseline_ms),
                format!("{:.3} ms", row.now_ms),
                format!("{:.2} ×", row.ratio),
                format!("{:.0} %", 100.0 * row.noise),
                verdict.to_owned(),
            ];
            table.row(cells, style);
        }
        table.print(screen)?;
        screen.line(&format!(
            "  noise: the range of half the repetitions, of both together; what differs by more, and by {:.0} %, is faster or slower",
            100.0 * LEAST,
        ))?;
        if self.not_in_both.is_empty() {
            return Ok(());
        }
        let names = self.not_in_both.join(", ");
        screen.line(&format!("  not in both: {names}"))
    }
}

#[cfg(test)]
mod tests;

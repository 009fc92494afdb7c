//! `bench chart`: speed over tokens, of results that were measured before.

mod svg;

use std::collections::BTreeMap;
use std::fs;

use serde_json::{Value, json};

use crate::args::BenchChartArgs;
use crate::error::CliError;
use crate::results::{Part, ResultError, RunOf, Stored, plain};
use crate::screen::{Outcome, Screen};
use svg::{Chart, Series};

/// The entry of a workload that the chart goes over.
const TOKENS: &str = "tokens";

/// Runs `moebius bench chart`.
pub(crate) fn run(args: &BenchChartArgs, screen: &mut Screen) -> Result<Outcome, CliError> {
    let mut all = Vec::new();
    for file in &args.files {
        all.extend(Stored::read(file)?);
    }
    let chart = chart(&all)?;
    fs::write(&args.out, chart.svg()).map_err(|source| CliError::WriteFile {
        path: args.out.display().to_string(),
        source,
    })?;
    let (out, lines) = (args.out.display().to_string(), chart.series.len());
    screen.line(&format!("{out}: {lines} lines of {} results", all.len()))?;
    screen.object(&json!({ "out": out, "lines": lines, "results": all.len() }))?;
    Ok(Outcome::Good)
}

/// The chart of some results, which may differ in their tokens, devices and instruction sets alone.
fn chart(all: &[Stored]) -> Result<Chart, ResultError> {
    let Some(first) = all.first() else {
        let (path, got) = ("no file".to_owned(), "no result".to_owned());
        return Err(ResultError::Foreign { path, got });
    };
    let mut points: BTreeMap<String, BTreeMap<u64, Vec<f64>>> = BTreeMap::new();
    for stored in all {
        if let Some([what, expected, got]) = first.run.difference(&stored.run, &[TOKENS]) {
            return Err(ResultError::Differs {
                path: stored.path.clone(),
                what,
                expected,
                got,
            });
        }
        let tokens = stored.run.workload.get(TOKENS).and_then(Value::as_u64);
        let Some(tokens) = tokens.filter(|tokens| *tokens > 0) else {
            let (path, got) = (stored.path.clone(), "a `run` without tokens".to_owned());
            return Err(ResultError::Foreign { path, got });
        };
        for figure in stored.figures.iter().filter(|of| of.of != Part::Stage) {
            let line = format!("{} · {}", figure.name, place(&stored.run, figure.of));
            let rates = points.entry(line).or_default().entry(tokens).or_default();
            rates.push(tokens as f64 / figure.ms * 1e3);
        }
    }
    let series = points.into_iter().map(|(name, points)| Series {
        name,
        points: points.into_iter().map(middle).collect(),
    });
    Ok(Chart {
        title: title(&first.run),
        x: "tokens".to_owned(),
        y: "tokens per second".to_owned(),
        series: series.collect(),
    })
}

/// Where a line was measured; a peer isn't on our device.
fn place(run: &RunOf, part: Part) -> String {
    let set = run.simd.map(|set| format!(", {set}")).unwrap_or_default();
    match part {
        Part::Peer => format!("beside {}{set}", run.device),
        _ => format!("{}{set}", run.device),
    }
}

/// A point; of repeated measurements the median.
fn middle((tokens, mut rates): (u64, Vec<f64>)) -> (f64, f64) {
    rates.sort_by(f64::total_cmp);
    (tokens as f64, rates[rates.len() / 2])
}

/// The workload but for its tokens.
fn title(run: &RunOf) -> String {
    let name = run.workload.get("name").map_or(String::new(), plain);
    let entries = run.workload.iter();
    let entries = entries.filter(|(key, value)| {
        ![TOKENS, "name"].contains(&key.as_str()) && !value.is_null() && **value != json!(false)
    });
    let texts = entries.map(|(key, value)| match value {
        Value::Bool(_) => key.replace('_', " "),
        _ => format!("{} {}", key.replace('_', " "), plain(value)),
    });
    let texts: Vec<String> = std::iter::once(name).chain(texts).collect();
    texts.join(" · ")
}

#[cfg(test)]
mod tests;

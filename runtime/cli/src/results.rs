//! Results of benchmarks as JSON: the work and place that were measured, and the figures.

use std::fs;
use std::path::Path;

use moebius_host::Simd;
use serde::{Deserialize, Serialize};
use serde_json::{Deserializer, Map, Value};

/// Work and place of a result: the entry `run` of a benchmark's JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RunOf {
    /// The benchmark's `name`, its `tokens`, and all other options that determine the work.
    pub(crate) workload: Map<String, Value>,
    /// Name of the device, without an index of 0.
    pub(crate) device: String,
    /// Vector instructions that were used; `null` where no processor computes, or its driver doesn't say.
    pub(crate) simd: Option<Simd>,
    /// Number of processors that this process may use.
    pub(crate) threads: usize,
    /// Name of the adapter.
    pub(crate) adapter: String,
    /// Version of the command.
    pub(crate) version: String,
}

/// A median in milliseconds, and the quartiles of its repetitions.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Figure {
    /// Name of what was timed, unique in a result.
    pub(crate) name: String,
    pub(crate) ms: f64,
    pub(crate) quartiles: [f64; 2],
    pub(crate) of: Part,
}

/// Kind of work that a figure is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Our work as a whole.
    Whole,
    /// A stage of our work.
    Stage,
    /// The work by another implementation.
    Peer,
}

/// A result read from a file.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    /// Path of the file.
    pub(crate) path: String,
    pub(crate) run: RunOf,
    pub(crate) figures: Vec<Figure>,
}

/// Why a result can't be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ResultError {
    /// The file can't be read.
    #[error("cannot read {path}: {reason}")]
    Read { path: String, reason: String },
    /// The file isn't complete JSON.
    #[error("{path}: expected JSON, got {reason}")]
    NotJson { path: String, reason: String },
    /// The file is JSON of some other kind.
    #[error("{path}: expected what `moebius bench … --json` prints, got {got}")]
    Foreign { path: String, got: String },
    /// The result has no figures, since it did not verify.
    #[error("{path}: expected a result that verified, got one that did not")]
    Unverified { path: String },
    /// The result is of other work or another place.
    #[error("{path}: expected a result of {what} {expected}, got {got}")]
    Differs {
        path: String,
        what: String,
        expected: String,
        got: String,
    },
}

impl RunOf {
    /// The first difference from `other` in the workload, except for entries in `left_out`: the entry's name, the value
    /// here and the value there.
    pub(crate) fn difference(&self, other: &Self, left_out: &[&str]) -> Option<[String; 3]> {
        let text = |value: Option<&Value>| value.map_or("none".to_owned(), plain);
        let names = ["name"].into_iter().map(str::to_owned);
        let keys = self.workload.keys().chain(other.workload.keys()).cloned();
        for key in names.chain(keys) {
            let [ours, theirs] = [self, other].map(|run| run.workload.get(&key));
            if ours != theirs && !left_out.contains(&key.as_str()) {
                return Some([key, text(ours), text(theirs)]);
            }
        }
        None
    }

    /// The first difference from `other` in device, instruction set or threads: its name, the value here and the value
    /// there.
    pub(crate) fn other_place(&self, other: &Self) -> Option<[String; 3]> {
        let set = |run: &Self| run.simd.map_or("none".to_owned(), |set| set.to_string());
        let places = [
            ("device", self.device.clone(), other.device.clone()),
            ("instruction set", set(self), set(other)),
            (
                "threads",
                self.threads.to_string(),
                other.threads.to_string(),
            ),
        ];
        let other = places.into_iter().find(|(_, ours, theirs)| ours != theirs);
        other.map(|(what, ours, theirs)| [what.to_owned(), ours, theirs])
    }
}

impl Stored {
    /// Reads all results of a file: one JSON object, or several in a row.
    pub(crate) fn read(path: &Path) -> Result<Vec<Self>, ResultError> {
        let name = path.display().to_string();
        let text = fs::read_to_string(path).map_err(|error| ResultError::Read {
            path: name.clone(),
            reason: error.to_string(),
        })?;
        let values = Deserializer::from_str(&text).into_iter::<Value>();
        let read = |value: Result<Value, serde_json::Error>| match value {
            Ok(value) => Self::of(name.clone(), &value),
            Err(error) => Err(ResultError::NotJson {
                path: name.clone(),
                reason: error.to_string(),
            }),
        };
        let results: Vec<Self> = values.map(read).collect::<Result<_, _>>()?;
        if results.is_empty() {
            let (path, reason) = (name, "an empty file".to_owned());
            return Err(ResultError::NotJson { path, reason });
        }
        Ok(results)
    }

    fn of(path: String, value: &Value) -> Result<Self, ResultError> {
        let Some(run) = value.get("run") else {
            let got = match value {
                Value::Object(entries) if entries.contains_key("error") => "an error of it",
                Value::Object(_) => "an object without `run`",
                _ => "JSON that is no object",
            };
            let got = got.to_owned();
            return Err(ResultError::Foreign { path, got });
        };
        let run: RunOf = match RunOf::deserialize(run) {
            Ok(run) => run,
            Err(error) => {
                let got = format!("another `run`: {error}");
                return Err(ResultError::Foreign { path, got });
            }
        };
        let figures = figures(value, &run.workload);
        if !figures.iter().any(|figure| figure.of == Part::Whole) {
            return Err(ResultError::Unverified { path });
        }
        Ok(Self { path, run, figures })
    }
}

/// A JSON value as text, with strings unquoted.
pub(crate) fn plain(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

/// The figures of a result: every median that has the spread of its repetitions beside it.
pub(crate) fn figures(report: &Value, workload: &Map<String, Value>) -> Vec<Figure> {
    let name = workload.get("name").map_or("result".to_owned(), plain);
    let mut found = Vec::new();
    collect(report, (&name, Part::Whole), &mut found);
    found
}

/// Adds the figures of the object called `name` and of the objects inside it.
fn collect(value: &Value, (name, part): (&str, Part), found: &mut Vec<Figure>) {
    let Value::Object(entries) = value else {
        return;
    };
    for (key, entry) in entries {
        match (entry, key.strip_suffix("spread")) {
            (Value::Object(spread), Some(prefix)) => {
                let figure = figure(entries, prefix, spread);
                let Some((ms, quartiles)) = figure else {
                    continue;
                };
                let of = prefix.trim_end_matches('_');
                let name = [name, of].join(" ").trim_end().to_owned();
                if found.iter().all(|figure| figure.name != name) {
                    found.push(Figure {
                        name,
                        ms,
                        quartiles,
                        of: part,
                    });
                }
            }
            (Value::Object(_), _) if !["run", "comparison"].contains(&key.as_str()) => {
                let (called, part) = below(entry, key, (name, part));
                collect(entry, (&called, part), found);
            }
            (Value::Array(items), _) => {
                for item in items {
                    let (called, part) = below(item, key, (name, part));
                    collect(item, (&called, part), found);
                }
            }
            _ => {}
        }
    }
}

/// The median beside a spread, and the spread's quartiles.
fn figure(
    entries: &Map<String, Value>,
    prefix: &str,
    spread: &Map<String, Value>,
) -> Option<(f64, [f64; 2])> {
    let median = match prefix {
        "" => "median_ms".to_owned(),
        _ => format!("{prefix}ms"),
    };
    let ms = entries.get(&median)?.as_f64()?;
    let at = |name: &str| spread.get(name).and_then(Value::as_f64);
    Some((ms, [at("q1_ms")?, at("q3_ms")?]))
}

/// Name of a nested entry, and the part that its figures belong to.
fn below(entry: &Value, key: &str, (name, part): (&str, Part)) -> (String, Part) {
    let part = match key {
        "stages" => Part::Stage,
        "peer" | "peers" => Part::Peer,
        _ => part,
    };
    let own = ["name", "format", "keep"].map(|of| entry.get(of).and_then(Value::as_str));
    let own = own.into_iter().flatten().next().unwrap_or(key);
    match part {
        // Rows of a result have names of their own; stages and peers are named after the result they belong to.
        // A name in words may have that of a format in it, as it is.
        Part::Whole if own.contains(' ') => (own.to_owned(), part),
        Part::Whole => (own.replace('_', " "), part),
        _ => (format!("{name}: {own}"), part),
    }
}

#[cfg(test)]
#[path = "results_tests.rs"]
mod tests;

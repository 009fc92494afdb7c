//! Which jobs of the deep tier a run of CI takes along: each runs at least once in twelve runs, and those of a family
//! that has changed come first.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::job::Job;
use crate::places;

/// A job of the deep tier runs at least once in so many runs: all together take some two hours, and a run takes ten minutes of them.
const ROUND: u64 = 12;
/// What changed families may add to a run at most, in seconds; the rest of theirs follows in later runs.
const CHANGED_SECONDS: f64 = 180.0;

/// A job of the deep tier.
pub(crate) struct Deep {
    pub(crate) job: Job,
    /// What a change must name to make it due at once.
    pub(crate) family: String,
    /// What it takes by a guess, until it ran.
    pub(crate) seconds: f64,
}

impl Deep {
    pub(crate) fn new(mut job: Job, family: &str, seconds: f64) -> Self {
        job.deep = true;
        let family = family.to_owned();
        Self {
            job,
            family,
            seconds,
        }
    }
}

/// What the ledger knows of a deep job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Entry {
    /// The number of the run in which it last passed, or was first seen.
    pub(crate) run: u64,
    pub(crate) seconds: f64,
    /// Whether a change of its family asks for it.
    pub(crate) changed: bool,
}

/// The ledger in the cache folder.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    path: PathBuf,
    pub(crate) run: u64,
    /// The last commit whose run was green.
    pub(crate) green: Option<String>,
    pub(crate) entries: BTreeMap<String, Entry>,
}

impl Ledger {
    /// Reads the ledger; one that is missing or damaged is begun anew.
    pub(crate) fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap_or_default();
        let value: Value = serde_json::from_str(&text).unwrap_or_default();
        let entries = value["deep"].as_object().cloned().unwrap_or_default();
        let entry = |value: &Value| Entry {
            run: value["run"].as_u64().unwrap_or_default(),
            seconds: value["seconds"].as_f64().unwrap_or_default(),
            changed: value["changed"].as_bool().unwrap_or_default(),
        };
        Self {
            path: path.to_owned(),
            run: value["run"].as_u64().unwrap_or_default() + 1,
            green: value["green"].as_str().map(str::to_owned),
            entries: entries
                .iter()
                .map(|(name, value)| (name.clone(), entry(value)))
                .collect(),
        }
    }

    /// Whether a run before this one was green, so that its builds and programs are there.
    pub(crate) fn warm(&self) -> bool {
        self.green.is_some()
    }

    /// The names of the jobs that this run takes, of all deep ones.
    pub(crate) fn due(&mut self, jobs: &[Deep], changed: &[String]) -> Vec<String> {
        let run = self.run;
        self.entries
            .retain(|name, _| jobs.iter().any(|deep| deep.job.name == *name));
        for deep in jobs {
            let name = deep.job.name.clone();
            let entry = self.entries.entry(name).or_insert(Entry {
                run: run - 1,
                seconds: deep.seconds,
                changed: false,
            });
            entry.changed |= names(changed, &deep.family);
        }
        let mut order: Vec<(&String, &Entry)> = self.entries.iter().collect();
        order.sort_by_key(|(name, entry)| (entry.run, (*name).clone()));
        let total: f64 = order.iter().map(|(_, entry)| entry.seconds).sum();
        let (mut turn, mut extra, mut due) = (0.0, 0.0, Vec::new());
        for (name, entry) in order {
            let last_chance = run >= entry.run + ROUND;
            if last_chance || turn < total / ROUND as f64 {
                turn += entry.seconds;
                due.push(name.clone());
            } else if entry.changed && extra + entry.seconds <= CHANGED_SECONDS {
                extra += entry.seconds;
                due.push(name.clone());
            }
        }
        due
    }

    /// Writes down a job that passed in so many seconds, or that need not run because nothing has changed since it passed.
    pub(crate) fn passed(&mut self, name: &str, seconds: Option<f64>) {
        let known = self.entries.get(name).map(|entry| entry.seconds);
        let entry = Entry {
            run: self.run,
            seconds: seconds.or(known).unwrap_or_default(),
            changed: false,
        };
        self.entries.insert(name.to_owned(), entry);
    }

    /// Writes down a job that this run should have taken: it is among the first in turn for the next.
    pub(crate) fn owe(&mut self, name: &str, seconds: f64) {
        let entry = Entry {
            run: 0,
            seconds,
            changed: true,
        };
        self.entries.insert(name.to_owned(), entry);
    }

    /// Writes the ledger after a green run of `commit`.
    pub(crate) fn write(&self, commit: &str) -> io::Result<()> {
        let entry = |entry: &Entry| json!({"run": entry.run, "seconds": entry.seconds, "changed": entry.changed});
        let entries: serde_json::Map<String, Value> = self
            .entries
            .iter()
            .map(|(name, one)| (name.clone(), entry(one)))
            .collect();
        let text = json!({"run": self.run, "green": commit, "deep": entries}).to_string();
        places::replace(&self.path, &text)
    }
}

/// Whether a changed path names `family`: `shaders/kernels/src/quantize/plan.rs` does for `quantize`.
pub(crate) fn names(changed: &[String], family: &str) -> bool {
    let part = |part: &str| part.split('.').next() == Some(family);
    !family.is_empty() && changed.iter().any(|path| path.split('/').any(part))
}

/// Paths that differ between a commit and the tree; of an unknown commit, all that git tracks.
pub(crate) fn changed_since(commit: &str) -> Vec<String> {
    let git = |arguments: &[&str]| Command::new("git").args(arguments).output();
    let difference = git(&["diff", "--name-only", commit]);
    let known = difference
        .as_ref()
        .is_ok_and(|output| output.status.success());
    let output = if known {
        difference
    } else {
        git(&["ls-files"])
    };
    let text = output.map_or_else(
        |_| String::new(),
        |output| String::from_utf8_lossy(&output.stdout).into_owned(),
    );
    text.lines().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jobs() -> Vec<Deep> {
        let family = |i| if i == 7 { "rows" } else { "" };
        let deep = |i| Deep::new(Job::new(format!("job {i}"), &["true"]), family(i), 60.0);
        (0..10).map(deep).collect()
    }

    #[test]
    fn each_runs_within_a_round() {
        let mut ledger = Ledger {
            run: 1,
            ..Ledger::default()
        };
        let mut last = BTreeMap::new();
        for run in 1..5 * ROUND {
            ledger.run = run;
            let due = ledger.due(&jobs(), &[]);
            assert!(due.len() <= 2, "{due:?}");
            for name in due {
                ledger.passed(&name, Some(30.0));
                last.insert(name, run);
            }
            if run >= ROUND {
                let late = jobs()
                    .iter()
                    .any(|deep| last.get(&deep.job.name).is_none_or(|at| run - at >= ROUND));
                assert!(!late, "run {run}: {last:?}");
            }
        }
    }

    #[test]
    fn what_a_run_owes_is_due_in_the_next() {
        let mut ledger = Ledger {
            run: 1,
            ..Ledger::default()
        };
        ledger.owe("job 4", 60.0);
        ledger.run = 2;
        let due = ledger.due(&jobs(), &[]);
        assert_eq!(due.first().map(String::as_str), Some("job 4"), "{due:?}");
    }

    #[test]
    fn a_change_makes_its_family_due_until_it_ran() {
        let mut ledger = Ledger {
            run: 1,
            ..Ledger::default()
        };
        for deep in jobs() {
            ledger.passed(&deep.job.name, Some(30.0));
        }
        ledger.run = 2;
        let changed = ["shaders/kernels/src/permute/rows.rs".to_owned()];
        let due = ledger.due(&jobs(), &changed);
        assert!(due.contains(&"job 7".to_owned()), "{due:?}");
        assert!(
            !ledger
                .clone()
                .due(&jobs(), &["README.md".to_owned()])
                .is_empty()
        );
        ledger.run = 3;
        let due = ledger.due(&jobs(), &[]);
        assert!(
            due.contains(&"job 7".to_owned()),
            "a change is not forgotten: {due:?}"
        );
    }

    #[test]
    fn a_ledger_reads_back_and_a_damaged_one_begins_anew() {
        let path = std::env::temp_dir().join(format!("moebius-ledger-{}.json", std::process::id()));
        let mut ledger = Ledger::read(&path);
        assert!(!ledger.warm());
        ledger.passed("job", Some(5.0));
        ledger.passed("job", None);
        assert_eq!(ledger.entries["job"].seconds, 5.0);
        ledger.write("abc").unwrap();
        let read = Ledger::read(&path);
        assert_eq!((read.run, read.green.as_deref()), (2, Some("abc")));
        assert_eq!(read.entries, ledger.entries);
        fs::write(&path, "{").unwrap();
        assert_eq!(Ledger::read(&path).run, 1);
        fs::remove_file(&path).unwrap();
    }
}

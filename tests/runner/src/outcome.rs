//! The outcome of a job from its output: how many tests passed, and how long each case took.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// A case and its duration.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) seconds: f64,
}

/// The results of a job.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) passed: usize,
    /// Cases that a device refused as expected; `passed` doesn't count them.
    pub(crate) refused: usize,
    pub(crate) failed: usize,
    pub(crate) ignored: usize,
    pub(crate) cases: Vec<Case>,
    /// XLA programs that were compiled, and those that were loaded from the cache folder.
    pub(crate) compiled: usize,
    pub(crate) loaded: usize,
}

impl Outcome {
    /// Reads the lines `test NAME ... ok <1.5s>` and `test result: ok. 3 passed; 0 failed; 1 ignored; …` of libtest, of
    /// libtest-mimic and of the browser's tests.
    pub(crate) fn of_log(log: &str) -> Self {
        let mut outcome = Self::default();
        for line in log.lines() {
            if let Some(result) = line.strip_prefix("test result: ") {
                outcome.passed += count(result, "passed");
                outcome.failed += count(result, "failed");
                outcome.ignored += count(result, "ignored");
            } else if let Some(case) = timed(line) {
                outcome.cases.push(case);
            }
        }
        outcome
    }

    /// Adds the records that the job's test programs left in `folder`: `cases-*.tsv` has a line for each case on a device
    /// (`tests/src/record.rs`).
    pub(crate) fn add_records(&mut self, folder: &Path) {
        for path in files(folder, "tsv") {
            for line in fs::read_to_string(path).unwrap_or_default().lines() {
                let columns: Vec<&str> = line.split('\t').collect();
                let [name, device, _, state, _, seconds, ..] = columns[..] else {
                    continue;
                };
                if state == "refused" {
                    self.refused += 1;
                }
                let seconds = seconds.parse().unwrap_or_default();
                let name = format!("{name}[{device}]");
                self.cases.push(Case { name, seconds });
            }
        }
        self.passed = self.passed.saturating_sub(self.refused);
    }

    /// Counts the programs that XLA compiled into the cache folder since `start`, and those that it loaded from there.
    pub(crate) fn add_programs(&mut self, kept: &Path, start: SystemTime) {
        for data in files(kept, "xla").filter_map(|path| path.metadata().ok()) {
            let since = |time: std::io::Result<SystemTime>| time.is_ok_and(|time| time >= start);
            if since(data.created()) {
                self.compiled += 1;
            } else if since(data.modified()) {
                self.loaded += 1;
            }
        }
    }

    /// Cases of more than `seconds`, the longest first.
    pub(crate) fn slow(&self, seconds: f64) -> Vec<&Case> {
        let mut slow: BTreeMap<&str, &Case> = BTreeMap::new();
        for case in self.cases.iter().filter(|case| case.seconds > seconds) {
            // Tests of several programs may have the same name.
            let known = slow.entry(&case.name).or_insert(case);
            if case.seconds > known.seconds {
                *known = case;
            }
        }
        let mut slow: Vec<&Case> = slow.into_values().collect();
        slow.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
        slow
    }
}

/// The files of a folder whose names end with `ending`.
fn files(folder: &Path, ending: &str) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    paths.filter(move |path| path.extension().is_some_and(|own| own == ending))
}

/// The number before `what` in `ok. 3 passed; 0 failed; …`.
fn count(result: &str, what: &str) -> usize {
    let words: Vec<&str> = result.split_whitespace().collect();
    let mut pairs = words.windows(2);
    let found = pairs.find(|pair| pair[1].trim_end_matches(';') == what);
    found.map_or(0, |pair| pair[0].parse().unwrap_or(0))
}

/// Parses `test NAME ... ok <1.5s>`, or `test NAME ... ok (1.5 s)` from the browser's tests.
fn timed(line: &str) -> Option<Case> {
    let (name, verdict) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let start = verdict.find(['<', '('])? + 1;
    let number = verdict[start..].trim_end_matches(['>', ')', 's', ' ']);
    let (name, seconds) = (name.trim().to_owned(), number.parse().ok()?);
    Some(Case { name, seconds })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_of_several_programs_is_added_up() {
        let log = "test a ... ok <0.500s>\ntest b - should panic ... ok\n\
            test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured\n\
            test page::opens ... FAILED (2.5 s)\ntest result: FAILED. 0 passed; 1 failed; 3 ignored;\n";
        let outcome = Outcome::of_log(log);
        let counted = (outcome.passed, outcome.failed, outcome.ignored);
        assert_eq!(counted, (2, 1, 3));
        let cases = outcome.cases.iter();
        let cases: Vec<_> = cases
            .map(|case| (case.name.as_str(), case.seconds))
            .collect();
        assert_eq!(cases, [("a", 0.5), ("page::opens", 2.5)]);
        assert_eq!(outcome.slow(2.0).len(), 1);
    }

    #[test]
    fn of_slow_cases_with_one_name_the_longest_counts() {
        let log = "test a ... ok <3.000s>\ntest a ... ok <4.000s>\ntest a ... ok <2.500s>\n";
        let outcome = Outcome::of_log(log);
        let slow: Vec<f64> = outcome.slow(2.0).iter().map(|case| case.seconds).collect();
        assert_eq!(slow, [4.0]);
    }

    #[test]
    fn refused_cases_did_not_pass() {
        let folder = std::env::temp_dir().join(format!("moebius-records-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let cases = "a::x\tcpu\tc\tran\t\t0.1\t1\tk\na::y\tcpu\tc\trefused\tno\t0.0\t0\t\n";
        fs::write(folder.join("cases-1.tsv"), cases).unwrap();
        let start = SystemTime::now();
        fs::write(folder.join("a.xla"), "").unwrap();
        let mut outcome = Outcome::of_log("test result: ok. 2 passed; 0 failed; 0 ignored;");
        outcome.add_records(&folder);
        outcome.add_programs(&folder, start - std::time::Duration::from_secs(1));
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!((outcome.passed, outcome.refused), (1, 1));
        assert_eq!((outcome.compiled, outcome.loaded), (1, 0));
        assert_eq!(outcome.cases[0].name, "a::x[cpu]");
    }
}

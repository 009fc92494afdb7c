//! The costs of the last runs, as files in the cache folder: `runs/<UTC time>-<commit>.json`, and the newest as
//! `last-run.json`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::lanes::Finished;
use crate::places;
use crate::report::{SLOW, Totals};
use crate::timings::{Build, Part, Unit};

/// The number of newest runs whose costs are kept, and of cargo's reports.
pub(crate) const NEWEST: usize = 30;
/// The number of a build's longest units whose times are kept.
const UNITS: usize = 10;
/// The number of a commit's digits in a file's name.
const DIGITS: usize = 8;

/// The circumstances of a run: its end, commit and machine.
pub(crate) struct Circumstances {
    pub(crate) arguments: Vec<String>,
    /// The time of the run's end.
    pub(crate) end: SystemTime,
    /// The full hash of the commit.
    pub(crate) commit: String,
    /// Whether the tree had uncommitted changes.
    pub(crate) uncommitted: bool,
    pub(crate) instruction_set: &'static str,
    pub(crate) good: bool,
}

impl Circumstances {
    fn file_name(&self) -> String {
        let digits = self.commit.get(..DIGITS).unwrap_or("unknown");
        format!("{}-{digits}.json", utc(self.end))
    }
}

/// The costs of a run as JSON: times in seconds, memory in MB, and null for a figure that wasn't measured.
pub(crate) fn costs(
    circumstances: &Circumstances,
    finished: &[Finished],
    totals: &Totals,
    build: Option<&Build>,
) -> Value {
    let step = |at: &usize| {
        let one = &finished[*at];
        json!({
            "job": one.job.name,
            "started_s": number(one.span.started),
            "seconds": number(one.seconds()),
        })
    };
    json!({
        "format": 1,
        "ended": utc(circumstances.end),
        "commit": circumstances.commit,
        "uncommitted": circumstances.uncommitted,
        "arguments": circumstances.arguments,
        "good": circumstances.good,
        "instruction_set": circumstances.instruction_set,
        "processors": totals.processors,
        "wall_s": number(totals.wall),
        "cpu_s": totals.cpu.map(number),
        "busy": totals.busy().map(number),
        "critical_path": totals.path.iter().map(step).collect::<Vec<_>>(),
        "jobs": finished.iter().map(job).collect::<Vec<_>>(),
        "build": build.map(parts),
    })
}

fn job(one: &Finished) -> Value {
    let outcome = &one.outcome;
    let waits = one.waits.longest().into_iter();
    let waits = waits.map(|(wait, sum)| json!({"for": wait.to_string(), "seconds": number(sum)}));
    let slow = outcome.slow(SLOW).into_iter();
    let slow = slow.map(|case| json!({"case": case.name, "seconds": number(case.seconds)}));
    json!({
        "name": one.job.name,
        "started_s": number(one.span.started),
        "seconds": number(one.seconds()),
        "cpu_s": one.usage.map(|usage| number(usage.cpu)),
        "peak_mb": one.usage.map(|usage| number(usage.peak)),
        "waits": waits.collect::<Vec<_>>(),
        "cases": one.cases,
        "refused": outcome.refused,
        "failure": one.failure,
        "xla_compiled": outcome.compiled,
        "xla_loaded": outcome.loaded,
        "slow_cases": slow.collect::<Vec<_>>(),
    })
}

fn parts(build: &Build) -> Value {
    let part = |part: Part| {
        let (count, seconds) = build.sum(part);
        json!({"part": part.name(), "count": count, "seconds": number(seconds)})
    };
    let unit = |unit: &Unit| {
        json!({
            "package": unit.package,
            "version": unit.version,
            "target": unit.target,
            "part": unit.part.name(),
            "seconds": number(unit.seconds),
        })
    };
    json!({
        "parts": Part::ALL.map(part),
        "longest": build.units.iter().take(UNITS).map(unit).collect::<Vec<_>>(),
    })
}

/// Rounds to three decimals, which is finer than any measurement.
fn number(number: f64) -> f64 {
    (number * 1000.0).round() / 1000.0
}

/// Writes the costs of a run into the cache folder and removes those of the oldest runs; returns the new file's path.
pub(crate) fn keep(
    cache: &Path,
    circumstances: &Circumstances,
    costs: &Value,
) -> io::Result<PathBuf> {
    let folder = cache.join("runs");
    fs::create_dir_all(&folder)?;
    let path = folder.join(circumstances.file_name());
    let text = serde_json::to_string_pretty(costs)?;
    places::replace(&path, &text)?;
    places::replace(&cache.join("last-run.json"), &text)?;
    prune(&folder, "", NEWEST)?;
    Ok(path)
}

/// Removes the files of a folder whose names begin with `stem`, except the last `newest` by name; names contain the time. A
/// missing folder counts as empty.
pub(crate) fn prune(folder: &Path, stem: &str, newest: usize) -> io::Result<()> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?.collect::<io::Result<Vec<_>>>()?,
    };
    let named = |entry: &&fs::DirEntry| entry.file_name().to_string_lossy().starts_with(stem);
    let mut paths: Vec<PathBuf> = entries
        .iter()
        .filter(named)
        .map(fs::DirEntry::path)
        .collect();
    paths.sort();
    let old = paths.len().saturating_sub(newest);
    paths[..old].iter().try_for_each(fs::remove_file)
}

/// Formats a time as in `20261127T024806Z`. Years begin in March here, so that a leap day is the last of a year (Howard Hinnant,
/// "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`).
fn utc(time: SystemTime) -> String {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    let seconds = since.unwrap_or(Duration::ZERO).as_secs();
    // Days since 1 March of the year 0, of which 400 years have 146,097.
    let (days, second) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let (era, of_era) = (days / 146_097, days % 146_097);
    let years = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * years + years / 4 - years / 100);
    let months = (5 * of_year + 2) / 153;
    let day = of_year - (153 * months + 2) / 5 + 1;
    let month = if months < 10 { months + 3 } else { months - 9 };
    let year = 400 * era + years + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Job;
    use crate::lanes::Lanes;
    use std::time::Instant;

    fn folder(name: &str) -> PathBuf {
        let name = format!("moebius-kept-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn circumstances(end: u64) -> Circumstances {
        Circumstances {
            arguments: vec!["--quick".to_owned()],
            end: SystemTime::UNIX_EPOCH + Duration::from_secs(end),
            commit: "0123456789abcdef".to_owned(),
            uncommitted: false,
            instruction_set: "AVX2",
            good: true,
        }
    }

    #[test]
    fn times_are_written_as_the_calendar_has_them() {
        for (seconds, text) in [
            (0, "19700101T000000Z"),
            (951_782_399, "20000228T235959Z"),
            (951_782_400, "20000229T000000Z"),
            (1_798_761_599, "20261231T235959Z"),
            (4_107_542_400, "21000301T000000Z"),
        ] {
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            assert_eq!(utc(time), text);
        }
    }

    #[test]
    fn the_costs_of_a_run_read_back() {
        let cache = folder("run");
        let mut lanes = Lanes::new(2, &cache.join("scratch"), Instant::now());
        let cases =
            "echo 'test a ... ok <2.500s>'; echo 'test result: ok. 1 passed; 0 failed; 0 ignored;'";
        let jobs = vec![
            Job::words("first", "sleep 0.2").holding("x"),
            Job::new("second", &["sh", "-c", cases])
                .holding("x")
                .tests(),
        ];
        assert!(lanes.run(jobs, &mut |_, _| ()).unwrap());
        let totals = Totals::of(&lanes.finished, lanes.seconds());
        let unit = |seconds| Unit {
            package: "p".to_owned(),
            version: "0.1.0".to_owned(),
            target: "it \"test\" (test)".to_owned(),
            part: Part::Programs,
            seconds,
        };
        let units = (0..12).rev().map(f64::from).map(unit).collect();
        let build = Build { units };
        let about = circumstances(1_798_761_599);
        let costs = costs(&about, &lanes.finished, &totals, Some(&build));
        let path = keep(&cache, &about, &costs).unwrap();
        assert_eq!(path, cache.join("runs/20261231T235959Z-01234567.json"));
        let value = |bytes: Vec<u8>| -> Value { serde_json::from_slice(&bytes).unwrap() };
        let read = |path: &Path| value(fs::read(path).unwrap());
        let last = read(&cache.join("last-run.json"));
        assert_eq!((read(&path), &last), (costs, &last));
        let second = &last["jobs"][1];
        assert_eq!(second["name"], "second");
        assert_eq!(second["cases"], 1);
        assert_eq!(second["slow_cases"][0]["seconds"], 2.5);
        assert_eq!(second["waits"][0]["for"], "lock x");
        assert!(second["waits"][0]["seconds"].as_f64().unwrap() > 0.1);
        assert_eq!(second["cpu_s"].is_null(), cfg!(not(unix)));
        assert_eq!(last["critical_path"][0]["job"], "first");
        assert_eq!(last["critical_path"][1]["job"], "second");
        assert_eq!(last["build"]["parts"][2]["count"], 1);
        assert_eq!(last["build"]["longest"].as_array().unwrap().len(), UNITS);
        fs::remove_dir_all(&cache).unwrap();
    }

    #[test]
    fn the_newest_thirty_are_kept() {
        let cache = folder("pruned");
        for end in 0..33 {
            keep(&cache, &circumstances(end), &json!({"end": end})).unwrap();
        }
        let runs = fs::read_dir(cache.join("runs")).unwrap();
        let mut names: Vec<_> = runs.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names.len(), NEWEST);
        assert_eq!(names[0], "19700101T000003Z-01234567.json");
        let last = fs::read_to_string(cache.join("last-run.json")).unwrap();
        assert!(last.contains("32"), "{last}");
        fs::write(cache.join("runs/other"), "").unwrap();
        prune(&cache.join("runs"), "1970", 1).unwrap();
        assert_eq!(fs::read_dir(cache.join("runs")).unwrap().count(), 2);
        prune(&cache.join("nowhere"), "", 1).unwrap();
        fs::remove_dir_all(&cache).unwrap();
    }
}

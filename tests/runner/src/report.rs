//! The output of a run: a line for each job as it ends, and tables at the end. A dash stands for a count of 0, and for a figure
//! that wasn't measured.

use std::fmt::Write;
use std::thread::available_parallelism;

use crate::lanes::{Finished, Lanes};
use crate::schedule::{Span, critical_path};
use crate::timings::{Build, Part};

/// Cases that take more than this many seconds are listed.
pub(crate) const SLOW: f64 = 2.0;
/// The number of the build's longest units that are listed.
const UNITS: usize = 5;
/// The columns of the jobs' table.
const COLUMNS: &str = "stage | cases run | refused | seconds | CPU s | waited s | for | peak MB | XLA programs compiled | loaded";
/// The number of last lines shown of a failed job's output.
const TAIL: usize = 200;
/// The number of a failed job's lines that are repeated at the end.
const COMPLAINTS: usize = 40;

/// The figures of all jobs together.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Totals {
    /// Seconds from the run's beginning to its end.
    pub(crate) wall: f64,
    /// Processor time of all jobs in seconds; `None` where the system doesn't report it.
    pub(crate) cpu: Option<f64>,
    pub(crate) processors: usize,
    /// The indices of the critical path's jobs in the list of finished jobs.
    pub(crate) path: Vec<usize>,
}

impl Totals {
    /// Sums up the finished jobs of a run of `wall` seconds.
    pub(crate) fn of(finished: &[Finished], wall: f64) -> Self {
        let spans: Vec<Span> = finished.iter().map(|one| one.span).collect();
        let used = finished.iter().filter_map(|one| one.usage);
        let used: Vec<f64> = used.map(|usage| usage.cpu).collect();
        Self {
            wall,
            cpu: (!used.is_empty()).then(|| used.iter().sum()),
            processors: available_parallelism().map_or(1, |n| n.get()),
            path: critical_path(&spans),
        }
    }

    /// The share of the processors' time that the jobs used: 1 if no processor was ever idle.
    pub(crate) fn busy(&self) -> Option<f64> {
        Some(self.cpu? / (self.wall * self.processors as f64))
    }
}

/// Prints that a job has ended, and the output of a failed job, or of all jobs if `verbose`.
pub(crate) fn ended(elapsed: u64, finished: &Finished, verbose: bool) {
    let (name, took) = (&finished.job.name, finished.seconds());
    let what = what_became_of(finished);
    println!("[{elapsed:>5} s] {name}: {what} ({took:.1} s)");
    if verbose || finished.failure.is_some() {
        let log = finished.log();
        // Cargo's messages in JSON are for programs, not people.
        let lines = log.lines().filter(|line| !line.starts_with("{\""));
        let lines: Vec<&str> = lines.collect();
        let tail = if verbose { usize::MAX } else { TAIL };
        for line in &lines[lines.len().saturating_sub(tail)..] {
            println!("    {line}");
        }
    }
}

fn what_became_of(finished: &Finished) -> String {
    if let Some(reason) = &finished.failure {
        return format!("FAILED: {reason}");
    }
    if let Some(green) = &finished.unchanged {
        let (commit, passed) = (green.commit.get(..8), green.passed);
        let commit = commit.unwrap_or("an unknown commit");
        return format!("unchanged since {commit}, which passed {passed} there");
    }
    match (finished.outcome.passed, finished.outcome.refused) {
        (0, 0) => "ok".to_owned(),
        (passed, 0) => format!("{passed} passed"),
        (passed, refused) => format!("{passed} passed, {refused} refused"),
    }
}

/// Formats a row of a table.
fn row<const N: usize>(cells: [&str; N]) -> String {
    format!("| {} |\n", cells.join(" | "))
}

/// The header of a table, after an empty line; `columns` separates names by bars.
fn head(columns: &str) -> String {
    let lines = "|---".repeat(columns.split(" | ").count());
    format!("\n| {columns} |\n{lines}|\n")
}

fn dash() -> String {
    "–".to_owned()
}

/// Formats a number of seconds, or a dash.
fn seconds(number: Option<f64>) -> String {
    number.map_or_else(dash, |number| format!("{number:.1}"))
}

/// Formats a count, or a dash for 0.
fn count(n: usize) -> String {
    if n == 0 { dash() } else { n.to_string() }
}

/// The table of all jobs, and of all slow cases. "CPU s" and "peak MB" are the total time of a job's processes, with all
/// children that they waited for, and the memory of the largest. A job's wait begins when the lanes receive it.
pub(crate) fn table(finished: &[Finished]) -> String {
    let mut table = head(COLUMNS);
    for one in finished {
        let outcome = &one.outcome;
        let waited = one.waits.total();
        let peak = one.usage.map(|usage| format!("{:.0}", usage.peak));
        let cases = match &one.unchanged {
            Some(_) => "unchanged".to_owned(),
            None => count(one.cases),
        };
        table += &row([
            &one.job.name,
            &cases,
            &count(outcome.refused),
            &seconds(Some(one.seconds())),
            &seconds(one.usage.map(|usage| usage.cpu)),
            &seconds(waited),
            &waited.map_or_else(dash, |_| one.waits.text()),
            &peak.unwrap_or_else(dash),
            &count(outcome.compiled),
            &count(outcome.loaded),
        ]);
    }
    let slow = finished.iter().flat_map(|one| {
        one.outcome
            .slow(SLOW)
            .into_iter()
            .map(move |case| (one, case))
    });
    let mut slow: Vec<_> = slow.collect();
    slow.sort_by(|(_, one), (_, other)| other.seconds.total_cmp(&one.seconds));
    table += &head(&format!("case of more than {SLOW} s | stage | seconds"));
    for (one, case) in slow {
        table += &row([&case.name, &one.job.name, &seconds(Some(case.seconds))]);
    }
    table
}

/// The tables of the build's parts. Units are compiled side by side, so that their seconds add up to more than the build's.
pub(crate) fn build(build: &Build) -> String {
    let mut table = head("part of the build | built | seconds of its units");
    for part in Part::ALL {
        let (built, sum) = build.sum(part);
        let sum = (built > 0).then_some(sum);
        table += &row([part.name(), &count(built), &seconds(sum)]);
    }
    if !build.units.is_empty() {
        table += &head("longest units of the build | part | seconds");
    }
    for unit in build.units.iter().take(UNITS) {
        let took = seconds(Some(unit.seconds));
        table += &row([&unit.name(), unit.part.name(), &took]);
    }
    table
}

/// The critical path, and the totals of the run.
pub(crate) fn totals(finished: &[Finished], totals: &Totals) -> String {
    let mut text = head("critical path: each let the next one start | started at s | seconds");
    let mut sum = 0.0;
    for one in totals.path.iter().map(|at| &finished[*at]) {
        sum += one.seconds();
        let [started, took] = [one.span.started, one.seconds()].map(|time| seconds(Some(time)));
        text += &row([&one.job.name, &started, &took]);
    }
    let busy = totals.busy().map(|busy| format!("{:.0} %", 100.0 * busy));
    let _ = writeln!(
        text,
        "\nwall {:.1} s, of which the critical path's jobs {sum:.1} s; CPU {} s, which is {} of {} processors' time",
        totals.wall,
        seconds(totals.cpu),
        busy.unwrap_or_else(dash),
        totals.processors
    );
    text
}

/// The failed jobs and their tests' messages once more, so that a truncated log still ends with them.
pub(crate) fn failures(lanes: &Lanes) -> String {
    let mut text = String::new();
    for one in &lanes.finished {
        let Some(reason) = &one.failure else { continue };
        let _ = writeln!(text, "FAILED: {}: {reason}", one.job.name);
        for line in complaints(&one.log()) {
            let _ = writeln!(text, "    {line}");
        }
    }
    text
}

/// Lines that name a failed test or begin a message, each with the two lines after it.
fn complaints(log: &str) -> Vec<&str> {
    let lines: Vec<&str> = log.lines().collect();
    let begins = |line: &str| {
        let failed = line.starts_with("test ") && line.contains("FAILED");
        failed || line.contains("panicked at") || line.starts_with("error")
    };
    let near = |at: usize| (at.saturating_sub(2)..=at).any(|near| begins(lines[near]));
    let chosen = (0..lines.len()).filter(|at| near(*at));
    chosen.take(COMPLAINTS).map(|at| lines[at]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::child::Usage;
    use crate::job::Job;
    use crate::outcome::Case;
    use crate::schedule::{Wait, Waits};
    use crate::timings::Unit;

    fn finished(name: &str, [started, ended]: [f64; 2], [cpu, peak]: [f64; 2]) -> Finished {
        let freed_by = (started > 0.0).then_some(0);
        let span = Span {
            started,
            ended,
            freed_by,
        };
        Finished {
            usage: Some(Usage { cpu, peak }),
            ..Finished::new(Job::new(name, &["true"]), Waits::default(), span)
        }
    }

    /// The finished jobs of a run of three.
    fn run() -> Vec<Finished> {
        let mut cases = finished("conformance [cpu]", [80.0, 399.2], [402.5, 2310.4]);
        cases.waits.add(&Wait::Lane, 0.02);
        cases.cases = 267;
        cases.outcome.refused = 7;
        let case = |name: &str, seconds| Case {
            name: name.to_owned(),
            seconds,
        };
        cases.outcome.cases = vec![
            case("casts::f16[cpu]", 1.5),
            case("attention::rules[cpu]", 9.25),
        ];
        let mut others = finished("cli_xla", [90.5, 94.75], [5.0, 310.0]);
        others.waits.add(&Wait::Lock("xla"), 10.25);
        others.waits.add(&Wait::Lane, 0.25);
        others.cases = 5;
        others.outcome.loaded = 44;
        others.usage = None;
        vec![
            finished("build", [0.0, 80.0], [130.0, 1804.6]),
            others,
            cases,
        ]
    }

    #[test]
    fn the_table_has_what_each_job_took() {
        let expected = "
| stage | cases run | refused | seconds | CPU s | waited s | for | peak MB | XLA programs compiled | loaded |
|---|---|---|---|---|---|---|---|---|---|
| build | – | – | 80.0 | 130.0 | – | – | 1805 | – | – |
| cli_xla | 5 | – | 4.2 | – | 10.5 | lock xla 10.2, a lane 0.2 | – | – | 44 |
| conformance [cpu] | 267 | 7 | 319.2 | 402.5 | – | – | 2310 | – | – |

| case of more than 2 s | stage | seconds |
|---|---|---|
| attention::rules[cpu] | conformance [cpu] | 9.2 |
";
        assert_eq!(table(&run()), expected);
    }

    #[test]
    fn the_totals_name_the_critical_path() {
        let finished = run();
        let mut all = Totals::of(&finished, 400.0);
        all.processors = 2;
        let expected = "
| critical path: each let the next one start | started at s | seconds |
|---|---|---|
| build | 0.0 | 80.0 |
| conformance [cpu] | 80.0 | 319.2 |

wall 400.0 s, of which the critical path's jobs 399.2 s; CPU 532.5 s, which is 67 % of 2 processors' time
";
        assert_eq!(totals(&finished, &all), expected);
        all.cpu = None;
        assert!(totals(&finished, &all).ends_with("CPU – s, which is – of 2 processors' time\n"));
    }

    #[test]
    fn the_parts_of_the_build_and_its_longest_units_are_told() {
        let unit = |package: &str, target: &str, part, seconds| Unit {
            package: package.to_owned(),
            version: "1.0.0".to_owned(),
            target: target.to_owned(),
            part,
            seconds,
        };
        let units = vec![
            unit("burn", "", Part::ThirdParty, 40.0),
            unit("tests", r#"training "test" (test)"#, Part::Programs, 30.5),
            unit("burn", "build-script", Part::ThirdParty, 2.0),
        ];
        let expected = r#"
| part of the build | built | seconds of its units |
|---|---|---|
| third-party crates | 1 | 42.0 |
| own libraries | – | – |
| programs, compiled and linked | 1 | 30.5 |

| longest units of the build | part | seconds |
|---|---|---|
| burn 1.0.0 | third-party crates | 40.0 |
| tests training "test" (test) | programs, compiled and linked | 30.5 |
| burn 1.0.0 build-script | third-party crates | 2.0 |
"#;
        assert_eq!(build(&Build { units }), expected);
        assert!(!build(&Build::default()).contains("longest"));
    }

    #[test]
    fn what_failed_is_found_in_a_log() {
        let log = "test a ... ok\ntest b ... FAILED\n1\n2\n3\nerror: it broke\n4\n5\n6\n";
        let found = ["test b ... FAILED", "1", "2", "error: it broke", "4", "5"];
        assert_eq!(complaints(log), found);
    }
}

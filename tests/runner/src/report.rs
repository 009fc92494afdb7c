//! What a run says: a line for each job as it ends, and a table at the end.

use std::fmt::Write;
use std::fs;

use crate::lanes::{Finished, Lanes};

/// Cases of more than so many seconds are listed.
const SLOW: f64 = 2.0;
/// Lines of a failed job's output that are shown.
const TAIL: usize = 200;
/// Lines of a failed job that are repeated at the end.
const COMPLAINTS: usize = 40;

/// Says that a job has ended, and shows the output of one that failed, or of all.
pub(crate) fn ended(elapsed: u64, finished: &Finished, verbose: bool) {
    let (name, outcome) = (&finished.job.name, &finished.outcome);
    let what = match (&finished.failure, outcome.passed + outcome.refused) {
        (Some(reason), _) => format!("FAILED: {reason}"),
        (None, 0) => "ok".to_owned(),
        (None, _) if outcome.refused > 0 => {
            format!("{} passed, {} refused", outcome.passed, outcome.refused)
        }
        (None, _) => format!("{} passed", outcome.passed),
    };
    println!(
        "[{elapsed:>5} s] {name}: {what} ({:.1} s)",
        finished.seconds
    );
    if verbose || finished.failure.is_some() {
        let log = fs::read(&finished.log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        // cargo's messages to programs are not for people.
        let lines: Vec<&str> = log
            .lines()
            .filter(|line| !line.starts_with("{\""))
            .collect();
        let from = if verbose {
            0
        } else {
            lines.len().saturating_sub(TAIL)
        };
        for line in &lines[from..] {
            println!("    {line}");
        }
    }
}

/// The table of all jobs, and of every case that took long.
pub(crate) fn table(lanes: &Lanes) -> String {
    let mut table = String::from(
        "\n| stage | cases run | refused | seconds | XLA programs compiled | loaded |\n|---|---|---|---|---|---|\n",
    );
    for one in &lanes.finished {
        let outcome = &one.outcome;
        let number = |n: usize| {
            if n == 0 {
                "–".to_owned()
            } else {
                n.to_string()
            }
        };
        let cells = [outcome.passed + outcome.failed, outcome.refused].map(number);
        let programs = [outcome.compiled, outcome.loaded].map(number);
        let seconds = one.seconds;
        let name = &one.job.name;
        let _ = writeln!(
            table,
            "| {name} | {} | {seconds:.1} | {} |",
            cells.join(" | "),
            programs.join(" | ")
        );
    }
    let slow = lanes.finished.iter().flat_map(|one| {
        one.outcome
            .slow(SLOW)
            .into_iter()
            .map(move |case| (one, case))
    });
    let mut slow: Vec<_> = slow.collect();
    slow.sort_by(|(_, one), (_, other)| other.seconds.total_cmp(&one.seconds));
    let _ = writeln!(
        table,
        "\n| case of more than {SLOW} s | stage | seconds |\n|---|---|---|"
    );
    for (one, case) in slow {
        let _ = writeln!(
            table,
            "| {} | {} | {:.1} |",
            case.name, one.job.name, case.seconds
        );
    }
    table
}

/// The jobs that failed and what their tests said, once more: a log that was cut still ends with them.
pub(crate) fn failures(lanes: &Lanes) -> String {
    let mut text = String::new();
    for one in &lanes.finished {
        let Some(reason) = &one.failure else { continue };
        let _ = writeln!(text, "FAILED: {}: {reason}", one.job.name);
        let log = fs::read(&one.log).unwrap_or_default();
        for line in complaints(&String::from_utf8_lossy(&log)) {
            let _ = writeln!(text, "    {line}");
        }
    }
    text
}

/// Lines that name a failed test or begin a message, each with the two lines below it.
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
    use super::complaints;

    #[test]
    fn what_failed_is_found_in_a_log() {
        let log = "test a ... ok\ntest b ... FAILED\n1\n2\n3\nerror: it broke\n4\n5\n6\n";
        let found = ["test b ... FAILED", "1", "2", "error: it broke", "4", "5"];
        assert_eq!(complaints(log), found);
    }
}

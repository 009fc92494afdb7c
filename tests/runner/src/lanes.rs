//! Runs jobs, as many side by side as the machine has lanes, and stops at the first that fails.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

use crate::job::{Counts, Job, XLA};
use crate::outcome::Outcome;

/// Far more than any job takes: a hang should end in a message.
const LIMIT: Duration = Duration::from_secs(45 * 60);
const POLL: Duration = Duration::from_millis(20);

/// A job that has ended.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) job: Job,
    pub(crate) outcome: Outcome,
    pub(crate) seconds: f64,
    /// Why it failed.
    pub(crate) failure: Option<String>,
    pub(crate) log: PathBuf,
}

impl Finished {
    fn failed(&self) -> bool {
        self.failure.is_some()
    }

    /// A job that could not be started.
    fn never(job: Job, failure: String) -> Self {
        let outcome = Outcome {
            failed: 1,
            ..Outcome::default()
        };
        Self {
            job,
            outcome,
            seconds: 0.0,
            failure: Some(failure),
            log: PathBuf::new(),
        }
    }
}

/// A job that runs.
struct Running {
    job: Job,
    child: Child,
    start: Instant,
    began: SystemTime,
    log: PathBuf,
    records: PathBuf,
}

/// Runs jobs and keeps what came of them.
pub(crate) struct Lanes {
    /// How many jobs run side by side.
    width: usize,
    /// Whether jobs start after a failure.
    pub(crate) keep_going: bool,
    scratch: PathBuf,
    clock: Instant,
    waiting: Vec<Job>,
    running: Vec<Running>,
    pub(crate) finished: Vec<Finished>,
}

impl Lanes {
    /// Lanes that keep logs in `scratch`; `clock` is when the run began.
    pub(crate) fn new(width: usize, scratch: &Path, clock: Instant) -> Self {
        Self {
            width: width.max(1),
            keep_going: false,
            scratch: scratch.to_owned(),
            clock,
            waiting: Vec::new(),
            running: Vec::new(),
            finished: Vec::new(),
        }
    }

    /// Runs `jobs`, in their order where nothing hinders; whether all passed. After the first failure none starts, unless
    /// it is to keep going.
    pub(crate) fn run(
        &mut self,
        jobs: Vec<Job>,
        seen: &mut dyn FnMut(u64, &Finished),
    ) -> io::Result<bool> {
        self.waiting = jobs;
        let (before, mut said) = (self.finished.len(), self.finished.len());
        loop {
            let ended = self.ended()?;
            self.finished.extend(ended);
            let failed = |lanes: &Self| lanes.finished[before..].iter().any(Finished::failed);
            if self.keep_going || !failed(self) {
                self.fill();
            }
            for finished in &self.finished[said..] {
                seen(self.elapsed(), finished);
            }
            said = self.finished.len();
            let stopped = failed(self) && !self.keep_going;
            if self.running.is_empty() && (stopped || self.waiting.is_empty()) {
                return Ok(!failed(self));
            }
            sleep(POLL);
        }
    }

    /// Starts what may start; what can't has failed.
    fn fill(&mut self) {
        while let Some(index) = self.next() {
            let job = self.waiting.remove(index);
            let bad = |one: &&Finished| one.failed() && job.after.contains(&one.job.name);
            let started = match self.finished.iter().find(bad) {
                Some(one) => Err(format!("not run, because {} failed", one.job.name)),
                None => self
                    .start(&job)
                    .map_err(|error| format!("{}: {error}", job.command[0])),
            };
            match started {
                Ok(running) => self.running.push(running),
                Err(failure) => self.finished.push(Finished::never(job, failure)),
            }
        }
    }

    /// The first job that may start now. One that waits for the machine to itself keeps later ones from starting.
    fn next(&self) -> Option<usize> {
        let busy = |held: &str| self.running.iter().any(|one| one.job.holds == Some(held));
        let occupied = self.running.iter().any(|one| one.job.alone);
        if occupied || self.running.len() >= self.width {
            return None;
        }
        for (index, job) in self.waiting.iter().enumerate() {
            let blocked =
                job.after.iter().any(|name| !self.is_over(name)) || job.holds.is_some_and(busy);
            if blocked {
                continue;
            }
            return (!job.alone || self.running.is_empty()).then_some(index);
        }
        None
    }

    /// Whether nothing of this name has yet to run or to end.
    fn is_over(&self, name: &str) -> bool {
        let waits = self.waiting.iter().any(|job| job.name == name);
        let runs = self.running.iter().any(|one| one.job.name == name);
        !waits && !runs
    }

    fn start(&self, job: &Job) -> io::Result<Running> {
        let stem: String = job
            .name
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
            .collect();
        let log = self.scratch.join(format!("{stem}.log"));
        let records = self.scratch.join(format!("{stem}.records"));
        fs::create_dir_all(&records)?;
        let output = File::create(&log)?;
        let mut command = Command::new(&job.command[0]);
        command
            .args(&job.command[1..])
            .current_dir(&job.folder)
            .env("MOEBIUS_TEST_RECORD", &records)
            .envs(job.variables.iter().map(|(name, value)| (name, value)))
            .stdin(std::process::Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output);
        let began = SystemTime::now();
        let child = command.spawn()?;
        Ok(Running {
            job: job.clone(),
            child,
            start: Instant::now(),
            began,
            log,
            records,
        })
    }

    /// The jobs that ended since this was last asked.
    fn ended(&mut self) -> io::Result<Vec<Finished>> {
        let mut ended = Vec::new();
        let mut index = 0;
        while index < self.running.len() {
            let running = &mut self.running[index];
            let mut status = running.child.try_wait()?;
            let late = status.is_none() && running.start.elapsed() > LIMIT;
            if late {
                running.child.kill()?;
                status = Some(running.child.wait()?);
            }
            match status {
                Some(status) => ended.push(finish(self.running.remove(index), status, late)?),
                None => index += 1,
            }
        }
        Ok(ended)
    }

    /// Seconds since the run began.
    pub(crate) fn elapsed(&self) -> u64 {
        self.clock.elapsed().as_secs()
    }

    /// A count of all jobs together.
    pub(crate) fn sum(&self, count: fn(&Outcome) -> usize) -> usize {
        self.finished.iter().map(|one| count(&one.outcome)).sum()
    }
}

fn finish(running: Running, status: ExitStatus, late: bool) -> io::Result<Finished> {
    let log = fs::read(&running.log)?;
    let mut outcome = Outcome::default();
    if running.job.counts != Counts::Nothing {
        outcome = Outcome::of_log(&String::from_utf8_lossy(&log));
        outcome.add_records(&running.records);
        gather(&running.records)?;
        let kept = running.job.variable("MOEBIUS_XLA_CACHE");
        if let (Some(XLA), Some(kept)) = (running.job.holds, kept) {
            outcome.add_programs(Path::new(kept), running.began);
        }
    }
    let ran = outcome.passed + outcome.refused + outcome.failed;
    let failure = match running.job.counts {
        _ if late => Some(format!("it did not end within {} s", LIMIT.as_secs())),
        _ if !status.success() => Some(status.to_string()),
        Counts::Tests if ran == 0 => Some("it ran no test".to_owned()),
        _ if outcome.ignored > 0 => Some(format!("it left out {} tests", outcome.ignored)),
        _ => None,
    };
    if failure.is_some() && outcome.failed == 0 {
        outcome.failed = 1;
    }
    Ok(Finished {
        seconds: running.start.elapsed().as_secs_f64(),
        job: running.job,
        outcome,
        failure,
        log: running.log,
    })
}

/// Copies what a job recorded beside what others did, for those that look at a whole run.
fn gather(records: &Path) -> io::Result<()> {
    let all = records.with_file_name("records");
    for entry in fs::read_dir(records)? {
        let path = entry?.path();
        if let Some(name) = path.file_name() {
            fs::create_dir_all(&all)?;
            fs::copy(&path, all.join(name))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Drop for Lanes {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.scratch);
        }
    }

    fn lanes(name: &str) -> Lanes {
        let scratch =
            std::env::temp_dir().join(format!("moebius-lanes-{name}-{}", std::process::id()));
        fs::create_dir_all(&scratch).unwrap();
        Lanes::new(2, &scratch, Instant::now())
    }

    fn names(lanes: &Lanes) -> Vec<&str> {
        lanes
            .finished
            .iter()
            .map(|one| one.job.name.as_str())
            .collect()
    }

    #[test]
    fn jobs_wait_for_what_they_need() {
        let mut lanes = lanes("order");
        let jobs = vec![
            Job::new("last", &["true"])
                .after("first")
                .after("not part of this run"),
            Job::new("first", &["sleep", "0.2"]),
        ];
        assert!(lanes.run(jobs, &mut |_, _| ()).unwrap());
        assert_eq!(names(&lanes), ["first", "last"]);
    }

    #[test]
    fn what_runs_alone_runs_alone_and_what_one_holds_another_waits_for() {
        let mut lanes = lanes("alone");
        let trace = lanes.scratch.join("trace");
        let shell = format!("echo in >>{0}; sleep 0.1; echo out >>{0}", trace.display());
        let job = |name: &str| Job::new(name, &["sh", "-c", &shell]);
        let jobs = vec![
            Job {
                alone: true,
                ..job("a")
            },
            Job {
                alone: true,
                ..job("b")
            },
            job("c").holding("x"),
            job("d").holding("x"),
        ];
        assert!(lanes.run(jobs, &mut |_, _| ()).unwrap());
        let trace = fs::read_to_string(trace).unwrap();
        assert_eq!(trace, "in\nout\n".repeat(4));
    }

    #[test]
    fn a_failure_starts_nothing_more_and_is_told() {
        let mut lanes = lanes("failure");
        lanes.width = 1;
        let jobs = vec![Job::new("bad", &["false"]), Job::new("never", &["true"])];
        assert!(!lanes.run(jobs, &mut |_, _| ()).unwrap());
        assert_eq!(names(&lanes), ["bad"]);
        assert_eq!(lanes.sum(|outcome| outcome.failed), 1);
    }

    #[test]
    fn what_waits_for_a_failure_fails_and_the_rest_goes_on() {
        let mut lanes = lanes("going-on");
        lanes.keep_going = true;
        let jobs = vec![
            Job::new("bad", &["false"]),
            Job::new("missing", &["/no/such/program"]),
            Job::new("waits", &["true"]).after("bad"),
            Job::new("waits longer", &["true"]).after("waits"),
            Job::new("good", &["true"]),
        ];
        assert!(!lanes.run(jobs, &mut |_, _| ()).unwrap());
        let failed = lanes.finished.iter().filter(|one| one.failed());
        assert_eq!(failed.count(), 4);
        assert_eq!(lanes.sum(|outcome| outcome.failed), 4);
    }

    #[test]
    fn thousands_of_generated_cases_are_tallied_and_timed() {
        let mut lanes = lanes("generated");
        let script = r#"awk 'BEGIN { for (i = 0; i < 2000; i++) {
                state = i % 100 ? "ran" : "refused"; seconds = i % 500 ? "0.1" : "3.0"
                print "generated::case_" i "\tcpu\tprocessor\t" state "\t\t" seconds "\t1\tkernel" } }' \
                >"$MOEBIUS_TEST_RECORD/cases-1.tsv"
            echo "test result: ok. 2000 passed; 0 failed; 0 ignored;""#;
        let job = Job::new("generated [cpu]", &["sh", "-c", script]).tests();
        assert!(lanes.run(vec![job], &mut |_, _| ()).unwrap());
        let outcome = &lanes.finished[0].outcome;
        assert_eq!((outcome.passed, outcome.refused), (1980, 20));
        assert_eq!(outcome.slow(2.0).len(), 4);
    }

    #[test]
    fn tests_that_run_nothing_or_leave_something_out_have_failed() {
        let said = |text: &str| Job::new(text, &["echo", text]).tests();
        for text in [
            "nothing",
            "test result: ok. 0 passed; 0 failed; 0 ignored;",
            "test result: ok. 2 passed; 0 failed; 1 ignored;",
        ] {
            let mut lanes = lanes("nothing");
            assert!(
                !lanes.run(vec![said(text)], &mut |_, _| ()).unwrap(),
                "{text}"
            );
        }
        let mut lanes = lanes("something");
        let good = said("test result: ok. 2 passed; 0 failed; 0 ignored;");
        assert!(lanes.run(vec![good], &mut |_, _| ()).unwrap());
        assert_eq!(lanes.sum(|outcome| outcome.passed), 2);
    }
}

//! Runs jobs side by side, as many as the machine has lanes, and stops at the first failure.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

use crate::child::{Ended, Process, Usage};
use crate::job::{Counts, Job, XLA};
use crate::outcome::Outcome;
use crate::places;
use crate::schedule::{Span, Wait, Waits};
use crate::unchanged::{Green, Known};

/// The time limit of a job, far more than any job takes: a hang ends in a message.
const LIMIT: Duration = Duration::from_secs(45 * 60);
const POLL: Duration = Duration::from_millis(20);

/// A job that has ended.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) job: Job,
    pub(crate) outcome: Outcome,
    /// The number of tests that the job ran, by its output. The outcome of a failed job counts at least one failure, even if no
    /// test ran.
    pub(crate) cases: usize,
    pub(crate) span: Span,
    pub(crate) waits: Waits,
    /// The resources that the job's processes used; `None` where the system doesn't report them.
    pub(crate) usage: Option<Usage>,
    /// The reason why the job failed.
    pub(crate) failure: Option<String>,
    /// The earlier run in which the job passed in the same state, in place of a new run.
    pub(crate) unchanged: Option<Green>,
    pub(crate) log: PathBuf,
}

impl Finished {
    fn failed(&self) -> bool {
        self.failure.is_some()
    }

    pub(crate) fn seconds(&self) -> f64 {
        self.span.seconds()
    }

    /// A job that has run no test and has used no known resources.
    pub(crate) fn new(job: Job, waits: Waits, span: Span) -> Self {
        Self {
            job,
            outcome: Outcome::default(),
            cases: 0,
            span,
            waits,
            usage: None,
            failure: None,
            unchanged: None,
            log: PathBuf::new(),
        }
    }

    /// The job's output; empty if there is none.
    pub(crate) fn log(&self) -> String {
        let bytes = fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// A job that has not started.
struct Waiting {
    job: Job,
    waits: Waits,
    /// The reason why the job couldn't start when the lanes last checked.
    hindrance: Option<Wait>,
}

/// A job that is running.
struct Running {
    job: Job,
    waits: Waits,
    process: Process,
    start: Instant,
    freed_by: Option<usize>,
    /// The start by the system clock, which also dates files.
    began: SystemTime,
    log: PathBuf,
    records: PathBuf,
    /// The key of everything the job depends on, if later runs may reuse its result.
    key: Option<String>,
}

/// Runs jobs and keeps their results.
pub(crate) struct Lanes {
    /// The number of jobs that run side by side.
    width: usize,
    /// Whether jobs still start after a failure.
    pub(crate) keep_going: bool,
    scratch: PathBuf,
    clock: Instant,
    waiting: Vec<Waiting>,
    /// The time up to which the jobs' waits are counted.
    counted: Instant,
    running: Vec<Running>,
    pub(crate) finished: Vec<Finished>,
    /// The jobs that passed in earlier runs; `None` to run every job.
    pub(crate) known: Option<Known>,
    /// Set by a signal that asks the runner to end.
    pub(crate) interrupted: Arc<AtomicBool>,
}

impl Lanes {
    /// Makes lanes that keep logs in `scratch`; `clock` is when the run began.
    pub(crate) fn new(width: usize, scratch: &Path, clock: Instant) -> Self {
        Self {
            width: width.max(1),
            keep_going: false,
            scratch: scratch.to_owned(),
            clock,
            waiting: Vec::new(),
            counted: clock,
            running: Vec::new(),
            finished: Vec::new(),
            known: None,
            interrupted: Arc::default(),
        }
    }

    /// Runs `jobs` in order, where nothing hinders them; returns whether all passed. After the first failure no job starts,
    /// except with `keep_going`. A signal that asks the runner to end is an error, and ends the jobs.
    pub(crate) fn run(
        &mut self,
        jobs: Vec<Job>,
        seen: &mut dyn FnMut(u64, &Finished),
    ) -> io::Result<bool> {
        self.waiting = jobs.into_iter().map(Waiting::new).collect();
        self.counted = Instant::now();
        let (before, mut said) = (self.finished.len(), self.finished.len());
        loop {
            if self.interrupted.load(Ordering::Relaxed) {
                self.running.clear();
                return Err(io::Error::other("a signal ended the run"));
            }
            let ended = self.ended()?;
            self.finished.extend(ended);
            self.count_waits();
            let failed = |lanes: &Self| lanes.finished[before..].iter().any(Finished::failed);
            if self.keep_going || !failed(self) {
                self.fill();
            }
            for finished in &self.finished[said..] {
                seen(self.seconds() as u64, finished);
            }
            said = self.finished.len();
            let stopped = failed(self) && !self.keep_going;
            if self.running.is_empty() && (stopped || self.waiting.is_empty()) {
                return Ok(!failed(self));
            }
            sleep(POLL);
        }
    }

    /// Adds the time since the last call to the waits of all waiting jobs.
    fn count_waits(&mut self) {
        let seconds = self.counted.elapsed().as_secs_f64();
        self.counted = Instant::now();
        for waiting in &mut self.waiting {
            if let Some(wait) = &waiting.hindrance {
                waiting.waits.add(wait, seconds);
            }
        }
    }

    /// Starts the jobs that can start; a job whose process can't be started counts as failed. Then notes what keeps the others
    /// waiting.
    fn fill(&mut self) {
        let hindrances = loop {
            let hindrances = self.hindrances();
            let Some(index) = hindrances.iter().position(Option::is_none) else {
                break hindrances;
            };
            let waiting = self.waiting.remove(index);
            let freed_by = self.freed_by(&waiting);
            let started = self.seconds();
            let job = &waiting.job;
            let bad = |one: &&Finished| one.failed() && job.after.contains(&one.job.name);
            let failed = self.finished.iter().find(bad);
            let failed = failed.map(|one| format!("not run, because {} failed", one.job.name));
            let came = match failed {
                Some(why) => Err(why),
                None => self
                    .start(&waiting, freed_by)
                    .map_err(|error| format!("{}: {error}", waiting.job.command[0])),
            };
            let span = Span {
                started,
                ended: self.seconds(),
                freed_by,
            };
            let mut finished = Finished::new(waiting.job, waiting.waits, span);
            match came {
                Ok(None) => continue,
                Ok(unchanged) => finished.unchanged = unchanged,
                Err(failure) => {
                    finished.outcome.failed = 1;
                    finished.failure = Some(failure);
                }
            }
            self.finished.push(finished);
        };
        for (waiting, hindrance) in self.waiting.iter_mut().zip(hindrances) {
            waiting.hindrance = hindrance;
        }
    }

    /// For each waiting job, what keeps it from starting now. A job that waits to run alone keeps later jobs from starting.
    fn hindrances(&self) -> Vec<Option<Wait>> {
        let holds = |held: &&str| self.running.iter().any(|one| one.job.holds == Some(*held));
        let full = self.running.len() >= self.width;
        let mut alone = self.running.iter().any(|one| one.job.alone);
        let hindrance = |waiting: &Waiting| {
            let job = &waiting.job;
            if let Some(name) = job.after.iter().find(|name| !self.is_over(name)) {
                return Some(Wait::After(name.clone()));
            }
            if let Some(held) = job.holds.filter(holds) {
                return Some(Wait::Lock(held));
            }
            if alone {
                return Some(Wait::Alone);
            }
            if full {
                return Some(Wait::Lane);
            }
            alone = job.alone && !self.running.is_empty();
            alone.then_some(Wait::Machine)
        };
        self.waiting.iter().map(hindrance).collect()
    }

    /// The index of the finished job whose end lets the waiting job start: the last to end of those that kept it waiting. A job
    /// that didn't wait follows the job that ended last.
    fn freed_by(&self, waiting: &Waiting) -> Option<usize> {
        let kept = |one: &Finished| match &waiting.hindrance {
            Some(Wait::After(_)) => waiting.job.after.contains(&one.job.name),
            Some(Wait::Lock(held)) => one.job.holds == Some(held),
            _ => true,
        };
        let ended = |at: &usize| self.finished[*at].span.ended;
        (0..self.finished.len())
            .filter(|at| kept(&self.finished[*at]))
            .max_by(|one, other| ended(one).total_cmp(&ended(other)))
    }

    /// Whether no job of this name is waiting or running.
    fn is_over(&self, name: &str) -> bool {
        let waits = self.waiting.iter().any(|one| one.job.name == name);
        let runs = self.running.iter().any(|one| one.job.name == name);
        !waits && !runs
    }

    /// Starts a job, unless it has passed before in the same state; then returns that earlier pass.
    fn start(&mut self, waiting: &Waiting, freed_by: Option<usize>) -> io::Result<Option<Green>> {
        let job = &waiting.job;
        let letter = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        let stem: String = job.name.chars().map(letter).collect();
        let log = self.scratch.join(format!("{stem}.log"));
        let records = self.scratch.join(format!("{stem}.records"));
        fs::create_dir_all(&records)?;
        let mut key = None;
        if let Some(known) = &self.known {
            key = known.key(job)?;
            let green = key.as_ref().and_then(|key| known.passed(key, &records));
            if green.is_some() {
                gather(&records)?;
                return Ok(green);
            }
        }
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
        let start = Instant::now();
        self.running.push(Running {
            job: job.clone(),
            waits: waiting.waits.clone(),
            process: Process::start(&mut command, job.asks)?,
            start,
            freed_by,
            began,
            log,
            records,
            key,
        });
        Ok(None)
    }

    /// Takes the jobs that have ended since the last call.
    fn ended(&mut self) -> io::Result<Vec<Finished>> {
        let mut ended = Vec::new();
        for mut running in std::mem::take(&mut self.running) {
            let mut end = running.process.try_wait()?;
            let late = end.is_none() && running.start.elapsed() > LIMIT;
            if late {
                end = running.process.kill()?;
            }
            let Some(end) = end else {
                self.running.push(running);
                continue;
            };
            // The end is noted before the job's log and records are read, because reading isn't part of the job's time.
            let span = Span {
                started: running.start.duration_since(self.clock).as_secs_f64(),
                ended: self.clock.elapsed().as_secs_f64(),
                freed_by: running.freed_by,
            };
            let (key, records) = (running.key.clone(), running.records.clone());
            let finished = finish(running, span, end, late)?;
            if let (Some(known), Some(key), false) = (&mut self.known, key, finished.failed()) {
                known.keep(&key, &finished.outcome, &records)?;
            }
            ended.push(finished);
        }
        Ok(ended)
    }

    /// Seconds since the run began.
    pub(crate) fn seconds(&self) -> f64 {
        self.clock.elapsed().as_secs_f64()
    }

    /// The sum of a count over all finished jobs.
    pub(crate) fn sum(&self, count: fn(&Outcome) -> usize) -> usize {
        self.finished.iter().map(|one| count(&one.outcome)).sum()
    }
}

impl Waiting {
    fn new(job: Job) -> Self {
        Self {
            job,
            waits: Waits::default(),
            hindrance: None,
        }
    }
}

fn finish(running: Running, span: Span, end: Ended, late: bool) -> io::Result<Finished> {
    let job = running.job;
    let mut outcome = Outcome::default();
    if job.counts != Counts::Nothing {
        let log = fs::read(&running.log)?;
        outcome = Outcome::of_log(&String::from_utf8_lossy(&log));
        outcome.add_records(&running.records);
        gather(&running.records)?;
    }
    if let (Some(XLA), Some(kept)) = (job.holds, job.variable("MOEBIUS_XLA_CACHE")) {
        outcome.add_programs(Path::new(kept), running.began);
    }
    let cases = outcome.passed + outcome.failed;
    let failure = match job.counts {
        _ if late => Some(format!("it did not end within {} s", LIMIT.as_secs())),
        _ if !end.status.success() => Some(end.status.to_string()),
        Counts::Tests if cases + outcome.refused == 0 => Some("it ran no test".to_owned()),
        _ if outcome.ignored > 0 => Some(format!("it left out {} tests", outcome.ignored)),
        _ => None,
    };
    if failure.is_some() && outcome.failed == 0 {
        outcome.failed = 1;
    }
    Ok(Finished {
        outcome,
        cases,
        usage: end.usage,
        failure,
        log: running.log,
        ..Finished::new(job, running.waits, span)
    })
}

/// Copies a job's records to the folder of all jobs' records. Files are named after processes, and a job of an earlier run may
/// have had the same number, so the job's name is put in front.
fn gather(records: &Path) -> io::Result<()> {
    let job = records.file_stem().unwrap_or_default().to_string_lossy();
    let all = records.with_file_name("records");
    places::copy_files(records, &all, &format!("{job}-"))
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

    #[test]
    fn a_signal_ends_the_run() {
        let mut lanes = lanes("signal");
        let interrupted = lanes.interrupted.clone();
        let jobs = vec![Job::words("short", "true"), Job::words("long", "sleep 60")];
        let mut signal = |_: u64, _: &Finished| interrupted.store(true, Ordering::Relaxed);
        assert!(lanes.run(jobs, &mut signal).is_err());
        assert_eq!(names(&lanes), ["short"]);
        assert!(lanes.seconds() < 30.0 && lanes.running.is_empty());
    }

    fn alone(job: Job) -> Job {
        Job { alone: true, ..job }
    }

    fn names(lanes: &Lanes) -> Vec<&str> {
        let finished = lanes.finished.iter();
        finished.map(|one| one.job.name.as_str()).collect()
    }

    #[test]
    fn jobs_wait_for_what_they_need() {
        let mut lanes = lanes("order");
        let jobs = vec![
            Job::words("last", "true")
                .after("first")
                .after("not part of this run"),
            Job::words("first", "sleep 0.2"),
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
            alone(job("a")),
            alone(job("b")),
            job("c").holding("x"),
            job("d").holding("x"),
        ];
        assert!(lanes.run(jobs, &mut |_, _| ()).unwrap());
        let trace = fs::read_to_string(trace).unwrap();
        assert_eq!(trace, "in\nout\n".repeat(4));
    }

    #[test]
    fn what_each_job_waited_for_is_told_and_whose_end_let_the_job_start() {
        let mut lanes = lanes("waits");
        let sleeps = |name: &str| Job::words(name, "sleep 0.1");
        assert!(lanes.run(vec![sleeps("build")], &mut |_, _| ()).unwrap());
        let mark = lanes.scratch.join("mark").display().to_string();
        let until = format!("until [ -e {mark} ]; do sleep 0.02; done");
        let jobs = vec![
            Job::new("holder", &["sh", "-c", &until]).holding("x"),
            sleeps("short"),
            sleeps("locked").holding("x"),
            sleeps("queued"),
            Job::new("later", &["touch", &mark]).after("queued"),
            alone(sleeps("alone")),
            sleeps("last"),
        ];
        assert!(lanes.run(jobs, &mut |_, _| ()).unwrap());
        let after = |name: &str| Wait::After(name.to_owned());
        for (name, reasons, freed_by) in [
            ("build", vec![], None),
            ("holder", vec![], Some("build")),
            ("short", vec![], Some("build")),
            ("queued", vec![Wait::Lane], Some("short")),
            ("later", vec![after("queued")], Some("queued")),
            ("locked", vec![Wait::Lock("x")], Some("holder")),
            ("alone", vec![Wait::Lane, Wait::Machine], Some("locked")),
            ("last", vec![Wait::Lane, Wait::Alone], Some("alone")),
        ] {
            let mut finished = lanes.finished.iter();
            let one = finished.find(|one| one.job.name == name).unwrap();
            let freed = one.span.freed_by.map(|at| &lanes.finished[at].job.name);
            assert_eq!(freed.map(String::as_str), freed_by, "{name}");
            let waits = one.waits.longest();
            assert_eq!(waits.len(), reasons.len(), "{name}: {waits:?}");
            let known = |wait: &Wait| waits.iter().any(|(one, _)| *one == wait);
            assert!(reasons.iter().all(known), "{name}: {waits:?}");
        }
        let usage = lanes.finished[0].usage.unwrap();
        assert!(usage.cpu < 0.1 && usage.peak > 0.1, "{usage:?}");
    }

    #[test]
    fn a_failure_starts_nothing_more_and_is_told() {
        let mut lanes = lanes("failure");
        lanes.width = 1;
        let jobs = vec![Job::words("bad", "false"), Job::words("never", "true")];
        assert!(!lanes.run(jobs, &mut |_, _| ()).unwrap());
        assert_eq!(names(&lanes), ["bad"]);
        assert_eq!(lanes.sum(|outcome| outcome.failed), 1);
    }

    #[test]
    fn what_waits_for_a_failure_fails_and_the_rest_goes_on() {
        let mut lanes = lanes("going-on");
        lanes.keep_going = true;
        let jobs = vec![
            Job::words("bad", "false"),
            Job::words("missing", "/no/such/program"),
            Job::words("waits", "true").after("bad"),
            Job::words("waits longer", "true").after("waits"),
            Job::words("good", "true"),
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
        for (text, passed) in [
            ("nothing", None),
            ("test result: ok. 0 passed; 0 failed; 0 ignored;", None),
            ("test result: ok. 2 passed; 0 failed; 1 ignored;", None),
            ("test result: ok. 2 passed; 0 failed; 0 ignored;", Some(2)),
        ] {
            let mut lanes = lanes("nothing");
            let job = Job::new(text, &["echo", text]).tests();
            let good = lanes.run(vec![job], &mut |_, _| ()).unwrap();
            assert_eq!(good, passed.is_some(), "{text}");
            if let Some(passed) = passed {
                assert_eq!(lanes.sum(|outcome| outcome.passed), passed);
            }
        }
    }

    #[test]
    fn a_job_that_passed_runs_again_only_after_a_change() {
        let folder = lanes("unchanged").scratch.clone();
        let program = folder.with_extension("program");
        let cache = folder.with_extension("cache");
        let passed = |text: &str| {
            fs::write(&program, text).unwrap();
            let mut lanes = lanes("unchanged");
            lanes.known = Some(Known::of(&cache, &lanes.scratch, "common"));
            let line = "test result: ok. 3 passed; 0 failed; 0 ignored;";
            let job = Job::new("cases", &["echo", line]).tests();
            let later = Job::words("later", "true").after("cases");
            let jobs = vec![job.depending_on([&program]), later];
            assert!(lanes.run(jobs, &mut |_, _| ()).unwrap());
            assert_eq!(names(&lanes), ["cases", "later"]);
            let unchanged = lanes.finished[0].unchanged.as_ref();
            let unchanged = unchanged.map(|green| green.passed);
            (lanes.sum(|outcome| outcome.passed), unchanged)
        };
        let ran = (3, None);
        assert_eq!(passed("one"), ran);
        assert_eq!(passed("one"), (0, Some(3)));
        assert_eq!(passed("two"), ran);
        fs::remove_file(&program).unwrap();
        fs::remove_dir_all(&cache).unwrap();
    }
}

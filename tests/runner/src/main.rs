//! Runs the project's tests; `scripts/test` is this program. It has three tiers: `--quick` opens no device, the default is what
//! CI runs, and `--all` adds what is slow or repeats. The last line reads `N passed, N failed`.

mod child;
mod deep;
mod job;
mod kept;
mod lanes;
mod outcome;
mod places;
mod plan;
mod programs;
mod report;
mod schedule;
mod timings;
mod unchanged;

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Instant, SystemTime};
use std::{env, fs, io};

use deep::{Deep, Ledger};
use job::Job;
use kept::Circumstances;
use lanes::Lanes;
use places::Places;
use programs::Program;
use report::Totals;
use timings::Build;
use unchanged::Known;

const USAGE: &str = "\
Sets up what the tests need and runs them, cheapest first. The last line reads \"N passed, N failed\".

  scripts/test             what CI runs
  scripts/test --quick     what needs no device: format, style, lints, docs, unit and device-free tests
  scripts/test --all       also what is too slow for every run, or repeats: every case on SwiftShader, XLA with all its
                           optimisation, an emulated processor without AVX-512, a build without Burn's fusion, …
  --fresh                  take nothing that an earlier run kept but cargo's builds: no compiled programs, no verdicts
  --only TEXT              of the jobs after the build, those whose names contain TEXT, and what they run after
  --keep-going             start what is left after a failure, too
  --list                   say what would run after the build, and run nothing
  -v                       show the output of jobs that pass, too
";

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Tier {
    Quick,
    #[default]
    Default,
    All,
}

#[derive(Default)]
struct Options {
    tier: Tier,
    fresh: bool,
    only: String,
    list: bool,
    keep_going: bool,
    verbose: bool,
}

impl Options {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Option<Self> {
        let mut options = Self::default();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--quick" => options.tier = Tier::Quick,
                "--all" => options.tier = Tier::All,
                "--fresh" => options.fresh = true,
                "--only" => options.only = arguments.next()?,
                "--list" => options.list = true,
                "--keep-going" => options.keep_going = true,
                "-v" | "--verbose" => options.verbose = true,
                _ => return None,
            }
        }
        Some(options)
    }
}

fn main() -> ExitCode {
    let Some(options) = Options::parse(env::args().skip(1)) else {
        eprint!("{USAGE}");
        return ExitCode::from(2);
    };
    match places::scratch() {
        Err(error) => failed(&error),
        Ok(scratch) => {
            let code = run(&options, &scratch).unwrap_or_else(|error| failed(&error));
            // A failed clean-up must not change the result.
            let _ = fs::remove_dir_all(scratch);
            code
        }
    }
}

fn failed(error: &io::Error) -> ExitCode {
    println!("the tests could not be run: {error}\n0 passed, 1 failed");
    ExitCode::FAILURE
}

fn run(options: &Options, scratch: &Path) -> io::Result<ExitCode> {
    let width = std::thread::available_parallelism().map_or(1, |n| n.get().min(4));
    let mut lanes = Lanes::new(width, scratch, Instant::now());
    lanes.keep_going = options.keep_going;
    #[cfg(unix)]
    for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGTERM] {
        signal_hook::flag::register(signal, lanes.interrupted.clone())?;
    }
    let ended = |lanes: &mut Lanes, jobs: Vec<Job>| {
        lanes.run(jobs, &mut |elapsed, finished| {
            report::ended(elapsed, finished, options.verbose)
        })
    };
    let metadata = programs::metadata()?;
    let mut closing = Closing {
        places: Places::look(&metadata)?,
        build: Ok(None),
    };
    let good = ended(&mut lanes, plan::reading())?;
    let good = good && ended(&mut lanes, vec![plan::set_up("for the build", "--build")])?;
    let before = SystemTime::now();
    // The rest of the set-up, mostly downloads, goes on beside the build.
    let both = vec![plan::build(), plan::set_up("for the tests", "")];
    let good = good && ended(&mut lanes, both)?;
    closing.build = Build::read(&closing.places.target, before, &metadata);
    if !good {
        return Ok(closing.verdict(&lanes, false));
    }
    let mut finished = lanes.finished.iter();
    let built = finished.find(|one| one.job.name == plan::BUILD);
    let built = built.ok_or_else(|| io::Error::other("no build"))?;
    let mut programs = programs::built(&fs::read_to_string(&built.log)?, &metadata)?;
    for program in programs.iter_mut().filter(|one| one.rules.conformance) {
        program.ask_families()?;
    }
    let run = Run {
        options,
        scratch,
        places: Places::look(&metadata)?,
        programs,
    };
    let mut ledger = Ledger::read(&run.places.cache.join("deep.json"));
    let cold = run.is_cold(&ledger);
    let in_turns = in_turns(&ledger);
    let mut jobs = run.jobs(&mut ledger, in_turns.as_deref())?;
    let changed = in_turns.unwrap_or_default();
    let mut deep = run.deep(&ledger, &changed)?;
    let names = chosen(&jobs, &deep, &options.only);
    jobs.retain(|job| names.contains(&job.name));
    deep.retain(|one| names.contains(&one.job.name));
    if options.list {
        jobs.extend(run.due(&mut ledger, deep, &changed, deep::RUN_SECONDS));
        jobs.iter().for_each(|job| println!("{}", job.name));
        return Ok(ExitCode::SUCCESS);
    }
    if options.tier == Tier::Default && !options.fresh {
        lanes.known = Some(Known::read(&run.places, scratch)?);
    }
    let mut good = ended(&mut lanes, run.ready(jobs)?)?;
    if good || options.keep_going {
        let room = deep::RUN_SECONDS - lanes.seconds();
        let due = run.due(&mut ledger, deep, &changed, room);
        good &= ended(&mut lanes, run.ready(due)?)?;
    }
    if good && options.tier != Tier::Quick && options.only.is_empty() {
        for one in lanes.finished.iter().filter(|one| one.job.deep) {
            let ran = one.unchanged.is_none();
            ledger.passed(&one.job.name, ran.then(|| one.seconds()));
        }
        ledger.write(&places::commit())?;
    }
    run.say_what_did_not_run(&lanes, cold);
    Ok(closing.verdict(&lanes, good))
}

/// The data that a run needs to report its costs at the end.
struct Closing {
    /// The machine's files and folders from before the set-up, which doesn't move the cache and target folders.
    places: Places,
    /// The parts of the build's time; `None` without a build.
    build: io::Result<Option<Build>>,
}

impl Closing {
    /// Reports each job's cost and outcome; the last line reads `N passed, N failed`.
    fn verdict(&self, lanes: &Lanes, good: bool) -> ExitCode {
        let totals = Totals::of(&lanes.finished, lanes.seconds());
        print!("{}", report::table(&lanes.finished));
        match &self.build {
            Ok(Some(build)) => print!("{}", report::build(build)),
            Ok(None) => (),
            Err(error) => println!("\nthe build's parts: – ({error})"),
        }
        print!("{}", report::totals(&lanes.finished, &totals));
        match self.keep(lanes, &totals, good) {
            Ok(path) => println!("these costs are kept in {}", path.display()),
            Err(error) => println!("these costs could not be kept: {error}"),
        }
        println!();
        verdict(lanes, good)
    }

    /// Writes the costs of the run into the cache folder, and removes cargo's oldest reports; returns the path of the costs.
    fn keep(&self, lanes: &Lanes, totals: &Totals, good: bool) -> io::Result<PathBuf> {
        let reports = timings::folder(&self.places.target);
        // Only reports with a time in their name are removed; the newest also exists as `cargo-timing.html`, which stays.
        kept::prune(&reports, "cargo-timing-", kept::NEWEST)?;
        let circumstances = Circumstances {
            arguments: env::args().skip(1).collect(),
            end: SystemTime::now(),
            commit: places::commit(),
            uncommitted: places::uncommitted(),
            instruction_set: places::instruction_set(),
            good,
        };
        let build = self.build.as_ref().ok().and_then(Option::as_ref);
        let costs = kept::costs(&circumstances, &lanes.finished, totals, build);
        kept::keep(&self.places.cache, &circumstances, &costs)
    }
}

fn verdict(lanes: &Lanes, good: bool) -> ExitCode {
    let passed = lanes.sum(|outcome| outcome.passed);
    let refused = lanes.sum(|outcome| outcome.refused);
    let failed = lanes.sum(|outcome| outcome.failed);
    print!("{}", report::failures(lanes));
    let finished = lanes.finished.iter();
    let unchanged = finished.filter_map(|one| Some(one.unchanged.as_ref()?.passed));
    let unchanged: Vec<usize> = unchanged.collect();
    if !unchanged.is_empty() {
        let (jobs, tests) = (unchanged.len(), unchanged.iter().sum::<usize>());
        println!(
            "{jobs} jobs are unchanged and did not run: {tests} tests, which passed at the commits above and count as none here"
        );
    }
    println!(
        "{} s, {refused} cases refused as listed",
        lanes.seconds() as u64
    );
    println!("{passed} passed, {failed} failed");
    if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// A run whose programs are built.
struct Run<'a> {
    options: &'a Options,
    scratch: &'a Path,
    places: Places,
    programs: Vec<Program>,
}

impl Run<'_> {
    /// The ordinary jobs; `changed` are the changed paths of a run that takes turns at slow jobs.
    fn jobs(&self, ledger: &mut Ledger, changed: Option<&[String]>) -> io::Result<Vec<Job>> {
        let tests = plan::tests(&self.programs, self.wants_libtpu());
        let mut checks = plan::cargo_checks();
        checks.push(plan::kit_of_clients());
        if self.options.tier == Tier::Quick {
            checks.extend(tests.into_iter().filter(|job| !self.opens_a_device(job)));
            return Ok(checks);
        }
        let mut jobs = vec![checks.remove(0)];
        let cold = self.is_cold(ledger);
        if !cold {
            jobs.extend(plan::browser(&self.places));
        }
        for group in plan::GROUPS {
            let wanted = whole_in_chromium(group.0, changed);
            if !cold {
                jobs.push(plan::in_chromium(&self.places, group, wanted));
            } else if wanted {
                let whole = plan::in_chromium(&self.places, group, true);
                ledger.owe(&whole.name, CHROMIUM_SECONDS);
            }
        }
        jobs.extend(tests);
        jobs.extend(checks);
        if let Some(driver) = &self.places.swiftshader {
            let limited = |program| plan::default_limits(program, driver, plan::KERNELS, "");
            jobs.extend(self.conformance().filter_map(limited));
        }
        if !cold {
            jobs.extend(self.software_gpus()?);
        }
        jobs.push(plan::command(&self.places));
        if cold {
            jobs.retain(|job| !may_wait(&job.name));
        }
        Ok(jobs)
    }

    /// Whether this run in CI finds nothing that an earlier one built or compiled. To end within an hour on two processors, it
    /// then leaves out the browser, software GPUs, and what [`may_wait`].
    fn is_cold(&self, ledger: &Ledger) -> bool {
        self.options.tier == Tier::Default && in_ci() && !ledger.warm()
    }

    /// Jobs that run every kernel on software GPUs, and the check of the support table against all devices' records.
    fn software_gpus(&self) -> io::Result<Vec<Job>> {
        let mut programs = self.programs.iter();
        let table = programs.find(|program| program.target == "support_table");
        let (Some(table), Some(drivers), true) =
            (table, self.software_drivers()?, self.has_vulkan())
        else {
            return Ok(Vec::new());
        };
        let mut jobs = Vec::new();
        for program in self.conformance() {
            jobs.extend(plan::kernels_on_vulkan(program, &self.places));
            jobs.extend(plan::in_metal(program, plan::WITHOUT_BURN, ""));
            let on_card = |card| plan::kernels_on_a_card(program, card, &drivers);
            jobs.extend(plan::CARDS.into_iter().filter_map(on_card));
        }
        // The folder where conformance on all devices leaves its records.
        let records = places::text(&self.scratch.join("records"));
        let programs: Vec<&Program> = self.conformance().collect();
        jobs.push(plan::support_table(table, &records, &programs));
        Ok(jobs)
    }

    /// Whether this machine runs SPIR-V, on a GPU or a software driver.
    fn has_vulkan(&self) -> bool {
        self.places.gpu.is_some() || self.places.spirv_driver.is_some()
    }

    /// Makes a folder in which the emulator's library, if it is built, has the names of NVIDIA's and AMD's driver libraries,
    /// and in which `hipconfig` names the folder as the place of the headers.
    fn software_drivers(&self) -> io::Result<Option<PathBuf>> {
        let library = self.places.software_driver();
        if !library.exists() {
            return Ok(None);
        }
        let folder = self.scratch.join("drivers");
        fs::create_dir_all(&folder)?;
        let hipconfig = folder.join("hipconfig");
        let script = format!("#!/bin/sh\necho '{}'\n", places::text(&folder));
        fs::write(&hipconfig, script)?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::{PermissionsExt, symlink};
            fs::set_permissions(&hipconfig, fs::Permissions::from_mode(0o755))?;
            let names = "libcuda.so libcuda.so.1 libnvrtc.so libamdhip64.so libhiprtc.so";
            for link in names.split(' ').map(|name| folder.join(name)) {
                if !link.exists() {
                    symlink(&library, link)?;
                }
            }
        }
        Ok(Some(folder))
    }

    /// The deep jobs that this run may take: all with `--all`, and where more than documents has `changed`.
    fn deep(&self, ledger: &Ledger, changed: &[String]) -> io::Result<Vec<Deep>> {
        let all = self.options.tier == Tier::All;
        // A cold run has enough to do, and changed documents don't affect deep jobs.
        let documents = changed.iter().all(|path| unchanged::is_document(path));
        if !all && (self.options.tier == Tier::Quick || !ledger.warm() || documents) {
            return Ok(Vec::new());
        }
        let mut deep = deep::jobs(&self.programs, &self.places);
        if let Some(drivers) = self.software_drivers()? {
            deep.extend(deep::on_cards(&self.programs, &drivers));
            deep.push(deep::lost_device(&self.places, &drivers));
            deep.extend(deep::certified_cards(&self.places, &drivers));
            deep.extend(deep::planted_kernels(&self.places, &drivers));
        }
        if cfg!(target_os = "linux") {
            deep.push(deep::soak(&self.places, if all { 30 } else { 2 }));
        }
        for group in plan::GROUPS.iter().filter(|_| !all) {
            if !whole_in_chromium(group.0, Some(changed)) {
                let job = plan::in_chromium(&self.places, *group, true);
                deep.push(Deep::new(job, "", CHROMIUM_SECONDS));
            }
        }
        Ok(deep)
    }

    /// Those of `deep` that this run takes, which has `room` seconds left: all with `--all`; in CI those that are due.
    fn due(
        &self,
        ledger: &mut Ledger,
        mut deep: Vec<Deep>,
        changed: &[String],
        room: f64,
    ) -> Vec<Job> {
        if self.options.tier != Tier::All && !deep.is_empty() {
            let due = BTreeSet::from_iter(ledger.due(&deep, changed, room));
            deep.retain(|one| due.contains(&one.job.name));
        }
        deep.into_iter().map(|one| one.job).collect()
    }

    /// The conformance programs.
    fn conformance(&self) -> impl Iterator<Item = &Program> {
        self.programs
            .iter()
            .filter(|program| program.rules.conformance)
    }

    fn opens_a_device(&self, job: &Job) -> bool {
        let mut programs = self.programs.iter();
        let program = programs.find(|one| job.command[0] == places::text(&one.executable));
        program.is_some_and(|program| program.rules.device || program.rules.each_device)
    }

    fn wants_libtpu(&self) -> bool {
        env::var("MOEBIUS_LIBTPU").as_deref() == Ok("yes") && self.places.libtpu.is_some()
    }

    /// Puts jobs in the order in which they start, with the variables that all share: the folders of compiled programs, and the
    /// Vulkan driver.
    fn ready(&self, mut jobs: Vec<Job>) -> io::Result<Vec<Job>> {
        // Jobs that run alone come last, so that no lane waits for another to end.
        jobs.sort_by_key(|job| job.alone);
        let kept = if self.options.fresh {
            self.scratch
        } else {
            &self.places.cache
        };
        let mut shared = vec![
            ("MOEBIUS_XLA_CACHE", kept.join("xla-programs")),
            ("MOEBIUS_TEST_VERDICTS", kept.join("verdicts")),
            ("MESA_SHADER_CACHE_DIR", kept.join("mesa")),
            ("MOEBIUS_EMULATOR_CACHE", kept.join("emulator")),
        ];
        // Without a GPU, the Vulkan loader uses Mesa's software driver and asks no other. Most shaders run for less time than the
        // driver takes to compile them, which is a third less without optimisation.
        if let (None, Some(driver)) = (&self.places.gpu, &self.places.lavapipe) {
            shared.push(("VK_ICD_FILENAMES", driver.into()));
            shared.push((plan::LAVAPIPE_OPTIONS, "nopt".into()));
        }
        // Vulkan loaders warn if XDG_RUNTIME_DIR isn't set.
        let runtime = self.scratch.join("runtime");
        fs::create_dir_all(&runtime)?;
        if env::var_os("XDG_RUNTIME_DIR").is_none() {
            shared.push(("XDG_RUNTIME_DIR", runtime));
        }
        for job in &mut jobs {
            for (name, path) in &shared {
                if job.variable(name).is_none() {
                    let variable = ((*name).to_owned(), places::text(path));
                    job.variables.push(variable);
                }
            }
        }
        Ok(jobs)
    }

    fn say_what_did_not_run(&self, lanes: &Lanes, cold: bool) {
        println!(
            "\ndevices: cpu, flex, xla:cpu, wgpu and vulkan ({})",
            self.places.gpu.as_deref().unwrap_or("no GPU: lavapipe")
        );
        let mut finished = lanes.finished.iter();
        let also = if finished.any(|one| one.job.name.contains("emulated Haswell")) {
            ", and AVX2 emulated where a stage says so"
        } else {
            ""
        };
        println!("processors: {}{also}", places::instruction_set());
        for (missing, what) in [
            (
                !self.wants_libtpu(),
                ": programs compiled for TPUs (MOEBIUS_LIBTPU=yes fetches libtpu, under Google's terms)",
            ),
            (
                !self.has_vulkan(),
                ": kernels on vulkan and on an emulated cuda, and the support table against it (scripts/setup has no lavapipe for \
                 SPIR-V here)",
            ),
            (
                cold,
                ", because no earlier run is kept here (the next run takes them): the browser's package, its page and all of their tests, \
                 conformance on xla:cpu, kernels on vulkan, msl and emulated cards, the support table, what other compilers say of \
                 emitted kernels, clippy, and rustdoc's lints",
            ),
            (
                self.places.swiftshader.is_none(),
                ": conformance within WebGPU's default limits (SwiftShader is Linux only)",
            ),
        ] {
            if missing {
                println!("not run{what}");
            }
        }
    }
}

/// The commit to compare with if no run has passed before.
const COLD: &str = "HEAD~10";
/// A guess of the seconds for all tests of a group in Chromium, until they have run.
const CHROMIUM_SECONDS: f64 = 500.0;

/// Whether a cold run leaves a job to the next: one by compilers alone, which check every crate or every kernel once more, or
/// one of conformance on XLA, whose operations have tests of their own in each run.
fn may_wait(job: &str) -> bool {
    let on_xla = job.starts_with("conformance_") && job.ends_with("[xla:cpu]");
    ["clippy", "docs"].contains(&job) || job.starts_with("validate_") || on_xla
}

fn in_ci() -> bool {
    env::var("CI").as_deref() == Ok("true")
}

/// In CI, where runs take turns at slow jobs, the paths changed since the last run that passed, or in a cold run by the last
/// commits; `None` elsewhere.
fn in_turns(ledger: &Ledger) -> Option<Vec<String>> {
    in_ci().then(|| deep::changed_since(ledger.green.as_deref().unwrap_or(COLD)))
}

/// Whether all tests of a group in Chromium run: always where runs don't take turns, else if files that only this group uses
/// have changed.
fn whole_in_chromium(group: &str, changed: Option<&[String]>) -> bool {
    let theirs: &[&str] = match group {
        "package" => &["wasm/", "web-demo/test/", "scripts/wasm"],
        _ => &["web-demo/", "runtime/serve/site/", "scripts/demo"],
    };
    let any = |path: &String| theirs.iter().any(|start| path.starts_with(start));
    changed.is_none_or(|changed| changed.iter().any(any))
}

/// The names of jobs that contain `text`, and of the jobs they depend on.
fn chosen(jobs: &[Job], deep: &[Deep], text: &str) -> HashSet<String> {
    let jobs = jobs.iter().chain(deep.iter().map(|one| &one.job));
    let contain = jobs.clone().filter(|job| job.name.contains(text));
    let mut names: HashSet<String> = contain.map(|job| job.name.clone()).collect();
    let mut known = 0;
    while names.len() > known {
        known = names.len();
        let before = jobs.clone().filter(|job| names.contains(&job.name));
        let before: Vec<String> = before.flat_map(|job| job.after.clone()).collect();
        names.extend(before);
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_in_chromium_runs_whole_after_a_change_of_its_own() {
        for (path, page, package) in [
            ("web-demo/text.js", true, false),
            ("runtime/serve/site/page.js", true, false),
            ("wasm/src/lib.rs", false, true),
            ("web-demo/test/run.mjs", true, true),
            ("scripts/setup", false, false),
        ] {
            let whole = |group| whole_in_chromium(group, Some(&[path.to_owned()]));
            assert_eq!((whole("page"), whole("package")), (page, package), "{path}");
        }
        assert!(whole_in_chromium("page", None));
    }
}

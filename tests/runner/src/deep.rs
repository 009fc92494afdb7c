//! The deep tier: jobs that are too slow for every run, or that repeat an ordinary job on another compiler, driver or
//! processor. Each run in CI ends with a part of them, as many as fit into twenty minutes: those that have waited longest, and
//! jobs of a changed family.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::job::{Job, XLA};
use crate::places::{self, Places, instruction_set, text};
use crate::plan::{self, CLIENTS, Card, KERNELS, on_device, run};
use crate::programs::Program;

/// The number of runs that share the deep jobs: all jobs together take about two hours, so each run takes ten minutes of them.
const ROUND: u64 = 12;
/// The number of runs after which a deep job runs, however long the rest of the run takes.
const LATEST: u64 = 3 * ROUND;
/// The seconds of a run in CI that deep jobs don't exceed.
pub(crate) const RUN_SECONDS: f64 = 1200.0;
/// The most seconds that jobs of changed families may add to a run; the others follow in later runs.
const CHANGED_SECONDS: f64 = 180.0;

/// A job of the deep tier.
pub(crate) struct Deep {
    pub(crate) job: Job,
    /// The family: a change to a path with this name makes the job due at once.
    pub(crate) family: String,
    /// The job's seconds: a guess until it first runs.
    pub(crate) seconds: f64,
}

impl Deep {
    pub(crate) fn new(job: Job, family: &str, seconds: f64) -> Self {
        Self {
            job: Job { deep: true, ..job },
            family: family.to_owned(),
            seconds,
        }
    }
}

/// A deep job's entry in the ledger.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Entry {
    /// The number of the run in which the job last passed or was first seen.
    pub(crate) run: u64,
    pub(crate) seconds: f64,
    /// Whether a change of the job's family makes it due.
    pub(crate) changed: bool,
}

/// The record of deep jobs, kept in the cache folder.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    path: PathBuf,
    pub(crate) run: u64,
    /// The commit of the last run that passed.
    pub(crate) green: Option<String>,
    pub(crate) entries: BTreeMap<String, Entry>,
}

impl Ledger {
    /// Reads the ledger; starts a new one if it is missing or damaged.
    pub(crate) fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap_or_default();
        let value: Value = serde_json::from_str(&text).unwrap_or_default();
        let entries = value["deep"].as_object().into_iter().flatten();
        let entry = |(name, value): (&String, &Value)| {
            let entry = Entry {
                run: value["run"].as_u64().unwrap_or_default(),
                seconds: value["seconds"].as_f64().unwrap_or_default(),
                changed: value["changed"].as_bool().unwrap_or_default(),
            };
            (name.clone(), entry)
        };
        Self {
            path: path.to_owned(),
            run: value["run"].as_u64().unwrap_or_default() + 1,
            green: value["green"].as_str().map(str::to_owned),
            entries: entries.map(entry).collect(),
        }
    }

    /// Whether an earlier run passed, so that its builds and compiled programs exist.
    pub(crate) fn warm(&self) -> bool {
        self.green.is_some()
    }

    /// Chooses the deep jobs for a run in which `room` seconds are left; returns their names.
    pub(crate) fn due(&mut self, jobs: &[Deep], changed: &[String], room: f64) -> Vec<String> {
        let run = self.run;
        let known = |name: &String| jobs.iter().any(|deep| deep.job.name == *name);
        self.entries.retain(|name, _| known(name));
        for deep in jobs {
            let fresh = Entry {
                run: run - 1,
                seconds: deep.seconds,
                changed: false,
            };
            let entry = self.entries.entry(deep.job.name.clone());
            entry.or_insert(fresh).changed |= names(changed, &deep.family);
        }
        let mut order: Vec<(&String, &Entry)> = self.entries.iter().collect();
        order.sort_by_key(|(name, entry)| (entry.run, (*name).clone()));
        let total: f64 = order.iter().map(|(_, entry)| entry.seconds).sum();
        let share = total / ROUND as f64;
        let (mut turn, mut extra, mut due) = (0.0, 0.0, Vec::new());
        for (name, entry) in order {
            // A job that is longer than a share is the only one of its run.
            let fits = turn + extra + entry.seconds <= room;
            let in_turn = due.is_empty() || turn + entry.seconds <= share;
            let late = due.is_empty() && run >= entry.run + LATEST;
            if late || (fits && in_turn) {
                turn += entry.seconds;
                due.push(name.clone());
            } else if fits && entry.changed && extra + entry.seconds <= CHANGED_SECONDS {
                extra += entry.seconds;
                due.push(name.clone());
            }
        }
        due
    }

    /// Notes a job that passed in `seconds`, or that need not run because nothing has changed since it passed.
    pub(crate) fn passed(&mut self, name: &str, seconds: Option<f64>) {
        let known = self.entries.get(name).map(|entry| entry.seconds);
        let entry = Entry {
            run: self.run,
            seconds: seconds.or(known).unwrap_or_default(),
            changed: false,
        };
        self.entries.insert(name.to_owned(), entry);
    }

    /// Notes a due job that this run left out, so that it is among the first of the next.
    pub(crate) fn owe(&mut self, name: &str, seconds: f64) {
        let entry = Entry {
            run: 0,
            seconds,
            changed: true,
        };
        self.entries.insert(name.to_owned(), entry);
    }

    /// Writes the ledger after a run of `commit` that passed.
    pub(crate) fn write(&self, commit: &str) -> io::Result<()> {
        let entry = |entry: &Entry| json!({"run": entry.run, "seconds": entry.seconds, "changed": entry.changed});
        let entries = self.entries.iter();
        let entries = entries.map(|(name, one)| (name.clone(), entry(one)));
        let entries: serde_json::Map<String, Value> = entries.collect();
        let text = json!({"run": self.run, "green": commit, "deep": entries}).to_string();
        places::replace(&self.path, &text)
    }
}

/// Whether a changed path names `family`, as `shaders/kernels/src/quantize/plan.rs` names `quantize`.
pub(crate) fn names(changed: &[String], family: &str) -> bool {
    let part = |part: &str| part.split('.').next() == Some(family);
    !family.is_empty() && changed.iter().any(|path| path.split('/').any(part))
}

/// Paths that differ between a commit and the tree; all tracked files if the commit is unknown.
pub(crate) fn changed_since(commit: &str) -> Vec<String> {
    let git = |arguments: &[&str]| Command::new("git").args(arguments).output();
    let output = match git(&["diff", "--name-only", commit]) {
        Ok(difference) if difference.status.success() => Ok(difference),
        _ => git(&["ls-files"]),
    };
    let bytes = output.map_or_else(|_| Vec::new(), |output| output.stdout);
    let text = String::from_utf8_lossy(&bytes);
    text.lines().map(str::to_owned).collect()
}

/// Cases that depend on the processor's instructions: the program, the device, a part of the cases' names, and their
/// approximate seconds on an emulator.
const EMULATED: [(&str, &str, &str, f64); 8] = [
    ("conformance_quantize", "cpu", "casts::", 4.0),
    ("conformance_moe", "cpu", "moe_layer::bf16", 60.0),
    ("conformance_moe", "flex", "moe_layer::", 20.0),
    ("conformance_fp8_layers", "flex", "fp8_linear::", 8.0),
    ("xla_operations", "", "positions::", 100.0),
    ("xla_operations", "", "batch", 60.0),
    ("xla_operations", "", "where_it_lies", 120.0),
    ("xla_operations", "", "placed::", 120.0),
];

/// All deep jobs that this machine can run, except those on emulated cards.
pub(crate) fn jobs(programs: &[Program], places: &Places) -> Vec<Deep> {
    let find = |target: &str| programs.iter().find(|program| program.target == target);
    let here = |program: &&Program| !program.rules.libtpu || places.libtpu.is_some();
    let mut jobs: Vec<Deep> = programs.iter().filter(here).flat_map(at_length).collect();
    for program in programs {
        let of_family = |family: &String| of_family(program, family, places);
        jobs.extend(program.families.iter().flat_map(of_family));
    }
    let each_device = programs.iter().filter(|program| program.rules.each_device);
    for program in each_device {
        let job = plan::on_vulkan(program, places, "whole ");
        jobs.extend(job.map(|job| Deep::new(job, program.subject(), 60.0)));
    }
    if let (Some(exact), Some(driver)) = (find("exact"), &places.swiftshader) {
        let job = on_device(exact, "wgpu", "on SwiftShader ").with("VK_ICD_FILENAMES", driver);
        jobs.push(Deep::new(job, exact.subject(), 120.0));
    }
    for (device, seconds) in [("cpu", 300.0), ("wgpu", 120.0)] {
        let job = find("optimize").map(|program| on_device(program, device, ""));
        jobs.extend(job.map(|job| Deep::new(job, "optimize", seconds)));
    }
    if let (Some(qemu), "AVX-512") = (&places.qemu, instruction_set()) {
        let cases = EMULATED.iter();
        jobs.extend(cases.filter_map(|case| Some(emulated(find(case.0)?, case, qemu))));
    }
    jobs.extend(certificates(places));
    jobs.extend(builds(places));
    for (group, folder) in [("package", "wasm"), ("page", "web-demo")] {
        let name = format!("the {group} in Chromium, at length");
        let job = plan::browser_group(places, &name, &[group]).with("MOEBIUS_TEST_DEEP", "1");
        jobs.push(Deep::new(job, folder, 130.0));
    }
    jobs.push(published(places));
    jobs
}

/// Jobs on emulated cards: whole programs, launches in five thread orders and with every access checked for some families,
/// other cards, training and models.
pub(crate) fn on_cards(programs: &[Program], drivers: &Path) -> Vec<Deep> {
    let mut jobs = Vec::new();
    for program in programs.iter().filter(|program| program.rules.each_device) {
        let mut add = |card: Card, words: &str, variables: &[(&str, &str)], seconds: f64| {
            let mut job = plan::on_a_card(program, card, drivers, words);
            for (name, value) in variables {
                job = job.with(name, *value);
            }
            jobs.push(Deep::new(job, program.subject(), seconds));
        };
        for card in plan::CARDS {
            add(card, "whole ", &[], 60.0);
        }
        let orders = "forward,backward,random:7,warps,ahead";
        if let Some(families) = program.among(CHECKED) {
            let families = ("MOEBIUS_TEST_FAMILIES", families.as_str());
            for card in plan::CARDS {
                let variables = [families, ("MOEBIUS_EMULATOR_ORDERS", orders)];
                add(card, "in five orders ", &variables, 60.0);
                let variables = [families, ("MOEBIUS_EMULATOR_CHECK", "1")];
                add(card, "with accesses checked ", &variables, 60.0);
            }
            for (device, name) in [("cuda", "a100"), ("cuda", "h100"), ("rocm", "rx7900")] {
                let words = format!("as {name} ");
                add(Card { device, name }, &words, &[families], 30.0);
            }
        }
        for (words, name, value) in [
            ("in five orders ", "MOEBIUS_EMULATOR_ORDERS", orders),
            ("with accesses checked ", "MOEBIUS_EMULATOR_CHECK", "1"),
        ] {
            let job = plan::in_metal(program, CHECKED_WITHOUT_BURN, words);
            jobs.extend(job.map(|job| Deep::new(job.with(name, value), program.subject(), 30.0)));
        }
    }
    jobs
}

/// Families and cases for which every thread order and every access is checked: kernels of all kinds with barriers, but none
/// that uses Burn's sum over a whole tensor, whose bits depend on the order of blocks.
const CHECKED: &str = "routing,topk,permute,capacity,rows,router_backward,hash_routing,expert_load,kv_cache,fp8_mma,fp8,fp8_instructions::linear_layers,\
    moe_layer::relu,moe_layer::gated_silu,moe_layer::gelu_with_bias,moe_layer::capacity,moe_layer::ranks_and_empty_batch,moe_layer::f16,\
    moe_layer::bf16,moe_layer::repeats_bit_for_bit,moe_layer::independent_of_the_batch,moe_layer::device_memory,\
    moe_layer::warm_forward_allocates_nothing,moe_layer::launches_are_fixed,\
    attention::tiles_f16,attention::matrices_f16,grouped_gemm::f16,weight_gradient::f16,segment_attention::f16,expert_activation::f16,fp8_gemm::f16,\
    grouped_gemm::matrices_f16,weight_gradient::matrices_f16";

/// Those of [`CHECKED`] that need no Burn.
const CHECKED_WITHOUT_BURN: &str = "topk,permute,capacity,rows,router_backward,hash_routing,expert_load,attention::tiles_f16,\
    grouped_gemm::f16,weight_gradient::f16,segment_attention::f16,expert_activation::f16,fp8_gemm::f16,grouped_gemm::matrices_f16,\
    weight_gradient::matrices_f16";

/// The long versions of a program's tests, and its tests with XLA's full optimisation where the default tier runs without.
fn at_length(program: &Program) -> Vec<Deep> {
    let mut jobs = Vec::new();
    if program.rules.deep {
        let job = run(program, "at length", &[]).with("MOEBIUS_TEST_DEEP", "1");
        jobs.push(Deep::new(job, &program.target, 300.0));
    }
    if program.rules.random {
        let job = run(program, "on a million random inputs each", &["arbitrary"]);
        let job = job.with("PROPTEST_CASES", "1000000");
        jobs.push(Deep::new(job, &program.target, 30.0));
    }
    // Conformance has such a job for each family already.
    if program.rules.xla_quickly && !program.rules.conformance {
        let words = "optimised, nothing kept";
        let job = if program.rules.each_device {
            on_device(program, "xla:cpu", &format!("{words} "))
        } else {
            run(program, words, &[])
        };
        let job = job.without("XLA_FLAGS").with("MOEBIUS_XLA_CACHE", "");
        jobs.push(Deep::new(job, &program.target, 40.0));
    }
    jobs
}

/// A family of conformance on other drivers and compilers.
fn of_family(conformance: &Program, family: &str, places: &Places) -> Vec<Deep> {
    let mut jobs = Vec::new();
    let in_default = KERNELS.split(',').any(|name| name == family);
    if let (Some(driver), false) = (&places.swiftshader, in_default) {
        // SwiftShader needs 17 GB to compile tiles with `Rows` and `Dilated` (a remainder in each lane), and no plan chooses
        // them there.
        let (words, skipped): (_, &[&str]) = match family {
            "attention" => (", without tiles", &["--skip", "attention::tiles"]),
            _ => ("", &[]),
        };
        let words = format!(": {family}{words}");
        let job = plan::default_limits(conformance, driver, family, &words);
        jobs.extend(job.map(|job| Deep::new(job.arguments(skipped), family, 20.0)));
    }
    if places.gpu.is_none() && places.lavapipe.is_some() {
        let words = format!("optimised: {family} ");
        let job = on_device(conformance, "wgpu", &words).with(plan::LAVAPIPE_OPTIONS, "");
        let job = job.with("MOEBIUS_TEST_FAMILIES", family);
        jobs.push(Deep::new(job, family, 30.0));
    }
    let words = format!("optimised, nothing kept: {family} ");
    let job = on_device(conformance, "xla:cpu", &words).without("XLA_FLAGS");
    let job = job.with("MOEBIUS_TEST_FAMILIES", family);
    jobs.push(Deep::new(job.with("MOEBIUS_XLA_CACHE", ""), family, 30.0));
    jobs
}

/// Certificates of the devices beside `flex`, which an ordinary job certifies: the bundled model, the bundled cases, and what demos show.
fn certificates(places: &Places) -> Vec<Deep> {
    let moebius = places.moebius();
    let of = |device: &str| {
        let parts = ["validate", "--bundled", "--parts", "model,cases,demos"];
        let job = Job::new(format!("a certificate of {device}"), &[&moebius]);
        let job = job.arguments(&parts).arguments(&["--devices", device]);
        job.depending_on([&moebius])
    };
    let xla = of("xla:cpu").holding(XLA);
    let jobs = [
        (Some(of("cpu")), 600.0),
        (Some(of("wgpu")), 200.0),
        (Some(xla.with("XLA_FLAGS", plan::XLA_QUICKLY)), 300.0),
        (plan::with_vulkan(of("vulkan"), places), 200.0),
    ];
    let jobs = jobs.into_iter();
    let jobs = jobs.filter_map(|(job, seconds)| Some(Deep::new(job?, "examples", seconds)));
    jobs.collect()
}

/// A published model in the browser.
fn published(places: &Places) -> Deep {
    let run = r#"model=$(scripts/real-model --gguf) && exec "$@" --model "$model""#;
    let job = plan::browser_group(places, "SmolLM2-135M in Chromium", &["real"])
        .under(&["bash", "-c", run, "bash"])
        .depending_on(["scripts/real-model"]);
    Deep::new(job, "wasm", 120.0)
}

/// The server under a mixed load for so many minutes, in which nothing of it may grow.
pub(crate) fn soak(places: &Places, minutes: u32) -> Deep {
    let length = minutes.to_string();
    let name = format!("the server under load for {length} minutes");
    let job = from_outside(places, &name, &["--only", "soak", "--minutes", &length]);
    Deep::new(job, "serve", 60.0 * f64::from(minutes) + 40.0)
}

/// The server on an emulated card, whose drivers are in the folder `drivers`, and which is lost under load.
pub(crate) fn lost_device(places: &Places, drivers: &Path) -> Deep {
    let folder = text(drivers);
    let arguments = ["--only", "faults: lost device", "--drivers", &folder];
    let job = from_outside(places, "the server without its device", &arguments);
    let job = job.depending_on([drivers.join("libcuda.so")]);
    Deep::new(job, "serve", 150.0)
}

/// Certificates of the emulated cards, whose drivers are in the folder `drivers`, beside `flex`: what they compute is near enough, and the exact
/// model's bits are those of `flex`.
pub(crate) fn certified_cards(places: &Places, drivers: &Path) -> [Deep; 2] {
    let (moebius, folder) = (places.moebius(), text(drivers));
    let certified = |name: &str, more: &[&str], family: &str, seconds: f64| {
        let of = ["validate", "--bundled", "--devices", "flex", "--emulated"];
        let job = Job::new(name, &[&moebius]).arguments(&of);
        let job = job.arguments(&[&folder]).arguments(more);
        let job = job.depending_on([&moebius, &text(&drivers.join("libcuda.so"))]);
        Deep::new(job, family, seconds)
    };
    let bits = "a certificate of the bits of emulated cards";
    let exact = ["--exact", "--parts", "model"];
    [
        certified("a certificate of emulated cards", &[], "validate", 400.0),
        certified(bits, &exact, "exact", 200.0),
    ]
}

/// Kernels that are planted, and the parts of a layer that they make wrong: the beginning of a kernel's name, and the part's.
const PLANTED: [(&str, &str); 2] = [("router_logits", "router"), ("combine", "experts")];

/// What must be said of a planted kernel: the exit status, the last line, and the place in the report of each device.
const NAMED: &str = r#"out=$(mktemp -d) || exit; trap 'rm -r "$out"' EXIT
    said=$("$1" validate --bundled --parts model --devices flex --emulated "$2" --out "$out"); status=$?
    echo "$said"
    [ "$status" = 1 ] || { echo "expected exit status 1, got $status"; exit 1; }
    for line in "cuda:0, emulated: model: differs from layer 0, $3 on" "the same answer on 1 of 1 devices, and on 1 of 2 cards in software"; do
        grep -qF "$line" <<<"$said" || { echo "expected: $line"; exit 1; }
    done
    places=$(tr -d ' \n' <"$out/report.json" | grep -o '"parting":\({[^}]*}\|null\)' | tr '\n' ' ')
    wanted="\"parting\":null \"parting\":{\"layer\":0,\"part\":\"$3\"} \"parting\":null "
    [ "$places" = "$wanted" ] || { echo "expected $wanted, got $places"; exit 1; }"#;

/// Certificates in which a kernel of one emulated card is wrong, whose drivers are in the folder `drivers`.
pub(crate) fn planted_kernels(places: &Places, drivers: &Path) -> [Deep; PLANTED.len()] {
    let (moebius, folder) = (places.moebius(), text(drivers));
    PLANTED.map(|(kernel, part)| {
        let name = format!("a wrong {kernel} of an emulated card is named");
        let command = ["bash", "-c", NAMED, "bash", &moebius, &folder, part];
        let job = Job::new(name, &command)
            .with("MOEBIUS_EMULATOR_SPOIL", format!("l4:{kernel}"))
            .depending_on([&moebius, &text(&drivers.join("libcuda.so"))]);
        Deep::new(job, "validate", 200.0)
    })
}

/// Checks of the tests' build of the server from outside.
fn from_outside(places: &Places, name: &str, arguments: &[&str]) -> Job {
    let moebius = places.moebius();
    Job::new(name, &["scripts/clients", "--moebius", &moebius])
        .arguments(arguments)
        .depending_on(["scripts/clients", CLIENTS, &moebius])
}

/// Some cases as on a processor without AVX-512.
fn emulated(program: &Program, case: &(&str, &str, &str, f64), qemu: &str) -> Deep {
    let (target, device, filter, seconds) = *case;
    let words = format!("on an emulated Haswell (AVX2): {filter} ");
    let job = match device {
        "" => run(program, &words, &[filter]),
        device => on_device(program, device, &words).arguments(&[filter]),
    };
    Deep::new(job.under(&[qemu, "-cpu", "Haswell"]), target, seconds)
}

/// Builds in folders of their own, which share nothing with the tests' build.
fn builds(places: &Places) -> [Deep; 5] {
    let folder = |name: &str| text(&places.target.with_file_name(format!("target-{name}")));
    let readme = "cargo run --release && cargo run --release -- verify tests/cases/*.safetensors --device flex";
    let plain = "cargo test -p moebius-conformance --test conformance_moe -- moe_ && cargo test -p moebius-tests --test training -- resumed";
    let release = Job::new("README's command, in release", &["bash", "-c", readme])
        .with("CARGO_TARGET_DIR", folder("release"));
    let without = Job::new("without Burn's fusion", &["bash", "-c", plain])
        .tests()
        .with("CARGO_TARGET_DIR", folder("without-fusion"))
        .with("MOEBIUS_TEST_DEVICES", "cpu,wgpu");
    let packed = |name: &str, option: &str| {
        let command = format!("scripts/outside {option} {}", plan::PUBLISHED);
        Job::words(name, &command).with("CARGO_TARGET_DIR", folder("outside"))
    };
    let outside = packed("a program that depends on the packed crates", "");
    // Burn is built anew for each set of features that a crate asks of it.
    let alone = packed("each crate from its package alone", "--alone");
    let benchmarks = Job::words("benchmarks, in release", "cargo bench --locked")
        .with("CARGO_TARGET_DIR", folder("release"));
    // Each build compiles all crates on all processors: two at once would take as long, and might exceed a job's time limit.
    [
        (release, 900.0),
        (without, 900.0),
        (outside, 900.0),
        (alone, 1800.0),
        (benchmarks, 900.0),
    ]
    .map(|(job, seconds)| Deep::new(job.holding("all crates"), "Cargo", seconds))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn jobs() -> Vec<Deep> {
        let family = |i| if i == 7 { "rows" } else { "" };
        let deep = |i| Deep::new(Job::new(format!("job {i}"), &["true"]), family(i), 60.0);
        (0..10).map(deep).collect()
    }

    /// An empty ledger in its first run.
    fn fresh() -> Ledger {
        Ledger {
            run: 1,
            ..Ledger::default()
        }
    }

    /// Lets `runs` runs with this room take deep jobs; returns the names of each run's.
    fn taken(ledger: &mut Ledger, runs: std::ops::Range<u64>, room: f64) -> Vec<Vec<String>> {
        let mut taken = Vec::new();
        for run in runs {
            ledger.run = run;
            let due = ledger.due(&jobs(), &[], room);
            due.iter().for_each(|name| ledger.passed(name, Some(60.0)));
            taken.push(due);
        }
        taken
    }

    #[test]
    fn each_runs_within_a_round() {
        let taken = taken(&mut fresh(), 1..5 * ROUND, 100.0);
        assert!(taken.iter().all(|due| due.len() == 1), "{taken:?}");
        for round in taken.windows(10) {
            let round = BTreeSet::from_iter(round.iter().flatten());
            assert_eq!(round.len(), 10, "{taken:?}");
        }
    }

    #[test]
    fn runs_without_room_take_what_is_late_alone() {
        let mut ledger = fresh();
        let early = taken(&mut ledger, 1..LATEST, 59.0);
        assert!(early.iter().all(Vec::is_empty), "{early:?}");
        let late = taken(&mut ledger, LATEST..LATEST + 10, 59.0);
        assert!(late.iter().all(|due| due.len() == 1), "{late:?}");
    }

    #[test]
    fn a_job_longer_than_its_share_runs_alone() {
        let mut ledger = fresh();
        ledger.run = 2;
        ledger.owe("job 3", 500.0);
        assert_eq!(ledger.clone().due(&jobs(), &[], 600.0), ["job 3"]);
        assert_eq!(ledger.due(&jobs(), &[], 499.0), ["job 0"]);
    }

    #[test]
    fn what_a_run_owes_is_due_in_the_next() {
        let mut ledger = fresh();
        ledger.owe("job 4", 60.0);
        ledger.run = 2;
        let due = ledger.due(&jobs(), &[], 300.0);
        assert_eq!(due.first().map(String::as_str), Some("job 4"), "{due:?}");
    }

    #[test]
    fn a_change_makes_its_family_due_until_it_ran() {
        let mut ledger = fresh();
        for deep in jobs() {
            ledger.passed(&deep.job.name, Some(30.0));
        }
        ledger.run = 2;
        let changed = ["shaders/kernels/src/permute/rows.rs".to_owned()];
        let due = ledger.due(&jobs(), &changed, 300.0);
        assert!(due.contains(&"job 7".to_owned()), "{due:?}");
        let others = ledger
            .clone()
            .due(&jobs(), &["README.md".to_owned()], 300.0);
        assert!(!others.is_empty());
        ledger.run = 3;
        let due = ledger.due(&jobs(), &[], 300.0);
        assert!(due.contains(&"job 7".to_owned()), "forgotten: {due:?}");
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
